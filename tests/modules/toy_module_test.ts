// What a new module gets for its folder and one line: `tests/toy` registers everything about bookmarks, and no host knows of them.
import assert from "node:assert/strict";
import { type Caller, openGateway } from "../harness.ts";
import { testOnEngines } from "../engines.ts";
import { bookmarkModule } from "../toy/mod.ts";
import { until } from "../wait.ts";
import { SdkClient, serveGateway } from "./http_server.ts";
import type { ModuleFactory } from "@/modules.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import {
  exportTenant,
  importArchive,
  parseRecords,
  recordsOfType,
  skipCounts,
  toArchive,
} from "./transfer/transfer_fixture.ts";
import { assertProblem, completeSearch, createCallers, createRoom, ok, readRoomEvents } from "./fixtures.ts";

const PATH = "/v1/bookmarks";
const NOTES = { title: "Release notes", url: "https://example.com/notes" };
/** The one line. */
const TOY = { modules: [bookmarkModule] };

async function titles(who: Caller, roomId: string): Promise<string[]> {
  return ok(await who.get(`${PATH}?roomId=${roomId}`)).items.map(({ title }: { title: string }) => title);
}

async function found(who: Caller, query: string): Promise<unknown[]> {
  const { items } = await completeSearch(() => who.get(`/v1/search?q=${query}&types=bookmark`));
  return items.map(({ bookmark }: { bookmark: { title: string } }) => bookmark.title);
}

testOnEngines(
  "a new module has REST, rights, events, jobs, notifications, search and purge by its directory and one line",
  async (engine) => {
    await using gateway = await openGateway(engine, TOY);
    const { alice, eve } = await createCallers(gateway, "alice", "eve");
    const roomId = await createRoom(alice, []);

    const first = await alice.post(PATH, { roomId, ...NOTES });
    assert.equal(first.status, 201);
    ok(await alice.post(PATH, { roomId, title: "Old news", url: "https://example.com/old", expiresInSeconds: 60 }));
    assert.deepEqual(await titles(alice, roomId), ["Release notes", "Old news"]);
    const page = ok(await alice.get(`${PATH}?roomId=${roomId}&limit=1`));
    assert.deepEqual(ok(await alice.get(`${PATH}?roomId=${roomId}&cursor=${page.nextCursor}`)).items.length, 1);

    assertProblem(await eve.get(`${PATH}?roomId=${roomId}`), 404, "not_found");
    assertProblem(await eve.post(PATH, { roomId, ...NOTES }), 404, "not_found");
    assertProblem(await alice.post(PATH, { roomId, ...NOTES, urll: "" }), 422, "unknown_field");
    const reader = await gateway.as("alice", { scope: "room.read bookmark.read" });
    assertProblem(await reader.post(PATH, { roomId, ...NOTES }), 403, "scope_missing");
    const checks = [{ action: "bookmark.create", resource: { type: "room", id: roomId } }];
    const permissions = "/v1/collaboration/permissions/check";
    assert.equal(ok(await alice.post(permissions, { checks })).results[0].allowed, true);
    assert.equal(ok(await eve.post(permissions, { checks })).results[0].allowed, false);

    assert.deepEqual([await found(alice, "news"), await found(eve, "news")], [["Old news"], []]);
    gateway.clock.advance(61_000);
    await gateway.runJobs();
    assert.deepEqual([await titles(alice, roomId), await found(alice, "news")], [["Release notes"], []]);
    const notifications = "/v1/collaboration/notifications?kind=bookmark_expired";
    const [expired] = ok(await alice.get(notifications)).items;
    assert.deepEqual([expired.kind, expired.title], ["bookmark_expired", "Old news"]);
    const events = (await readRoomEvents(alice, roomId)).filter(({ type }) => type.startsWith("bookmark."));
    assert.deepEqual(events.map(({ type }) => type), ["bookmark.created", "bookmark.created", "bookmark.deleted"]);
    assert.deepEqual(events[0]?.data.bookmark, first.body);
    ok(await alice.post("/v1/messages", { roomId, text: "after it" }));
    const unscoped = await gateway.as("alice", { scope: "room.read message.read" });
    const hidden = (await readRoomEvents(unscoped, roomId)).filter(({ type }) => type === "message.hidden");
    assert.equal(hidden.length, 3, "a token without bookmark.read receives none of them");

    ok(await alice.delete(`/v1/rooms/${roomId}`));
    assert.deepEqual(await found(alice, "notes"), []);
    gateway.clock.advance(31 * 86_400_000);
    await gateway.runJobs();
    assert.deepEqual(await gateway.app.store.db.selectFrom("bookmark").selectAll().execute(), []);
    const admin = await gateway.as("admin", { role: "owner" });
    const { documents } = ok(await admin.get("/v1/collaboration/search/status"));
    assert.equal(documents, 0);
  },
);

