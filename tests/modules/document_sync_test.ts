// Live co-editing with the real provider: what is typed converges and is saved before it is said to be; rights hold at any time.
import assert from "node:assert/strict";
import { HocuspocusProvider, HocuspocusProviderWebsocket } from "npm:@hocuspocus/provider@4.8.0";
import * as Y from "yjs";
import { onPostgres } from "../engines.ts";
import { until } from "../wait.ts";
import { aWhile, EditorScene } from "./document_editor.ts";
import { PATH } from "./document_world.ts";

Deno.test("two editors and a REST editor see each other's changes, and the store has them all", async () => {
  await using scene = await EditorScene.open("start\n");
  const { world, room, id, token } = scene;
  const [alice, bob] = await Promise.all([room.join(id, token("owner")), room.join(id, token("member"))]);
  assert.equal(alice.text, "start\n");
  alice.insert(0, "A");
  bob.insert(bob.text.length, "B");
  await until(() => alice.text === "Astart\nB" && bob.text === alice.text, "both have both");
  const { body: { revision } } = await world.as("moderator").get(`${PATH}/${id}`);
  const edit = { baseRevision: revision, edits: [{ op: "replace", find: "start", with: "middle" }] };
  assert.equal((await world.as("moderator").patch(`${PATH}/${id}/content`, edit)).status, 200);
  await until(() => alice.text === "Amiddle\nB" && bob.text === alice.text, "the REST edit arrives");
  await Promise.all([alice.saved(), bob.saved()]);
  assert.equal(await world.text(id), "Amiddle\nB");
});

Deno.test("what an editor is told is saved is in the store, and what the store refuses is not told as saved", async () => {
  await using scene = await EditorScene.open();
  const { world, room, id, token } = scene;
  const alice = await room.join(id, token("member"));
  for (let n = 0; n < 100; n++) alice.insert(alice.text.length, `${n} `);
  await alice.saved();
  assert.equal(await world.text(id), alice.text);

  const bob = await room.join(id, token("owner"));
  bob.doc.getXmlFragment("default").insert(0, [new Y.XmlElement("p")]);
  await until(() => bob.refused.length > 0, "bob is told");
  assert.equal(bob.refused[0]?.code, "validation_failed");
  assert.equal(bob.isSaved, false);
  await aWhile();
  assert.equal(alice.doc.share.has("default"), false, "others never see it");
});

Deno.test("a text never grows past its limit in a live editor", async () => {
  await using scene = await EditorScene.open("x".repeat(1024 * 1024 - 10));
  const { world, room, id, token } = scene;
  const [alice, bob] = await Promise.all([room.join(id, token("member")), room.join(id, token("owner"))]);
  alice.insert(0, "12345");
  await alice.saved();
  alice.remove(0, 5);
  alice.insert(0, "1234567890");
  await alice.saved();
  alice.insert(0, "!");
  await until(() => alice.refused.length > 0, "alice is told");
  assert.equal(alice.refused[0]?.code, "payload_too_large");
  bob.remove(0, 1);
  await bob.saved();
  assert.equal((await world.text(id)).length, 1024 * 1024 - 1);
});

Deno.test("live edits become one revision and one event, once they come to rest", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  const [alice, bob] = await Promise.all([room.join(id, token("member")), room.join(id, token("owner"))]);
  for (const char of "hello world") alice.insert(alice.text.length, char);
  await alice.saved();
  bob.insert(0, "> ");
  await bob.saved();
  const contentEvents = async () =>
    (await world.events()).filter(({ data }) => data.changed?.includes("content")).map(({ data }) => data);
  assert.deepEqual(await contentEvents(), []);
  world.gateway.clock.advance(2500);
  await world.gateway.runJobs();
  const [event, ...more] = await contentEvents();
  assert.deepEqual([event.principalIds.sort(), more.length], [["member", "owner"], 0]);
  const { body } = await world.as("member").get(`${PATH}/${id}/revisions`);
  assert.deepEqual(body.items.map((one: { kind: string }) => one.kind), ["live", "created"]);
  const { body: found } = await world.as("member").get("/v1/search?q=hello&types=document");
  assert.match(JSON.stringify(found), new RegExp(id));

  alice.insert(0, "more ");
  await alice.saved();
  world.gateway.clock.advance(2500);
  await world.gateway.runJobs();
  const { body: later } = await world.as("member").get(`${PATH}/${id}/revisions`);
  assert.deepEqual(
    later.items.map((one: { kind: string }) => one.kind),
    ["live", "created"],
    "one stretch, one revision",
  );
  assert.equal(later.items[0].revision, event.document.revision + 1);
  assert.equal(
    (await world.as("member").get(`${PATH}/${id}/revisions/${later.items[0].revision}`)).body.text,
    alice.text,
  );
});

