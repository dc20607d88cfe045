// Live editing against hostile clients: forged awareness, crafted updates, names of built-in object members, frames beyond
// their limit, and too many editors.
// Measures the work of its thread.
import assert from "node:assert/strict";
import * as enc from "npm:lib0@0.2.120/encoding";
import * as Y from "yjs";
import { testOnEngines } from "../../engines.ts";
import { until } from "../../wait.ts";
import { discardFrames, type EditorConnection } from "@/modules/document/collaboration/editor_connection.ts";
import { parseFrame } from "@/modules/document/collaboration/editor_frame.ts";
import { EditorFixture, encodeFrame, FRAME_TYPE, RawEditor, waitBriefly } from "./document_editor.ts";
import { PATH } from "./document_fixture.ts";
import { cpuTimeMs } from "../../cpu_time.ts";

Deno.test("an editor cannot fill the awareness with clients that do not exist", async () => {
  await using fixture = await EditorFixture.open("text");
  const { server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("owner"));
  const crowd = await RawEditor.connect(server.url, id, token("observer"));
  for (let n = 0; n < 20; n++) {
    crowd.sendAwareness(Array.from({ length: 500 }, (_, at) => 1000 + n * 500 + at), 1, '{"user":{"name":"x"}}');
  }
  await until(() => alice.awarenessNames.length > 0, "an editor is visible");
  await waitBriefly();
  assert.ok(alice.awarenessNames.length <= 8, `${alice.awarenessNames.length} of 10000`);
  await crowd.close();
  await until(() => alice.awarenessNames.length === 0, "the state of a closed editor is removed");
});

Deno.test("an editor cannot fill the awareness with long states", async () => {
  await using fixture = await EditorFixture.open("text");
  const { server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("owner"));
  const hostile = await RawEditor.connect(server.url, id, token("observer"));
  for (let n = 1; n <= 4; n++) hostile.sendAwareness([n], 1, `{"user":{"name":"${String(n).repeat(3000)}"}}`);
  hostile.sendAwareness([1], 2, `{"user":{"name":"${"5".repeat(9000)}"}}`);
  hostile.sendAwareness([5], 1, '{"user":{"name":"last"}}');
  await until(() => alice.awarenessNames.includes("last"), "a short one is visible");
  assert.deepEqual(alice.awarenessNames.map((name) => name.length), [3000, 3000, 4]);
  await hostile.close();
});

Deno.test("awareness counts by its states and its length, and beyond the rate it is not parsed", () => {
  const counts: number[] = [];
  const parse = (states: readonly string[], isAllowed: boolean) => {
    const update = enc.createEncoder();
    enc.writeVarUint(update, states.length);
    for (const [client, state] of states.entries()) {
      enc.writeVarUint(update, client);
      enc.writeVarUint(update, 1);
      enc.writeVarString(update, state);
    }
    const frame = encodeFrame("doc_1", FRAME_TYPE.awareness, (frame) => {
      enc.writeVarUint8Array(frame, enc.toUint8Array(update));
    });
    return parseFrame(frame, {
      requested: new Set(["doc_1"]),
      kindOf: () => "text",
      allowStates: (count) => counts.push(count) > 0 && isAllowed,
    });
  };
  assert.deepEqual(parse(Array.from({ length: 1000 }, () => "{}"), true), { name: "doc_1", kind: "other" });
  assert.deepEqual(parse([JSON.stringify({ name: "x".repeat(6389) })], true), { name: "doc_1", kind: "other" });
  assert.deepEqual(parse(["{"], false), { name: "doc_1", kind: "ignored" });
  assert.equal(parse(["{"], true), "malformed");
  assert.deepEqual(counts, [1000, 101, 1, 1]);
});

Deno.test("of what a client sent before it left, updates are handled, and of one that was cut off nothing", () => {
  const sync = (step: number) =>
    encodeFrame("doc_1", FRAME_TYPE.sync, (frame) => {
      enc.writeVarUint(frame, step);
      enc.writeVarUint8Array(frame, new Uint8Array([0, 0]));
    });
  const [query, first, update] = [sync(0), sync(1), sync(2)];
  const awareness = encodeFrame("doc_1", FRAME_TYPE.awareness, (frame) => enc.writeVarUint8Array(frame, query));
  const left = (isDiscarded: boolean, ...frames: Uint8Array[]): Uint8Array[] => {
    const messageQueue = [query, ...frames];
    discardFrames({ messageQueue, context: { socket: { isDiscarded } } } as unknown as EditorConnection); // as the engine has it
    return messageQueue.slice(1);
  };
  assert.deepEqual(left(false, query, first, awareness, update, query), [first, update]);
  assert.deepEqual(left(false, update, first), [update, first]);
  assert.deepEqual(left(false), []);
  assert.deepEqual(left(true, query, first, update), []);
});

