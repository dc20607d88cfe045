// The index on each engine: other kinds of resources, transactions, versions, restarts, trimmed logs, concurrency.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { z } from "@zod/zod";
import { type Kysely, sql } from "kysely";
import type { Actor } from "@/core/actor.ts";
import { Signer } from "@/core/crypto.ts";
import { Cursors } from "@/core/page.ts";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import { SearchIndexer } from "@/modules/search/indexer.ts";
import { SearchIndex } from "@/modules/search/mod.ts";
import type { SearchResponse } from "@/modules/search/schema.ts";
import { SearchService } from "@/modules/search/service.ts";
import { IndexedMessageStore } from "@/modules/message/indexed_message_store.ts";
import { messageStream } from "@/modules/message/searchable.ts";
import type { SearchTables } from "@/modules/search/index_store.ts";
import { Matcher } from "@/modules/search/matcher.ts";
import { SearchViewer } from "@/modules/search/search_viewer.ts";
import { type Candidate, SearchStore } from "@/modules/search/store.ts";
import { hashGrams } from "@/modules/search/tokenize.ts";
import { openStore } from "@/adapters/open.ts";
import { SqliteConnection } from "@/adapters/store/sqlite/connection.ts";
import { systemClock } from "@/core/time/clock.ts";
import { Reindexer } from "@/modules/search/reindexer.ts";
import { IndexProgressStore } from "@/modules/search/progress_store.ts";
import { testOnPostgres } from "../engines.ts";
import { type Harness, openGateway } from "../harness.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { fillRoom, testSearch, waitForIndex } from "./search_engines.ts";
import { replace } from "../replace.ts";
import { allEnded, WAIT_MS } from "../wait.ts";
import { completeSearch, createCallers, ok } from "../modules/fixtures.ts";
import { recordQueries } from "../modules/query_log.ts";
import { memberOf } from "../tokens.ts";

const NOTE = z.object({ id: z.string(), title: z.string() });

/** Notes in a map instead of the table of a module. */
class NoteSearchable implements Searchable {
  readonly kind = "note";
  readonly scope = "note.read";
  readonly item = NOTE;
  readonly rows = new Map<string, z.output<typeof NOTE>>();

