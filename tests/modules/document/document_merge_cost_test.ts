// Documents against expensive updates: small ones that take seconds to merge, too many items, and orders that are expensive only
// when the document is opened later. Honest edits are never refused.
// Runs alone: it compares work of its thread, which takes less where similar work was done before.
import assert from "node:assert/strict";
import * as enc from "npm:lib0@0.2.120/encoding";
import * as Y from "yjs";
import { cpuTimeMs, leaveOutWaitsForProcessor } from "../../cpu_time.ts";
import { slowTest } from "../../tier.ts";
import { replace } from "../../replace.ts";
import { allEnded, eventually, stopTime, until } from "../../wait.ts";
import { EditorFixture, RawEditor, waitBriefly } from "./document_editor.ts";
import { type DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem } from "../fixtures.ts";
import { nextTick } from "@/core/time/clock.ts";
import { ContentService } from "@/modules/document/content/service.ts";

type Id = readonly [client: number, clock: number];
/** A piece of text with its neighbors. */
type CraftedItem = { left?: Id; right?: Id; text: string };

/** The longest stall of the event loop allowed here, in CPU time of this process. */
const STALL_MAX_MS = 1000;

/** Writes a text as items of client 9 that are not merged, each before the last one. */
async function writeInPieces(fixture: DocumentFixture, id: string, count: number, who = "member"): Promise<void> {
  const step = 30_000;
  for (let clock = 0; clock < count; clock += step) {
    const items = Array.from({ length: Math.min(step, count - clock) }, (_, n): CraftedItem => {
      const before = clock + n - 1;
      return before < 0 ? { text: "x" } : { right: [9, before], text: "x" };
    });
    // On a busy machine these take more than the share of one principal, which is then refused for a moment.
    await eventually(async () => {
      const { status, body } = await fixture.mergeUpdate(id, craftUpdate(9, clock, items), who);
      assert.equal(status, 200, JSON.stringify(body));
    });
  }
}

/** Items of client 5 that all name the two ends of the text of client 9 as their neighbors. */
function farApart(count: number, clock = 0): Uint8Array {
  return craftUpdate(
    5,
    clock,
    Array.from({ length: count }, (_, n): CraftedItem => ({ right: [9, clock + n], text: "!" })),
  );
}

/** How many items are visited while `work` runs: each is remembered in sets, here and in Yjs. */
async function countVisits(work: () => Promise<void>): Promise<number> {
  let count = 0;
  const { add } = Set.prototype;
  using _counting = replace(Set.prototype, "add", function (this: Set<unknown>, value) {
    if (value instanceof Y.Item) count++;
    return add.call(this, value) as Set<unknown>;
  });
  await work();
  return count;
}

slowTest("a small update that would take seconds to merge is rejected early", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, server, id, token } = fixture;
  await writeInPieces(documents, id, 90_000);
  const before = await documents.readText(id);
  const update = farApart(100);
  assert.ok(update.length < 1000, `${update.length} bytes`);
  const hostile = await RawEditor.connect(server.url, id, token("member"));
  const visits = [
    await countVisits(async () => {
      hostile.sendUpdate(new Uint8Array(2), 1);
      hostile.sendUpdate(update, 1);
      await until(() => hostile.hasReceived("limit_reached"), "refused");
    }),
    await countVisits(async () => assertProblem(await documents.mergeUpdate(id, update), 409, "limit_reached")),
  ];
  // Refused after 300,000 of 9 million: each is counted in one set, and visited in two.
  assert.ok(Math.max(...visits) <= 3 * 300_000, `${visits} visits`);
  assert.equal(await documents.readText(id), before);
  await hostile.close();
});

slowTest("expensive updates are refused when their sum exceeds the limit of a document", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, id } = fixture;
  await writeInPieces(documents, id, 30_000);
  let accepted = 0;
  for (let response = await documents.mergeUpdate(id, farApart(4)); response.status === 200; accepted++) {
    assert.ok(accepted < 30, "still accepted");
    response = await documents.mergeUpdate(id, farApart(4, 4 * (accepted + 1)));
  }
  assert.ok(accepted > 0, "some are accepted");
  const before = cpuTimeMs();
  assert.equal((await documents.as("member").get(`${PATH}/${id}/content?format=yjs`)).status, 200);
  assert.ok(cpuTimeMs() - before < STALL_MAX_MS);
});

