// Live co-editing against clients that do not keep to the protocol: crowds and masks in the presence, updates that no editor
// makes, names of the engine's own, frames larger than they may be, and more editors than there are people.
import assert from "node:assert/strict";
import * as enc from "npm:lib0@0.2.120/encoding";
import * as Y from "yjs";
import { onEngines } from "../engines.ts";
import { until } from "../wait.ts";
import { aWhile, EditorScene, KIND, RawEditor } from "./document_editor.ts";
import { PATH } from "./document_world.ts";

Deno.test("nobody fills the presence of a document with clients that are not there", async () => {
  await using scene = await EditorScene.open("text");
  const { room, id, token } = scene;
  const alice = await room.join(id, token("owner"));
  const crowd = await RawEditor.connect(room.url, id, token("observer"));
  for (let n = 0; n < 20; n++) {
    crowd.claim(Array.from({ length: 500 }, (_, at) => 1000 + n * 500 + at), 1, '{"user":{"name":"x"}}');
  }
  await until(() => alice.names.length > 0, "somebody is seen");
  await aWhile();
  assert.ok(alice.names.length <= 8, `${alice.names.length} of 10000`);
  await crowd.close();
  await until(() => alice.names.length === 0, "who leaves is gone");
});

Deno.test("nobody speaks for another's cursor and name", async () => {
  await using scene = await EditorScene.open("text");
  const { room, id, token } = scene;
  const [alice, bob] = await Promise.all([room.join(id, token("owner")), room.join(id, token("member"))]);
  bob.provider.setAwarenessField("user", { name: "Bob" });
  await until(() => alice.names.includes("Bob"), "Bob is seen");
  const mask = await RawEditor.connect(room.url, id, token("observer"));
  mask.claim([bob.doc.clientID], 1000, '{"user":{"name":"Mallory"}}');
  mask.claim([4711], 1, '{"user":{"name":"Me"}}');
  await until(() => alice.names.includes("Me"), "the other's own name is seen");
  assert.deepEqual(alice.names, ["Bob", "Me"]);
  await mask.close();
  await until(() => alice.names.length === 1, "who leaves is gone");
  assert.deepEqual(alice.names, ["Bob"], "and takes nobody along");
});

Deno.test("presence that is no object or nested without end ends the socket", async () => {
  await using scene = await EditorScene.open("text");
  const { room, id, token } = scene;
  for (const state of ["5", `${"[".repeat(4000)}${"]".repeat(4000)}`, "{"]) {
    const hostile = await RawEditor.connect(room.url, id, token("member"));
    hostile.claim([1], 1, state);
    assert.equal(await hostile.closed, 4400, state.slice(0, 10));
  }
});

Deno.test("an update that no editor makes is refused, and the document stays open for others", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  const alice = await room.join(id, token("owner"));
  alice.insert(0, "hello");
  await alice.saved();
  const hostile = await RawEditor.connect(room.url, id, token("member"));
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
  hostile.update(craft(text([clientID, 1], ""), text([clientID, 1], "x")));
  hostile.update(craft(text([clientID, 99], "far")));
  hostile.update(craft(text([5, 3], "ahead of itself")));
  hostile.update(craft((update) => {
    enc.writeUint8(update, 0);
    enc.writeVarUint(update, 10);
  }));
  await aWhile();
  alice.insert(5, " world");
  await alice.saved();
  const fresh = await room.join(id, token("moderator"));
  assert.deepEqual([fresh.text, await world.text(id)], ["hello world", "hello world"]);
  await hostile.close();
});

Deno.test("names that the engine's own objects have end the socket before the engine sees them", async () => {
  await using scene = await EditorScene.open("text");
  for (const name of ["__proto__", "constructor", "a\0b\0c", "ä", "toString"]) {
    const hostile = await RawEditor.connect(scene.room.url, name, scene.token("member"));
    assert.equal(await hostile.closed, 4400, name);
  }
});

