// SQL of messages for the search index: by id, by position in a room, and all of a tenant in pages.
import type { RowSelection } from "@/core/page.ts";
import type { PropertyFilter } from "@/core/searchable.ts";
import { type Expression, type Kysely, sql, type SqlBool } from "kysely";
import { inJsonList, selectRows } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { MENTION_ALL, type MessageRow, type MessageTables } from "./store.ts";

type Db = Kysely<MessageTables>;

const INDEXED_COLUMNS = [
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

export type IndexedMessage = Pick<MessageRow, (typeof INDEXED_COLUMNS)[number]>;

type Range = { tenantId: string; roomId: string; from: number; to: number };

const indexedByIds = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("message").select(INDEXED_COLUMNS).where("tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "id", value("ids")))
);
const indexedBetween = prepared((db: Db, value: Param<Range>) =>
  db.selectFrom("message").select(INDEXED_COLUMNS).where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("from")).where("seq", "<=", value("to"))
);

export class IndexedMessageStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  findMany(tenantId: string, ids: readonly string[]): Promise<IndexedMessage[]> {
    return ids.length === 0 ? Promise.resolve([]) : indexedByIds.all(this.#db, { tenantId, ids: JSON.stringify(ids) });
  }

  /** Messages of a room with `from < seq <= to`. */
  findBetween(tenantId: string, roomId: string, from: number, to: number): Promise<IndexedMessage[]> {
    return indexedBetween.all(this.#db, { tenantId, roomId, from, to });
  }

  /** Messages that are not deleted and have a text. */
  async searchable(tenantId: string, which: RowSelection): Promise<IndexedMessage[]> {
    const query = this.#db.selectFrom("message").select(INDEXED_COLUMNS).where("deleted_at", "is", null)
      .where("text", "is not", null);
    return await selectRows(query, tenantId, which);
  }
}

/** Conditions on a document `d` of the search index. */
export function propertyConditions(
  tenantId: string,
  { threadIds, messageTypes, mentions, pinned, isReacted }: PropertyFilter,
): Expression<SqlBool>[] {
  const conditions: Expression<SqlBool>[] = [];
  if (threadIds !== undefined || messageTypes !== undefined || pinned !== undefined) {
    const threads = threadIds === undefined ? undefined : sql.join(threadIds);
    conditions.push(sql<SqlBool>`exists (select 1 from message as m where m.tenant_id = ${tenantId} and m.id = d.id
      ${messageTypes === undefined ? sql`` : sql`and m.type in (${sql.join(messageTypes)})`}
      ${pinned === undefined ? sql`` : sql`and m.pinned_at is not null`}
      ${threads === undefined ? sql`` : sql`and (m.thread_id in (${threads}) or m.id in (${threads}))`})`);
  }
  if (isReacted === true) {
    conditions.push(sql<SqlBool>`exists (select 1 from reaction
      where reaction.tenant_id = ${tenantId} and reaction.message_id = d.id)`);
  }
  if (mentions !== undefined) {
    conditions.push(sql<SqlBool>`exists (select 1 from mention where mention.tenant_id = ${tenantId}
      and mention.message_id = d.id and mention.principal_id in (${sql.join([...mentions, MENTION_ALL])}))`);
  }
  return conditions;
}
