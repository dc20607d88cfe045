// Groups of people: who manages and reads them, their handles beside those of principals, mentions, rooms, and their limits.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { allEnded } from "../../wait.ts";
import { exportTenant, importArchive } from "../transfer/transfer_fixture.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const API = "/v1/collaboration";
const GROUPS = `${API}/groups`;

async function createGroup(admin: Caller, name: string, members: readonly string[] = [], more = {}): Promise<string> {
  const { id } = ok(await admin.post(GROUPS, { name, ...more }));
  if (members.length > 0) ok(await admin.post(`${GROUPS}/${id}/members`, { principalIds: members }));
  return id;
}

async function membersOf(caller: Caller, id: string, query = ""): Promise<string[]> {
  const { items } = ok(await caller.get(`${GROUPS}/${id}/members${query}`));
  return items.map(({ principalId }: { principalId: string }) => principalId);
}

function openAdmin(gateway: Harness): Promise<Caller> {
  return createCaller(gateway, "root", { role: "admin" });
}

testOnEngines("an admin manages a group, which its members and all members of the tenant read", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await openAdmin(gateway);
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "carol");
  const created = await admin.post(GROUPS, { name: "Design Team", description: "Draws" });
  assert.equal(created.status, 201);
  const { id, handle, memberCount, version } = created.body;
  assert.deepEqual([handle, memberCount, version], ["design-team", 0, 1]);
  assertProblem(await admin.post(GROUPS, { name: "design TEAM" }), 409, "conflict");
  const added = ok(await admin.post(`${GROUPS}/${id}/members`, { principalIds: ["carol", "bob", "bob"] }));
  assert.deepEqual([added.memberCount, added.version], [2, 2]);
  assert.equal(ok(await admin.post(`${GROUPS}/${id}/members`, { principalIds: ["bob"] })).version, 2, "it is one");
  const unknown = await admin.post(`${GROUPS}/${id}/members`, { principalIds: ["alice", "nobody"] });
  assertProblem(unknown, 422, "validation_failed");
  assert.equal(unknown.body.errors[0].pointer, "/principalIds/1");
  const { id: agent } = ok(await alice.post(`${API}/agents`, { displayName: "Robo" }));
  assertProblem(await admin.post(`${GROUPS}/${id}/members`, { principalIds: [agent] }), 422, "validation_failed");

  const page = ok(await alice.get(`${GROUPS}/${id}/members?limit=1`));
  assert.deepEqual([page.items[0].principalId, page.hasMore], ["bob", true]);
  assert.deepEqual(await membersOf(alice, id, `?limit=1&cursor=${page.nextCursor}`), ["carol"]);
  await createGroup(admin, "On call", ["alice"]);
  const names = async (query: string) =>
    ok(await bob.get(`${GROUPS}${query}`)).items.map(({ name }: { name: string }) => name);
  assert.deepEqual(await names(""), ["Design Team", "On call"]);
  assert.deepEqual(await names("?principalId=me"), ["Design Team"]);
  assert.deepEqual(await names("?q=CALL"), ["On call"]);
  assert.deepEqual(await names("?q=design-"), ["Design Team"]);
  for (
    const call of [
      alice.post(GROUPS, { name: "Mine" }),
      alice.patch(`${GROUPS}/${id}`, { name: "Mine" }),
      alice.post(`${GROUPS}/${id}/members`, { principalIds: ["alice"] }),
      bob.delete(`${GROUPS}/${id}/members?principalIds=bob`),
      bob.delete(`${GROUPS}/${id}`),
    ]
  ) assertProblem(await call, 403, "forbidden");
  assertProblem(
    await (await gateway.as("sam", { role: "owner", tenant: "other" })).get(`${GROUPS}/${id}`),
    404,
    "not_found",
  );

  const renamed = await admin.patch(`${GROUPS}/${id}`, { name: "UX", description: null }, { "if-match": '"2"' });
  assert.deepEqual([ok(renamed).handle, renamed.body.description], ["design-team", null], "mentions stay valid");
  assertProblem(await admin.patch(`${GROUPS}/${id}`, { name: "Uy", version: 2 }), 412, "version_mismatch");
  ok(await admin.delete(`${GROUPS}/${id}/members?principalIds=bob&principalIds=alice`));
  assert.deepEqual(await membersOf(bob, id), ["carol"]);
  assert.equal((await admin.delete(`${GROUPS}/${id}`)).status, 204);
  assertProblem(await bob.get(`${GROUPS}/${id}`), 404, "not_found");

  const types = (await gateway.app.store.log.read("default", "principal:bob", 0, 20)).map(({ type }) => type);
  assert.deepEqual(types, ["group.joined", "group.updated", "group.left"]);
  const { items } = ok(await admin.get(`${API}/audit?operation=group_member`));
  assert.deepEqual(items.map(({ operation }: { operation: string }) => operation), [
    "group_member.remove",
    ...Array(3).fill("group_member.add"),
  ]);
});

