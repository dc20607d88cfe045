// Documents against those who make them heavy: updates of a few bytes that take seconds to merge, texts in more pieces than can
// be borne, and orders that only hurt whoever opens them later. And what honest editors do all day, which is never refused.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { workedMs } from "../cost.ts";
import { pause, until } from "../wait.ts";
import { aWhile, EditorScene, RawEditor } from "./document_editor.ts";
import { type DocumentWorld, PATH } from "./document_world.ts";
import { craft, type Crafted } from "./document_update.ts";
import { refused } from "./team.ts";

/** Nobody is held up for longer by anything here, of the time that this program works. */
const STRETCH_MAX_MS = 1000;

/** Writes a text in so many pieces that none is joined with the next: each stands before the last. Of client 9. */
async function writeInPieces(world: DocumentWorld, id: string, count: number): Promise<void> {
  const step = 30_000;
  for (let clock = 0; clock < count; clock += step) {
    const parts = Array.from({ length: Math.min(step, count - clock) }, (_, n): Crafted => {
      const before = clock + n - 1;
      return before < 0 ? { text: "x" } : { right: [9, before], text: "x" };
    });
    const { status, body } = await world.merge(id, craft(9, clock, parts));
    assert.equal(status, 200, JSON.stringify(body));
  }
}

/** Of client 5: so many pieces that each want to be between the two ends of what client 9 has written. */
function farApart(count: number, clock = 0): Uint8Array {
  return craft(5, clock, Array.from({ length: count }, (_, n): Crafted => ({ right: [9, clock + n], text: "!" })));
}

/** The longest that the event loop stood still while `work` ran. */
async function longestStretch(work: () => Promise<void>): Promise<number> {
  let [longest, last] = [0, workedMs()];
  const watch = setInterval(() => {
    const now = workedMs();
    longest = Math.max(longest, now - last);
    last = now;
  }, 2);
  await work();
  await pause(5);
  clearInterval(watch);
  return longest;
}

Deno.test("a few bytes that would take seconds to merge are refused by name, and hold nobody up", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  // Tests beside this one work at the same time, here as well as below; what is refused would take several times as long.
  const bound = 2 * await longestStretch(() => writeInPieces(world, id, 90_000));
  const before = await world.text(id);
  const update = farApart(100);
  assert.ok(update.length < 1000, `${update.length} bytes`);
  const hostile = await RawEditor.connect(room.url, id, token("member"));
  const live = await longestStretch(async () => {
    hostile.update(new Uint8Array(2), 1);
    hostile.update(update, 1);
    await until(() => hostile.heard("limit_reached"), "told no");
  });
  assert.ok(live < bound, `${Math.round(live)} ms at a stretch, twice of honest writing ${Math.round(bound)}`);
  const merged = await longestStretch(async () => refused(await world.merge(id, update), 409, "limit_reached"));
  assert.ok(merged < bound, `${Math.round(merged)} ms at a stretch, twice of honest writing ${Math.round(bound)}`);
  assert.equal(await world.text(id), before);
  await hostile.close();
});

Deno.test("what takes long is not taken again and again either: a document bears so much of it in all", async () => {
  await using scene = await EditorScene.open("");
  const { world, id } = scene;
  await writeInPieces(world, id, 30_000);
  let taken = 0;
  for (let answer = await world.merge(id, farApart(4)); answer.status === 200; taken++) {
    assert.ok(taken < 30, "still taken");
    answer = await world.merge(id, farApart(4, 4 * (taken + 1)));
  }
  assert.ok(taken > 0, "a few are");
  const before = workedMs();
  assert.equal((await world.as("member").get(`${PATH}/${id}/content?format=yjs`)).status, 200);
  assert.ok(workedMs() - before < STRETCH_MAX_MS);
});

Deno.test("a document is written in so many pieces and no more, and can be read all the same", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  await writeInPieces(world, id, 99_990);
  const member = world.as("member");
  const pieces = Array.from({ length: 20 }, (_, n): Crafted => ({ right: [9, 99_989 - n], text: "y" }));
  refused(await world.merge(id, craft(7, 0, pieces)), 409, "limit_reached");
  const { body: { revision } } = await member.get(`${PATH}/${id}`);
  const replace = {
    baseRevision: revision,
    edits: [{ op: "insert_after", find: "x".repeat(50_000), text: "-", occurrence: "first" }],
  };
  assert.equal((await member.patch(`${PATH}/${id}/content`, replace)).status, 200, "three more");
  const alice = await room.join(id, token("owner"));
  alice.doc.transact(() => {
    for (let n = 0; n < 20; n++) alice.insert(100 + 10 * n, "z");
  });
  await until(() => alice.refused.length > 0, "told no");
  assert.equal(alice.refused[0]?.code, "limit_reached");
  assert.equal((await world.text(id)).length, 99_991);
});

Deno.test("parts that wait for each other are refused and not kept", async () => {
  await using scene = await EditorScene.open("text");
  const { world, id } = scene;
  const one = new Y.Doc();
  one.clientID = 21;
  one.getText("content").insert(0, "one");
  const two = new Y.Doc();
  two.clientID = 22;
  two.getText("content").insert(0, "two");
  const whole = Y.mergeUpdates([
    craft(21, 0, [{ left: [22, 0], text: "a" }]),
    craft(22, 0, [{ left: [21, 0], text: "b" }]),
  ]);
  refused(await world.merge(id, whole), 422, "validation_failed");
  assert.equal(await world.text(id), "text");
  assert.equal(
    (await world.merge(id, Y.mergeUpdates([one, two].map((doc) => Y.encodeStateAsUpdate(doc))))).status,
    200,
  );
});

