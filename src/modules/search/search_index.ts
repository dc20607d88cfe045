// The search index as other modules meet it: they put what can be found, inside the transaction that changes it.
import { foldText } from "./fold.ts";
import { markGram, readerGram, roomGram, tokensOf } from "./gram.ts";
import { documentsById, documentsOfRoom, indexEngineOf, PLACES_PER_MS, type SearchTables } from "./index/store.ts";
import type { SearchEntry } from "./searchable.ts";
import type { IndexedDocument, IndexEngine } from "./index/store.ts";
import type { Store } from "@/ports/store.ts";

const PURGE_BATCH = 500;
/** Times beyond are in the index as these: a place is a number that both engines give back as it was, and imports know any year. */
const [FIRST_MS, LAST_MS] = [Date.UTC(1700), Date.UTC(2240)];

/**
 * How a module makes its things searchable:
 *
 * 1. After each change, inside its own `store.write`, it calls `put` with the thing as it is now, or `remove` when it is
 *    gone. Both join that transaction: index and row commit together. A hot path should not do this per row; messages do not.
 * 2. It implements `Searchable` (load, entries) and app.ts hands that to `SearchService`; `types=<kind>` then works.
 *
 * Rights in rooms are not the module's business: a thing with a `roomId` is found by whoever may read the room at that
 * moment. One without is found by its `principalId` and its `readerIds`, of whom `load` shows it to those who may read it
 * now. When a thing moves to another room, `put` again.
 */
export class SearchIndex {
  readonly #store: Store<SearchTables>;
  readonly #engine: IndexEngine;

  constructor(store: Store<SearchTables>) {
    this.#store = store;
    this.#engine = indexEngineOf(store.dialect);
  }

  /** Adds entries, or replaces older versions of them. */
  async put(...entries: readonly SearchEntry[]): Promise<void> {
    if (entries.length === 0) return;
    await this.#store.write(async (tx) => {
      for (const [tenantId, group] of Map.groupBy(entries, (entry) => entry.tenantId)) {
        const latest = new Map(group.map((entry) => [`${entry.kind} ${entry.id}`, entry]));
        await this.#engine.put(tx, tenantId, [...latest.values()].map(indexed));
      }
    });
  }

  /** Removes things; those not in the index are fine. */
  async remove(tenantId: string, kind: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#store.write(async (tx) => {
      await this.#engine.remove(tx, tenantId, await documentsById(tx.db, tenantId, kind, ids));
    });
  }

  /** Removes everything of a room, batch by batch. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    let removed: number;
    do {
      removed = await this.#store.write(async (tx) => {
        const rows = await documentsOfRoom(tx.db, tenantId, roomId, PURGE_BATCH);
        await this.#engine.remove(tx, tenantId, rows);
        return rows.length;
      });
    } while (removed > 0);
  }
}

function indexed(
  { tenantId, kind, id, roomId, at, version, texts, marks = [], readerIds = [], ...rest }: SearchEntry,
): IndexedDocument {
  const seenBy = roomId === null ? readerIds.map(readerGram) : [roomGram(roomId)];
  const besides = [...seenBy, ...marks.map(markGram)];
  return {
    row: {
      n: Math.min(Math.max(Date.parse(at), FIRST_MS), LAST_MS) * PLACES_PER_MS,
      tenant_id: tenantId,
      kind,
      id,
      room_id: roomId,
      principal_id: rest.principalId ?? null,
      author_id: rest.authorId ?? null,
      seq: rest.seq ?? null,
      at,
      version,
    },
    tokens: tokensOf(tenantId, foldText(texts.join("\n")), besides),
  };
}