testOnEngines("a handle belongs to a principal or to a group", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await openAdmin(gateway);
  const { alice } = await createCallers(gateway, "alice", "design");
  ok(await alice.patch(`${API}/me`, { handle: "ally" }));
  for (const handle of ["ally", "design"]) {
    assertProblem(await admin.post(GROUPS, { name: "One", handle }), 409, "handle_taken");
  }
  const { id, handle } = ok(await admin.post(GROUPS, { name: "Design" }));
  assert.equal(handle, "design-2", "an id reads like a handle");
  ok(await admin.patch(`${GROUPS}/${id}`, { handle: "ux" }));
  assertProblem(await admin.post(GROUPS, { name: "One", handle: "ux" }), 409, "handle_taken");
  assertProblem(await alice.patch(`${API}/me`, { handle: "ux" }), 409, "handle_taken");
  assertProblem(await admin.patch(`${GROUPS}/${id}`, { handle: "ally" }), 409, "handle_taken");
  const service = { kind: "service", displayName: "UX" };
  assertProblem(await admin.post(`${API}/principals`, { ...service, handle: "ux" }), 409, "handle_taken");
  assert.equal(ok(await admin.post(`${API}/principals`, service)).handle, "ux-2");
  const late = await createCaller(gateway, "00u1", { name: "UX" });
  assert.equal(ok(await late.get(`${API}/me`)).principal.handle, "ux-3");
  assert.equal(ok(await admin.post(GROUPS, { name: "Группа" })).handle, null);
  ok(await admin.patch(`${GROUPS}/${id}`, { handle: null }));
  ok(await alice.patch(`${API}/me`, { handle: "ux" }));
});

async function assertRaceHasOneWinner(nodes: readonly Harness[]): Promise<void> {
  const [one, other = one] = nodes;
  if (one === undefined || other === undefined) throw new Error("Expected a node, received none");
  const admin = await openAdmin(one);
  const people = Array.from({ length: 6 }, (_, n) => `p${n}`);
  await createCallers(one, ...people);
  const changes = await allEnded(people.flatMap((id, n) => [
    other.as(id).then((person) => person.patch(`${API}/me`, { handle: "same" })),
    admin.post(GROUPS, { name: `Group ${n}`, handle: "same" }),
  ]));
  assert.deepEqual(changes.filter(({ status }) => status < 300).length, 1, "one of them has it");
  const names = ["New", "Same name", "Third"];
  const created = await allEnded(names.flatMap((name, n) => [
    other.as(`new-${n}`, { name }).then((person) => person.get(`${API}/me`)),
    admin.post(GROUPS, { name }),
  ]));
  const handles = created.map((answer) => ok(answer)).map((body) => (body.principal ?? body).handle);
  assert.equal(new Set(handles).size, 2 * names.length, handles.join());
}

testOnEngines("a principal and a group that want one handle at once do not both get it", async (environment) => {
  await using gateway = await openGateway(environment);
  await assertRaceHasOneWinner([gateway]);
});

testOnPostgres("nor do they at two nodes", async (environment) => {
  await using one = await openGateway(environment);
  await using other = await openGateway(environment);
  await assertRaceHasOneWinner([one, other]);
});

