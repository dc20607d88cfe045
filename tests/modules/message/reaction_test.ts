// Reactions and pins, through the API.
import assert from "node:assert/strict";
import { openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const THUMB = encodeURIComponent("👍");
const FAMILY = encodeURIComponent("👨‍👩‍👧‍👦");

Deno.test("reaction.add counts one per principal and key, sets `me` for each caller, and publishes once", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { id, seq } = await sendMessage(alice, roomId, "shipped");
  for (const caller of [alice, alice, bob]) ok(await caller.put(`/v1/messages/${id}/reactions/${THUMB}`));
  ok(await bob.put(`/v1/messages/${id}/reactions/:shipit:`));
  ok(await bob.put(`/v1/messages/${id}/reactions/${FAMILY}`));
  const [one] = ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items;
  assert.deepEqual(
    one.reactions.toSorted((a: { key: string }, b: { key: string }) => a.key < b.key ? -1 : 1),
    [
      { key: ":shipit:", count: 1, me: false, principalIds: ["bob"] },
      { key: "👍", count: 2, me: true, principalIds: ["alice", "bob"] },
      { key: "👨‍👩‍👧‍👦", count: 1, me: false, principalIds: ["bob"] },
    ].toSorted((a, b) => a.key < b.key ? -1 : 1),
  );
  ok(await bob.delete(`/v1/messages/${id}/reactions/${THUMB}`));
  ok(await bob.delete(`/v1/messages/${id}/reactions/${THUMB}`));
  assert.deepEqual(
    ok(await bob.get(`/v1/messages/${id}`)).reactions.find((reaction: { key: string }) => reaction.key === "👍"),
    { key: "👍", count: 1, me: false, principalIds: ["alice"] },
  );
  const events = await readRoomEvents(alice, roomId, seq);
  assert.deepEqual(events.map((event) => event.type), [
    "reaction.added",
    "reaction.added",
    "reaction.added",
    "reaction.added",
    "reaction.removed",
  ]);
  assert.deepEqual(events[1]?.data, {
    roomId,
    messageId: id,
    key: "👍",
    principalId: "bob",
    reactions: [{ key: "👍", count: 2 }],
  });
});

testOnEngines("reaction.list pages who reacted, of one key or all, in the order of time", async (environment) => {
  await using gateway = await openGateway(environment);
  const names = Array.from({ length: 12 }, (_, at) => `p${at}`);
  const callers = await Promise.all(names.map((name) => gateway.as(name, { name: `The ${name}` })));
  const { alice, eve } = await createCallers(gateway, "alice", "eve");
  for (const caller of callers) ok(await caller.get("/v1/collaboration/me"));
  const roomId = await createRoom(alice, names);
  const { id } = await sendMessage(alice, roomId, "shipped");
  for (const [at, caller] of callers.entries()) {
    if (at % 3 === 0) gateway.clock.advance(1000);
    ok(await caller.put(`/v1/messages/${id}/reactions/${THUMB}`));
    if (at % 2 === 0) ok(await caller.put(`/v1/messages/${id}/reactions/:shipit:`));
  }
  ok(await alice.delete(`/v1/rooms/${roomId}/members/p0`));
  const list = async (query: string) => {
    const found = [];
    let cursor = "";
    do {
      const page = ok(await alice.get(`/v1/messages/${id}/reactions?limit=5${query}${cursor}`));
      found.push(...page.items);
      cursor = page.hasMore ? `&cursor=${encodeURIComponent(page.nextCursor)}` : "";
    } while (cursor !== "");
    return found;
  };
  type Reactor = { key: string; createdAt: string; principal: { id: string; displayName: string; state: string } };
  const all: Reactor[] = await list("");
  assert.equal(new Set(all.map(({ key, principal }) => `${key} ${principal.id}`)).size, 18);
  assert.deepEqual(all.map(({ createdAt }) => createdAt), all.map(({ createdAt }) => createdAt).toSorted());
  const thumbs: Reactor[] = await list(`&key=${THUMB}`);
  assert.deepEqual(thumbs.map(({ principal }) => principal.id).toSorted(), names.toSorted());
  assert.deepEqual(thumbs.find(({ principal }) => principal.id === "p0")?.principal.state, "left");
  assert.deepEqual(thumbs.find(({ principal }) => principal.id === "p1")?.principal.displayName, "The p1");

  assertProblem(await eve.get(`/v1/messages/${id}/reactions`), 404, "not_found");
  assertProblem(await alice.get(`/v1/messages/${id}/reactions?key=ab`), 422, "validation_failed");
  const { nextCursor } = ok(await alice.get(`/v1/messages/${id}/reactions?limit=1`));
  const elsewhere = await alice.get(
    `/v1/messages/${id}/reactions?key=${THUMB}&cursor=${encodeURIComponent(nextCursor)}`,
  );
  assertProblem(elsewhere, 400, "invalid_cursor");
  ok(await alice.delete(`/v1/messages/${id}`));
  assert.deepEqual(ok(await alice.get(`/v1/messages/${id}/reactions`)).items, []);
});