  load(_actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>> {
    const rows = ids.flatMap((id) => this.rows.get(id) ?? []);
    return Promise.resolve(new Map(rows.map((row) => [row.id, { fields: { title: row.title }, item: row }])));
  }

  entries: Searchable["entries"] = () => Promise.resolve([]);
}

function registerNotes(gateway: Harness): {
  notes: NoteSearchable;
  index: SearchIndex;
  note: (id: string, title: string, more: Partial<SearchEntry>) => SearchEntry;
  search: (who: string, query: string) => Promise<SearchResponse>;
  find: (who: string, query: string) => Promise<string[]>;
} {
  const { store } = gateway.app;
  const notes = new NoteSearchable();
  const index = new SearchIndex(store);
  const service = new SearchService({
    store,
    clock: gateway.clock,
    cursors: new Cursors(new Signer([new Uint8Array(32)], "cursor")),
    indexer: new SearchIndexer({ store, index, stream: messageStream }),
    sources: [notes],
    people: { sendersOf: () => Promise.resolve([]) },
    vectors: {
      open: () => Promise.resolve({ find: undefined, reason: "no_embedding_model" }),
      isAvailable: () => Promise.resolve(false),
    },
  });
  const search = (who: string, query: string): Promise<SearchResponse> =>
    service.search(memberOf("default", who), {
      query,
      filters: { types: ["note"] },
      mode: "keyword",
      sort: "relevance",
      context: 0,
      include: [],
      limit: 20,
    });
  return {
    notes,
    index,
    search,
    note(id, title, more) {
      notes.rows.set(id, { id, title });
      return {
        tenantId: "default",
        kind: "note",
        id,
        roomId: null,
        at: "2026-03-01T12:00:00.000Z",
        version: 1,
        texts: [title],
        ...more,
      };
    },
    async find(who, query) {
      const answer = await search(who, query);
      return answer.items.map((item) => (item as unknown as { note: { id: string } }).note.id);
    },
  };
}

testSearch(
  "SearchIndex.put makes resources of other modules findable by readers of their room, or by their owner",
  async (gateway) => {
    const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
    for (const one of [alice, bob]) await one.get("/v1/rooms");
    const roomId: string = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
    const { index, note, find } = registerNotes(gateway);
    await index.put(
      note("shared", "Quarterly figures", { roomId }),
      note("private", "Quarterly diary", { principalId: "bob" }),
      note("nobody", "Quarterly ghost", {}),
      note("foreign", "Quarterly elsewhere", { tenantId: "other", principalId: "alice" }),
    );
    assert.deepEqual(await find("alice", "quarter"), ["shared"]);
    assert.deepEqual(await find("bob", "quarter"), ["private"]);
    await index.remove("default", "note", ["shared", "never there"]);
    assert.deepEqual(await find("alice", "quarter"), []);
  },
);

testSearch("SearchIndex.put and remove are part of the transaction they are called in", async (gateway) => {
  const { index, note, find } = registerNotes(gateway);
  await assert.rejects(gateway.app.store.write(async () => {
    await index.put(note("a", "Undone", { principalId: "alice" }));
    throw new Error("no");
  }));
  assert.deepEqual(await find("alice", "undone"), []);
  await gateway.app.store.write(() => index.put(note("a", "Undone", { principalId: "alice" })));
  await assert.rejects(gateway.app.store.write(async () => {
    await index.remove("default", "note", ["a"]);
    throw new Error("no");
  }));
  assert.deepEqual(await find("alice", "undone"), ["a"]);
});

testSearch("SearchIndex.put never lets an older version replace a newer one", async (gateway) => {
  const { index, notes, note, find } = registerNotes(gateway);
  await index.put(note("a", "second wording", { principalId: "alice", version: 2 }));
  await index.put(note("a", "first wording", { principalId: "alice", version: 1 }));
  notes.rows.set("a", { id: "a", title: "second wording" });
  assert.deepEqual(await find("alice", "second"), ["a"]);
  await index.put(note("a", "third wording", { principalId: "alice", version: 3 }));
  assert.deepEqual(await find("alice", "third"), ["a"]);
  assert.deepEqual(await find("alice", "second"), []);
});

testSearch("SearchIndex stores more than a thousand resources of one millisecond", async (gateway) => {
  const { index, note, find } = registerNotes(gateway);
  const ids = Array.from({ length: 1500 }, (_, at) => `note${at}`);
  await index.put(...ids.map((id) => note(id, `crowded ${id}`, { principalId: "alice" })));
  for (const id of ["note0", "note1023", "note1024", "note1499"]) {
    assert.deepEqual(await find("alice", `"crowded ${id}"`), id === "note0" ? ["note0"] : [id]);
  }
});

testSearch(
  "search finds edits whose events were trimmed before they were indexed",
  async (gateway) => {
    const alice = await gateway.as("alice");
    const roomId: string = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
    const ids: string[] = [];
    for (let at = 0; at < 200; at++) {
      ids.push((await alice.post("/v1/messages", { roomId, text: `entry ${at}` })).body.id);
    }
    assert.equal((await completeSearch(() => alice.get("/v1/search?q=entry"))).totalEstimate, 200);
    assert.equal((await alice.patch(`/v1/messages/${ids[3]}`, { text: "changed early" })).status, 200);
    for (let at = 0; at < 5; at++) await alice.post("/v1/messages", { roomId, text: `later ${at}` });
    await gateway.app.store.log.trim(0, 2);
    const { items } = await completeSearch(() => alice.get("/v1/search?q=changed"));
    assert.deepEqual(items.map((item: { message: { id: string } }) => item.message.id), [ids[3]]);
    assert.equal((await completeSearch(() => alice.get("/v1/search?q=later&sort=recent"))).items.length, 5);
  },
);

testOnPostgres("search finds an edit whose event is trimmed while its room is indexed", async (environment) => {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  const roomId: string = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
  const { body: { id } } = await alice.post("/v1/messages", { roomId, text: "as it was" });
  assert.equal((await completeSearch(() => alice.get("/v1/search?q=was"))).totalEstimate, 1);
  const { findBetween } = IndexedMessageStore.prototype;
  let dropped: number | undefined;
  const outside = AsyncLocalStorage.snapshot();
  using _trimmed = replace(
    IndexedMessageStore.prototype,
    "findBetween",
    async function (this: IndexedMessageStore, ...asked) {
      // As from another node, outside of the transaction that indexes.
      dropped ??= await outside(() => gateway.app.store.log.trim(0, 0));
      return await findBetween.apply(this, asked);
    },
  );
  assert.equal((await alice.patch(`/v1/messages/${id}`, { text: "changed" })).status, 200);
  assert.equal((await completeSearch(() => alice.get("/v1/search?q=changed"))).totalEstimate, 1);
  assert.ok((dropped ?? 0) > 0);
});

testSearch(
  "every message is found once it is acknowledged, during concurrent sends and searches",
  async (gateway) => {
    const alice = await gateway.as("alice");
    const find = async (query: string) => (await completeSearch(() => alice.get(`/v1/search?q=${query}`))).items;
    const rooms: string[] = [];
    for (let at = 0; at < 3; at++) rooms.push((await alice.post("/v1/rooms", { name: `Room ${at}` })).body.id);
    await allEnded(Array.from({ length: 60 }, async (_, at) => {
      const sent = await alice.post("/v1/messages", { roomId: rooms[at % 3], text: `unique${at}x of many` });
      assert.equal(sent.status, 201);
      const items = await find(`unique${at}x`);
      assert.deepEqual(items.map((item: { message: { id: string } }) => item.message.id), [sent.body.id]);
    }));
    assert.equal((await find("many&sort=recent&limit=100")).length, 60);
  },
);

testSearch("purging a room removes it from the index", async (gateway) => {
  const alice = await gateway.as("alice", { role: "owner" });
  const roomId: string = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
  await alice.post("/v1/messages", { roomId, text: "ephemeral" });
  assert.equal((await completeSearch(() => alice.get("/v1/search?q=ephemeral"))).items.length, 1);
  assert.equal((await alice.get("/v1/collaboration/search/status")).body.documents, 1);
  assert.equal((await alice.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
  await gateway.runJobs();
  assert.deepEqual((await completeSearch(() => alice.get("/v1/search?q=ephemeral"))).items, []);
  assert.equal((await alice.get("/v1/collaboration/search/status")).body.documents, 0);
  const { store } = gateway.app;
  assert.deepEqual(await new IndexProgressStore(store.db, store.dialect).laggingInAllTenants(10), []);
});

/** What the largest end of a write during `work` changes by itself, beyond the statements before it: FTS5 writes then. */
async function largestEnd(work: () => Promise<unknown>): Promise<number> {
  const { commit, control } = SqliteConnection.prototype;
  const ends: Promise<number>[] = [];
  const measure = (connection: SqliteConnection, end: () => Promise<void> | void): Promise<void> | void => {
    const changes = async (): Promise<number> =>
      Number((await connection.run("select total_changes() as n", [])).rows[0]?.["n"]);
    const before = changes();
    const ended = end();
    ends.push(Promise.all([changes(), before]).then(([after, before]) => after - before));
    return ended;
  };
  SqliteConnection.prototype.commit = async function () {
    await measure(this, () => commit.call(this));
  };
  SqliteConnection.prototype.control = function (sql) {
    void measure(this, () => control.call(this, sql));
  };
  try {
    await work();
  } finally {
    Object.assign(SqliteConnection.prototype, { commit, control });
  }
  return Math.max(...await Promise.all(ends));
}

Deno.test("no write of a reindex or a purge merges much of the SQLite index, and nothing is left of the room", async () => {
  await using gateway = await openGateway();
  await gateway.app.jobs.stop();
  const { index, note, notes } = registerNotes(gateway);
  const words = (n: number): string => Array.from({ length: 40 }, (_, k) => `w${(n * 41 + k * k) % 9973}`).join(" ");
  const all = Array.from({ length: 5000 }, (_, n) => note(`${10_000 + n}`, words(n), { roomId: "room" }));
  notes.entries = (_tenantId, which) =>
    Promise.resolve("ids" in which ? [] : all.filter(({ id }) => id > which.after).slice(0, which.limit));
  const { app: { store }, clock } = gateway;
  const reindexer = new Reindexer({ store, clock, index, sources: [notes] });
  const { id } = await reindexer.start(memberOf("default", "alice"), undefined);
  const largest = await largestEnd(async () => {
    await reindexer.job.run({ tenantId: "default", payload: { id }, attempt: 1 });
    await index.purgeRoom("default", "room");
  });
  assert.ok(largest < 40, `${largest} rows`);
  const { rows } = await sql`select 1 from search_terms limit 1`.execute(gateway.app.store.db);
  assert.equal(rows.length, 0);
});

Deno.test("search ranks what it has read when its time ends, and says that this is not all", async () => {
  await using gateway = await openGateway();
  const { index, note, notes, find, search } = registerNotes(gateway);
  const one = (n: number) => note(`${1000 + n}`, `leaf ${n}`, { principalId: "alice" });
  for (const part of [0, 150]) await index.put(...Array.from({ length: 150 }, (_, n) => one(part + n)));
  const load = notes.load.bind(notes);
  let [now, loads] = [performance.now(), 0];
  // No other time passes: the first part is not late on any machine.
  using _clock = replace(performance, "now", () => now);
  assert.equal((await find("alice", "leaf")).length, 20);
  notes.load = (...call) => {
    // The second part takes until the end of the time.
    if (++loads === 2) now += 1800;
    return load(...call);
  };
  const { degradedReason, totalEstimate } = await search("alice", "leaf");
  assert.deepEqual([degradedReason, totalEstimate], ["index_incomplete", 200]);
});

testSearch("search finds resources with times of any year", async (gateway) => {
  const { index, note, find } = registerNotes(gateway);
  const years = ["0001", "1600", "1969", "2300", "9999"];
  const at = (year: string): string => `${year}-07-01T00:00:00.000Z`;
  for (const version of [1, 2]) {
    for (const year of years) await index.put(note(year, "of old", { principalId: "alice", at: at(year), version }));
  }
  assert.deepEqual((await find("alice", "old")).sort(), years);
  await index.remove("default", "note", years);
  assert.deepEqual(await find("alice", "old"), []);
});

testSearch("a reindex that failed permanently does not prevent another", async (gateway) => {
  const alice = await gateway.as("alice", { role: "owner" });
  await gateway.app.jobs.stop();
  const path = "/v1/collaboration/search/reindex";
  assert.equal((await alice.post(path)).status, 202);
  assert.equal((await alice.post(path)).status, 409);
  await gateway.app.store.write(({ db }) =>
    sql`update job set state = 'dead' where tenant_id = 'default' and kind = 'search.reindex'`.execute(db)
  );
  assert.equal((await alice.post(path)).status, 202);
});

Deno.test("search after a restart has all indexed messages and indexes the others", async () => {
  await using folder = await createTemporaryFolder();
  const environment = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, SVC_DATA_DIR: folder.path };
  let roomId = "";
  {
    await using gateway = await openGateway(environment);
    const alice = await gateway.as("alice");
    roomId = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
    await alice.post("/v1/messages", { roomId, text: "persimmon before" });
    assert.equal((await completeSearch(() => alice.get("/v1/search?q=persimmon"))).items.length, 1);
    await alice.post("/v1/messages", { roomId, text: "persimmon unindexed" });
  }
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  assert.equal((await completeSearch(() => alice.get("/v1/search?q=persimmon"))).items.length, 2);
});

Deno.test("indexing continues while messages arrive", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice", { role: "admin" });
  const roomId = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
  let documents = 0;
  for (let sent = 0; sent < 1000 && documents === 0; sent++) {
    await alice.post("/v1/messages", { roomId, text: `message ${sent}` });
    await new Promise((resolve) => setTimeout(resolve, 40));
    documents = (await alice.get("/v1/collaboration/search/status")).body.documents;
    assert.equal(typeof documents, "number");
  }
  assert.ok(documents > 0);
});

testOnPostgres("one node at a time indexes in the background", async ({ SVC_DATABASE_URL }) => {
  const store = await openStore(SVC_DATABASE_URL ?? "", systemClock);
  const ask = (until: Promise<void>): Promise<boolean> =>
    store.write(async (tx) => {
      const isAlone = await new IndexProgressStore(tx.db, store.dialect).tryLockBackground();
      answered.resolve();
      await until;
      return isAlone;
    });
  const answered = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const first = ask(end.promise);
  await answered.promise;
  assert.equal(await ask(Promise.resolve()), false);
  end.resolve();
  assert.equal(await first, true);
  assert.equal(await ask(Promise.resolve()), true);
  await store.close();
});

Deno.test("SearchViewer.of requires a tenant and a principal", () => {
  const actor = memberOf("default", "alice");
  assert.throws(() => SearchViewer.of({ ...actor, tenantId: "" }), TypeError);
  assert.throws(() => SearchViewer.of({ ...actor, principalId: "" }), TypeError);
  assert.equal(SearchViewer.of({ ...actor, role: "guest" }).canBrowsePublic, false);
  assert.equal(SearchViewer.of({ ...actor, kind: "agent", ownerId: "bob" }).canBrowsePublic, false);
});

testOnPostgres("the newest messages with a frequent word are found without asking for all", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  await fillRoom(gateway, alice, Array.from({ length: 60 }, (_, n) => `frequent ${n}`));
  await waitForIndex(alice);
  const store = new SearchStore(gateway.app.store.db as unknown as Kysely<SearchTables>, "postgres"); // these are in every store
  const viewer = SearchViewer.of(memberOf("default", "alice"));
  const filter = { kinds: ["message"], isOnlyStreamed: true };
  const tokens = { all: hashGrams("default", new Matcher("frequent").requiredGrams), any: [] };
  const find = (leftMs: number, limit: number, after?: Candidate) =>
    store.candidates({ viewer, filter, leftMs: () => leftMs }, tokens, after, limit);
  const { candidates: all } = await find(WAIT_MS, 100);
  assert.equal(all.length, 60);
  // Whether these are all that there are is known only when all were asked for.
  assert.deepEqual(await find(0, 50), { candidates: all.slice(0, 50), isComplete: true });
  assert.deepEqual(await find(0, 50, all[49]), { candidates: all.slice(50), isComplete: false });
  assert.deepEqual(await find(WAIT_MS, 50, all[49]), { candidates: all.slice(50), isComplete: true });
  // Other kinds take none of these away, and add what they have in time.
  const ofKinds = (leftMs: number) => {
    const several = { kinds: ["task", "message"], isOnlyStreamed: false, streamedKind: "message" };
    return store.candidates({ viewer, filter: several, leftMs: () => leftMs }, tokens, undefined, 50);
  };
  assert.deepEqual(await ofKinds(0), { candidates: all.slice(0, 50), isComplete: false });
  assert.deepEqual(await ofKinds(WAIT_MS), { candidates: all.slice(0, 50), isComplete: true });
  // The few that are pinned or in a thread are looked up as such.
  const pinned = all[0]?.id ?? "";
  ok(await alice.put(`/v1/messages/${pinned}/pin`));
  for (const [filter, ids] of [["pinned=true", [pinned]], [`threadId=${pinned}`, [pinned]]] as const) {
    const statements = await recordQueries(async () => {
      const { items } = await completeSearch(() => alice.get(`/v1/search?q=frequent&${filter}`));
      assert.deepEqual(items.map(({ message }: { message: { id: string } }) => message.id), ids);
    });
    assert.ok(!statements.some(({ sql }) => sql.includes("'' || tenant_id")), filter);
  }
});
