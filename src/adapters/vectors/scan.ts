// Vectors in plain SQL, compared in memory: exact over int8, and beyond `EXACT_MAX` first over bits.
//
// A scope is read when it is searched for the first time; then only what is new is read. The least recently used scopes leave the
// memory when it is full, and a scope that does not fit at all is read for each search.
import { createYielder } from "@/core/caller.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { VectorHit, VectorQuery, VectorRef, VectorRow, Vectors, VectorSpace } from "@/ports/vectors.ts";
import { BLOCK_BYTES, type Metric, VectorArena } from "./arena.ts";
import { bitBytes, codeBytes, dotProduct, encodeBits, encodeVector, packCode, unpackCode } from "./code.ts";
import { kindCode, Partition, type PreparedQuery, type StoredVector, writeRow } from "./partition.ts";
import { VectorRowStore } from "./row_store.ts";
import {
  clearScopes,
  countInScopes,
  countVectors,
  readScopes,
  type ScopeRow,
  vectorMigrations,
  type VectorTables,
} from "./tables.ts";
import { BestScores, type Scored } from "./top.ts";

/** With more vectors, bits find the candidates. */
const EXACT_MAX = 100_000;
/** Candidates by bits, at least, and for each wanted one. */
const CANDIDATES_MIN = 400;
const CANDIDATES_FACTOR = 4;
/** A resource may have several vectors among the best. */
const VECTORS_PER_HIT = 4;
/** Vectors read with one statement. */
const PAGE_ROWS = 1000;
const CLEAR_ROWS = 1000;

type ScanOptions = { memoryBytes: number; exactMax?: number };

type Search = {
  space: VectorSpace;
  metric: Metric;
  query: PreparedQuery;
  kinds: ReadonlySet<number>;
  best: BestScores;
  yieldIfDue: () => Promise<unknown>;
};

export class ScanVectors implements Vectors {
  readonly engine = "scan";
  readonly dimensionsMax = BLOCK_BYTES;
  readonly migrations = vectorMigrations;
  readonly #store: Store<VectorTables>;
  readonly #memoryBytes: number;
  readonly #exactMax: number;
  readonly #arena = new VectorArena();
  /** Least recently used first. */
  readonly #partitions = new Map<string, Partition>();
  /** Reading a scope, by its key: only one search does. */
  readonly #reading = new Map<string, Promise<Partition | undefined>>();

  constructor(store: Store<VectorTables>, { memoryBytes, exactMax = EXACT_MAX }: ScanOptions) {
    this.#store = store;
    this.#memoryBytes = memoryBytes;
    this.#exactMax = exactMax;
  }

