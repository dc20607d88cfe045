// SQL of messages as search reads them: by id, by their place in a room, and all of a tenant page by page.
import type { Kysely } from "kysely";
import type { MessageRow, MessageTables } from "@/modules/message/mod.ts";
import { isOneOf } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";

type Db = Kysely<MessageTables>;

/** What of a message the index is made of. */
const INDEXED = [
  "id",
  "tenant_id",
  "room_id",
  "sender_id",
  "seq",
  "created_at",
  "version",
  "type",
  "text",
  "files_json",
  "deleted_at",
] as const;

export type IndexedMessage = Pick<MessageRow, (typeof INDEXED)[number]>;

type Range = { tenantId: string; roomId: string; from: number; to: number };

const indexedByIds = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("message").select(INDEXED).where("tenant_id", "=", value("tenantId"))
    .where(isOneOf(dialect, "id", value("ids")))
);
const indexedBetween = prepared((db: Db, value: Param<Range>) =>
  db.selectFrom("message").select(INDEXED).where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("from")).where("seq", "<=", value("to"))
);

export class MessageRows {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  indexedByIds(tenantId: string, ids: readonly string[]): Promise<IndexedMessage[]> {
    return ids.length === 0 ? Promise.resolve([]) : indexedByIds.all(this.#db, { tenantId, ids: JSON.stringify(ids) });
  }

  /** Messages of a room with `from < seq <= to`. */
  indexedBetween(tenantId: string, roomId: string, from: number, to: number): Promise<IndexedMessage[]> {
    return indexedBetween.all(this.#db, { tenantId, roomId, from, to });
  }

  /** Live messages with an id after `after`, by id. */
  after(tenantId: string, after: string, limit: number): Promise<IndexedMessage[]> {
    return this.#db.selectFrom("message").select(INDEXED).where("tenant_id", "=", tenantId).where("id", ">", after)
      .where("deleted_at", "is", null).where("text", "is not", null).orderBy("id").limit(limit).execute();
  }
}
