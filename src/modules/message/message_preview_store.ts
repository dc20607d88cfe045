// SQL of the previews of messages: the newest of each room on a page by one statement, and the pinned ones of a room.
import { type Kysely, sql } from "kysely";
import { truncateText } from "@/core/text/text.ts";
import { type MessagePreview, type MessagePreviews, PREVIEW_MAX } from "@/modules/room/mod.ts";
import type { Dialect, Store } from "@/ports/store.ts";
import { type MessageRow, type MessageTables, PINS_MAX } from "./store.ts";

type Row =
  & Pick<
    MessageRow,
    "id" | "room_id" | "seq" | "sender_id" | "sender_kind" | "type" | "text" | "thread_id" | "created_at" | "deleted_at"
  >
  & { has_files: number; display_name: string | null };

const COLUMNS = sql<Row>`message.id, message.room_id, message.seq, message.sender_id, message.sender_kind, message.type,
  substr(message.text, 1, ${sql.lit(PREVIEW_MAX)}) as text, message.thread_id, message.created_at, message.deleted_at,
  case when message.files_json = '[]' then 0 else 1 end as has_files, principal.display_name`;
const WITH_SENDER = sql`message left join principal
  on principal.tenant_id = message.tenant_id and principal.id = message.sender_id`;

class MessagePreviewStore {
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
  ): Promise<Map<string, MessagePreview>> {
    const json = JSON.stringify(rooms.map(({ roomId, after }) => ({ room_id: roomId, after })));
    const from = this.#dialect === "sqlite"
      ? sql`(select value ->> 'room_id' as room_id, value ->> 'after' as after from json_each(${json})) as query`
      : sql`json_to_recordset(${json}::text::json) as query(room_id text, after bigint)`;
    const { rows } = await sql<Row>`select ${COLUMNS} from ${from} cross join ${WITH_SENDER}
      where message.room_id = query.room_id and message.tenant_id || '' = ${tenantId}
        and message.seq = (select max(newest.seq) from message as newest
          where newest.room_id = query.room_id and newest.seq > query.after)`.execute(this.#db);
    return new Map(rows.map((row) => [row.room_id, present(row)]));
  }

  /** The pinned messages of a room after a position, most recently pinned first. */
  async listPinned(tenantId: string, { roomId, after }: { roomId: string; after: number }): Promise<MessagePreview[]> {
    // A range on `pinned_at`, because SQLite would otherwise read all messages of the room.
    const { rows } = await sql<Row>`select ${COLUMNS} from ${WITH_SENDER}
      where message.tenant_id = ${tenantId} and message.room_id = ${roomId} and message.pinned_at > ''
        and message.seq > ${after}
      order by message.pinned_at desc, message.seq desc limit ${sql.lit(PINS_MAX)}`.execute(this.#db);
    return rows.map(present);
  }
}

/** A reader of previews in committed state. */
export function createPreviewReader(store: Pick<Store<MessageTables>, "db" | "dialect">): MessagePreviews {
  return {
    newest: (tenantId, rooms) => new MessagePreviewStore(store.db, store.dialect).findNewest(tenantId, rooms),
    pinned: (tenantId, room) => new MessagePreviewStore(store.db, store.dialect).listPinned(tenantId, room),
  };
}

function present(row: Row): MessagePreview {
  return {
    id: row.id,
    seq: Number(row.seq),
    senderId: row.sender_id,
    senderKind: row.sender_kind,
    senderName: row.display_name ?? row.sender_id,
    type: row.type,
    preview: row.text === null || row.text === "" ? null : truncateText(row.text, PREVIEW_MAX),
    hasFiles: Number(row.has_files) === 1,
    threadId: row.thread_id,
    createdAt: row.created_at,
    deletedAt: row.deleted_at,
  };
}