Deno.test("a new module is described, counted and offered like any other", async () => {
  await using gateway = await openGateway({}, TOY);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  ok(await alice.post(PATH, { roomId, ...NOTES }));

  const openapi = ok(await alice.get("/openapi.json"));
  assert.equal(openapi.paths[PATH].post.operationId, "bookmark.create");
  assert.deepEqual(openapi.paths[PATH].get.tags, ["bookmarks"]);
  assert.ok(openapi.tags.some(({ name }: { name: string }) => name === "bookmarks"));
  assert.ok(openapi.components.schemas.Bookmark !== undefined);
  assert.ok(openapi.components.schemas.NotificationKind.enum.includes("bookmark_expired"));
  const asyncapi = JSON.stringify(ok(await alice.get("/asyncapi.json")));
  for (const name of ["bookmark.create", "bookmark.list", "bookmark.created", "bookmark.deleted"]) {
    assert.ok(asyncapi.includes(`"${name}"`), name);
  }
  const { modules } = ok(await alice.get("/v1/collaboration/capabilities"));
  assert.deepEqual(modules.bookmark, { enabled: true, perRoom: 1000 });
  assert.ok(modules.search.types.includes("bookmark"));
  const { body: metrics } = await alice.get("/metrics");
  assert.match(metrics, /svc_operation_throughput_total\{module="bookmark",operation="bookmark.create"\} 1/);
});

testOnEngines("a new module's resources are exported and imported by its section", async (engine) => {
  await using source = await openGateway(engine, TOY);
  const { alice } = await createCallers(source, "alice");
  const roomId = await createRoom(alice, []);
  ok(await alice.post(PATH, { roomId, ...NOTES }));
  ok(await alice.post(PATH, { roomId, title: "Old news", url: "https://example.com/old", expiresInSeconds: 60 }));
  const owner = await source.as("boss", { role: "owner" });
  const archive = await exportTenant(source, owner);
  const records = recordsOfType(archive, "bookmark");
  assert.deepEqual(records.map(({ title, createdBy }) => [title, createdBy]), [
    ["Release notes", "alice"],
    ["Old news", "alice"],
  ]);
  assert.equal(parseRecords(archive).at(-1).counts.bookmarks, 2);
  // What was exported and then deleted is not imported again.
  source.clock.advance(61_000);
  await source.runJobs();
  const same = await importArchive(source, owner, "gateway", archive);
  assert.deepEqual([same.state, same.progress.added.bookmarks], ["done", 0]);
  assert.deepEqual(await titles(alice, roomId), ["Release notes"]);

  await using target = await openGateway({}, TOY);
  const boss = await target.as("boss", { role: "owner" });
  const invalid = { ...records[0], id: "bookmark_2", url: "no address" };
  const elsewhere = { ...records[0], id: "bookmark_3", roomId: "room_elsewhere" };
  const position = parseRecords(archive).findIndex(({ type }) => type === "bookmark");
  const changed = toArchive(parseRecords(archive).toSpliced(position, 0, invalid, elsewhere));
  const done = await importArchive(target, boss, "gateway", changed);
  assert.equal(done.progress.added.bookmarks, 2);
  assert.deepEqual(skipCounts(done), { invalid_record: 1, unknown_room: 1 });
  const imported = await target.as("alice");
  assert.deepEqual(await titles(imported, roomId), ["Release notes", "Old news"]);
  assert.deepEqual(await found(imported, "news"), ["Old news"]);
  assert.deepEqual(recordsOfType(await exportTenant(target, boss), "bookmark"), records);
});

Deno.test("a new module is called over /ws, and its events arrive there", async () => {
  await using served = await serveGateway({}, TOY);
  const { alice } = await createCallers(served.gateway, "alice");
  const roomId = await createRoom(alice, []);
  using client = new SdkClient(`${served.url}/ws`, { token: alice.token });
  const room = client.newSubscription(`room:${roomId}`);
  const received: string[] = [];
  room.on("publication", ({ data }) => received.push(data.type));
  room.subscribe();
  client.connect();
  await room.ready();
  const { data } = await client.rpc("bookmark.create", { roomId, ...NOTES });
  assert.equal(data.title, NOTES.title);
  assert.deepEqual((await client.rpc("bookmark.list", { roomId })).data.items, [data]);
  await until(() => received.includes("bookmark.created"));
});

Deno.test("a module with the name of an operation that is taken stops the start", async () => {
  await assert.rejects(openGateway({}, { modules: [bookmarkModule, bookmarkModule] }), {
    name: "TypeError",
    message: "Expected one operation bookmark.create, received two",
  });
});

Deno.test("a kind of notification that is taken stops the start, and one that is not registered is refused", async () => {
  let notify: Notify | undefined;
  const invitations: ModuleFactory = () => ({ name: "toy", operations: [], notificationKinds: { invitation: null } });
  await assert.rejects(openGateway({}, { modules: [invitations] }), {
    name: "TypeError",
    message: "Expected one notification kind invitation, received two",
  });
  const unregistered: ModuleFactory = (_, shared) => {
    notify = shared.notify;
    return { name: "toy", operations: [] };
  };
  await using gateway = await openGateway({}, { modules: [unregistered] });
  await createCallers(gateway, "alice");
  const draft = { tenantId: "default", principalIds: ["alice"], kind: "party" };
  await assert.rejects(async () => await notify?.(draft), {
    name: "TypeError",
    message: "Expected a registered notification kind, received party",
  });
});
