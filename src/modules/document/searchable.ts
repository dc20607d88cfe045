// How documents are found by search: title and text are indexed when edits settle, and an answer shows the document.
import type { Actor } from "@/core/actor.ts";
import type { Found, Searchable, SearchEntry, SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { ContentStore } from "./content/store.ts";
import { presentDocument } from "./presenter.ts";
import { Document } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";

const KIND = "document";

/** The part of the search index that documents use. */
export type DocumentIndex = Pick<SearchIndex, "put" | "remove">;

export class DocumentSource implements Searchable {
  readonly kind = KIND;
  readonly scope = "document.read";
  readonly item = Document;
  readonly #store: Store<DocumentTables>;

  constructor({ store }: { store: Store<DocumentTables> }) {
    this.#store = store;
  }

  async load({ tenantId, principalId, ownerId }: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, Found>> {
    const documents = new DocumentStore(this.#store.db);
    const texts = await new ContentStore(this.#store.db).texts(tenantId, ids);
    const found = new Map<string, Found>();
    for (const row of await documents.live(tenantId, { ids })) {
      // Rooms are the search's business; readers of private documents are ours.
      const who = row.room_id === null ? [principalId, ...ownerId === null ? [] : [ownerId]] : [];
      const roles = await Promise.all(who.map((id) => documents.roleOf(tenantId, row.id, id)));
      if (roles.includes(undefined)) continue;
      found.set(row.id, {
        fields: { title: row.title, text: texts.get(row.id) ?? "" },
        item: presentDocument(row),
      });
    }
    return found;
  }

  async entries(tenantId: string, after: string, limit: number): Promise<readonly SearchEntry[]> {
    const documents = new DocumentStore(this.#store.db);
    const rows = await documents.live(tenantId, { after, limit });
    const ids = rows.map((row) => row.id);
    const texts = await new ContentStore(this.#store.db).texts(tenantId, ids);
    const readers = await documents.readerIds(tenantId, ids);
    return rows.map((row) => entryOf(row, texts.get(row.id) ?? "", readers.get(row.id)));
  }
}

/** Brings the index up to date with a document and its readers; a deleted one leaves it. */
export async function indexDocument(
  { db }: Pick<Transaction<DocumentTables>, "db">,
  index: DocumentIndex | undefined,
  row: DocumentRow,
  text: string,
): Promise<void> {
  if (index === undefined) return;
  if (row.deleted_at !== null) return await index.remove(row.tenant_id, KIND, [row.id]);
  const readers = row.room_id === null ? await new DocumentStore(db).readerIds(row.tenant_id, [row.id]) : undefined;
  await index.put(entryOf(row, text, readers?.get(row.id)));
}

function entryOf(row: DocumentRow, text: string, readerIds: readonly string[] = []): SearchEntry {
  return {
    tenantId: row.tenant_id,
    kind: KIND,
    id: row.id,
    roomId: row.room_id,
    principalId: row.room_id === null ? row.created_by : null,
    readerIds,
    authorId: row.created_by,
    at: row.created_at,
    // Each of the two only ever grows.
    version: row.version + row.revision,
    texts: [row.title, text],
  };
}
