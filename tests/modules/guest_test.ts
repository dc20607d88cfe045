// A guest of the tenant knows itself, what belongs to it, and whom it meets in rooms: nobody else is there for it.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import { type Answer, type Caller, openGateway } from "../harness.ts";
import { ask, FakeSocket } from "../transport/ws_rig.ts";
import { until } from "../wait.ts";
import { FILES, png, upload } from "./file_rig.ts";
import { ok, people, refused, roomOf, say } from "./team.ts";

const BASE = "/v1/collaboration";
const NAME = "Carola of the Cellar";
const START = { dateTime: "2026-03-09T09:00:00", timeZone: "UTC" };

/**
 * Alice has a public room with the guest Gus, who moderates it. Carol is in the tenant and in rooms with Alice, not with Gus.
 * Gus has an agent, robo.
 */
async function openHouse(environment: Record<string, string>) {
  const gateway = await openGateway(environment);
  const { alice, bob } = await people(gateway, "alice", "bob");
  const carol = await gateway.as("carol", { name: NAME, role: "member" });
  const gus = await gateway.as("gus", { role: "guest" });
  const robo = await gateway.as("robo", { kind: "agent", owner: "gus" });
  for (const caller of [carol, gus, robo]) ok(await caller.get(`${BASE}/me`));
  const roomId = await roomOf(alice, ["gus"], { visibility: "public" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/gus`, { role: "moderator" }));
  await roomOf(alice, ["carol"]);
  return { gateway, alice, bob, carol, gus, robo, roomId, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

const read = (who: Caller, id: string): Promise<Answer> => who.get(`${BASE}/principals/${id}`);

/** Asserts whom of these somebody can read; the others are as if they were not. */
async function assertReads(who: Caller, can: readonly string[], cannot: readonly string[]): Promise<void> {
  for (const id of can) assert.equal(ok(await read(who, id)).id, id);
  for (const id of cannot) {
    const answer = await read(who, id);
    refused(answer, 404, "not_found");
    assert.equal(said(answer, id), said(await read(who, "ghost"), "ghost"));
  }
}

/** An answer without the id that was asked about, and what differs each time. */
function said({ status, body }: Answer, id: string): string {
  const text = JSON.stringify(body, (name, value) => ["requestId", "tookMs"].includes(name) ? null : value);
  return `${status} ${text.replaceAll(id, "<id>")}`;
}

onEngines("principal.read shows a guest itself, its agents, and whom it meets in a room", async (environment) => {
  await using house = await openHouse(environment);
  const { gateway, alice, carol, gus, robo, roomId } = house;
  await assertReads(gus, ["gus", "robo", "alice"], ["carol", "bob"]);
  assert.equal(ok(await read(gus, "me")).id, "gus");
  await assertReads(alice, ["gus", "robo", "carol", "bob"], []);
  // The agent knows its owner, but meets nobody in a room that only its owner is in.
  await assertReads(robo, ["robo", "gus"], ["alice", "carol"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, {}));
  await assertReads(robo, ["alice"], ["carol"]);

  // Whoever only looks into a public room is no member of it.
  ok(await carol.get(`/v1/rooms/${roomId}`));
  await assertReads(gus, [], ["carol"]);
  ok(await carol.put(`/v1/rooms/${roomId}/members/me`, {}));
  await assertReads(gus, ["carol"], []);
  await assertReads(robo, ["carol"], []);
  await say(carol, roomId, "Bye");
  ok(await carol.delete(`/v1/rooms/${roomId}/members/me`));
  await assertReads(gus, ["alice"], ["carol"]);

  // One who is disabled is a member as before; a room that is deleted brings nobody together.
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.delete(`${BASE}/principals/alice`));
  assert.equal(ok(await read(gus, "alice")).disabled, true);
  // The room goes to the guest before she is back.
  await gateway.runJobs();
  ok(await boss.patch(`${BASE}/principals/alice`, { disabled: false }));
  ok(await gus.delete(`/v1/rooms/${roomId}`));
  await assertReads(gus, ["gus", "robo"], ["alice", "carol"]);
});

onEngines("a guest who is lowered, leaves or comes by a lesser token knows only whom it meets", async (environment) => {
  await using house = await openHouse(environment);
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
});

/** Every call that takes the id of somebody, by name. */
function doors({ gus, roomId, documentId }: { gus: Caller; roomId: string; documentId: string }) {
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
    "search.structured": (id: string) => gus.post("/v1/search", { query: "x", filters: { senderIds: [id] } }),
  };
}

onEngines("no operation tells a guest whether somebody it does not meet exists", async (environment) => {
  await using house = await openHouse(environment);
  const { id: documentId } = ok(await house.alice.post(`${BASE}/documents`, { title: "x" }));
  ok(await house.alice.put(`${BASE}/documents/${documentId}/access/gus`, { role: "owner" }));
  const leaks: string[] = [];
  for (const [name, ask] of Object.entries(doors({ ...house, documentId }))) {
    const [hidden, absent] = [said(await ask("carol"), "carol"), said(await ask("ghost"), "ghost")];
    if (hidden !== absent) leaks.push(`${name}: ${hidden.slice(0, 150)} | ${absent.slice(0, 150)}`);
  }
  assert.deepEqual(leaks, []);
});

onEngines("a guest names whom it meets, wherever others are named", async (environment) => {
  await using house = await openHouse(environment);
  const { gus, robo, alice, carol, roomId } = house;
  ok(await gus.put(`/v1/rooms/${roomId}/members/robo`, {}));
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, {}));
  await say(gus, roomId, "x", { mentions: { principalIds: ["carol", "robo", "alice"] } });
  ok(await gus.post(`${BASE}/tasks`, { roomId, title: "x", assigneeIds: ["carol", "me"] }));
  const attendees = ["carol", "me", "robo"].map((principalId) => ({ principalId }));
  const { id } = ok(await gus.post(`${BASE}/calendar/events`, { title: "x", start: START, attendees }));
  ok(await robo.get(`${BASE}/calendar/events/${id}`));
  // Whom an event has already stays in it when others are told of a change.
  ok(await carol.delete(`/v1/rooms/${roomId}/members/me`));
  ok(await gus.patch(`${BASE}/calendar/events/${id}`, { title: "y", attendees }));
  ok(await gus.delete(`/v1/rooms/${roomId}/members/robo?ban=true`));
});

onEngines("the file of a guest's calendar has names only of whom it meets", async (environment) => {
  await using house = await openHouse(environment);
  const { gateway, alice, gus, roomId } = house;
  const attendees = ["carol", "gus"].map((principalId) => ({ principalId }));
  ok(await alice.post(`${BASE}/calendar/events`, { title: "x", start: START, attendees }));
  const { path } = ok(await gus.post(`${BASE}/calendar/feeds`, {}));
  const file = async (): Promise<string> => ok(await gateway.withToken(undefined).get(path)).replaceAll("\r\n ", "");
  assert.ok((await file()).includes('CN="alice"'));
  assert.ok(!(await file()).includes(NAME));
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, {}));
  assert.ok((await file()).includes(`CN="${NAME}"`));
});

onEngines("a guest sees the pictures of whom it meets", async (environment) => {
  await using house = await openHouse(environment);
  const { gateway, alice, bob, carol, gus, roomId } = house;
  const { id } = ok(await upload(gateway, carol, { name: "me.png" }, png(8, 8)));
  ok(await carol.patch(`${BASE}/me`, { avatarFileId: id }));
  ok(await bob.get(`${FILES}/${id}`));
  refused(await gus.get(`${FILES}/${id}`), 404, "not_found");
  refused(await gus.get(`${FILES}/${id}/content`), 404, "not_found");
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, {}));
  ok(await gus.get(`${FILES}/${id}`));
});

Deno.test("a guest's socket welcomes it, and answers as HTTP does", async () => {
  await using house = await openHouse({});
  const socket = new FakeSocket();
  const connection = house.gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: house.gus.token } }));
  await until(() => socket.lines.length > 0);
  assert.equal(socket.lines[0].connect.data.principal.id, "gus");
  const answer = (id: number, data: unknown) =>
    ask({ socket, connection }, id, { rpc: { method: "principal.read", data } });
  assert.equal((await answer(2, { id: "alice" })).rpc.data.displayName, "alice");
  const hidden = await answer(3, { id: "carol" });
  assert.equal(hidden.error.code, 404);
  assert.deepEqual(
    JSON.stringify(hidden.error).replaceAll("carol", "ghost"),
    JSON.stringify((await answer(4, { id: "ghost" })).error),
  );
});
