// Documents as searchables. Live edits are indexed when they are committed to a revision.
import type { RowSelection } from "@/core/page.ts";
import type { Actor } from "@/core/actor.ts";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { ContentStore } from "./content/store.ts";
import { presentDocument } from "./presenter.ts";
import { Document } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";

export const KIND = "document";

/** The part of the search index that documents use. */
export type DocumentIndex = Pick<SearchIndex, "put" | "remove">;

export class DocumentSearchable implements Searchable {
  readonly kind = KIND;
  readonly scope = "document.read";
  readonly item = Document;
  readonly #store: Store<DocumentTables>;

  constructor({ store }: { store: Store<DocumentTables> }) {
    this.#store = store;
  }

  async load(
    { tenantId, principalId, ownerId, bounds }: Actor,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, LoadedResource>> {
    const documents = new DocumentStore(this.#store.db);
    const texts = await new ContentStore(this.#store.db).texts(tenantId, ids);
    const found = new Map<string, LoadedResource>();
    for (const row of await documents.findUndeleted(tenantId, { ids })) {
      // Search checks rooms; readers of private documents are checked here.
      const readers = row.room_id === null ? [principalId, ...ownerId === null ? [] : [ownerId]] : [];
      if (row.room_id === null && bounds !== undefined) continue;
      const roles = await Promise.all(readers.map((id) => documents.roleOf(tenantId, row.id, id)));
      if (roles.includes(undefined)) continue;
      found.set(row.id, { fields: { title: row.title, text: texts.get(row.id) ?? "" }, item: presentDocument(row) });
    }
    return found;
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#store.db,
  ): Promise<readonly SearchEntry[]> {
    const documents = new DocumentStore(db);
    const rows = await documents.findUndeleted(tenantId, which);
    const ids = rows.map((row) => row.id);
    const texts = await new ContentStore(db).texts(tenantId, ids);
    const readers = await documents.readerIds(tenantId, ids);
    return rows.map((row) => searchEntryOf(row, texts.get(row.id) ?? "", readers.get(row.id)));
  }
}

/** Updates the search entry of a document, or removes that of a deleted one. */
export async function indexDocument(
  { db }: Pick<Transaction<DocumentTables>, "db">,
  index: DocumentIndex | undefined,
  row: DocumentRow,
  text: string,
): Promise<void> {
  if (index === undefined) return;
  if (row.deleted_at !== null) return await index.remove(row.tenant_id, KIND, [row.id]);
  const readers = row.room_id === null ? await new DocumentStore(db).readerIds(row.tenant_id, [row.id]) : undefined;
  await index.put(searchEntryOf(row, text, readers?.get(row.id)));
}

function searchEntryOf(row: DocumentRow, text: string, readerIds: readonly string[] = []): SearchEntry {
  return {
    tenantId: row.tenant_id,
    kind: KIND,
    id: row.id,
    roomId: row.room_id,
    principalId: row.room_id === null ? row.created_by : null,
    readerIds,
    authorId: row.created_by,
    at: row.created_at,
    // Both only increase.
    version: row.version + row.revision,
    texts: [row.title, text],
  };
}
