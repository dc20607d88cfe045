// Live editing with the real provider: edits converge, are stored before they are acknowledged, and access is enforced at any time.
import assert from "node:assert/strict";
import { HocuspocusProvider, HocuspocusProviderWebsocket } from "npm:@hocuspocus/provider@4.8.0";
import * as Y from "yjs";
import { Fault } from "@/core/fault.ts";
import { EditorAccess } from "@/modules/document/collaboration/editor_access.ts";
import { EditorSocket } from "@/modules/document/collaboration/editor_socket.ts";
import { testOnPostgres } from "../../engines.ts";
import { captureLog } from "../../log_capture.ts";
import { replace } from "../../replace.ts";
import { allEnded, until } from "../../wait.ts";
import { EditorFixture, recordRenewals, waitBriefly } from "./document_editor.ts";
import { PATH } from "./document_fixture.ts";
import { completeSearch, ok } from "../fixtures.ts";
import { connectNode } from "../postgres_node.ts";

Deno.test("two editors and a REST editor see each other's changes, and the store has them all", async () => {
  await using fixture = await EditorFixture.open("start\n");
  const { documents, id } = fixture;
  const [alice, bob] = await fixture.openEditors("owner", "member");
  assert.equal(alice.text, "start\n");
  alice.insert(0, "A");
  bob.insert(bob.text.length, "B");
  await until(() => alice.text === "Astart\nB" && bob.text === alice.text, "both have both");
  const { body: { revision } } = await documents.as("moderator").get(`${PATH}/${id}`);
  const edit = { baseRevision: revision, edits: [{ op: "replace", find: "start", with: "middle" }] };
  assert.equal((await documents.as("moderator").patch(`${PATH}/${id}/content`, edit)).status, 200);
  await until(() => alice.text === "Amiddle\nB" && bob.text === alice.text, "the REST edit arrives");
  await allEnded([alice.waitUntilSaved(), bob.waitUntilSaved()]);
  assert.equal(await documents.readText(id), "Amiddle\nB");
});

Deno.test("an update is acknowledged when it is stored, and not when it is rejected", async () => {
  await using fixture = await EditorFixture.open();
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("member"));
  for (let n = 0; n < 100; n++) alice.insert(alice.text.length, `${n} `);
  await alice.waitUntilSaved();
  assert.equal(await documents.readText(id), alice.text);

  const bob = await server.openSyncedEditor(id, token("owner"));
  bob.doc.getXmlFragment("default").insert(0, [new Y.XmlElement("p")]);
  await until(() => bob.rejections.length > 0, "bob receives the rejection");
  assert.equal(bob.rejections[0]?.code, "validation_failed");
  assert.equal(bob.isSaved, false);
  await waitBriefly();
  assert.equal(alice.doc.share.has("default"), false, "others never see it");
});

Deno.test("a text never grows past its limit in a live editor", async () => {
  await using fixture = await EditorFixture.open("x".repeat(1024 * 1024 - 10));
  const { documents, id } = fixture;
  const [alice, bob] = await fixture.openEditors("member", "owner");
  alice.insert(0, "12345");
  await alice.waitUntilSaved();
  alice.remove(0, 5);
  alice.insert(0, "1234567890");
  await alice.waitUntilSaved();
  alice.insert(0, "!");
  await until(() => alice.rejections.length > 0, "alice receives the rejection");
  assert.equal(alice.rejections[0]?.code, "payload_too_large");
  bob.remove(0, 1);
  await bob.waitUntilSaved();
  assert.equal((await documents.readText(id)).length, 1024 * 1024 - 1);
});