testOnEngines("a group is mentioned by its handle: its members in the room are notified", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await openAdmin(gateway);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol", "dan", "eve");
  const roomId = await createRoom(alice, ["bob", "carol", "dan"]);
  const id = await createGroup(admin, "Design", ["alice", "bob", "dan", "eve"]);
  const emptyId = await createGroup(admin, "Empty");
  ok(await admin.delete(`${API}/principals/dan`));
  const text = "@carol, @Design: see `@empty` @empty";
  const message = await sendMessage(alice, roomId, text, { parseMentions: true });
  const groups = [{ id, handle: "design", state: "mentioned" }, { id: emptyId, handle: "empty", state: "empty" }];
  assert.deepEqual(message.mentions, { principalIds: ["carol", "bob"], room: false, groups });
  await gateway.runJobs();
  for (const one of [bob, carol]) {
    const { items } = ok(await one.get(`${API}/notifications?kind=mention`));
    assert.deepEqual(items.map(({ messageId }: { messageId: string }) => messageId), [message.id]);
  }
  assert.equal(ok(await bob.get(`${API}/unreads`)).items[0].mentionCount, 1);
  const eve = await gateway.as("eve");
  assert.deepEqual(ok(await eve.get(`${API}/notifications`)).items, [], "not in the room");
  const edited = ok(await alice.patch(`/v1/messages/${message.id}`, { text: "@carol", parseMentions: true }));
  assert.deepEqual(edited.mentions, { principalIds: ["carol"], room: false });
  // What a response says of a message can be sent again, and a group be mentioned by its id.
  const given = await sendMessage(alice, roomId, "look", { mentions: { principalIds: [], groups: [{ id }] } });
  assert.deepEqual(given.mentions.groups, groups.slice(0, 1));
  const repeated = ok(await alice.patch(`/v1/messages/${given.id}`, { text: "Look", mentions: given.mentions }));
  assert.deepEqual(repeated.mentions, given.mentions);
  const unknown = await alice.post("/v1/messages", { roomId, text: "x", mentions: { groups: [{ id: "grp_none" }] } });
  assertProblem(unknown, 422, "validation_failed");
  assert.equal(unknown.body.errors[0].pointer, "/mentions/groups/0");

  const { id: documentId } = ok(await alice.post(`${API}/documents`, { roomId, title: "Plan", text: "One" }));
  ok(await alice.post(`${API}/documents/${documentId}/comments`, { text: "@design?" }));
  const kinds = ok(await bob.get(`${API}/notifications`)).items.map(({ kind }: { kind: string }) => kind);
  assert.ok(kinds.includes("comment_mention"), kinds.join());
  const { id: ownId } = ok(await alice.post(`${API}/documents`, { title: "Notes" }));
  for (const one of ["bob", "carol"]) {
    ok(await alice.put(`${API}/documents/${ownId}/access/${one}`, { role: "reader" }));
  }
  ok(await alice.post(`${API}/documents/${ownId}/comments`, { text: "@Design!" }));
  const noticesOf = async (one: Caller) =>
    ok(await one.get(`${API}/notifications?kind=comment_mention`)).items
      .map(({ resource }: { resource: { id: string } }) => resource.id);
  assert.deepEqual([await noticesOf(carol), await noticesOf(bob)], [[], [ownId, documentId]]);
});

Deno.test("a group of which more are in the room than one message may mention is not mentioned, and says so", async () => {
  await using gateway = await openGateway();
  const admin = await openAdmin(gateway);
  const { alice } = await createCallers(gateway, "alice");
  const many = Array.from({ length: 101 }, (_, n) => `p${String(n).padStart(3, "0")}`);
  await createCallers(gateway, ...many);
  const roomId = await createRoom(alice, many);
  const id = await createGroup(admin, "Many", many.slice(0, 100));
  const mentionedBy = async (sender: Caller, text: string) => {
    const { mentions } = await sendMessage(sender, roomId, text, { parseMentions: true });
    return [mentions.principalIds.length, mentions.groups[0].state];
  };
  const mentioned = (text: string) => mentionedBy(alice, text);
  assert.deepEqual(await mentioned("@many"), [100, "mentioned"]);
  assert.deepEqual(await mentioned("@p100 @many @p100"), [1, "too_many"], "not a part of it");
  const { mentions } = await sendMessage(alice, roomId, "@many @p100", { parseMentions: true });
  assert.deepEqual(mentions.ignored, [{ name: "p100", reason: "too_many_principals" }]);
  const member = await gateway.as("p000");
  const refused = await sendMessage(member, roomId, "@all", { parseMentions: true });
  assert.deepEqual(refused.mentions, {
    principalIds: [],
    room: false,
    ignored: [{ name: "all", reason: "not_allowed" }],
  });
  const repeated = await sendMessage(member, roomId, "hi", { mentions: refused.mentions });
  assert.deepEqual(repeated.mentions, { principalIds: [], room: false }, "responses can be sent again");
  ok(await admin.post(`${GROUPS}/${id}/members`, { principalIds: ["p100"] }));
  assert.deepEqual(await mentioned("@many"), [0, "too_many"]);
  const { id: documentId } = ok(await alice.post(`${API}/documents`, { roomId, title: "Plan" }));
  const comment = ok(await alice.post(`${API}/documents/${documentId}/comments`, { text: "@many" }));
  assert.deepEqual(comment.mentions, { groups: [{ id, handle: "many", state: "too_many" }] });
  assert.deepEqual(
    await mentionedBy(await gateway.as("p000"), "@many"),
    [100, "mentioned"],
    "the sender does not count",
  );
});