Deno.test("an editor cannot overwrite the awareness of another", async () => {
  await using fixture = await EditorFixture.open("text");
  const { server, id, token } = fixture;
  const [alice, bob] = await fixture.openEditors("owner", "member");
  bob.provider.setAwarenessField("user", { name: "Bob" });
  await until(() => alice.awarenessNames.includes("Bob"), "Bob is seen");
  const mask = await RawEditor.connect(server.url, id, token("observer"));
  mask.sendAwareness([bob.doc.clientID], 1000, '{"user":{"name":"Mallory"}}');
  mask.sendAwareness([4711], 1, '{"user":{"name":"Me"}}');
  await until(() => alice.awarenessNames.includes("Me"), "the other's own name is seen");
  assert.deepEqual(alice.awarenessNames, ["Bob", "Me"]);
  await mask.close();
  await until(() => alice.awarenessNames.length === 1, "the state of a closed editor is removed");
  assert.deepEqual(alice.awarenessNames, ["Bob"], "and removes no other");
});

Deno.test("awareness that is not an object or is deeply nested closes the socket", async () => {
  await using fixture = await EditorFixture.open("text");
  const { server, id, token } = fixture;
  for (const state of ["5", `${"[".repeat(4000)}${"]".repeat(4000)}`, "{"]) {
    const hostile = await RawEditor.connect(server.url, id, token("member"));
    hostile.sendAwareness([1], 1, state);
    assert.equal(await hostile.closed, 4400, state.slice(0, 10));
  }
});

Deno.test("a crafted update is refused, and the document stays open for others", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("owner"));
  alice.insert(0, "hello");
  await alice.waitUntilSaved();
  const hostile = await RawEditor.connect(server.url, id, token("member"));
  const { clientID } = alice.doc;
  const craft = (...parts: ((update: enc.Encoder) => void)[]): Uint8Array => {
    const update = enc.createEncoder();
    enc.writeVarUint(update, 1);
    enc.writeVarUint(update, parts.length);
    enc.writeVarUint(update, 5);
    enc.writeVarUint(update, 0);
    for (const part of parts) part(update);
    enc.writeVarUint(update, 0);
    return enc.toUint8Array(update);
  };
  const text = (origin: [number, number], content: string) => (update: enc.Encoder) => {
    enc.writeUint8(update, 0x84);
    for (const part of origin) enc.writeVarUint(update, part);
    enc.writeVarString(update, content);
  };
  hostile.sendUpdate(craft(text([clientID, 1], ""), text([clientID, 1], "x")));
  hostile.sendUpdate(craft(text([clientID, 99], "far")));
  hostile.sendUpdate(craft(text([5, 3], "ahead of itself")));
  hostile.sendUpdate(craft((update) => {
    enc.writeUint8(update, 0);
    enc.writeVarUint(update, 10);
  }));
  await waitBriefly();
  alice.insert(5, " world");
  await alice.waitUntilSaved();
  const late = await server.openSyncedEditor(id, token("moderator"));
  assert.deepEqual([late.text, await documents.readText(id)], ["hello world", "hello world"]);
  await hostile.close();
});

Deno.test("document names of built-in object members close the socket before the engine reads them", async () => {
  await using fixture = await EditorFixture.open("text");
  for (const name of ["__proto__", "constructor", "a\0b\0c", "ä", "toString"]) {
    const hostile = await RawEditor.connect(fixture.server.url, name, fixture.token("member"));
    assert.equal(await hostile.closed, 4400, name);
  }
});

Deno.test("a paste beyond the frame limit is saved, one beyond the update limit is rejected with a code", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("member"));
  alice.insert(0, "x".repeat(200_000));
  await until(() => alice.isSaved, "saved");
  assert.equal((await documents.readText(id)).length, 200_000);
  alice.insert(0, "y".repeat(600_000));
  await until(() => alice.rejections.length > 0, "rejected");
  assert.equal(alice.rejections[0]?.code, "payload_too_large");
  assert.equal(alice.isSaved, false);
  assert.equal((await documents.as("member").get(`${PATH}/${id}/content`)).body.text.length, 200_000);
  const bob = await server.openSyncedEditor(id, token("owner"));
  bob.insert(0, "still ");
  await bob.waitUntilSaved();
});

