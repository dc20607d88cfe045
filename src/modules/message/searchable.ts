// Messages as searchables. They are indexed from the streams of their rooms, so that sending does not wait for the index.
import type { RowSelection } from "@/core/page.ts";
import type { Actor } from "@/core/actor.ts";
import type {
  LoadedResource,
  Searchable,
  SearchEntry,
  SearchFields,
  StreamedResource,
  StreamSource,
} from "@/core/searchable.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import { type IndexedMessage, IndexedMessageStore, propertyConditions } from "./indexed_message_store.ts";
import { Message } from "./schema.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

const KIND = "message";

const LINK = /\bhttps?:\/\/\S/i;

type Deps = {
  store: Store<MessageTables>;
  /** Rows as seen by the caller, in the same order. */
  present: (actor: Actor, rows: readonly MessageRow[]) => Promise<readonly Message[]>;
};

/** How the index follows the messages of a room. */
export const messageStream: StreamSource = {
  kind: KIND,
  eventPrefix: "message.",
  createdType: "message.created",
  idsIn(event) {
    const { message, messageId } = (event.data ?? {}) as { message?: { id?: unknown }; messageId?: unknown };
    const id = message?.id ?? messageId;
    return typeof id === "string" ? [id] : [];
  },
  async findMany(db, tenantId, ids) {
    return (await new IndexedMessageStore(db).findMany(tenantId, ids)).map(streamedResourceOf);
  },
  async findBetween(db, tenantId, roomId, from, to) {
    return (await new IndexedMessageStore(db).findBetween(tenantId, roomId, from, to)).map(streamedResourceOf);
  },
};

export class MessageSearchable implements Searchable {
  readonly kind = KIND;
  readonly scope = "message.read";
  readonly item = Message;
  readonly stream = messageStream;
  readonly propertyConditions = propertyConditions;
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>> {
    const rows = (await new MessageStore(this.#deps.store.db).findMany(actor.tenantId, ids)).filter(isSearchable);
    const messages = await this.#deps.present(actor, rows);
    return new Map(messages.map((item) => [item.id, { fields: fieldsOf(item), item }]));
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<readonly SearchEntry[]> {
    return (await new IndexedMessageStore(db).searchable(tenantId, which)).map(searchEntryOf);
  }

  authorOf(item: unknown): { senderId: string; roomId: string } {
    return item as Message; // the item is from `load` or `context`
  }

  async context(
    actor: Actor,
    item: unknown,
    size: number,
    hiddenUpTo: number,
  ): Promise<{ before: unknown[]; after: unknown[] }> {
    const { roomId, seq, threadId } = item as Message; // the item is from `load`
    const messages = new MessageStore(this.#deps.store.db);
    const filter = threadId === null ? {} : { threadId };
    const page = (from: number, to: number, isBackward: boolean) =>
      messages.page(actor.tenantId, roomId, { from: Math.max(from, hiddenUpTo), to, isBackward }, filter, size);
    const [older, newer] = await Promise.all([page(0, seq, true), page(seq, Number.MAX_SAFE_INTEGER, false)]);
    const items = await this.#deps.present(actor, [...older.reverse(), ...newer]);
    return { before: items.slice(0, older.length), after: items.slice(older.length) };
  }
}

function streamedResourceOf(row: IndexedMessage): StreamedResource {
  return { id: row.id, entry: isSearchable(row) ? searchEntryOf(row) : undefined };
}

function isSearchable(row: Pick<MessageRow, "deleted_at" | "text" | "files_json">): boolean {
  return row.deleted_at === null && ((row.text ?? "") !== "" || row.files_json !== "[]");
}

function fieldsOf({ text, files }: Pick<Message, "text" | "files">): SearchFields {
  return { text: text ?? "", ...Object.fromEntries(files.map(({ name }, n) => [`files/${n}/name`, name])) };
}

function searchEntryOf(row: IndexedMessage): SearchEntry {
  const { text } = row;
  const files: Message["files"] = JSON.parse(row.files_json);
  const flags = [...LINK.test(text ?? "") ? ["link"] : [], ...row.type === "file" || files.length > 0 ? ["file"] : []];
  return {
    tenantId: row.tenant_id,
    kind: KIND,
    id: row.id,
    roomId: row.room_id,
    authorId: row.sender_id,
    seq: row.seq,
    at: row.created_at,
    version: row.version,
    texts: Object.values(fieldsOf({ text, files })),
    flags,
    isIndexedWhole: true,
  };
}
