// Names and pictures of authors in responses with messages, and of principals by id.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { uploadPicture } from "../file/file_harness.ts";
import { recordQueries } from "../query_log.ts";
import { assertProblem, completeSearch, createCallers, createRoom, ok, search, sendMessage } from "../fixtures.ts";

const BASE = "/v1/collaboration";

testOnEngines("include=senders names all authors, including those who left or are disabled", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, carol, dan } = await createCallers(gateway, "alice", "bob", "carol", "dan");
  const admin = await gateway.as("root", { role: "admin" });
  const roomId = await createRoom(alice, ["bob", "carol", "dan"]);
  const avatarFileId = await uploadPicture(gateway, bob);
  ok(await bob.patch(`${BASE}/me`, { displayName: "Bobby", handle: "bobby", avatarFileId }));
  const root = await sendMessage(alice, roomId, "needle root");
  for (const who of [bob, carol, bob]) await sendMessage(who, roomId, "needle reply", { threadId: root.id });
  const last = await sendMessage(dan, roomId, "needle");
  ok(await carol.delete(`/v1/rooms/${roomId}/members/me`));
  ok(await admin.delete(`${BASE}/principals/dan`));
  for (const id of [root.id, last.id]) ok(await alice.put(`/v1/messages/${id}/pin`));
  const plain = { handle: null, avatarFileId: null, status: null };
  const all = [
    { id: "alice", kind: "human", displayName: "alice", ...plain, state: "active" },
    {
      id: "bob",
      kind: "human",
      displayName: "Bobby",
      ...plain,
      handle: "bobby",
      avatarFileId,
      state: "active",
    },
    { id: "carol", kind: "human", displayName: "carol", ...plain, state: "left" },
    { id: "dan", kind: "human", displayName: "dan", ...plain, state: "disabled" },
  ];
  const sorted = (answer: { senders: { id: string }[] }) => answer.senders.toSorted((a, b) => a.id < b.id ? -1 : 1);
  const list = ok(await alice.get(`/v1/messages?roomId=${roomId}&include=senders`));
  assert.deepEqual(sorted(list), all);
  const thread = ok(await alice.get(`/v1/messages?roomId=${roomId}&threadId=${root.id}&include=senders`));
  assert.deepEqual(sorted(thread), all.slice(1, 3));
  const one = ok(await alice.get(`/v1/messages/${root.id}?include=thread,senders`));
  assert.deepEqual(sorted(one), all.slice(0, 3));
  assert.deepEqual(ok(await alice.get(`/v1/messages/${last.id}?include=senders`)).senders, [all[3]]);
  const pins = ok(await alice.get(`/v1/rooms/${roomId}/pins?include=senders`));
  assert.deepEqual(sorted(pins), [all[0], all[3]]);
  assert.deepEqual(sorted(await completeSearch(() => alice.get("/v1/search?q=needle&include=senders"))), all);
  const around = await search(alice, { query: '"needle root"', context: 5, include: ["senders"] });
  assert.deepEqual(sorted(around), all);
  assert.equal(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).senders, undefined);
  assert.equal((await completeSearch(() => alice.get("/v1/search?q=needle"))).senders, undefined);
  assert.deepEqual(
    ok(await alice.get(`/v1/messages?roomId=${await createRoom(alice, [])}&include=senders`)).senders,
    [],
  );
});

Deno.test("a guest sees the names of authors, and more only of principals it shares a room with", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "carol");
  const guest = await gateway.as("guest", { role: "guest" });
  ok(await guest.get(`${BASE}/me`));
  const roomId = await createRoom(alice, ["bob", "guest"]);
  const avatarFileId = await uploadPicture(gateway, bob);
  ok(await bob.patch(`${BASE}/me`, { handle: "bobby", status: { text: "Here" }, avatarFileId }));
  await sendMessage(bob, roomId, "hello");
  const senders = async () => ok(await guest.get(`/v1/messages?roomId=${roomId}&include=senders`)).senders;
  assert.deepEqual((await senders()).map((one: { handle: string }) => one.handle), ["bobby"]);
  assert.deepEqual(ok(await guest.get(`${BASE}/principals?ids=alice,bob,carol,guest`)).items.map(idOf), [
    "alice",
    "bob",
    "guest",
  ]);
  ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
  assert.deepEqual(await senders(), [
    { id: "bob", kind: "human", handle: null, displayName: "bob", avatarFileId: null, status: null, state: "left" },
  ]);
  assert.deepEqual(ok(await guest.get(`${BASE}/principals?ids=bob`)).items, []);
  assertProblem(await guest.get(`${BASE}/principals`), 403, "forbidden");
});

testOnEngines("principal.list accepts a hundred ids, and returns those that exist in one page", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const names = Array.from({ length: 99 }, (_, n) => `p${String(n).padStart(2, "0")}`);
  await createCallers(gateway, ...names);
  const admin = await gateway.as("root", { role: "admin" });
  ok(await admin.delete(`${BASE}/principals/p00`));
  const list = (...ids: string[]) => alice.get(`${BASE}/principals?ids=${ids.join(",")}`);
  const found = ok(await list(...names, "nobody"));
  assert.deepEqual([found.items.map(idOf), found.hasMore, found.nextCursor], [names, false, null]);
  assert.equal(found.items[0].disabled, true);
  assertProblem(await list(...names, "nobody", "more"), 422, "validation_failed");
  assertProblem(await list("me"), 422, "validation_failed");
  assertProblem(await alice.get(`${BASE}/principals?ids=p01&q=p`), 422, "validation_failed");
  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  assert.deepEqual(ok(await stranger.get(`${BASE}/principals?ids=alice`)).items, []);
});

Deno.test("include=senders takes one more statement, however many authors there are", async () => {
  await using gateway = await openGateway();
  const names = Array.from({ length: 20 }, (_, n) => `p${n}`);
  const { alice } = await createCallers(gateway, "alice");
  const others = await createCallers(gateway, ...names);
  const roomId = await createRoom(alice, names);
  for (const name of names) await sendMessage(others[name] ?? assert.fail(), roomId, "hello");
  const count = async (query: string) =>
    (await recordQueries(async () => void ok(await alice.get(`/v1/messages?roomId=${roomId}${query}`)))).length;
  await count("");
  assert.equal(await count("&include=senders"), await count("") + 1);
});

function idOf({ id }: { id: string }): string {
  return id;
}