Deno.test("live edits are committed to one revision and one event after a pause", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, id } = fixture;
  const [alice, bob] = await fixture.openEditors("member", "owner");
  for (const char of "hello world") alice.insert(alice.text.length, char);
  await alice.waitUntilSaved();
  bob.insert(0, "> ");
  await bob.waitUntilSaved();
  const contentEvents = async () =>
    (await documents.readEvents()).filter(({ data }) => data.omitted?.includes("content")).map(({ data }) => data);
  assert.deepEqual(await contentEvents(), []);
  documents.gateway.clock.advance(2500);
  await documents.gateway.runJobs();
  const [event, ...more] = await contentEvents();
  assert.deepEqual([event.principalIds.sort(), more.length], [["member", "owner"], 0]);
  const { body } = await documents.as("member").get(`${PATH}/${id}/revisions`);
  assert.deepEqual(body.items.map((one: { kind: string }) => one.kind), ["live", "created"]);
  const found = await completeSearch(() => documents.as("member").get("/v1/search?q=hello&types=document"));
  assert.match(JSON.stringify(found), new RegExp(id));

  alice.insert(0, "more ");
  await alice.waitUntilSaved();
  documents.gateway.clock.advance(2500);
  await documents.gateway.runJobs();
  const { body: later } = await documents.as("member").get(`${PATH}/${id}/revisions`);
  assert.deepEqual(
    later.items.map((one: { kind: string }) => one.kind),
    ["live", "created"],
    "one stretch, one revision",
  );
  assert.equal(later.items[0].revision, event.changes.revision + 1);
  assert.equal(
    (await documents.as("member").get(`${PATH}/${id}/revisions/${later.items[0].revision}`)).body.text,
    alice.text,
  );
});

Deno.test("an editor that was offline syncs after updates were compacted", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, server, id, token } = fixture;
  const away = await server.openSyncedEditor(id, token("owner"));
  await away.disconnect();
  const alice = await server.openSyncedEditor(id, token("member"));
  for (let n = 0; n < 120; n++) alice.insert(0, String.fromCharCode(97 + n % 26));
  await alice.waitUntilSaved();
  documents.gateway.clock.advance(2500);
  await documents.gateway.runJobs();
  const rows = await documents.gateway.app.store.db.selectFrom("document_update" as never).selectAll().execute();
  assert.equal(rows.length, 0, "a snapshot has taken their place");
  away.insert(0, "offline ");
  await away.reconnect();
  await away.waitUntilSaved();
  await until(() => alice.text === away.text && alice.text.includes("offline "), "they converge");
  assert.equal(alice.text.length, 128);
  assert.equal(await documents.readText(id), alice.text);
});

Deno.test("observers are read-only; outsiders and invalid tokens are refused", async () => {
  await using fixture = await EditorFixture.open("secret\n");
  const { documents, server, id, token } = fixture;
  const observer = await server.openSyncedEditor(id, token("observer"));
  assert.deepEqual(observer.scopes, ["readonly"]);
  const member = await server.openSyncedEditor(id, token("member"));
  member.insert(0, "live ");
  await until(() => observer.text === "live secret\n", "the observer sees it");
  observer.insert(0, "nope ");
  await waitBriefly();
  assert.deepEqual([member.text, observer.isSaved], ["live secret\n", false]);

  const stranger = await documents.gateway.as("stranger", { tenant: "elsewhere" });
  const scopeless = await documents.gateway.as("member", { scope: "room.*" });
  const denied = [
    server.openEditor(id, token("outsider")),
    server.openEditor(id, stranger.token),
    server.openEditor(id, scopeless.token),
    server.openEditor("doc_none", token("member")),
    server.openEditor(id, token("member"), undefined, "?generation=gen_old"),
    server.openEditor(id, "not a token"),
    server.openEditor(id, (await documents.gateway.as("member", { exp: 1 })).token),
  ];
  for (const editor of denied) await until(() => editor.authFailures.length > 0, "refused");
  assert.deepEqual(denied.map(({ authFailures }) => authFailures[0]), [
    "permission-denied",
    "permission-denied",
    "permission-denied",
    "permission-denied",
    "generation-changed",
    "unauthenticated",
    "token-expired",
  ]);
  member.insert(0, "more ");
  await waitBriefly();
  for (const editor of denied) assert.equal(editor.text, "");
});

