// SQL of the newest messages of rooms: one statement for a page of rooms, which reads one message of each.
import { type Kysely, sql } from "kysely";
import { truncateText } from "@/core/text.ts";
import { LAST_PREVIEW_MAX, type LastMessage, type ReadLastMessages } from "@/modules/room/mod.ts";
import type { Dialect, Store } from "@/ports/store.ts";
import type { MessageRow, MessageTables } from "./store.ts";

type Row =
  & Pick<
    MessageRow,
    "id" | "room_id" | "seq" | "sender_id" | "sender_kind" | "type" | "text" | "thread_id" | "created_at" | "deleted_at"
  >
  & { has_files: number; display_name: string | null };

class LastMessageStore {
  readonly #db: Kysely<MessageTables>;
  readonly #dialect: Dialect;

  constructor(db: Kysely<MessageTables>, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
  }

  /** The newest message after a position in each of these rooms, by room. */
  async findNewest(
    tenantId: string,
    rooms: readonly { roomId: string; after: number }[],
  ): Promise<Map<string, LastMessage>> {
    const json = JSON.stringify(rooms.map(({ roomId, after }) => ({ room_id: roomId, after })));
    const from = this.#dialect === "sqlite"
      ? sql`(select value ->> 'room_id' as room_id, value ->> 'after' as after from json_each(${json})) as query`
      : sql`json_to_recordset(${json}::text::json) as query(room_id text, after bigint)`;
    const { rows } = await sql<Row>`select message.id, message.room_id, message.seq, message.sender_id,
        message.sender_kind, message.type, substr(message.text, 1, ${sql.lit(LAST_PREVIEW_MAX)}) as text,
        message.thread_id, message.created_at, message.deleted_at,
        case when message.files_json = '[]' then 0 else 1 end as has_files, principal.display_name
      from ${from} cross join message left join principal
        on principal.tenant_id = message.tenant_id and principal.id = message.sender_id
      where message.room_id = query.room_id and message.tenant_id || '' = ${tenantId}
        and message.seq = (select max(newest.seq) from message as newest
          where newest.room_id = query.room_id and newest.seq > query.after)`.execute(this.#db);
    return new Map(rows.map((row) => [row.room_id, present(row)]));
  }
}

/** A reader of the newest messages in committed state. */
export function createLastMessageReader(store: Pick<Store<MessageTables>, "db" | "dialect">): ReadLastMessages {
  return (tenantId, rooms) => new LastMessageStore(store.db, store.dialect).findNewest(tenantId, rooms);
}

function present(row: Row): LastMessage {
  return {
    id: row.id,
    seq: Number(row.seq),
    senderId: row.sender_id,
    senderKind: row.sender_kind,
    senderName: row.display_name ?? row.sender_id,
    type: row.type,
    preview: row.text === null || row.text === "" ? null : truncateText(row.text, LAST_PREVIEW_MAX),
    hasFiles: Number(row.has_files) === 1,
    threadId: row.thread_id,
    createdAt: row.created_at,
    deletedAt: row.deleted_at,
  };
}