testOnEngines(
  "a guest sees and mentions the groups that it is in, with the members that it knows",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const admin = await openAdmin(gateway);
    const { alice } = await createCallers(gateway, "alice", "bob", "carol");
    const guest = await createCaller(gateway, "gast", { role: "guest" });
    const roomId = await createRoom(alice, ["gast", "bob"]);
    const own = await createGroup(admin, "Own", ["gast", "bob", "carol"]);
    const other = await createGroup(admin, "Other", ["bob"]);
    const { items } = ok(await guest.get(GROUPS));
    assert.deepEqual(items.map((one: { id: string; memberCount: null }) => [one.id, one.memberCount]), [[own, null]]);
    assert.deepEqual(await membersOf(guest, own), ["bob", "gast"]);
    for (const path of [`${GROUPS}/${other}`, `${GROUPS}/${other}/members`]) {
      assertProblem(await guest.get(path), 404, "not_found");
    }
    assertProblem(await guest.get(`${GROUPS}?principalId=bob`), 403, "forbidden");
    const { mentions } = await sendMessage(guest, roomId, "@own @other", { parseMentions: true });
    assert.deepEqual(mentions.principalIds, ["bob"]);
    const text = await sendMessage(guest, roomId, "@other", { parseMentions: true });
    assert.deepEqual(text.mentions.principalIds, [], "it does not learn who is in it");
  },
);

testOnEngines("who names more groups than a text may mention learns which were ignored", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await openAdmin(gateway);
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const names = ["f", "e", "d", "c", "b", "a"];
  const ids: string[] = [];
  for (const name of names) ids.push(await createGroup(admin, name, ["bob"]));
  const text = names.map((name) => `@${name}`).join(" ");
  const expected = (handles: readonly string[]) =>
    handles.map((handle) => ({ id: ids[names.indexOf(handle)], handle, state: "mentioned" }));
  const ignored = [{ name: "a", reason: "too_many_groups" }];
  const message = await sendMessage(alice, roomId, text, { parseMentions: true });
  assert.deepEqual(message.mentions, {
    principalIds: ["bob"],
    room: false,
    groups: expected(names.slice(0, 5)),
    ignored,
  });
  const { mentions } = ok(
    await alice.patch(`/v1/messages/${message.id}`, { mentions: { groups: [{ id: ids[5] }] }, parseMentions: true }),
  );
  assert.deepEqual(mentions.groups, expected(["a", ...names.slice(0, 4)]), "given ones come first, and count");
  assert.deepEqual(mentions.ignored, [{ name: "b", reason: "too_many_groups" }]);
  for (const document of [{ roomId, title: "Plan" }, { title: "Notes" }]) {
    const { id } = ok(await alice.post(`${API}/documents`, document));
    if (document.roomId === undefined) ok(await alice.put(`${API}/documents/${id}/access/bob`, { role: "reader" }));
    const comment = ok(await alice.post(`${API}/documents/${id}/comments`, { text }));
    assert.deepEqual(comment.mentions, { groups: expected(names.slice(0, 5)), ignored });
    const path = `${API}/documents/${id}/comments/${comment.id}`;
    assert.equal(ok(await alice.patch(path, { resolved: true })).mentions, undefined);
    assert.equal(ok(await alice.patch(path, { text: `${text}!` })).mentions, undefined);
  }
  const many = Array.from({ length: 51 }, (_, n) => `@p${n}`).join(" ");
  const long = await sendMessage(alice, roomId, many, { parseMentions: true });
  assert.deepEqual(long.mentions.ignored, [{ name: "p50", reason: "too_many_names" }]);
});