Deno.test("many updates are compacted, and an editor that was away syncs all the same", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  const away = await room.join(id, token("owner"));
  await away.offline();
  const alice = await room.join(id, token("member"));
  for (let n = 0; n < 120; n++) alice.insert(0, String.fromCharCode(97 + n % 26));
  await alice.saved();
  world.gateway.clock.advance(2500);
  await world.gateway.runJobs();
  const rows = await world.gateway.app.store.db.selectFrom("document_update" as never).selectAll().execute();
  assert.equal(rows.length, 0, "a snapshot has taken their place");
  away.insert(0, "offline ");
  await away.online();
  await away.saved();
  await until(() => alice.text === away.text && alice.text.includes("offline "), "they converge");
  assert.equal(alice.text.length, 128);
  assert.equal(await world.text(id), alice.text);
});

Deno.test("observers see everything and change nothing; strangers and bad tokens get nothing", async () => {
  await using scene = await EditorScene.open("secret\n");
  const { world, room, id, token } = scene;
  const observer = await room.join(id, token("observer"));
  assert.deepEqual(observer.scopes, ["readonly"]);
  const member = await room.join(id, token("member"));
  member.insert(0, "live ");
  await until(() => observer.text === "live secret\n", "the observer sees it");
  observer.insert(0, "nope ");
  await aWhile();
  assert.deepEqual([member.text, observer.isSaved], ["live secret\n", false]);

  const stranger = await world.gateway.as("stranger", { tenant: "elsewhere" });
  const scopeless = await world.gateway.as("member", { scope: "room.*" });
  const denied = [
    room.open(id, token("outsider")),
    room.open(id, stranger.token),
    room.open(id, scopeless.token),
    room.open("doc_none", token("member")),
    room.open(id, token("member"), undefined, "?generation=gen_old"),
    room.open(id, "not a token"),
    room.open(id, (await world.gateway.as("member", { exp: 1 })).token),
  ];
  for (const editor of denied) await until(() => editor.refusals.length > 0, "told no");
  assert.deepEqual(denied.map(({ refusals }) => refusals[0]), [
    "permission-denied",
    "permission-denied",
    "permission-denied",
    "permission-denied",
    "generation-changed",
    "unauthenticated",
    "token-expired",
  ]);
  member.insert(0, "more ");
  await aWhile();
  for (const editor of denied) assert.equal(editor.text, "");
});

Deno.test("a removed member is cut off at once and gets nothing more", async () => {
  await using scene = await EditorScene.open("start\n");
  const { world, room, id, token } = scene;
  const [alice, bob] = await Promise.all([room.join(id, token("owner")), room.join(id, token("member"))]);
  const removed = await world.as("owner").delete(`/v1/rooms/${world.roomId}/members/member`);
  assert.equal(removed.status, 204);
  alice.insert(0, "after ");
  bob.insert(0, "BOB ");
  await until(() => bob.refusals.length > 0, "bob is told when he comes back");
  await aWhile();
  assert.deepEqual([alice.text, bob.text], ["after start\n", "BOB start\n"]);
  assert.equal(await world.as("owner").get(`${PATH}/${id}/content`).then(({ body }) => body.text), "after start\n");
});

Deno.test("rights that shrink or grow reach open editors: lock, unlock, role, archive", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const [owner, member] = await Promise.all([room.join(id, token("owner")), room.join(id, token("member"))]);
  const scope = (expected: string) => until(() => member.scopes.at(-1) === expected, `the member is ${expected}`);
  await world.as("owner").patch(`${PATH}/${id}`, { locked: true });
  await scope("readonly");
  member.insert(0, "locked ");
  owner.insert(0, "> ");
  await owner.saved();
  await aWhile();
  assert.equal(owner.text, "> text");
  await world.as("owner").patch(`${PATH}/${id}`, { locked: false });
  await scope("read-write");
  await until(() => owner.text.includes("locked "), "what was typed meanwhile comes along");
  assert.equal(await world.text(id), owner.text);
  await world.as("owner").put(`/v1/rooms/${world.roomId}/members/member`, { role: "observer" });
  await scope("readonly");
  await world.as("owner").put(`/v1/rooms/${world.roomId}/members/member`, { role: "member" });
  await scope("read-write");
  await world.as("owner").patch(`/v1/rooms/${world.roomId}`, { state: "archived" });
  await scope("readonly");
});

