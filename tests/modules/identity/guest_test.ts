// A guest of the tenant sees itself, its agents, and principals it shares a room with; no others exist for it.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { FakeSocket, sendCommand } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { recordQueries } from "../query_log.ts";
import { FILES, pngHeader, upload } from "../file/file_harness.ts";
import { assertProblem, completeAnswer, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const BASE = "/v1/collaboration";
const NAME = "Carola of the Cellar";
const START = { dateTime: "2026-03-09T09:00:00", timeZone: "UTC" };

/**
 * Alice has a public room with the guest Gus, who moderates it. Carol is in the tenant and in rooms with Alice, not with Gus.
 * Gus has an agent, robo.
 */
async function openFixture(environment: Record<string, string>) {
  const gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const carol = await gateway.as("carol", { name: NAME, role: "member" });
  const gus = await gateway.as("gus", { role: "guest" });
  const robo = await gateway.as("robo", { kind: "agent", owner: "gus" });
  for (const caller of [carol, gus, robo]) ok(await caller.get(`${BASE}/me`));
  const roomId = await createRoom(alice, ["gus"], { visibility: "public" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/gus`, { role: "moderator" }));
  await createRoom(alice, ["carol"]);
  return { gateway, alice, bob, carol, gus, robo, roomId, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

const read = (who: Caller, id: string): Promise<ApiResponse> => who.get(`${BASE}/principals/${id}`);

/** Asserts which principals the caller can read; others do not exist for it. */
async function assertReads(who: Caller, can: readonly string[], cannot: readonly string[]): Promise<void> {
  for (const id of can) assert.equal(ok(await read(who, id)).id, id);
  for (const id of cannot) {
    const answer = await read(who, id);
    assertProblem(answer, 404, "not_found");
    assert.equal(comparableResponse(answer, id), comparableResponse(await read(who, "ghost"), "ghost"));
  }
}

/** A response without the requested id, and without what differs each time. */
function comparableResponse({ status, body }: ApiResponse, id: string): string {
  const text = JSON.stringify(body, (name, value) => ["requestId", "tookMs"].includes(name) ? null : value);
  return `${status} ${text.replaceAll(id, "<id>")}`;
}

testOnEngines(
  "principal.read shows a guest itself, its agents, and principals it shares a room with",
  async (environment) => {
    await using house = await openFixture(environment);
    const { gateway, alice, carol, gus, robo, roomId } = house;
    await assertReads(gus, ["gus", "robo", "alice"], ["carol", "bob"]);
    assert.equal(ok(await read(gus, "me")).id, "gus");
    await assertReads(alice, ["gus", "robo", "carol", "bob"], []);
    // The agent can see its owner, but no members of rooms that only its owner is in.
    await assertReads(robo, ["robo", "gus"], ["alice", "carol"]);
    ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, {}));
    await assertReads(robo, ["alice"], ["carol"]);

    // A reader of a public room is not a member of it.
    ok(await carol.get(`/v1/rooms/${roomId}`));
    await assertReads(gus, [], ["carol"]);
    ok(await carol.put(`/v1/rooms/${roomId}/members/me`, {}));
    await assertReads(gus, ["carol"], []);
    await assertReads(robo, ["carol"], []);
    await sendMessage(carol, roomId, "Bye");
    ok(await carol.delete(`/v1/rooms/${roomId}/members/me`));
    await assertReads(gus, ["alice"], ["carol"]);

    // A disabled member still shares the room; a deleted room is shared by no one.
    const boss = await gateway.as("boss", { role: "owner" });
    ok(await boss.delete(`${BASE}/principals/alice`));
    assert.equal(ok(await read(gus, "alice")).disabled, true);
    // The guest becomes the owner before she is back.
    await gateway.runJobs();
    ok(await boss.patch(`${BASE}/principals/alice`, { disabled: false }));
    ok(await gus.delete(`/v1/rooms/${roomId}`));
    await assertReads(gus, ["gus", "robo"], ["alice", "carol"]);
  },
);

testOnEngines(
  "a guest by a changed role, or by its token, sees only principals it shares a room with",
  async (environment) => {
    await using house = await openFixture(environment);
    const { gateway, alice, carol, roomId } = house;
    const boss = await gateway.as("boss", { role: "owner" });
    const gus = await gateway.as("gus");
    await assertReads(carol, ["alice", "bob", "gus"], []);
    const lesser = await gateway.as("carol", { role: "guest", iat: gateway.clock.now() / 1000 - 60 });
    await assertReads(lesser, ["alice", "carol"], ["gus", "bob"]);
    ok(await boss.patch(`${BASE}/principals/gus`, { role: "member" }));
    await assertReads(gus, ["carol", "bob"], []);
    ok(await boss.patch(`${BASE}/principals/gus`, { role: "guest" }));
    await assertReads(gus, ["alice"], ["carol", "bob"]);
    ok(await alice.delete(`/v1/rooms/${roomId}/members/gus`));
    await assertReads(gus, ["gus"], ["alice", "carol"]);
    ok(await gus.get(`${BASE}/sync`));
  },
);

/** Every call that takes the id of a principal, by name. */
function callsWithPrincipalId({ gus, roomId, documentId }: { gus: Caller; roomId: string; documentId: string }) {
  const create = (body: Record<string, unknown>) =>
    gus.post(`${BASE}/calendar/events`, { title: "x", start: START, ...body });
  return {
    "principal.read": (id: string) => read(gus, id),
    "token.list": (id: string) => gus.get(`${BASE}/tokens?principalId=${id}`),
    "token.create": (principalId: string) => gus.post(`${BASE}/tokens`, { name: "x", scopes: ["*"], principalId }),
    "principal.list": (q: string) => gus.get(`${BASE}/principals?q=${q}`),
    "principal.update": (id: string) => gus.patch(`${BASE}/principals/${id}`, { displayName: "x" }),
    "permission.check": (principalId: string) =>
      gus.post(`${BASE}/permissions/check`, { checks: [{ action: "room.read", principalId }] }),
    "room.create": (id: string) => gus.post("/v1/rooms", { kind: "direct", memberIds: [id] }),
    "member.put": (id: string) => gus.put(`/v1/rooms/${roomId}/members/${id}`, {}),
    "member.remove": (id: string) => gus.delete(`/v1/rooms/${roomId}/members/${id}`),
    "member.remove and ban": (id: string) => gus.delete(`/v1/rooms/${roomId}/members/${id}?ban=true`),
    "ban.remove": (id: string) => gus.delete(`/v1/rooms/${roomId}/bans/${id}`),
    "message.send": (id: string) => gus.post("/v1/messages", { roomId, text: "x", mentions: { principalIds: [id] } }),
    "message.list": (id: string) => gus.get(`/v1/messages?roomId=${roomId}&senderId=${id}`),
    "task.create": (id: string) => gus.post(`${BASE}/tasks`, { roomId, title: "x", assigneeIds: [id] }),
    "task.list": (id: string) => gus.get(`${BASE}/tasks?assigneeId=${id}`),
    "event.create": (principalId: string) => create({ attendees: [{ principalId }] }),
    "event.create in a room": (principalId: string) => create({ roomId, attendees: [{ principalId }] }),
    "freebusy.read": (id: string) =>
      gus.post(`${BASE}/calendar/freebusy`, {
        from: "2026-03-01T00:00:00Z",
        to: "2026-03-02T00:00:00Z",
        timeZone: "UTC",
        principalIds: [id],
      }),
    "document.share": (id: string) => gus.put(`${BASE}/documents/${documentId}/access/${id}`, { role: "reader" }),
    "document.unshare": (id: string) => gus.delete(`${BASE}/documents/${documentId}/access/${id}`),
    "search.structured": (id: string) =>
      completeAnswer(() => gus.post("/v1/search", { query: "x", filters: { senderIds: [id] } })),
  };
}

/** Those that are not refused before. */
const READS_PRINCIPAL = /^(principal.read|token|member.put|message.send|task.create|event.create)/;

async function readsOf(work: () => Promise<unknown>): Promise<number> {
  return (await recordQueries(work)).filter(({ sql }) => /^select/.test(sql)).length;
}

testOnEngines("no operation discloses to a guest whether an unrelated principal exists", async (environment) => {
  await using house = await openFixture(environment);
  const { id: documentId } = ok(await house.alice.post(`${BASE}/documents`, { title: "x" }));
  ok(await house.alice.put(`${BASE}/documents/${documentId}/access/gus`, { role: "owner" }));
  const leaks: string[] = [];
  for (const [name, ask] of Object.entries(callsWithPrincipalId({ ...house, documentId }))) {
    const [hidden, absent] = [
      comparableResponse(await ask("carol"), "carol"),
      comparableResponse(await ask("ghost"), "ghost"),
    ];
    if (hidden !== absent) leaks.push(`${name}: ${hidden.slice(0, 150)} | ${absent.slice(0, 150)}`);
    // Nor how long it takes: the same is read for both.
    if (environment["SVC_DATABASE_URL"] !== undefined || !READS_PRINCIPAL.test(name)) continue;
    const [readHidden, readAbsent] = [await readsOf(() => ask("carol")), await readsOf(() => ask("ghost"))];
    if (readHidden !== readAbsent) leaks.push(`${name}: ${readHidden} statements | ${readAbsent} statements`);
  }
  assert.deepEqual(leaks, []);
});

testOnEngines("a guest can refer to principals it shares a room with, in every operation", async (environment) => {
  await using house = await openFixture(environment);
  const { gus, robo, alice, carol, roomId } = house;
  ok(await gus.put(`/v1/rooms/${roomId}/members/robo`, {}));
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, {}));
  await sendMessage(gus, roomId, "x", { mentions: { principalIds: ["carol", "robo", "alice"] } });
  ok(await gus.post(`${BASE}/tasks`, { roomId, title: "x", assigneeIds: ["carol", "me"] }));
  const attendees = ["carol", "me", "robo"].map((principalId) => ({ principalId }));
  const { id } = ok(await gus.post(`${BASE}/calendar/events`, { title: "x", start: START, attendees }));
  ok(await robo.get(`${BASE}/calendar/events/${id}`));
  // Existing attendees of an event remain when it is changed.
  ok(await carol.delete(`/v1/rooms/${roomId}/members/me`));
  ok(await gus.patch(`${BASE}/calendar/events/${id}`, { title: "y", attendees }));
  ok(await gus.delete(`/v1/rooms/${roomId}/members/robo?ban=true`));
});

testOnEngines(
  "the calendar file of a guest has names only of principals it shares a room with",
  async (environment) => {
    await using house = await openFixture(environment);
    const { gateway, alice, gus, roomId } = house;
    const attendees = ["carol", "gus"].map((principalId) => ({ principalId }));
    ok(await alice.post(`${BASE}/calendar/events`, { title: "x", start: START, attendees }));
    const { path } = ok(await gus.post(`${BASE}/calendar/feeds`, {}));
    const file = async (): Promise<string> => ok(await gateway.withToken(undefined).get(path)).replaceAll("\r\n ", "");
    assert.ok((await file()).includes('CN="alice"'));
    assert.ok(!(await file()).includes(NAME));
    ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, {}));
    assert.ok((await file()).includes(`CN="${NAME}"`));
  },
);

testOnEngines("a guest sees pictures only of principals it shares a room with", async (environment) => {
  await using house = await openFixture(environment);
  const { gateway, alice, bob, carol, gus, roomId } = house;
  const { id } = ok(await upload(gateway, carol, { name: "me.png" }, pngHeader(8, 8)));
  ok(await carol.patch(`${BASE}/me`, { avatarFileId: id }));
  ok(await bob.get(`${FILES}/${id}`));
  assertProblem(await gus.get(`${FILES}/${id}`), 404, "not_found");
  assertProblem(await gus.get(`${FILES}/${id}/content`), 404, "not_found");
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, {}));
  ok(await gus.get(`${FILES}/${id}`));
});

Deno.test("a guest's socket responds as HTTP does", async () => {
  await using house = await openFixture({});
  const socket = new FakeSocket();
  const connection = house.gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: house.gus.token } }));
  await until(() => socket.messages.length > 0);
  assert.equal(socket.messages[0].connect.data.principal.id, "gus");
  const answer = (id: number, data: unknown) =>
    sendCommand({ socket, connection }, id, { rpc: { method: "principal.read", data } });
  assert.equal((await answer(2, { id: "alice" })).rpc.data.displayName, "alice");
  const hidden = await answer(3, { id: "carol" });
  assert.equal(hidden.error.code, 404);
  assert.deepEqual(
    JSON.stringify(hidden.error).replaceAll("carol", "ghost"),
    JSON.stringify((await answer(4, { id: "ghost" })).error),
  );
});