Deno.test("a removed member is disconnected at once and receives nothing more", async () => {
  await using fixture = await EditorFixture.open("start\n");
  const { documents, id } = fixture;
  const [alice, bob] = await fixture.openEditors("owner", "member");
  const removed = await documents.as("owner").delete(`/v1/rooms/${documents.roomId}/members/member`);
  assert.equal(removed.status, 204);
  alice.insert(0, "after ");
  bob.insert(0, "BOB ");
  await until(() => bob.authFailures.length > 0, "bob is refused when he reconnects");
  await alice.waitUntilSaved();
  await waitBriefly();
  assert.deepEqual([alice.text, bob.text], ["after start\n", "BOB start\n"]);
  assert.equal(await documents.as("owner").get(`${PATH}/${id}/content`).then(({ body }) => body.text), "after start\n");
});

Deno.test("changed access applies to open editors: lock, unlock, role, archive", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, id } = fixture;
  const [owner, member] = await fixture.openEditors("owner", "member");
  const scope = (expected: string) => until(() => member.scopes.at(-1) === expected, `the member is ${expected}`);
  await documents.as("owner").patch(`${PATH}/${id}`, { locked: true });
  await scope("readonly");
  member.insert(0, "locked ");
  owner.insert(0, "> ");
  await owner.waitUntilSaved();
  await waitBriefly();
  assert.equal(owner.text, "> text");
  await documents.as("owner").patch(`${PATH}/${id}`, { locked: false });
  await scope("read-write");
  await until(() => owner.text.includes("locked "), "what was typed meanwhile comes along");
  assert.equal(await documents.readText(id), owner.text);
  await documents.as("owner").put(`/v1/rooms/${documents.roomId}/members/member`, { role: "observer" });
  await scope("readonly");
  await documents.as("owner").put(`/v1/rooms/${documents.roomId}/members/member`, { role: "member" });
  await scope("read-write");
  await documents.as("owner").patch(`/v1/rooms/${documents.roomId}`, { state: "archived" });
  await scope("readonly");
});

Deno.test("editors of a deleted document or room, or with a revoked token, are disconnected", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const member = await server.openSyncedEditor(id, token("member"));
  await documents.as("member").delete(`${PATH}/${id}`);
  await until(() => member.authFailures.length > 0, "disconnected with the document");
  await documents.as("member").post(`${PATH}/${id}/restore`);

  const revocable = await documents.gateway.as("member", { jti: "one-token" });
  const withToken = await server.openSyncedEditor(id, revocable.token);
  assert.equal((await revocable.post("/v1/collaboration/auth/logout")).status, 204);
  await until(() => withToken.authFailures.includes("token-revoked"), "disconnected with the token");

  const owner = await server.openSyncedEditor(id, token("owner"));
  await documents.as("owner").delete(`/v1/rooms/${documents.roomId}`);
  await until(() => owner.authFailures.length > 0, "disconnected with the room");
});

Deno.test("losing the tenant role that allows browsing a public room disconnects from its documents", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  assert.equal(
    (await documents.as("owner").patch(`/v1/rooms/${documents.roomId}`, { visibility: "public" })).status,
    200,
  );
  const reader = await server.openSyncedEditor(id, token("outsider"));
  const boss = await documents.gateway.as("boss", { role: "owner" });
  assert.equal((await boss.patch("/v1/collaboration/principals/outsider", { role: "guest" })).status, 200);
  await until(() => reader.authFailures.length > 0, "disconnected with the role");
});

Deno.test("an open document that is moved follows the access of its new room", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const [owner, observer] = await fixture.openEditors("owner", "observer");
  const { body: other } = await documents.as("owner").post("/v1/rooms", { name: "Other", memberIds: ["member"] });
  await documents.as("owner").patch(`${PATH}/${id}`, { roomId: other.id });
  await until(() => observer.authFailures.length > 0, "who is not in the new room is out");
  const member = await server.openSyncedEditor(id, token("member"));
  await owner.waitUntilSaved();
  await documents.as("owner").delete(`/v1/rooms/${other.id}/members/member`);
  await until(() => member.authFailures.length > 0, "who leaves the new room is out");
  owner.insert(0, "more ");
  await owner.waitUntilSaved();
  await waitBriefly();
  assert.deepEqual([observer.text, member.text], ["text", "text"]);
});