Deno.test("a document larger than the outbox is sent to an editor while others type", async () => {
  const text = "x".repeat(1_000_000);
  await using fixture = await EditorFixture.open(text, { SVC_LIMIT_OUTBOX_BYTES: "65536" });
  const { server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("owner"));
  const typing = setInterval(() => alice.insert(0, "a"), 1);
  for (let n = 0; n < 5; n++) {
    const bob = await server.openSyncedEditor(id, token("member"));
    assert.ok(bob.text.endsWith("xxx"));
    assert.deepEqual(bob.closeCodes, []);
    bob.close();
  }
  clearInterval(typing);
  await alice.waitUntilSaved();
});

/** An update of `bytes` bytes with empty subdocuments, each of seven bytes here and a few thousand after decoding. */
function manyDocuments(bytes: number): Uint8Array {
  const parts = enc.createEncoder();
  let count = 0;
  for (; enc.length(parts) < bytes; count++) {
    enc.writeUint8Array(parts, Uint8Array.of(0x89, 1, 0, 0, 118, 0));
  }
  const update = enc.createEncoder();
  for (const number of [1, count, 5, 0]) enc.writeVarUint(update, number);
  enc.writeUint8Array(update, enc.toUint8Array(parts));
  enc.writeVarUint(update, 0);
  return enc.toUint8Array(update);
}

Deno.test("an update that would expand hundreds of times does not block others", async () => {
  await using fixture = await EditorFixture.open("text");
  const { server, id, token } = fixture;
  const update = manyDocuments(2 * 1024 * 1024);
  for (const name of [undefined, "observer", "member"]) {
    const hostile = await RawEditor.connect(server.url, id, name === undefined ? undefined : token(name));
    let [longest, last] = [0, cpuTimeMs()];
    const watch = setInterval(() => {
      longest = Math.max(longest, cpuTimeMs() - last);
      last = cpuTimeMs();
    }, 5);
    hostile.sendUpdate(update);
    await waitBriefly();
    await waitBriefly();
    clearInterval(watch);
    assert.ok(longest < 2000, `${Math.round(longest)} ms at a stretch`);
    assert.equal(hostile.socket.readyState, WebSocket.OPEN);
    await hostile.close();
  }
});

Deno.test("one socket cannot use up the editors of a document", async () => {
  await using fixture = await EditorFixture.open("text");
  const { server, id, token } = fixture;
  const crowd = await RawEditor.connect(server.url, id, token("observer"));
  // Closed editors do not count.
  for (let n = 0; n < 5; n++) {
    crowd.authenticate(token("observer"), `${id}\0gone${n}`);
    crowd.sendFrame(FRAME_TYPE.close, () => {}, `${id}\0gone${n}`);
  }
  for (let n = 0; n < 7; n++) crowd.authenticate(token("observer"), `${id}\0${n}`);
  await waitBriefly();
  assert.equal(crowd.socket.readyState, WebSocket.OPEN);
  crowd.authenticate(token("observer"), `${id}\0last`);
  await until(() => crowd.socket.readyState === WebSocket.CLOSED, "the socket ends");
  assert.equal(await crowd.closed, 4429);
});

testOnEngines(
  "closing a document while it is opened does not affect others on its socket",
  async (environment) => {
    await using fixture = await EditorFixture.open("text", environment);
    const { documents, server, id, token } = fixture;
    const other = await documents.create("other");
    for (let round = 0; round < 4; round++) {
      const editor = await RawEditor.connect(server.url, id, token("member"));
      editor.authenticate(token("member"), other.id);
      editor.sendFrame(FRAME_TYPE.close, () => {}, other.id);
      await waitBriefly();
      assert.equal(editor.socket.readyState, WebSocket.OPEN);
      await editor.close();
    }
  },
);

Deno.test("a refused editor does not affect the others on its socket", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const editor = await RawEditor.connect(server.url, `${id}\0one`, token("member"));
  editor.authenticate("not a token", `${id}\0other`);
  await waitBriefly();
  const doc = new Y.Doc();
  doc.getText("content").insert(0, "more ");
  editor.sendUpdate(Y.encodeStateAsUpdate(doc));
  await until(async () => (await documents.readText(id)).includes("more "), "it is saved");
  await editor.close();
});
