// The search index for other modules: they put entries in the transaction that changes the resource.
import { nextSlice } from "@/core/caller.ts";
import { normalizeText } from "@/core/text/normalize.ts";
import { flagGram, readerGram, roomGram, tokenize } from "./tokenize.ts";
import {
  documentsById,
  documentsOfRoom,
  type IndexedDocument,
  type IndexEngine,
  indexEngineOf,
  type SearchTables,
  SLOTS_PER_MS,
} from "./index_store.ts";
import type { SearchEntry } from "@/core/searchable.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";

/** Maximum UTF-16 units of text that are indexed in one transaction. */
export const UNITS_MAX = 16_000;
/** Tokens of a long text per transaction: SQLite sorts and writes all of them during the commit. */
export const PART_TOKENS = 4000;
/** Indexes the rest of a long text, whose start was indexed in the transaction that wrote it. */
export const LONG_TEXT_JOB = "search.long_text";
const PURGE_BATCH = 200;
/** Imports may have any year; times are clamped to this range, so that both engines store `n` exactly. */
const [FIRST_MS, LAST_MS] = [Date.UTC(1700), Date.UTC(2240)];

/** Learns of every change of the index, in its transaction. */
type IndexFollower = {
  put(tx: AnyTransaction, tenantId: string, entries: readonly SearchEntry[]): Promise<void>;
  remove(tx: AnyTransaction, tenantId: string, refs: readonly { kind: string; id: string }[]): Promise<void>;
};

/**
 * How a module makes its resources searchable:
 *
 * 1. After each change, inside its own `store.write`, it calls `put` with the current entry, or `remove` after a deletion.
 *    Both join that transaction. Resources with very frequent writes have a `stream` instead and are indexed after the commit.
 * 2. It registers a `Searchable` as `Module.search`; the filter `types=<kind>` then works.
 *
 * Search checks the permissions in rooms: a resource with a `roomId` is found by everyone who may read the room at the time of
 * the search. One without is found by its `principalId` and `readerIds`, if `load` returns it to them. After a move to another
 * room, `put` again.
 */
export class SearchIndex {
  readonly #store: Store<SearchTables>;
  readonly #engine: IndexEngine;
  #follower: IndexFollower | undefined;
  /** Whether there may be something to merge. It may be of an earlier run. */
  #isMergeable = true;

  constructor(store: Store<SearchTables>) {
    this.#store = store;
    this.#engine = indexEngineOf(store.dialect);
  }

  /** Sets what follows the index, before anything is written. */
  follow(follower: IndexFollower): void {
    this.#follower = follower;
  }

  /** Whether `merge` may have work to do. */
  get needsMerge(): boolean {
    return this.#isMergeable && this.#engine.merge !== undefined;
  }

  /** Does a part of what writes leave to be merged, in a transaction of its own; returns whether there may be more. */
  async merge(): Promise<boolean> {
    if (!this.needsMerge) return false;
    this.#isMergeable = false;
    // What is written meanwhile needs a merge as well.
    if (await this.#store.write(async (tx) => await this.#engine.merge?.(tx))) this.#isMergeable = true;
    return this.#isMergeable;
  }

  /** Adds entries, or replaces older versions of them. */
  async put(...entries: readonly SearchEntry[]): Promise<void> {
    if (entries.length === 0) return;
    this.#isMergeable = true;
    await this.#store.write(async (tx) => {
      for (const [tenantId, group] of Map.groupBy(entries, (entry) => entry.tenantId)) {
        const latest = new Map(group.map((entry) => [`${entry.kind} ${entry.id}`, entry]));
        await this.#engine.put(tx, tenantId, [...latest.values()].map(firstPartOf));
        const long = [...latest.values()].filter(isLong);
        await tx.enqueue(...long.map(({ kind, id }) => ({
          tenantId,
          kind: LONG_TEXT_JOB,
          payload: { kind, id },
          key: `${kind}/${id}`,
        })));
        await this.#follower?.put(tx, tenantId, [...latest.values()]);
      }
    });
  }

  /** Removes resources; unknown ids are ignored. */
  async remove(tenantId: string, kind: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    this.#isMergeable = true;
    await this.#store.write(async (tx) => {
      await this.#engine.remove(tx, tenantId, await documentsById(tx.db, tenantId, kind, ids));
      await this.#follower?.remove(tx, tenantId, ids.map((id) => ({ kind, id })));
    });
  }

  /** Removes all resources of a room, in batches. What is deleted is merged before there is much of it. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    let removed: number;
    do {
      this.#isMergeable = true;
      removed = await this.#store.write(async (tx) => {
        const rows = await documentsOfRoom(tx.db, tenantId, roomId, PURGE_BATCH);
        await this.#engine.remove(tx, tenantId, rows);
        await this.#follower?.remove(tx, tenantId, rows);
        return rows.length;
      });
      do await nextSlice(); while (await this.merge());
    } while (removed > 0);
  }
}

/** Whether a text is too long for the transaction that writes it. */
export function isLong({ texts, isIndexedWhole = false }: SearchEntry): boolean {
  return !isIndexedWhole && joinTexts(texts).length > UNITS_MAX;
}

/** The whole searchable text of a resource. */
export function joinTexts(texts: SearchEntry["texts"]): string {
  return texts.join("\n");
}

/** The part of an entry that is indexed at once. */
function firstPartOf(entry: SearchEntry): IndexedDocument {
  const isWhole = !isLong(entry);
  const text = joinTexts(entry.texts);
  const tokens = tokenize(entry.tenantId, normalizeText(isWhole ? text : text.slice(0, UNITS_MAX)), extraGrams(entry));
  return { row: rowOf(entry), tokens: isWhole ? tokens : tokens.slice(0, PART_TOKENS), isWhole };
}

/** Grams of an entry besides those of its text. */
export function extraGrams({ roomId, readerIds = [], flags = [] }: SearchEntry): string[] {
  const readers = roomId === null ? readerIds.map(readerGram) : [roomGram(roomId)];
  return [...readers, ...flags.map(flagGram)];
}

export function rowOf({ tenantId, kind, id, roomId, at, version, ...rest }: SearchEntry): IndexedDocument["row"] {
  return {
    n: Math.min(Math.max(Date.parse(at), FIRST_MS), LAST_MS) * SLOTS_PER_MS,
    tenant_id: tenantId,
    kind,
    id,
    room_id: roomId,
    principal_id: rest.principalId ?? null,
    author_id: rest.authorId ?? null,
    seq: rest.seq ?? null,
    at,
    version,
  };
}
