// How bookmarks are found by search.
import type { Actor } from "@/core/actor.ts";
import type { RowSelection } from "@/core/page.ts";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import { Bookmark } from "./schema.ts";
import { type BookmarkRow, BookmarkStore, type BookmarkTables } from "./store.ts";

export const SEARCH_KIND = "bookmark";

export class BookmarkSearchable implements Searchable {
  readonly kind = SEARCH_KIND;
  readonly scope = "bookmark.read";
  readonly item = Bookmark;
  readonly #store: Store<BookmarkTables>;

  constructor(store: Store<BookmarkTables>) {
    this.#store = store;
  }

  async load({ tenantId }: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>> {
    const rows = await new BookmarkStore(this.#store.db).rows(tenantId, { ids });
    return new Map(rows.map((row) => [row.id, { fields: fieldsOf(row), item: presentBookmark(row) }]));
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#store.db,
  ): Promise<readonly SearchEntry[]> {
    return (await new BookmarkStore(db).rows(tenantId, which)).map(searchEntryOf);
  }
}

export function presentBookmark(row: BookmarkRow): Bookmark {
  return { id: row.id, roomId: row.room_id, title: row.title, url: row.url, createdAt: row.created_at };
}

/** A bookmark as the index stores it. */
export function searchEntryOf(row: BookmarkRow): SearchEntry {
  return {
    tenantId: row.tenant_id,
    kind: SEARCH_KIND,
    id: row.id,
    roomId: row.room_id,
    authorId: row.created_by,
    at: row.created_at,
    version: 1,
    texts: Object.values(fieldsOf(row)),
  };
}

function fieldsOf({ title, url }: BookmarkRow): Record<string, string> {
  return { title, url };
}