slowTest("a document has a limited number of items and can be read at the limit", async () => {
  await using fixture = await EditorFixture.open("");
  const { documents, server, id, token } = fixture;
  await writeInPieces(documents, id, 99_990);
  const member = documents.as("member");
  const pieces = Array.from({ length: 20 }, (_, n): CraftedItem => ({ right: [9, 99_989 - n], text: "y" }));
  assertProblem(await documents.mergeUpdate(id, craftUpdate(7, 0, pieces)), 409, "limit_reached");
  const { body: { revision } } = await member.get(`${PATH}/${id}`);
  const replace = {
    baseRevision: revision,
    edits: [{ op: "insert_after", find: "x".repeat(50_000), text: "-", occurrence: "first" }],
  };
  assert.equal((await member.patch(`${PATH}/${id}/content`, replace)).status, 200, "three more");
  const alice = await server.openSyncedEditor(id, token("owner"));
  alice.doc.transact(() => {
    for (let n = 0; n < 20; n++) alice.insert(100 + 10 * n, "z");
  });
  await until(() => alice.rejections.length > 0, "refused");
  assert.equal(alice.rejections[0]?.code, "limit_reached");
  assert.equal((await documents.readText(id)).length, 99_991);
});

Deno.test("items with circular dependencies are refused and not stored", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, id } = fixture;
  const one = new Y.Doc();
  one.clientID = 21;
  one.getText("content").insert(0, "one");
  const two = new Y.Doc();
  two.clientID = 22;
  two.getText("content").insert(0, "two");
  const whole = Y.mergeUpdates([
    craftUpdate(21, 0, [{ left: [22, 0], text: "a" }]),
    craftUpdate(22, 0, [{ left: [21, 0], text: "b" }]),
  ]);
  assertProblem(await documents.mergeUpdate(id, whole), 422, "validation_failed");
  assert.equal(await documents.readText(id), "text");
  assert.equal(
    (await documents.mergeUpdate(id, Y.mergeUpdates([one, two].map((doc) => Y.encodeStateAsUpdate(doc))))).status,
    200,
  );
});

slowTest(
  "items that are expensive only in snapshot order are not compacted, and the document can be opened",
  async () => {
    await using fixture = await EditorFixture.open("");
    const { documents, server, id, token } = fixture;
    const hostile = await RawEditor.connect(server.url, id, token("member"));
    const [ends, chain] = [700, 5000];
    const updates = [new Uint8Array(2), craftUpdate(5, 0, [{ text: "w".repeat(ends + 1) }])];
    for (let n = 0; n < ends; n += 100) {
      const items = Array.from({ length: 100 }, (_, at): CraftedItem => ({ right: [5, n + at + 1], text: "!" }));
      updates.push(craftUpdate(5, ends + 1 + n, items));
    }
    updates.push(craftUpdate(9, 0, [{ right: [5, 0], text: "a" }]), craftUpdate(9, 1, [{ left: [9, 0], text: "b" }]));
    for (let n = 2; n < chain; n += 50) {
      const items = Array.from(
        { length: 50 },
        (_, at): CraftedItem => ({ left: [9, 0], right: [9, n + at - 1], text: "b" }),
      );
      updates.push(craftUpdate(9, n, items));
    }
    for (const update of updates) hostile.sendUpdate(update);
    await until(
      async () => (await documents.as("member").get(`${PATH}/${id}`)).body.revision === updates.length,
      "all accepted",
    );
    const text = await documents.readText(id);
    documents.gateway.clock.advance(20_000);
    await documents.gateway.runJobs();
    const before = cpuTimeMs();
    assert.equal((await documents.as("member").get(`${PATH}/${id}/content?format=yjs`)).status, 200);
    assert.ok(cpuTimeMs() - before < STALL_MAX_MS);
    assert.equal(await documents.readText(id), text);
    const { body: { items } } = await documents.as("member").get(`${PATH}/${id}/revisions`);
    assert.equal(items[0].size, text.length, "the accepted updates are in a revision");
    assertProblem(await documents.mergeUpdate(id, craftUpdate(7, 0, [{ text: "more" }])), 413, "payload_too_large");
    await hostile.close();
  },
);