Deno.test("a newer token is requested in band before expiry, and without one the socket is closed", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id } = fixture;
  const renewed = await documents.gateway.as("member");
  let tokenRequests = 0;
  const good = await server.openSyncedEditor(id, async () => {
    if (tokenRequests++ === 0) return renewed.token;
    return (await documents.gateway.as("member")).token;
  });
  const bad = await server.openSyncedEditor(id, renewed.token);
  const closes = good.closeCodes.length;
  using renewals = recordRenewals();
  const { clock } = documents.gateway;
  clock.advance(3_590_000);
  await until(() => tokenRequests > 1, "a newer token is requested");
  await until(() => renewals.all.some(({ expiresAt }) => expiresAt > clock.now() + 20_000), "it is verified");
  clock.advance(20_000);
  await until(() => bad.authFailures.includes("token-expired"), "the one without is out");
  good.insert(0, "still ");
  await good.waitUntilSaved();
  assert.equal(good.closeCodes.length, closes);
});

Deno.test("a newer token that cannot be verified is requested again, and the client may reconnect after expiry", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents: { gateway }, server, id } = fixture;
  let tokenRequests = 0;
  const member = await server.openSyncedEditor(id, async () => {
    tokenRequests++;
    return (await gateway.as("member")).token;
  });
  const endOutage = startOutage(gateway.app.store);
  const before = tokenRequests;
  gateway.clock.advance(3_590_000);
  await until(() => tokenRequests >= before + 2, "the token is requested again");
  assert.deepEqual(member.closeCodes, []);
  gateway.clock.advance(20_000);
  await until(() => member.closeCodes.length > 0, "the old one has ended");
  endOutage();
  await until(() => member.provider.isSynced, "in sync");
  member.insert(0, "more ");
  await member.waitUntilSaved();
  assert.deepEqual([[...new Set(member.closeCodes)], member.authFailures], [[4500], []]);
});

Deno.test("an editor stays connected if its newer token is verified at a later attempt", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents: { gateway }, server, id } = fixture;
  let tokenRequests = 0;
  const member = await server.openSyncedEditor(id, async () => {
    tokenRequests++;
    return (await gateway.as("member")).token;
  });
  const endOutage = startOutage(gateway.app.store);
  using renewals = recordRenewals();
  const before = tokenRequests;
  gateway.clock.advance(3_590_000);
  await until(() => renewals.all.length > 0, "a newer token is requested");
  assert.equal(renewals.all[0]?.isVerified, false);
  endOutage();
  await until(() => renewals.all.some(({ isVerified }) => isVerified), "the token is requested again");
  assert.ok(tokenRequests > before + 1);
  gateway.clock.advance(20_000);
  member.insert(0, "more ");
  await member.waitUntilSaved();
  assert.deepEqual(member.closeCodes, []);
});

Deno.test("editors receive the awareness of each other", async () => {
  await using fixture = await EditorFixture.open("text");
  const [alice, bob] = await fixture.openEditors("owner", "observer");
  alice.provider.setAwarenessField("user", { name: "Alice" });
  bob.provider.setAwarenessField("user", { name: "Bob" });
  await until(
    () => alice.awarenessNames.join() === "Alice,Bob" && bob.awarenessNames.join() === "Alice,Bob",
    "both see both",
  );
  bob.close();
  await until(() => alice.awarenessNames.join() === "Alice", "the state of a closed editor is removed");
});

Deno.test("malformed frames close their socket only", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("member"));
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
    const socket = new WebSocket(server.url);
    await new Promise((resolve) => socket.onopen = resolve);
    socket.send(frame);
    const closed = await new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
    assert.equal(closed.code, code, String(frame).slice(0, 30));
  }
  const silent = new WebSocket(server.url);
  await new Promise((resolve) => silent.onopen = resolve);
  // Before a token, other frames are dropped.
  silent.send(new Uint8Array([3, 100, 111, 99, 0, 0, 1, 0]));
  silent.close();
  await new Promise((resolve) => silent.onclose = resolve);
  alice.insert(0, "still ");
  await alice.waitUntilSaved();
  assert.equal(await documents.readText(id), "still text");
});

