// Cache of access rows of a node, on PostgreSQL, where other nodes change them too.
//
// Why it is correct: an entry is valid only for the access version that was read with the lock on the room's stream
// (`SeqRange.accessVersion`). A change of members, bans or the room sets another version in its own transaction (triggers
// in `migrations.ts`), which needs that lock. So an entry of the version just read stays valid until the commit. What is
// not cached is read under the lock.
import { roomStream } from "@/core/event/event.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { SeqRange } from "@/ports/store.ts";
import type { AccessQuery, AccessStore, RoomAccessRow } from "./access_store.ts";

const CACHE_MAX = 20_000;

type CachedAccess = { version: number; row: RoomAccessRow | undefined };

export class AccessCache {
  readonly #entries: Map<string, CachedAccess>;

  constructor(max = CACHE_MAX) {
    this.#entries = new LruMap(max);
  }

  /** Access rows in the order of the queries, for rooms that `locking` locks on the connection of `rows`. */
  async findMany(
    rows: Pick<AccessStore, "findMany">,
    queries: readonly AccessQuery[],
    locking: Promise<ReadonlyMap<string, SeqRange>>,
  ): Promise<(RoomAccessRow | undefined)[]> {
    const cached = queries.map((query) => this.#entries.get(cacheKeyOf(query)));
    // What is not cached is queried right behind the lock, in the same round trip.
    const [locked, missing] = await Promise.all([
      locking,
      readRows(rows, queries.map((query, at) => cached[at] === undefined ? query : undefined)),
    ]);
    const versions = queries.map(({ id }) => locked.get(roomStream(id))?.accessVersion);
    const isStale = (at: number): boolean => cached[at] !== undefined && cached[at].version !== versions[at];
    const refreshed = await readRows(rows, queries.map((query, at) => isStale(at) ? query : undefined));
    return queries.map((query, at) => {
      const hit = isStale(at) ? undefined : cached[at];
      if (hit !== undefined) return hit.row;
      const row = isStale(at) ? refreshed[at] : missing[at];
      // Without a stream there is no room; such ids are unbounded, so they are not cached.
      const version = versions[at];
      if (version !== undefined) this.#entries.set(cacheKeyOf(query), { version, row });
      return row;
    });
  }
}

/** One statement per tenant; the result has a row, or none, at the index of each query. */
async function readRows(
  rows: Pick<AccessStore, "findMany">,
  queries: readonly (AccessQuery | undefined)[],
): Promise<(RoomAccessRow | undefined)[]> {
  const results: (RoomAccessRow | undefined)[] = new Array(queries.length);
  const indexed = queries.flatMap((query, at) => query === undefined ? [] : [{ query, at }]);
  const byTenant = Map.groupBy(indexed, ({ query }) => query.tenantId);
  await Promise.all([...byTenant].map(async ([tenantId, own]) => {
    const found = await rows.findMany(tenantId, own.map(({ query }) => query));
    for (const [n, { at }] of own.entries()) results[at] = found[n];
  }));
  return results;
}

function cacheKeyOf({ tenantId, id, principalId, ownerId }: AccessQuery): string {
  return `${tenantId} ${id} ${principalId} ${ownerId}`;
}