slowTest("thousands of offline edits of two editors are merged without refusal", async () => {
  const start = "All work and no play makes a dull text.\n".repeat(3000);
  using _time = leaveOutWaitsForProcessor();
  // Five times the default: a slow machine takes longer for the same work.
  await using fixture = await EditorFixture.open(start, { SVC_RATE_LIMIT: "on", SVC_LIMIT_CPU_PERCENT: "50" });
  const { documents, server, id, token } = fixture;
  const editors = await allEnded(
    ["owner", "moderator", "member"].map((name) => server.openSyncedEditor(id, token(name))),
  );
  const [one, two, here] = editors;
  assert.ok(one && two && here);
  await allEnded([one.disconnect(), two.disconnect()]);
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 48_271) % 0x7fffffff) % below;
  for (const editor of editors) {
    for (let n = 0; n < 1500; n++) {
      const at = random(4) === 0 ? editor.text.length : random(editor.text.length);
      editor.doc.transact(() => {
        editor.insert(at, "word ");
        if (random(3) === 0) editor.remove(random(1000), 3);
      });
      // A busy machine takes long for all of them.
      if (editor === here && n % 100 === 99) await editor.waitUntilSaved();
    }
  }
  here.insert(0, "p".repeat(100_000));
  await allEnded([one.reconnect(), two.reconnect()]);
  await allEnded(editors.map((editor) => editor.waitUntilSaved()));
  await until(() => one.text === two.text && two.text === here.text, "all converge");
  // A call waits until the CPU time of the merge is paid off, and is refused if that takes long.
  assert.equal(await eventually(() => documents.readText(id)), one.text);
  assert.deepEqual(editors.flatMap((editor) => editor.rejections), []);
  assert.deepEqual(here.closeCodes, []);
});

Deno.test("frames of an editor beyond its CPU share wait, too many end its socket, and others are served", async () => {
  await using fixture = await EditorFixture.open("", { SVC_RATE_LIMIT: "on", SVC_LIMIT_CPU_PERCENT: "50" });
  const { documents, server, id, token } = fixture;
  // By neither of those whose limits are tested.
  await writeInPieces(documents, id, 60_000, "moderator");
  const alice = await server.openSyncedEditor(id, token("owner"));
  const printed: unknown[] = [];
  const { error } = console;
  // deno-lint-ignore no-console -- the engine would print there
  console.error = (...values) => printed.push(...values);
  // deno-lint-ignore no-console -- as above
  using _printing = { [Symbol.dispose]: () => void (console.error = error) };
  {
    // All that is charged is what work is estimated at, and no debt is paid back by waiting.
    using _time = stopTime();
    // Repeated first syncs of a client with a complete copy: those of one socket wait there, and those that arrive before another
    // one is authenticated in the engine.
    const hostile = await RawEditor.connect(server.url, id, token("member"));
    const early = await RawEditor.connect(server.url, id);
    early.authenticate(token("member"));
    const sync = Uint8Array.of(1, 9, 0xe0, 0xd4, 0x03);
    for (let n = 0; n < 60; n++) early.sendUpdate(sync, 0);
    for (let n = 0; n < 300; n++) hostile.sendUpdate(sync, 0);
    alice.insert(0, "and ");
    await alice.waitUntilSaved();
    const counts = [hostile.receivedCount, early.receivedCount];
    assert.ok(counts.reduce((sum, count) => sum + count) < 150, `${counts} responses`);
    for (let n = 0; n < 2000; n++) hostile.sendUpdate(sync, 0);
    assert.equal(await hostile.closed, 4429);
    await early.close();
  }
  assert.deepEqual(printed, [], "the log is the only place for what happens");
  alice.insert(0, "still ");
  await alice.waitUntilSaved();
  assert.equal((await documents.as("member").get(`${PATH}/${id}`)).status, 200, "the debt is paid back");
  assert.deepEqual(alice.closeCodes, []);
});

