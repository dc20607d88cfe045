// What all adapters of vectors promise: scopes, recall, transactions, removal, and what several nodes see of each other.
import assert from "node:assert/strict";
import { type AnyStore, openStore } from "@/adapters/open.ts";
import { runStatementAlone } from "@/adapters/store/postgres/connection.ts";
import { openPgvector } from "@/adapters/vectors/pgvector.ts";
import { ScanVectors } from "@/adapters/vectors/scan.ts";
import { systemClock } from "@/core/time/clock.ts";
import type { VectorHit, VectorRow, Vectors, VectorSpace } from "@/ports/vectors.ts";
import { createTemporaryDatabase } from "../temporary_database.ts";
import { pgvectorUrl, postgresUrl } from "../tier.ts";
import { ClusteredVectors, nearestIds, recallOf } from "../vector_data.ts";

const DIMENSIONS = 64;
const SPACE: VectorSpace = { tenantId: "acme", id: "space_a", dimensions: DIMENSIONS };

type Opened = { store: AnyStore; vectors: Vectors; another: () => Promise<Vectors>; close: () => Promise<void> };
type Options = { memoryBytes?: number; exactMax?: number };
type Adapter = { name: string; isIgnored: boolean; open: (options?: Options) => Promise<Opened> };

const MEMORY = 8 * 2 ** 20;

async function openScan(url: string, { memoryBytes = MEMORY, exactMax }: Options = {}): Promise<Opened> {
  const store = await openStore(url, systemClock);
  const create = (): Vectors => new ScanVectors(store, { memoryBytes, ...exactMax === undefined ? {} : { exactMax } });
  const vectors = create();
  if (url.startsWith("sqlite")) await store.migrate([{ name: "vector", migrations: vectors.migrations }]);
  return { store, vectors, another: () => Promise.resolve(create()), close: () => store.close() };
}

async function onDatabase(server: string, open: (url: string) => Promise<Opened>): Promise<Opened> {
  const database = await createTemporaryDatabase(server);
  const opened = await open(database.url);
  return {
    ...opened,
    async close() {
      await opened.close();
      await database.release();
    },
  };
}

async function openExtension(url: string, { exactMax }: Options = {}): Promise<Opened> {
  const store = await openStore(url, systemClock);
  const create = async (): Promise<Vectors> => {
    const runAlone = (statement: string) => runStatementAlone(url, statement);
    const opened = await openPgvector(store, { runAlone, ...exactMax === undefined ? {} : { exactMax } });
    assert.ok(opened !== undefined, "TEST_PGVECTOR_URL names a server with the extension");
    return opened;
  };
  return { store, vectors: await create(), another: create, close: () => store.close() };
}

const ADAPTERS: Adapter[] = [
  { name: "scan on sqlite", isIgnored: false, open: (options) => openScan("sqlite::memory:", options) },
  {
    name: "scan on postgres",
    isIgnored: postgresUrl === undefined,
    open: (options) => onDatabase(postgresUrl ?? "", (url) => openScan(url, options)),
  },
  {
    name: "pgvector",
    isIgnored: pgvectorUrl === undefined,
    open: (options) => onDatabase(pgvectorUrl ?? "", (url) => openExtension(url, options)),
  },
];

function rowsOf(count: number, scopes: number, data = new ClusteredVectors(DIMENSIONS)): VectorRow[] {
  return Array.from({ length: count }, (_, at) => ({
    scope: `room:${at % scopes}`,
    kind: "message",
    id: `m${at}`,
    vector: data.next(),
  }));
}

async function add({ store, vectors }: Opened, rows: readonly VectorRow[], space = SPACE): Promise<void> {
  for (let at = 0; at < rows.length; at += 500) {
    await store.write((tx) => vectors.put(tx, space, rows.slice(at, at + 500)));
  }
}

function idsOf(hits: readonly VectorHit[]): string[] {
  return hits.map(({ id }) => id);
}

function scopesOf(count: number): string[] {
  return Array.from({ length: count }, (_, at) => `room:${at}`);
}