Deno.test("foreign origins and too many sockets are refused before the upgrade", async () => {
  await using fixture = await EditorFixture.open("", {
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_CONNECTIONS_PER_PRINCIPAL: "2",
  });
  const { documents, server, id, token } = fixture;
  const knock = (headers: Record<string, string>) =>
    documents.gateway.send(new Request(server.url.replace("ws:", "http:"), { headers }));
  const refused = await knock({ upgrade: "websocket", connection: "upgrade", origin: "https://evil.example" });
  assert.deepEqual([refused.status, refused.body.code], [403, "origin_not_allowed"]);
  assert.equal((await knock({})).status, 400);
  await server.openSyncedEditor(id, token("member"));
  await server.openSyncedEditor(id, token("member"));
  const third = server.openEditor(id, token("member"));
  await until(() => third.authFailures.length > 0, "one too many");
  assert.equal(third.authFailures[0], "connection-limit");
});

Deno.test("the sockets of one tenant leave some to the editors of others", async () => {
  await using fixture = await EditorFixture.open("", { SVC_RATE_LIMIT: "on", SVC_LIMIT_CONNECTIONS: "2" });
  const { documents, server, id, token } = fixture;
  const other = await documents.gateway.as("other", { tenant: "other" });
  const { body: room } = await other.post("/v1/rooms", { name: "Theirs" });
  const { body: theirs } = await other.post(PATH, { roomId: room.id, title: "Theirs" });
  for (const name of ["member", "owner"]) await server.openSyncedEditor(id, token(name));
  const third = server.openEditor(id, token("observer"));
  await until(() => third.authFailures.length > 0, "one too many");
  assert.equal(third.authFailures[0], "connection-limit");
  await third.close();
  await server.openSyncedEditor(theirs.id, other.token);
});

Deno.test("the copy of one document is not merged into another, and its editor is disconnected with the reason", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("member"));
  alice.insert(4, " kept");
  await alice.waitUntilSaved();
  const { id: other } = await documents.create("else", { title: "Other" });
  const mixed = server.openEditor(other, token("member"), alice.doc);
  await until(() => mixed.closeReasons.length > 0, "the copy of another document is refused");
  const [{ code, detail = "" } = {}] = mixed.rejections;
  assert.equal(code, "conflict");
  assert.match(detail, /start from a new copy/);
  assert.deepEqual([mixed.authFailures, mixed.closeReasons], [["content-refused"], [detail]]);
  assert.equal(mixed.isSaved, false);
  await waitBriefly();
  assert.equal(await documents.readText(other), "else");
});

Deno.test("an update that depends on one that is not saved is saved together with it after a reconnect", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("member"));
  // A provider does not send what it is the origin of.
  alice.doc.transact(() => alice.insert(4, " one"), alice.provider);
  alice.insert(8, " two");
  await until(() => alice.closeCodes.length > 0, "reconnected");
  await alice.waitUntilSaved();
  assert.equal(await documents.readText(id), "text one two");
  assert.deepEqual([alice.closeCodes, alice.authFailures, alice.rejections], [[4500], [], []]);
});

Deno.test("an editor over its write budget reconnects and loses nothing of what follows", async () => {
  await using fixture = await EditorFixture.open("", {
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_WRITTEN_BYTES_PER_MINUTE: "100000",
  });
  const { documents, id } = fixture;
  const [alice, bob] = await fixture.openEditors("member", "owner");
  const block = "x".repeat(10_000);
  for (let n = 0; n < 100 && alice.closeCodes.length === 0; n++) {
    alice.insert(alice.text.length, block);
    await until(() => alice.isSaved || alice.closeCodes.length > 0, "saved, or over the budget");
  }
  const stored = await documents.readText(id);
  alice.insert(0, "typed meanwhile ");
  await until(() => alice.closeCodes.length > 2, "it is still over its budget when it reconnects");
  alice.insert(alice.text.length, " and after");
  assert.equal(await documents.readText(id), stored);
  // Longer than a minute: what revisions and the index of search write counts too, and is more where all this takes longer.
  documents.gateway.clock.advance(30 * 60_000);
  await alice.waitUntilSaved();
  await until(() => bob.text === alice.text, "the other editor has all of it");
  assert.equal(await documents.readText(id), alice.text);
  assert.match(alice.text, /^typed meanwhile x+ and after$/);
  assert.deepEqual([[...new Set(alice.closeCodes)], alice.authFailures, alice.rejections], [[4429], [], []]);
});