Deno.test("editors of a deleted document, a deleted room, or with a revoked token are cut off", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const member = await room.join(id, token("member"));
  await world.as("member").delete(`${PATH}/${id}`);
  await until(() => member.refusals.length > 0, "cut off with the document");
  await world.as("member").post(`${PATH}/${id}/restore`);

  const revocable = await world.gateway.as("member", { jti: "one-token" });
  const withToken = await room.join(id, revocable.token);
  assert.equal((await revocable.post("/v1/collaboration/auth/logout")).status, 204);
  await until(() => withToken.refusals.includes("token-revoked"), "cut off with the token");

  const owner = await room.join(id, token("owner"));
  await world.as("owner").delete(`/v1/rooms/${world.roomId}`);
  await until(() => owner.refusals.length > 0, "cut off with the room");
});

Deno.test("who loses the tenant role that showed them a public room is cut off from its open documents", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  assert.equal((await world.as("owner").patch(`/v1/rooms/${world.roomId}`, { visibility: "public" })).status, 200);
  const reader = await room.join(id, token("outsider"));
  const boss = await world.gateway.as("boss", { role: "owner" });
  assert.equal((await boss.patch("/v1/collaboration/principals/outsider", { role: "guest" })).status, 200);
  await until(() => reader.refusals.length > 0, "cut off with the role");
});

Deno.test("an open document that moves to another room obeys that room from then on", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const [owner, observer] = await Promise.all([room.join(id, token("owner")), room.join(id, token("observer"))]);
  const { body: other } = await world.as("owner").post("/v1/rooms", { name: "Other", memberIds: ["member"] });
  await world.as("owner").patch(`${PATH}/${id}`, { roomId: other.id });
  await until(() => observer.refusals.length > 0, "who is not in the new room is out");
  const member = await room.join(id, token("member"));
  await owner.saved();
  await world.as("owner").delete(`/v1/rooms/${other.id}/members/member`);
  await until(() => member.refusals.length > 0, "who leaves the new room is out");
  owner.insert(0, "more ");
  await owner.saved();
  await aWhile();
  assert.deepEqual([observer.text, member.text], ["text", "text"]);
});

Deno.test("an expired token is asked for anew in band, and without one the socket ends", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id } = scene;
  const fresh = await world.gateway.as("member");
  let asked = 0;
  const good = await room.join(id, async () => {
    if (asked++ === 0) return fresh.token;
    return (await world.gateway.as("member")).token;
  });
  const bad = await room.join(id, fresh.token);
  const closes = good.closes.length;
  world.gateway.clock.advance(3_590_000);
  await until(() => asked > 1, "asked for a newer token");
  await aWhile();
  world.gateway.clock.advance(20_000);
  await until(() => bad.refusals.includes("token-expired"), "the one without is out");
  good.insert(0, "still ");
  await good.saved();
  assert.equal(good.closes.length, closes);
});

Deno.test("editors see who else is there", async () => {
  await using scene = await EditorScene.open("text");
  const { room, id, token } = scene;
  const [alice, bob] = await Promise.all([room.join(id, token("owner")), room.join(id, token("observer"))]);
  alice.provider.setAwarenessField("user", { name: "Alice" });
  bob.provider.setAwarenessField("user", { name: "Bob" });
  await until(() => alice.names.join() === "Alice,Bob" && bob.names.join() === "Alice,Bob", "both see both");
  bob.close();
  await until(() => alice.names.join() === "Alice", "who leaves is gone");
});

Deno.test("hostile frames end the socket and nothing else", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const alice = await room.join(id, token("member"));
  const frames: [string | Uint8Array, number][] = [
    ["text frame", 4400],
    [new Uint8Array([]), 4400],
    [new Uint8Array([255, 255, 255, 255, 255, 255]), 4400],
    [new Uint8Array([1, 97, 99]), 4400],
    [new Uint8Array([1, 97, 6, 1, 97]), 4400],
    [new Uint8Array([1, 97, 0, 2, 200, 1, 1]), 4400],
    [new Uint8Array(3 * 1024 * 1024), 1009],
  ];
  for (const [frame, code] of frames) {
    const socket = new WebSocket(room.url);
    await new Promise((resolve) => socket.onopen = resolve);
    socket.send(frame);
    const closed = await new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
    assert.equal(closed.code, code, String(frame).slice(0, 30));
  }
  const silent = new WebSocket(room.url);
  await new Promise((resolve) => silent.onopen = resolve);
  // Before a token, anything else is not even kept.
  silent.send(new Uint8Array([3, 100, 111, 99, 0, 0, 1, 0]));
  silent.close();
  await new Promise((resolve) => silent.onclose = resolve);
  alice.insert(0, "still ");
  await alice.saved();
  assert.equal(await world.text(id), "still text");
});