for (const { name, isIgnored, open } of ADAPTERS) {
  const test = (title: string, run: (opened: Opened) => Promise<void>, options?: Options): void =>
    Deno.test({
      name: `vectors ${name}: ${title}`,
      ignore: isIgnored,
      async fn() {
        const opened = await open(options);
        try {
          await run(opened);
        } finally {
          await opened.close();
        }
      },
    });

  test("3 of 200 scopes: ten results of these scopes, and nearly all of the best", async (opened) => {
    const data = new ClusteredVectors(DIMENSIONS);
    const rows = rowsOf(6000, 200, data);
    await add(opened, rows);
    const scopes = ["room:3", "room:77", "room:199"];
    const visible = rows.filter(({ scope }) => scopes.includes(scope));
    let recall = 0;
    for (let query = 0; query < 20; query++) {
      const vector = data.next();
      const hits = await opened.vectors.search(SPACE, { vector, scopes, kinds: ["message"], limit: 10 });
      assert.equal(hits.length, 10);
      assert.ok(hits.every(({ id }) => visible.some((row) => row.id === id)), "none is foreign");
      assert.deepEqual(hits, hits.toSorted((a, b) => b.score - a.score));
      recall += recallOf(idsOf(hits), nearestIds(visible, vector, 10)) / 20;
    }
    assert.ok(recall >= 0.95, `recall ${recall}`);
  });

  test("very many vectors: candidates are found another way, with nearly all of the best", async (opened) => {
    const data = new ClusteredVectors(DIMENSIONS);
    const rows = rowsOf(3000, 4, data);
    await add(opened, rows);
    await opened.vectors.optimize(SPACE);
    let recall = 0;
    for (let query = 0; query < 10; query++) {
      const vector = data.next();
      const hits = await opened.vectors.search(SPACE, { vector, scopes: scopesOf(4), kinds: ["message"], limit: 10 });
      recall += recallOf(idsOf(hits), nearestIds(rows, vector, 10)) / 10;
      const few = await opened.vectors.search(SPACE, { vector, scopes: ["room:1"], kinds: ["message"], limit: 10 });
      assert.equal(few.length, 10);
      assert.ok(few.every(({ id }) => Number(id.slice(1)) % 4 === 1));
    }
    assert.ok(recall >= 0.95, `recall ${recall}`);
  }, { exactMax: 1000 });

  test("kinds, spaces and tenants are apart", async (opened) => {
    const [first, second, third] = rowsOf(3, 1);
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    await add(opened, [first, { ...second, kind: "task" }]);
    await add(opened, [third], { ...SPACE, id: "space_b" });
    await add(opened, [{ ...third, id: "foreign" }], { ...SPACE, tenantId: "other" });
    const ask = async (space: VectorSpace, kinds: string[]) =>
      idsOf(await opened.vectors.search(space, { vector: third.vector, scopes: ["room:0"], kinds, limit: 5 })).sort();
    assert.deepEqual(await ask(SPACE, ["message"]), [first.id]);
    assert.deepEqual(await ask(SPACE, ["message", "task"]), [first.id, second.id]);
    assert.deepEqual(await ask({ ...SPACE, id: "space_b" }, ["message"]), [third.id]);
    assert.deepEqual(await ask({ ...SPACE, tenantId: "other" }, ["message"]), ["foreign"]);
    assert.deepEqual(
      await opened.vectors.search(SPACE, { vector: first.vector, scopes: [], kinds: ["message"], limit: 5 }),
      [],
    );
    assert.equal(await opened.vectors.count(SPACE), 2);
  });

  test("a resource with many texts is one result, with the best of them", async (opened) => {
    const data = new ClusteredVectors(DIMENSIONS);
    const vector = data.next();
    const parts = Array.from(
      { length: 8 },
      () => ({ scope: "room:0", kind: "document", id: "d", vector: data.next() }),
    );
    await add(opened, [...parts, { scope: "room:0", kind: "document", id: "d", vector }]);
    await add(opened, [{ scope: "room:0", kind: "document", id: "e", vector: data.next() }]);
    const hits = await opened.vectors.search(SPACE, { vector, scopes: ["room:0"], kinds: ["document"], limit: 2 });
    assert.deepEqual(idsOf(hits), ["d", "e"]);
    assert.ok((hits[0]?.score ?? 0) > 0.99);
  });

  test("what is added and removed later is seen at once, on every node", async (opened) => {
    const rows = rowsOf(40, 2);
    const extra = {
      scope: "room:0",
      kind: "message",
      id: "new",
      vector: new ClusteredVectors(DIMENSIONS, { seed: 9 }).next(),
    };
    await add(opened, rows);
    const there = await opened.another();
    const ask = async (vectors: Vectors) =>
      idsOf(await vectors.search(SPACE, { vector: extra.vector, scopes: ["room:0"], kinds: ["message"], limit: 50 }));
    assert.equal((await ask(opened.vectors)).length, 20);
    assert.equal((await ask(there)).length, 20);
    await add(opened, [extra]);
    assert.equal((await ask(there))[0], "new");
    const gone = [extra, ...rows.filter(({ scope }) => scope === "room:0").slice(5)];
    await opened.store.write((tx) => opened.vectors.remove(tx, SPACE, gone));
    const left = rows.filter(({ scope }) => scope === "room:0").slice(0, 5).map(({ id }) => id).sort();
    assert.deepEqual((await ask(there)).sort(), left);
    assert.deepEqual((await ask(opened.vectors)).sort(), left);
    assert.equal(await there.count(SPACE), 25);
    await add(opened, [extra]);
    assert.equal((await ask(opened.vectors))[0], "new");
  });

  test("a write that is rolled back leaves nothing", async (opened) => {
    const [row] = rowsOf(1, 1);
    assert.ok(row !== undefined);
    const failing = opened.store.write(async (tx) => {
      await opened.vectors.put(tx, SPACE, [row]);
      throw new Error("rolled back");
    });
    await assert.rejects(failing, /rolled back/);
    const hits = await opened.vectors.search(SPACE, {
      vector: row.vector,
      scopes: ["room:0"],
      kinds: ["message"],
      limit: 5,
    });
    assert.deepEqual(hits, []);
  });

  test("a space is cleared in steps, and no other", async (opened) => {
    await add(opened, rowsOf(1500, 3));
    await add(opened, rowsOf(10, 1), { ...SPACE, id: "space_b" });
    let steps = 0;
    while (await opened.vectors.clear(SPACE)) steps++;
    assert.ok(steps > 0);
    assert.equal(await opened.vectors.count(SPACE), 0);
    assert.equal(await opened.vectors.count({ ...SPACE, id: "space_b" }), 10);
  });

  test("many searches at the same time, with changes between them", async (opened) => {
    const data = new ClusteredVectors(DIMENSIONS);
    const rows = rowsOf(2000, 20, data);
    await add(opened, rows.slice(0, 1000));
    const vector = data.next();
    const search = () => opened.vectors.search(SPACE, { vector, scopes: scopesOf(20), kinds: ["message"], limit: 10 });
    const writes = (async () => {
      await add(opened, rows.slice(1000));
      await opened.store.write((tx) => opened.vectors.remove(tx, SPACE, rows.slice(0, 200)));
    })();
    const found = await Promise.all(Array.from({ length: 20 }, search));
    assert.ok(found.every((hits) => hits.length === 10));
    await writes;
    const expected = nearestIds(rows.slice(200), vector, 10);
    assert.ok(recallOf(idsOf(await search()), expected) >= 0.9);
  });
}