Deno.test("the provider in its simplest form, with a url and a token, works", async () => {
  await using fixture = await EditorFixture.open("simple");
  const { server, id, token } = fixture;
  const provider = new HocuspocusProvider({ url: server.url, name: id, token: token("member") });
  await until(() => provider.isSynced, "in sync");
  assert.equal(provider.document.getText("content").toString(), "simple");
  const { webSocket } = provider.configuration.websocketProvider;
  provider.destroy();
  await untilClosed(webSocket);
});

Deno.test("a document that fails to load is refused and leaves nothing running", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  await documents.gateway.app.store.write(({ db }) =>
    db.deleteFrom("document_state").where("document_id", "=", id).execute()
  );
  const member = server.openEditor(id, token("member"));
  await until(() => member.authFailures.length > 0, "refused");
  assert.equal(member.authFailures[0], "unavailable");
});

Deno.test("an editor that connects while the database is unavailable retries and syncs", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const endOutage = startOutage(documents.gateway.app.store);
  const member = server.openEditor(id, token("member"));
  await until(() => member.closeCodes.length >= 2, "it tries again");
  endOutage();
  await until(() => member.provider.isSynced, "in sync");
  assert.deepEqual([...new Set(member.closeCodes), member.authFailures], [4500, []]);
  assert.equal(member.text, "text");
});

testOnPostgres(
  "an update in flight when its editor loses write access is rejected and reaches no editor",
  async (environment) => {
    await using fixture = await EditorFixture.open("start", environment);
    const { documents, id } = fixture;
    const [owner, member] = await fixture.openEditors("owner", "member");
    const [isHeld, isOver] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = documents.gateway.app.store.write(async (tx) => {
      await tx.lock("default", `room:${documents.roomId}`);
      await tx.db.updateTable("member").set({ role: "observer" }).where("principal_id", "=", "member").execute();
      isHeld.resolve();
      await isOver.promise;
    });
    await isHeld.promise;
    member.insert(0, "mine ");
    await waitBriefly();
    isOver.resolve();
    await holding;
    await until(() => member.rejections.some(({ code }) => code === "forbidden"), "the member receives the rejection");
    owner.insert(0, "> ");
    await owner.waitUntilSaved();
    assert.equal(await documents.readText(id), "> start");
  },
);

Deno.test("a node that stops waits until the access of its editors is read", async () => {
  await using fixture = await EditorFixture.open();
  const { documents, server, id, token } = fixture;
  const gate = Promise.withResolvers<void>();
  const ended: string[] = [];
  let begun = 0;
  const { revalidate } = EditorAccess.prototype;
  using _held = replace(EditorAccess.prototype, "revalidate", async function (this: EditorAccess, editor) {
    begun++;
    await gate.promise;
    await revalidate.call(this, editor);
    ended.push("reading");
  });
  using _opened = { [Symbol.dispose]: gate.resolve };
  const editor = await server.openSyncedEditor(id, token("member"));
  await until(() => begun > 0, "its access is read once it is connected");
  await editor.disconnect();
  const draining = documents.gateway.app.drain().then(() => ended.push("node"));
  await Promise.race([draining, waitBriefly()]);
  gate.resolve();
  await draining;
  assert.deepEqual([ended.length, ended.at(-1)], [begun + 1, "node"]);
});

