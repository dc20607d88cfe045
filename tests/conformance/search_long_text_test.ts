// Long texts in the index on each engine: written in parts, found as one resource, resumed after an interruption.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import { LongTextIndexer } from "@/modules/search/long_text.ts";
import { SearchIndex } from "@/modules/search/mod.ts";
import { PART_TOKENS } from "@/modules/search/search_index.ts";
import { assertYields } from "../cpu_time.ts";
import type { Caller, Harness } from "../harness.ts";
import { testSearch } from "./search_engines.ts";
import { completeSearch } from "../modules/fixtures.ts";

const PATH = "/v1/collaboration/documents";
/** Number of characters whose tokens need several parts. */
const LENGTH = 20_000;
const PARTS = { least: LENGTH / PART_TOKENS, most: 2 * LENGTH / PART_TOKENS + 2 };

/** Chinese text with hardly any repeated pair of neighbors, so that each pair is a token. */
function chineseText(state: number, length = LENGTH): string {
  const next = (): number => state = state * 48_271 % 0x7fffffff;
  return Array.from({ length }, () => String.fromCharCode(0x4e00 + next() % 3000)).join("");
}

async function searchDocuments(who: Caller, q: string): Promise<{ ids: string[]; degraded: boolean; total: number }> {
  const body = await completeSearch(() => who.get(`/v1/search?types=document&q=${encodeURIComponent(q)}`));
  for (const { highlights } of body.items) assert.ok(highlights.length > 0);
  const ids = body.items.map((item: { document: { id: string } }) => item.document.id);
  return { ids, degraded: body.degraded, total: body.totalEstimate };
}

async function partsIn(gateway: Harness): Promise<number[]> {
  const rows = await gateway.app.store.db.selectFrom("search_part").select("part").orderBy("part").execute();
  return rows.map(({ part }) => part);
}

testSearch(
  "a long text is found as one resource, in a room and by readers, until it is changed or deleted",
  async (gateway) => {
    const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
    for (const one of [alice, bob]) await one.get("/v1/rooms");
    const roomId: string = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
    const text = `beginning ${chineseText(1)} ending`;
    const shared = (await alice.post(PATH, { title: "Shared", roomId, text })).body.id;
    const own = (await alice.post(PATH, { title: "Own", text: `${text} mine` })).body.id;
    assert.equal((await alice.put(`${PATH}/${own}/access/bob`, { role: "reader" })).status, 200);
    await gateway.runJobs();
    const both = new Set([shared, own]);
    for (
      const q of ["beginning", "ending", "beginning ending", text.slice(5000, 5010), `${text.slice(900, 903)} ending`]
    ) {
      const { ids, degraded, total } = await searchDocuments(alice, q);
      assert.deepEqual([ids.length, new Set(ids), total, degraded], [2, both, 2, false], q);
      assert.deepEqual((await searchDocuments(bob, q)).ids, [own], q);
    }
    assert.deepEqual((await searchDocuments(alice, '"beginning" nowhere')).ids, []);
    const before = await partsIn(gateway);
    assert.ok(before.length >= 2 * PARTS.least && before.length <= 2 * PARTS.most, String(before.length));

    const { body: { revision } } = await alice.get(`${PATH}/${shared}`);
    const changed = await alice.put(`${PATH}/${shared}/content`, { revision, text: `${chineseText(2)} finish` });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    await gateway.runJobs();
    assert.deepEqual((await searchDocuments(alice, "ending")).ids, [own]);
    assert.deepEqual((await searchDocuments(alice, "finish")).ids, [shared]);
    const after = await partsIn(gateway);
    assert.ok(after.length <= before.length, "the parts of the text before are gone");
    assert.ok((after.at(-1) ?? 0) > (before.at(-1) ?? 0));

    const next = changed.body.revision;
    assert.equal((await alice.put(`${PATH}/${shared}/content`, { revision: next, text: "short" })).status, 200);
    assert.deepEqual((await searchDocuments(alice, "short")).ids, [shared]);
    assert.deepEqual((await searchDocuments(alice, "finish")).ids, []);
    assert.equal((await alice.delete(`${PATH}/${own}`)).status, 204);
    assert.deepEqual((await searchDocuments(alice, "ending")).ids, []);
    assert.deepEqual(await partsIn(gateway), []);
    assert.equal((await alice.post(`${PATH}/${own}/restore`)).status, 200);
    await gateway.runJobs();
    assert.deepEqual((await searchDocuments(bob, "ending")).ids, [own]);
  },
);

/** A note with a variable text. */
class NoteSearchable implements Searchable {
  readonly kind = "note";
  readonly scope = "note.read";
  readonly item = z.unknown();
  entry: SearchEntry = {
    tenantId: "default",
    kind: "note",
    id: "n",
    roomId: null,
    principalId: "alice",
    at: "2026-03-01T12:00:00.000Z",
    version: 1,
    texts: [chineseText(1)],
  };

  load(): Promise<ReadonlyMap<string, LoadedResource>> {
    return Promise.resolve(new Map());
  }

  entries(): Promise<readonly SearchEntry[]> {
    return Promise.resolve([this.entry]);
  }
}

testSearch(
  "an interrupted or outdated run leaves no parts after the next run",
  async (gateway) => {
    const { store } = gateway.app;
    const [note, index] = [new NoteSearchable(), new SearchIndex(store)];
    await index.put(note.entry);
    await gateway.runJobs();
    const run = (after: (writes: number) => Promise<void>) => {
      let writes = 0;
      const watched = new Proxy(store, {
        get(target, name) {
          if (name !== "write") return Reflect.get(target, name, target);
          return async (work: Parameters<typeof store.write>[0]) => {
            const result = await store.write(work);
            await after(++writes);
            return result;
          };
        },
      });
      const { job } = new LongTextIndexer({ store: watched, sources: [note] });
      return job.run({ tenantId: "default", payload: { kind: "note", id: "n" }, attempt: 1 });
    };
    const whole = async () => {
      await run(() => Promise.resolve());
      const parts = await partsIn(gateway);
      assert.ok(parts.length >= PARTS.least && parts.length <= PARTS.most, String(parts.length));
      return parts.length;
    };
    await assert.rejects(
      run((writes) => writes === 3 ? Promise.reject(new Error("killed")) : Promise.resolve()),
      /killed/,
    );
    assert.equal((await partsIn(gateway)).length, 3);
    const count = await whole();
    assert.equal(await whole(), count);
    const newer: SearchEntry = { ...note.entry, version: 2, texts: [chineseText(2)] };
    await run(async (writes) => {
      if (writes === 2) await index.put(newer);
    });
    assert.equal((await partsIn(gateway)).length, count + 2, "stopped there, with what was found before still there");
    note.entry = newer;
    await whole();
    await index.remove("default", "note", ["n"]);
    assert.deepEqual(await partsIn(gateway), []);
    await run(() => Promise.resolve());
    assert.deepEqual(await partsIn(gateway), []);
  },
);

testSearch("a megabyte of Chinese is indexed in many short slices", async (gateway) => {
  const alice = await gateway.as("alice", { role: "owner" });
  await alice.get("/v1/rooms");
  assert.equal((await alice.post(PATH, { title: "Long", text: chineseText(1, 340_000) })).status, 201);
  await gateway.runJobs();
  await assertYields(async () => {
    const body = { types: ["document"] };
    assert.equal((await alice.post("/v1/collaboration/search/reindex", body)).status, 202);
    await gateway.runJobs();
  });
});