Deno.test("reaction.add accepts one emoji or a name and refuses anything else", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await sendMessage(alice, roomId, "hm");
  const unseen = ["\u200b", "\u202e", "\ufe0f", "\u0301"];
  for (const key of ["ab", "👍👍", " ", "::", ":a b:", ...unseen, `:${"x".repeat(64)}:`, `a${"\u0301".repeat(64)}`]) {
    assertProblem(await alice.put(`/v1/messages/${id}/reactions/${encodeURIComponent(key)}`), 422, "validation_failed");
  }
  assert.deepEqual(ok(await alice.get(`/v1/messages/${id}`)).reactions, []);
});

Deno.test("reaction.add refuses the 51st key, but not another reaction with an existing key", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = await sendMessage(alice, roomId, "popular");
  for (let kind = 0; kind < 50; kind++) ok(await alice.put(`/v1/messages/${id}/reactions/:k${kind}:`));
  assertProblem(await alice.put(`/v1/messages/${id}/reactions/:k50:`), 409, "reaction_limit");
  ok(await bob.put(`/v1/messages/${id}/reactions/:k7:`));
  assert.equal(ok(await bob.get(`/v1/messages/${id}`)).reactions.length, 50);
});

Deno.test("in a direct room both members can pin, and neither can delete messages of the other", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"], { kind: "direct" });
  const { id } = await sendMessage(bob, roomId, "mine");
  ok(await bob.put(`/v1/messages/${id}/pin`));
  const checks = [{ action: "pin.add", resource: { type: "room", id: roomId } }];
  const { results: [may] } = ok(await bob.post("/v1/collaboration/permissions/check", { checks }));
  assert.deepEqual([may.allowed, may.needs.roomRole], [true, "member"]);
  assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}/pins`)).items.map(({ id }: { id: string }) => id), [id]);
  ok(await alice.delete(`/v1/messages/${id}/pin`));
  assertProblem(await alice.delete(`/v1/messages/${id}`), 403, "forbidden");
  ok(await bob.delete(`/v1/messages/${id}`));
});

Deno.test("reactions and pins require membership and an existing message", async () => {
  await using gateway = await openGateway();
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = await sendMessage(alice, roomId, "secret");
  const elsewhere = await gateway.as("alice", { tenant: "elsewhere" });
  for (const caller of [eve, elsewhere]) {
    assertProblem(await caller.put(`/v1/messages/${id}/reactions/${THUMB}`), 404, "not_found");
    assertProblem(await caller.put(`/v1/messages/${id}/pin`), 404, "not_found");
  }
  assertProblem(await bob.put(`/v1/messages/${id}/pin`), 403, "forbidden");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" }));
  assertProblem(await bob.put(`/v1/messages/${id}/reactions/${THUMB}`), 403, "forbidden");
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  assertProblem(await bob.put(`/v1/messages/${id}/reactions/${THUMB}`), 404, "not_found");
  ok(await alice.delete(`/v1/messages/${id}`));
  assertProblem(await alice.put(`/v1/messages/${id}/reactions/${THUMB}`), 404, "not_found");
  assertProblem(await alice.put(`/v1/messages/${id}/pin`), 404, "not_found");
});

Deno.test("pin.add adds a message to the pins until it is unpinned or deleted", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const [one, two] = [await sendMessage(alice, roomId, "one"), await sendMessage(bob, roomId, "two")];
  for (const message of [one, one, two]) {
    gateway.clock.advance(1000);
    assert.equal((await alice.put(`/v1/messages/${message.id}/pin`)).status, 204);
  }
  const pins = async () => ok(await bob.get(`/v1/rooms/${roomId}/pins`)).items.map((pin: { id: string }) => pin.id);
  assert.deepEqual(await pins(), [two.id, one.id]);
  assert.equal(ok(await bob.get(`/v1/messages/${one.id}`)).pinned, true);
  ok(await alice.delete(`/v1/messages/${one.id}/pin`));
  ok(await alice.delete(`/v1/messages/${one.id}/pin`));
  ok(await alice.delete(`/v1/messages/${two.id}`));
  assert.deepEqual(await pins(), []);
  assert.deepEqual((await readRoomEvents(bob, roomId, two.seq)).map((event) => event.type), [
    "message.pinned",
    "message.pinned",
    "message.unpinned",
    "message.deleted",
  ]);
});

Deno.test("pin.add refuses the 101st pin of a room", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const sent = await Promise.all(Array.from({ length: 101 }, (_, at) => sendMessage(alice, roomId, `m${at}`)));
  for (const { id } of sent.slice(0, 100)) ok(await alice.put(`/v1/messages/${id}/pin`));
  assertProblem(await alice.put(`/v1/messages/${sent[100].id}/pin`), 409, "limit_reached");
  assert.equal(ok(await alice.get(`/v1/rooms/${roomId}/pins`)).items.length, 100);
});