Deno.test("parts that only their order in a snapshot makes heavy stay as they came, and the document can be opened", async () => {
  await using scene = await EditorScene.open("");
  const { world, room, id, token } = scene;
  const hostile = await RawEditor.connect(room.url, id, token("member"));
  const [ends, chain] = [700, 5000];
  const updates = [new Uint8Array(2), craft(5, 0, [{ text: "w".repeat(ends + 1) }])];
  for (let n = 0; n < ends; n += 100) {
    const parts = Array.from({ length: 100 }, (_, at): Crafted => ({ right: [5, n + at + 1], text: "!" }));
    updates.push(craft(5, ends + 1 + n, parts));
  }
  updates.push(craft(9, 0, [{ right: [5, 0], text: "a" }]), craft(9, 1, [{ left: [9, 0], text: "b" }]));
  for (let n = 2; n < chain; n += 50) {
    const parts = Array.from({ length: 50 }, (_, at): Crafted => ({ left: [9, 0], right: [9, n + at - 1], text: "b" }));
    updates.push(craft(9, n, parts));
  }
  for (const update of updates) hostile.update(update);
  await until(
    async () => (await world.as("member").get(`${PATH}/${id}`)).body.revision === updates.length,
    "all taken",
  );
  const text = await world.text(id);
  world.gateway.clock.advance(20_000);
  await world.gateway.runJobs();
  const before = workedMs();
  assert.equal((await world.as("member").get(`${PATH}/${id}/content?format=yjs`)).status, 200);
  assert.ok(workedMs() - before < STRETCH_MAX_MS);
  assert.equal(await world.text(id), text);
  const { body: { items } } = await world.as("member").get(`${PATH}/${id}/revisions`);
  assert.equal(items[0].bytes, text.length, "what was taken is in a revision");
  refused(await world.merge(id, craft(7, 0, [{ text: "more" }])), 413, "payload_too_large");
  await hostile.close();
});

Deno.test("two editors who were away for a day come back with thousands of edits, and nothing is refused", async () => {
  const start = "All work and no play makes a dull text.\n".repeat(3000);
  await using scene = await EditorScene.open(start, { SVC_RATE_LIMIT: "on" });
  const { world, room, id, token } = scene;
  const editors = await Promise.all(["owner", "moderator", "member"].map((name) => room.join(id, token(name))));
  const [one, two, here] = editors;
  assert.ok(one && two && here);
  await Promise.all([one.offline(), two.offline()]);
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 48_271) % 0x7fffffff) % below;
  for (const editor of editors) {
    for (let n = 0; n < 1500; n++) {
      const at = random(4) === 0 ? editor.text.length : random(editor.text.length);
      editor.doc.transact(() => {
        editor.insert(at, "word ");
        if (random(3) === 0) editor.remove(random(1000), 3);
      });
    }
    if (editor === here) await editor.saved();
  }
  here.insert(0, "p".repeat(100_000));
  await Promise.all([one.online(), two.online()]);
  await Promise.all(editors.map((editor) => editor.saved()));
  await until(() => one.text === two.text && two.text === here.text, "all converge");
  assert.equal(await world.text(id), one.text);
  assert.deepEqual(editors.flatMap((editor) => editor.refused), []);
  assert.deepEqual(here.closes, []);
});

Deno.test("who takes more than a member's share of the time is sent away for a while, and others are not", async () => {
  await using scene = await EditorScene.open("", { SVC_RATE_LIMIT: "on" });
  const { world, room, id, token } = scene;
  await writeInPieces(world, id, 60_000);
  const alice = await room.join(id, token("owner"));
  const hostile = await RawEditor.connect(room.url, id, token("member"));
  const printed: unknown[] = [];
  const { error } = console;
  // deno-lint-ignore no-console -- the engine would print there
  console.error = (...values) => printed.push(...values);
  // deno-lint-ignore no-console -- as above
  using _printing = { [Symbol.dispose]: () => void (console.error = error) };
  // Of somebody who has everything, again and again.
  for (let n = 0; n < 300; n++) hostile.update(Uint8Array.of(1, 9, 0xe0, 0xd4, 0x03), 0);
  assert.equal(await hostile.closed, 4429);
  const again = room.open(id, token("member"));
  await until(() => again.refusals.length > 0, "told no");
  assert.equal(again.refusals[0], "too-much-work");
  assert.deepEqual(printed, [], "the log is the only place for what happens");
  alice.insert(0, "still ");
  await alice.saved();
  await aWhile();
  assert.deepEqual(alice.closes, []);
});

Deno.test("updates of a stranger are read once it is known who that is", async () => {
  await using scene = await EditorScene.open("text");
  const { world, room, id, token } = scene;
  const stranger = await RawEditor.connect(room.url, id);
  stranger.ask("not a token");
  // Nobody's update, which ends the socket of whoever is known.
  stranger.update(Uint8Array.of(1, 2, 3), 2);
  await aWhile();
  assert.equal(stranger.socket.readyState, WebSocket.OPEN);
  await stranger.close();
  const known = await RawEditor.connect(room.url, id);
  known.ask(token("member"));
  known.update(craft(7, 0, [{ text: "more " }]));
  await until(async () => (await world.text(id)).includes("more "), "what came too early is saved");
  await known.close();
  const hostile = await RawEditor.connect(room.url, id);
  hostile.ask(token("member"));
  hostile.update(Uint8Array.of(1, 2, 3), 2);
  assert.equal(await hostile.closed, 4400);
});
