// Messages as a kind of thing to search for.
import type { Actor } from "@/core/actor.ts";
import { Message, type MessageRow, MessageStore, type MessageTables } from "@/modules/message/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type IndexedMessage, MessageRows } from "./message/store.ts";
import type { Found, Searchable, SearchEntry } from "./searchable.ts";

const LINK = /\bhttps?:\/\/\S/i;

/** Rows as the caller may see them in JSON, in the same order. */
export type PresentMessages = (actor: Actor, rows: readonly MessageRow[]) => Promise<readonly Message[]>;

type Deps = { store: Store<MessageTables>; present: PresentMessages };

export class MessageSource implements Searchable {
  readonly kind = "message";
  readonly scope = "message.read";
  readonly item = Message;
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, Found>> {
    const rows = (await new MessageStore(this.#deps.store.db).byIds(actor.tenantId, ids)).filter(isLive);
    const messages = await this.#deps.present(actor, rows);
    return new Map(messages.map((item) => [item.id, { fields: { text: item.text ?? "" }, item }]));
  }

  async entries(tenantId: string, after: string, limit: number): Promise<readonly SearchEntry[]> {
    return (await this.#rows.after(tenantId, after, limit)).map(entryOf);
  }

  async around(
    actor: Actor,
    item: unknown,
    size: number,
    hiddenUpTo: number,
  ): Promise<{ before: unknown[]; after: unknown[] }> {
    const { roomId, seq, threadId } = item as Message; // it comes from `load`
    const messages = new MessageStore(this.#deps.store.db);
    const filter = threadId === null ? {} : { threadId };
    const page = (from: number, to: number, isBackward: boolean) =>
      messages.page(actor.tenantId, roomId, { from: Math.max(from, hiddenUpTo), to, isBackward }, filter, size);
    const [older, newer] = await Promise.all([page(0, seq, true), page(seq, Number.MAX_SAFE_INTEGER, false)]);
    const shown = await this.#deps.present(actor, [...older.reverse(), ...newer]);
    return { before: shown.slice(0, older.length), after: shown.slice(older.length) };
  }

  get #rows(): MessageRows {
    return new MessageRows(this.#deps.store.db);
  }
}

/** Whether a message has anything to find. */
export function isLive(row: Pick<MessageRow, "deleted_at" | "text">): boolean {
  return row.deleted_at === null && row.text !== null && row.text !== "";
}

/** A message as the index keeps it. */
export function entryOf(row: IndexedMessage): SearchEntry {
  const text = row.text ?? "";
  const marks = [...LINK.test(text) ? ["link"] : [], ...row.type === "file" || row.files_json !== "[]" ? ["file"] : []];
  return {
    tenantId: row.tenant_id,
    kind: "message",
    id: row.id,
    roomId: row.room_id,
    authorId: row.sender_id,
    seq: row.seq,
    at: row.created_at,
    version: row.version,
    texts: [text],
    marks,
  };
}