Deno.test("a page of another origin is refused before the upgrade, and too many sockets are", async () => {
  await using scene = await EditorScene.open("", { SVC_RATE_LIMIT: "on", SVC_LIMIT_CONNECTIONS_PER_PRINCIPAL: "2" });
  const { world, room, id, token } = scene;
  const knock = (headers: Record<string, string>) =>
    world.gateway.send(new Request(room.url.replace("ws:", "http:"), { headers }));
  const refused = await knock({ upgrade: "websocket", connection: "upgrade", origin: "https://evil.example" });
  assert.deepEqual([refused.status, refused.body.code], [403, "origin_not_allowed"]);
  assert.equal((await knock({})).status, 400);
  await room.join(id, token("member"));
  await room.join(id, token("member"));
  const third = room.open(id, token("member"));
  await until(() => third.refusals.length > 0, "one too many");
  assert.equal(third.refusals[0], "connection-limit");
});

Deno.test("a copy of one document is not merged into another", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const alice = await room.join(id, token("member"));
  alice.insert(4, " kept");
  await alice.saved();
  const { body: other } = await world.as("member").post(PATH, { roomId: world.roomId, title: "Other", text: "else" });
  const mixed = room.open(other.id, token("member"), alice.doc);
  await until(() => mixed.refused.length > 0, "the copy of another document is refused");
  assert.equal(mixed.refused[0]?.code, "conflict");
  assert.equal((await world.as("member").get(`${PATH}/${other.id}/content`)).body.text, "else");
});

Deno.test("the provider in its simplest form, with a url and a token, works", async () => {
  await using scene = await EditorScene.open("simple");
  const { room, id, token } = scene;
  const provider = new HocuspocusProvider({ url: room.url, name: id, token: token("member") });
  await until(() => provider.isSynced, "in sync");
  assert.equal(provider.document.getText("content").toString(), "simple");
  provider.destroy();
});

Deno.test("a document that cannot be loaded is refused, and leaves nothing running", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  await world.gateway.app.store.write(({ db }) =>
    db.deleteFrom("document_state").where("document_id", "=", id).execute()
  );
  const member = room.open(id, token("member"));
  await until(() => member.refusals.length > 0, "told no");
  assert.equal(member.refusals[0], "unavailable");
});

onPostgres("what was written while its editor lost the right to write is in every editor", async (environment) => {
  await using scene = await EditorScene.open("start", environment);
  const { world, room, id, token } = scene;
  const [owner, member] = await Promise.all([room.join(id, token("owner")), room.join(id, token("member"))]);
  const [isHeld, isOver] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // The member's right has been looked at by the time its update waits for this.
  const holding = world.gateway.app.store.write(async ({ db }) => {
    await db.updateTable("document").set({ title: "held" }).where("id", "=", id).execute();
    isHeld.resolve();
    await isOver.promise;
  });
  await isHeld.promise;
  member.insert(0, "mine ");
  await aWhile();
  await world.as("owner").put(`/v1/rooms/${world.roomId}/members/member`, { role: "observer" });
  await until(() => member.scopes.at(-1) === "readonly", "the member is told");
  isOver.resolve();
  await holding;
  await until(async () => (await world.text(id)) === "mine start", "it was written");
  await until(() => owner.text === "mine start", "others see it");
});

Deno.test("a page with many documents on one socket opens all of them, at once", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, token } = scene;
  const ids: string[] = [];
  for (let n = 0; n < 40; n++) ids.push((await world.make(`text ${n}`)).id);
  const websocketProvider = new HocuspocusProviderWebsocket({ url: room.url });
  const providers = ids.map((name) => new HocuspocusProvider({ websocketProvider, name, token: token("member") }));
  for (const provider of providers) provider.attach();
  await until(() => providers.every((provider) => provider.isSynced), "all are in sync");
  for (const provider of providers) provider.destroy();
  websocketProvider.destroy();
});