Deno.test("vectors scan: memory stays within its bound, also with scopes larger than it", async () => {
  const memoryBytes = 400_000;
  const store = await openStore("sqlite::memory:", systemClock);
  const vectors = new ScanVectors(store, { memoryBytes });
  await store.migrate([{ name: "vector", migrations: vectors.migrations }]);
  const data = new ClusteredVectors(DIMENSIONS);
  // Forty small scopes, and one that is twice as large as the bound.
  const rows = [
    ...rowsOf(4000, 40, data),
    ...rowsOf(12_000, 1, data).map((row) => ({ ...row, id: `big${row.id}`, scope: "room:big" })),
  ];
  for (let at = 0; at < rows.length; at += 1000) {
    await store.write((tx) => vectors.put(tx, SPACE, rows.slice(at, at + 1000)));
  }
  for (let round = 0; round < 3; round++) {
    const vector = data.next();
    const scopes = [...scopesOf(40), "room:big"];
    const hits = await vectors.search(SPACE, { vector, scopes, kinds: ["message"], limit: 10 });
    assert.ok(recallOf(idsOf(hits), nearestIds(rows, vector, 10)) >= 0.9);
    assert.ok(vectors.cachedBytes <= memoryBytes, `${vectors.cachedBytes}`);
  }
  vectors.reset();
  assert.equal(vectors.cachedBytes, 0);
  await store.close();
});
