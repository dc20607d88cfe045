// SQL of bookmarks.
import type { Kysely } from "kysely";
import type { RowSelection } from "@/core/page.ts";

export type BookmarkRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  title: string;
  url: string;
  created_by: string;
  created_at: string;
};
export type BookmarkTables = { bookmark: BookmarkRow };

export class BookmarkStore {
  readonly #db: Kysely<BookmarkTables>;

  constructor(db: Kysely<BookmarkTables>) {
    this.#db = db;
  }

  async add(row: BookmarkRow): Promise<void> {
    await this.#db.insertInto("bookmark").values(row).execute();
  }

  rows(tenantId: string, which: RowSelection): Promise<BookmarkRow[]> {
    const all = this.#db.selectFrom("bookmark").selectAll().where("tenant_id", "=", tenantId);
    return "ids" in which
      ? all.where("id", "in", which.ids).execute()
      : all.where("id", ">", which.after).orderBy("id").limit(which.limit).execute();
  }

  listByRoom(tenantId: string, roomId: string, after: string, limit: number): Promise<BookmarkRow[]> {
    return this.#db.selectFrom("bookmark").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  async count(tenantId: string, roomId: string): Promise<number> {
    const row = await this.#db.selectFrom("bookmark").select(({ fn }) => fn.countAll().as("count"))
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).executeTakeFirst();
    return Number(row?.count);
  }

  async remove(tenantId: string, by: { id: string } | { room_id: string }): Promise<void> {
    const rows = this.#db.deleteFrom("bookmark").where("tenant_id", "=", tenantId);
    await ("id" in by ? rows.where("id", "=", by.id) : rows.where("room_id", "=", by.room_id)).execute();
  }
}