Deno.test("a paste of more than a frame is saved, one of more than an update is refused by name", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  const alice = await room.join(id, token("member"));
  alice.insert(0, "x".repeat(200_000));
  await until(() => alice.isSaved, "saved");
  assert.equal((await world.text(id)).length, 200_000);
  alice.insert(0, "y".repeat(600_000));
  await until(() => alice.refused.length > 0, "told");
  assert.equal(alice.refused[0]?.code, "payload_too_large");
  assert.equal(alice.isSaved, false);
  assert.equal((await world.as("member").get(`${PATH}/${id}/content`)).body.text.length, 200_000);
  const bob = await room.join(id, token("owner"));
  bob.insert(0, "still ");
  await bob.saved();
});

Deno.test("a document larger than the outbox reaches an editor while others type", async () => {
  const text = "x".repeat(1_000_000);
  await using scene = await EditorScene.open(text, { SVC_LIMIT_OUTBOX_BYTES: "65536" });
  const { room, id, token } = scene;
  const alice = await room.join(id, token("owner"));
  const typing = setInterval(() => alice.insert(0, "a"), 1);
  for (let n = 0; n < 5; n++) {
    const bob = await room.join(id, token("member"));
    assert.ok(bob.text.endsWith("xxx"));
    assert.deepEqual(bob.closes, []);
    bob.close();
  }
  clearInterval(typing);
  await alice.saved();
});

/** An update of `bytes` bytes that holds empty documents: each is seven bytes here, and a few thousand once Yjs has read it. */
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

Deno.test("an update that would weigh hundreds of times its size holds nobody up, whoever sends it", async () => {
  await using scene = await EditorScene.open("text");
  const { room, id, token } = scene;
  const update = manyDocuments(2 * 1024 * 1024);
  for (const name of [undefined, "observer", "member"]) {
    const hostile = await RawEditor.connect(room.url, id, name === undefined ? undefined : token(name));
    let [longest, last] = [0, performance.now()];
    const watch = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    hostile.update(update);
    await aWhile();
    await aWhile();
    clearInterval(watch);
    assert.ok(longest < 2000, `${Math.round(longest)} ms at a stretch`);
    assert.equal(hostile.socket.readyState, WebSocket.OPEN);
    await hostile.close();
  }
});

Deno.test("one socket does not take all the places in a document", async () => {
  await using scene = await EditorScene.open("text");
  const { room, id, token } = scene;
  const crowd = await RawEditor.connect(room.url, id, token("observer"));
  // Those that were closed do not count.
  for (let n = 0; n < 5; n++) {
    crowd.ask(token("observer"), `${id}\0gone${n}`);
    crowd.say(KIND.close, () => {}, `${id}\0gone${n}`);
  }
  for (let n = 0; n < 7; n++) crowd.ask(token("observer"), `${id}\0${n}`);
  await aWhile();
  assert.equal(crowd.socket.readyState, WebSocket.OPEN);
  crowd.ask(token("observer"), `${id}\0last`);
  await until(() => crowd.socket.readyState === WebSocket.CLOSED, "the socket ends");
  assert.equal(await crowd.closed, 4429);
});

onEngines(
  "a document that is closed as soon as it was asked for takes no other on the socket along",
  async (environment) => {
    await using scene = await EditorScene.open("text", environment);
    const { world, room, id, token } = scene;
    const other = await world.make("other");
    for (let round = 0; round < 4; round++) {
      const editor = await RawEditor.connect(room.url, id, token("member"));
      editor.ask(token("member"), other.id);
      editor.say(KIND.close, () => {}, other.id);
      await aWhile();
      assert.equal(editor.socket.readyState, WebSocket.OPEN);
      await editor.close();
    }
  },
);

Deno.test("who is refused on a socket leaves the others on it as they are", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const editor = await RawEditor.connect(room.url, `${id}\0one`, token("member"));
  editor.ask("not a token", `${id}\0other`);
  await aWhile();
  const doc = new Y.Doc();
  doc.getText("content").insert(0, "more ");
  editor.update(Y.encodeStateAsUpdate(doc));
  await until(async () => (await world.text(id)).includes("more "), "it is saved");
  await editor.close();
});