testOnEngines("member.add_group adds those who are in the group to a room", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_LIMIT_ROOM_MEMBERS: "60" });
  const admin = await openAdmin(gateway);
  const people = Array.from({ length: 54 }, (_, n) => `p${n}`);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  await createCallers(gateway, ...people);
  const roomId = await createRoom(alice, ["bob"]);
  ok(await admin.delete(`${API}/principals/p0`));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/p1?ban=true`));
  const groupId = await createGroup(admin, "All", ["bob", ...people]);
  const added = ok(await alice.post(`/v1/rooms/${roomId}/members`, { groupId, role: "observer" }));
  assert.deepEqual(added, { addedCount: 52, skippedCount: 1, memberCount: 54 });
  const roles = ok(await alice.get(`/v1/rooms/${roomId}/members?limit=200`)).items
    .map(({ role }: { role: string }) => role);
  assert.equal(roles.filter((role: string) => role === "observer").length, 52, "others keep their role");
  const again = ok(await alice.post(`/v1/rooms/${roomId}/members`, { groupId }));
  assert.deepEqual(again, { addedCount: 0, skippedCount: 1, memberCount: 54 });
  assertProblem(await bob.post(`/v1/rooms/${roomId}/members`, { groupId }), 403, "forbidden");
});

Deno.test("groups and their members are bounded", async () => {
  await using gateway = await openGateway();
  const admin = await openAdmin(gateway);
  const people = Array.from({ length: 1001 }, (_, n) => ({ id: `p${n}` }));
  const at = "2026-03-01T12:00:00.000Z";
  const { db } = gateway.app.store as unknown as { db: Kysely<Record<string, Record<string, unknown>>> };
  const template = await db.selectFrom("principal").selectAll().where("id", "=", "root").executeTakeFirstOrThrow();
  for (const { id } of people) {
    await db.insertInto("principal").values({ ...template, id, handle: null }).execute();
  }
  const id = await createGroup(admin, "Full");
  const member = (group_id: string, principal_id: string) => ({
    tenant_id: template["tenant_id"],
    group_id,
    principal_id,
    added_at: at,
  });
  for (const one of people.slice(0, 1000)) {
    await db.insertInto("user_group_member").values(member(id, one.id)).execute();
  }
  assertProblem(await admin.post(`${GROUPS}/${id}/members`, { principalIds: ["p1000"] }), 409, "limit_reached");
  for (let n = 0; n < 200; n++) await db.insertInto("user_group_member").values(member(`g${n}`, "p1000")).execute();
  const other = await createGroup(admin, "Other");
  assertProblem(await admin.post(`${GROUPS}/${other}/members`, { principalIds: ["p1000"] }), 409, "limit_reached");
  const tooMany = people.slice(0, 101).map(({ id }) => id);
  assertProblem(await admin.post(`${GROUPS}/${other}/members`, { principalIds: tooMany }), 422, "validation_failed");
});

testOnEngines(
  "groups travel in archives of a tenant, and are imported where there is none of their name",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const admin = await openAdmin(gateway);
    await createCallers(gateway, "alice", "bob");
    await createGroup(admin, "Design", ["alice", "bob"], { handle: "ux", externalId: "g-1", description: "Draws" });
    await createGroup(admin, "Taken", ["bob"]);
    await createGroup(admin, "There");
    const archive = await exportTenant(gateway, admin);
    await using target = await openGateway();
    const owner = await createCaller(target, "owner", { role: "owner" });
    const there = await createGroup(owner, "THERE");
    ok(await owner.patch(`${API}/me`, { handle: "taken" }));
    const importTo = async () => await importArchive(target, owner, "gateway", archive);
    const done = await importTo();
    assert.deepEqual(done.report.map(({ code }: { code: string }) => code), ["group_handle_taken", "group_exists"]);
    assert.equal(done.progress.added.groups, 2);
    const { items } = ok(await owner.get(GROUPS));
    const [design, taken, last] = items;
    const { name, handle, externalId, description, memberCount } = design;
    assert.deepEqual([name, handle, externalId, description, memberCount], ["Design", "ux", "g-1", "Draws", 2]);
    assert.deepEqual([taken.handle, last.id], ["taken-2", there]);
    assert.deepEqual(await membersOf(owner, design.id), ["alice", "bob"]);
    ok(await owner.delete(`${GROUPS}/${design.id}`));
    assert.equal((await importTo()).progress.added.groups ?? 0, 0, "what was deleted here stays so");
  },
);