  /** Bytes of vectors in memory. */
  get cachedBytes(): number {
    return [...this.#partitions.values()].reduce((sum, { columnBytes }) => sum + columnBytes, this.#arena.usedBytes);
  }

  async put(tx: AnyTransaction, space: VectorSpace, rows: readonly VectorRow[]): Promise<void> {
    if (rows.length === 0) return;
    await countInScopes(tx, space, rows, 1);
    await new VectorRowStore(tx.db).add(
      tx,
      rows.map(({ scope, kind, id, vector }) => ({
        tenant_id: space.tenantId,
        space: space.id,
        scope,
        kind,
        id,
        code: packCode(encodeVector(vector)),
      })),
    );
  }

  async remove(tx: AnyTransaction, space: VectorSpace, refs: readonly VectorRef[]): Promise<void> {
    for (const [kind, group] of Map.groupBy(refs, (ref) => ref.kind)) {
      const removed = await new VectorRowStore(tx.db).remove(space, kind, group.map(({ id }) => id));
      await countInScopes(tx, space, removed, -1);
    }
  }

  async search(space: VectorSpace, { vector, scopes, kinds, limit }: VectorQuery): Promise<VectorHit[]> {
    const { db } = this.#store;
    const visible = await readScopes(db, space, scopes);
    const total = visible.reduce((sum, { rows }) => sum + rows, 0);
    if (total === 0 || limit === 0) return [];
    const code = encodeVector(vector);
    const wanted = limit * VECTORS_PER_HIT;
    const isExact = total <= this.#exactMax;
    const search: Search = {
      space,
      metric: isExact ? "dot" : "hamming",
      query: isExact
        ? { bytes: new Uint8Array(code.values.buffer), scale: code.scale, dimensions: space.dimensions }
        : { bytes: encodeBits(vector, space.dimensions), scale: 1, dimensions: space.dimensions },
      kinds: new Set(kinds.map(kindCode)),
      best: new BestScores(isExact ? wanted : Math.max(CANDIDATES_MIN, CANDIDATES_FACTOR * wanted)),
      yieldIfDue: createYielder(),
    };
    for (const scope of await this.#readNewScopes(search, visible)) await this.#compareScope(search, scope);
    const scored = search.best.sorted();
    const found = await new VectorRowStore(db).find(space, scored.map(({ n }) => n));
    const byScore = isExact
      ? scored
      : scored.map(({ n }): Scored => ({ n, score: similarity(code, found.get(n)?.code) })).sort((a, b) =>
        b.score - a.score
      );
    const hits = new Map<string, VectorHit>();
    for (const { n, score } of byScore) {
      const row = found.get(n);
      // Removed meanwhile.
      if (row === undefined) continue;
      const key = `${row.kind} ${row.id}`;
      if (!hits.has(key)) hits.set(key, { kind: row.kind, id: row.id, score });
      if (hits.size === limit) break;
    }
    return [...hits.values()];
  }

  count(space: VectorSpace): Promise<number> {
    return countVectors(this.#store.db, space);
  }

  // Searches need no preparation.
  async optimize(): Promise<void> {}

  async clear(space: VectorSpace): Promise<boolean> {
    return await this.#store.write(async (tx) => {
      const removed = await new VectorRowStore(tx.db).removeSome(space, CLEAR_ROWS);
      if (removed < CLEAR_ROWS) await clearScopes(tx, space);
      return removed === CLEAR_ROWS;
    });
  }

  reset(): void {
    for (const [key, partition] of this.#partitions) {
      // One that is read is released by what reads it.
      if (partition.readers === 0) this.#drop(key, partition);
      else partition.revision = -1;
    }
  }

  /** Reads small scopes that are not in memory with few statements; returns those that are left to compare, which is all. */
  async #readNewScopes(search: Search, scopes: readonly ScopeRow[]): Promise<readonly ScopeRow[]> {
    const { space, metric } = search;
    const isNew = ({ scope }: ScopeRow) => !this.#partitions.has(keyOf(space, metric, scope));
    for (let rest = scopes.filter(({ rows }) => rows < PAGE_ROWS).filter(isNew); rest.length > 1;) {
      let rows = 0;
      const beyond = rest.findIndex((scope) => (rows += scope.rows) > PAGE_ROWS);
      const group = beyond < 0 ? rest : rest.slice(0, Math.max(1, beyond));
      rest = rest.slice(group.length);
      const read = await new VectorRowStore(this.#store.db).inScopes(space, group.map(({ scope }) => scope));
      for (const { scope, revision, removals } of group) {
        const key = keyOf(space, metric, scope);
        const stored = read.get(scope) ?? [];
        const partition = new Partition(this.#arena, metric, space.dimensions);
        if (this.#partitions.has(key) || this.#reading.has(key)) continue;
        if (!this.#makeRoom(partition.bytesFor(stored.length))) return scopes;
        for (const row of stored) partition.append(row);
        this.#partitions.set(key, Object.assign(partition, { revision, removals }));
        await search.yieldIfDue();
      }
    }
    return scopes;
  }

  async #compareScope(search: Search, scope: ScopeRow): Promise<void> {
    const key = keyOf(search.space, search.metric, scope.scope);
    // Another search may be reading it, for an earlier state.
    while (this.#reading.has(key)) await this.#reading.get(key);
    let partition = this.#partitions.get(key);
    if (partition === undefined || partition.revision < scope.revision) {
      const reading = this.#read(search, key, scope).finally(() => this.#reading.delete(key));
      this.#reading.set(key, reading);
      partition = await reading;
    }
    if (partition === undefined) return await this.#compareUncached(search, scope);
    this.#partitions.delete(key);
    this.#partitions.set(key, partition);
    partition.readers++;
    try {
      await partition.compare(search.query, search.kinds, search.best, search.yieldIfDue);
    } finally {
      partition.readers--;
    }
  }

  /** The scope in memory, as it is now; `undefined` if there is no room for it. */
  async #read({ space, metric, yieldIfDue }: Search, key: string, scope: ScopeRow): Promise<Partition | undefined> {
    const rows = new VectorRowStore(this.#store.db);
    const known = this.#partitions.get(key);
    const partition = known ?? new Partition(this.#arena, metric, space.dimensions);
    if (partition.bytesFor(Math.max(0, scope.rows - partition.rows)) > this.#memoryBytes) return undefined;
    partition.readers++;
    let isRead = false;
    try {
      const live = partition.rows > 0 && partition.removals < scope.removals
        ? await rows.numbers(space, scope.scope)
        : undefined;
      // While another search compares its rows they stay where they are; what was removed is not found in the store.
      const isRetained = live === undefined || partition.readers === 1;
      if (isRetained && live !== undefined) partition.retain(live);
      for (let isMore = true; isMore;) {
        const page = await rows.after(space, scope.scope, partition.lastN, PAGE_ROWS);
        if (!this.#makeRoom(partition.bytesFor(page.length))) return undefined;
        for (const row of page) partition.append(row);
        await yieldIfDue();
        isMore = page.length === PAGE_ROWS;
      }
      if (isRetained) Object.assign(partition, { revision: scope.revision, removals: scope.removals });
      this.#partitions.set(key, partition);
      isRead = true;
      return partition;
    } finally {
      partition.readers--;
      if (!isRead && known === undefined) partition.release();
    }
  }

  async #compareUncached({ space, metric, query, kinds, best, yieldIfDue }: Search, scope: ScopeRow): Promise<void> {
    const rows = new VectorRowStore(this.#store.db);
    const size = metric === "dot" ? codeBytes(space.dimensions) : bitBytes(space.dimensions);
    const perBlock = Math.floor(BLOCK_BYTES / size);
    let after = 0;
    let page: StoredVector[];
    do {
      page = await rows.after(space, scope.scope, after, PAGE_ROWS);
      for (let from = 0; from < page.length; from += perBlock) {
        const block = page.slice(from, from + perBlock);
        const scales = block.map(({ code }, at) =>
          writeRow(this.#arena, this.#arena.scratch + at * size, metric, space.dimensions, code)
        );
        const scores = this.#arena.compare(metric, query.bytes, this.#arena.scratch, block.length);
        for (const [at, { n, kind }] of block.entries()) {
          if (kinds.has(kindCode(kind))) best.add(n, (scores[at] ?? 0) * query.scale * (scales[at] ?? 0));
        }
        await yieldIfDue();
      }
      after = page.at(-1)?.n ?? after;
    } while (page.length === PAGE_ROWS);
  }

  /** Makes room for so many bytes, at the cost of what was used least recently. */
  #makeRoom(bytes: number): boolean {
    for (const [key, partition] of this.#partitions) {
      if (this.cachedBytes + bytes <= this.#memoryBytes) return true;
      if (partition.readers === 0) this.#drop(key, partition);
    }
    return this.cachedBytes + bytes <= this.#memoryBytes;
  }

  #drop(key: string, partition: Partition): void {
    this.#partitions.delete(key);
    partition.release();
  }
}

function keyOf({ tenantId, id }: VectorSpace, metric: Metric, scope: string): string {
  return `${metric} ${tenantId}/${id}/${scope}`;
}

function similarity(query: { scale: number; values: Int8Array }, code: string | undefined): number {
  if (code === undefined) return -Infinity;
  const { scale, values } = unpackCode(code);
  return dotProduct(query.values, values) * query.scale * scale;
}