Deno.test("a node that stops logs no error about what editors have typed meanwhile", async () => {
  await using fixture = await EditorFixture.open();
  const { documents, server, id, token } = fixture;
  const { store } = documents.gateway.app;
  const editor = await server.openSyncedEditor(id, token("member"));
  const [gate, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { write } = store;
  const { receive } = EditorSocket.prototype;
  let frames = 0;
  using _counted = replace(EditorSocket.prototype, "receive", function (this: EditorSocket, data) {
    frames++;
    return receive.call(this, data);
  });
  using _held = replace(store, "write", async function (this: typeof store, work, ...rest) {
    begun.resolve();
    await gate.promise;
    return await write.call(this, work, ...rest) as never;
  });
  using _opened = { [Symbol.dispose]: gate.resolve };
  const records = await captureLog(["gateway", "document"], async () => {
    for (let count = 0; count < 5; count++) editor.insert(0, "x");
    await begun.promise;
    await until(() => frames >= 5, "all wait for the first one");
    const draining = documents.gateway.app.drain();
    gate.resolve();
    await draining;
  });
  assert.deepEqual(records.filter(({ level }) => level === "error").map(({ rawMessage }) => rawMessage), []);
});

testOnPostgres(
  "a reader who was removed through another node receives no edit after that, also before this node is notified",
  async (environment) => {
    await using fixture = await EditorFixture.open("start", environment);
    const { documents } = fixture;
    const [owner, member] = await fixture.openEditors("owner", "member");
    owner.insert(0, "before ");
    await until(() => member.text === "before start", "both are connected");
    const room = `room:${documents.roomId}`;
    await using node = connectNode(environment);
    await node.begin(async (sql) => {
      await sql`update stream set head = head + 1 where name = ${room}`;
      await sql`delete from member where room_id = ${documents.roomId} and principal_id = 'member'`;
    });
    owner.insert(0, "secret ");
    await owner.waitUntilSaved();
    await until(() => member.authFailures.length + member.closeReasons.length > 0, "the member is disconnected");
    assert.equal(member.text, "before start");
  },
);

testOnPostgres(
  "a reader whom a private document is no longer shared with receives no edit after that, also before this node is notified",
  async (environment) => {
    await using fixture = await EditorFixture.open("", environment);
    const { documents, server, token } = fixture;
    const { id } = ok(await documents.as("owner").post(PATH, { title: "Mine", text: "start" }));
    ok(await documents.as("owner").put(`${PATH}/${id}/access/member`, { role: "reader" }));
    const [owner, member] = await allEnded([
      server.openSyncedEditor(id, token("owner")),
      server.openSyncedEditor(id, token("member")),
    ]);
    owner.insert(0, "before ");
    await until(() => member.text === "before start", "both are connected");
    await using node = connectNode(environment);
    await node.begin(async (sql) => {
      await sql`update stream set head = head + 1 where name = 'principal:member'`;
      await sql`delete from document_access where document_id = ${id} and principal_id = 'member'`;
    });
    owner.insert(0, "secret ");
    await owner.waitUntilSaved();
    await until(() => member.authFailures.length + member.closeReasons.length > 0, "the member is disconnected");
    assert.equal(member.text, "before start");
  },
);

Deno.test("one socket opens many documents at once", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, token } = fixture;
  const ids: string[] = [];
  for (let n = 0; n < 40; n++) ids.push((await documents.create(`text ${n}`)).id);
  const websocketProvider = new HocuspocusProviderWebsocket({ url: server.url });
  const providers = ids.map((name) => new HocuspocusProvider({ websocketProvider, name, token: token("member") }));
  for (const provider of providers) provider.attach();
  await until(() => providers.every((provider) => provider.isSynced), "all are in sync");
  const { webSocket } = websocketProvider;
  for (const provider of providers) provider.destroy();
  websocketProvider.destroy();
  await untilClosed(webSocket);
});

/** A socket is an open resource until its peer has answered that it closes. */
async function untilClosed(socket: { readyState: number } | null): Promise<void> {
  await until(() => socket?.readyState === WebSocket.CLOSED, "the socket is closed");
}

/** Makes reads of the database fail until the returned function is called. */
function startOutage(store: object): () => void {
  const db = Reflect.get(store, "db");
  Object.defineProperty(store, "db", {
    configurable: true,
    get: () => {
      throw new Fault("unavailable", "The database is unavailable");
    },
  });
  return () => Object.defineProperty(store, "db", { configurable: true, writable: true, value: db });
}