Deno.test("an update that waits when its editor disconnects is saved", async () => {
  await using fixture = await EditorFixture.open("", { SVC_RATE_LIMIT: "on", SVC_LIMIT_CPU_PERCENT: "50" });
  const { documents, server, id, token } = fixture;
  await writeInPieces(documents, id, 60_000, "moderator");
  const doc = new Y.Doc();
  {
    using _time = stopTime();
    await server.openSyncedEditor(id, token("owner"));
    const editor = await RawEditor.connect(server.url, id, token("member"));
    for (let n = 0; n < 60; n++) editor.sendUpdate(Uint8Array.of(1, 9, 0xe0, 0xd4, 0x03), 0);
    for (const [n, word] of ["one ", "two ", "three "].entries()) {
      doc.getText("content").insert(0, word);
      editor.sendUpdate(Y.encodeStateAsUpdate(doc), n === 0 ? 1 : 2);
    }
    await editor.close();
  }
  await until(async () => (await documents.readText(id)).includes("three two one "), "it is saved");
});

Deno.test("updates before authentication are parsed after it", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const stranger = await RawEditor.connect(server.url, id);
  stranger.authenticate("not a token");
  // A malformed update, which closes an authenticated socket.
  stranger.sendUpdate(Uint8Array.of(1, 2, 3), 2);
  await waitBriefly();
  assert.equal(stranger.socket.readyState, WebSocket.OPEN);
  await stranger.close();
  const known = await RawEditor.connect(server.url, id);
  known.authenticate(token("member"));
  known.sendUpdate(craftUpdate(7, 0, [{ text: "more " }]));
  await until(async () => (await documents.readText(id)).includes("more "), "what came too early is saved");
  await known.close();
  const hostile = await RawEditor.connect(server.url, id);
  hostile.authenticate(token("member"));
  hostile.sendUpdate(Uint8Array.of(1, 2, 3), 2);
  assert.equal(await hostile.closed, 4400);
});

/** An update of one client from `clock` on. */
function craftUpdate(client: number, clock: number, items: readonly CraftedItem[]): Uint8Array {
  const update = enc.createEncoder();
  for (const number of [1, items.length, client, clock]) enc.writeVarUint(update, number);
  for (const { left, right, text } of items) {
    enc.writeUint8(update, 4 | (left === undefined ? 0 : 0x80) | (right === undefined ? 0 : 0x40));
    for (const number of [...left ?? [], ...right ?? []]) enc.writeVarUint(update, number);
    if (left === undefined && right === undefined) {
      enc.writeVarUint(update, 1);
      enc.writeVarString(update, "content");
    }
    enc.writeVarString(update, text);
  }
  enc.writeVarUint(update, 0);
  return enc.toUint8Array(update);
}

Deno.test("long updates of a tenant are merged one at a time; short ones, and those of other tenants, do not wait", async () => {
  let [running, most] = [0, 0];
  const deps = {
    documentAccess: { require: () => Promise.resolve({ row: { kind: "text" } }) },
    log: { measure: () => undefined },
    store: {
      write: async () => {
        most = Math.max(most, ++running);
        for (let tick = 0; tick < 5; tick++) await nextTick();
        running--;
      },
    },
  } as unknown as ConstructorParameters<typeof ContentService>[0];
  const service = new ContentService(deps);
  const mostOf = async (bytes: number, tenantOf: (n: number) => string): Promise<number> => {
    most = 0;
    const update = new Uint8Array(bytes);
    await Promise.all(Array.from({ length: 3 }, (_, n) => {
      const actor = { tenantId: tenantOf(n), principalId: `p${n}`, ownerId: null };
      return service.merge({ actor } as unknown as Parameters<ContentService["merge"]>[0], "doc", update);
    }));
    return most;
  };
  assert.equal(await mostOf(5000, () => "one"), 1);
  assert.equal(await mostOf(4000, () => "one"), 3);
  assert.equal(await mostOf(5000, (n) => `tenant ${n}`), 3);
});
