// What is left of a message that was deleted, and of the events about it.
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventActor, roomStream } from "@/core/event/event.ts";
import type { Holds } from "@/core/hold.ts";
import type { FileAttachments } from "@/modules/file/mod.ts";
import type { RoomRow } from "@/modules/room/mod.ts";
import { redactEvents, redactEventsAt } from "@/ports/sql/event_redaction.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { needsNotification } from "./notifier.ts";
import { messageEvent, presentMessage } from "./presenter.ts";
import { Mentions } from "./schema.ts";
import { fileOwner } from "./sender.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  files: FileAttachments;
  holds: Holds;
  /** Deletes what other modules derived from messages, in the transaction that deletes these. */
  eraseDerived: EraseDerived;
};

/** Calls the hooks of modules for messages that are deleted. */
export type EraseDerived = (tenantId: string, roomId: string, messageIds: readonly string[]) => Promise<void>;

// deno-lint-ignore no-explicit-any -- data of a stored event
type EventData = any;
type MessageInRoom = MessageRow & { room_kind: RoomRow["kind"] };

export class MessageTombstones {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Replaces several messages of any rooms, in one transaction; those that are deleted already are ignored. */
  replaceMany(tenantId: string, ids: readonly string[]): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const messages = new MessageStore(tx.db);
      const streams = (await messages.findMany(tenantId, ids)).map(({ room_id }) => roomStream(room_id));
      await tx.lock(tenantId, ...streams);
      const rows = (await messages.findWithRooms(tenantId, ids)).filter((row) => row.deleted_at === null);
      for (const roomId of new Set(rows.map(({ room_id }) => room_id))) {
        await this.#deps.holds.assertNotHeld("Its messages cannot be deleted", tx.db, tenantId, { roomId });
      }
      await this.#replaceContent(tx, tenantId, rows, undefined);
      // Each thread once: to count its replies takes as long as it has some.
      for (const [row] of Map.groupBy(rows, ({ thread_id }) => thread_id).values()) {
        if (row !== undefined) await this.#updateThread(tx, row, undefined);
      }
      return rows.length;
    });
  }

  /**
   * Replaces a message by a tombstone with the same id and seq; deletes its content from its versions and events as well. The
   * caller has locked the room. Without an actor, the gateway deletes it.
   */
  async replace(
    tx: Transaction<MessageTables>,
    row: MessageRow,
    roomKind: RoomRow["kind"],
    actor: EventActor | undefined,
  ): Promise<void> {
    await this.#replaceContent(tx, row.tenant_id, [{ ...row, room_kind: roomKind }], actor);
    await this.#updateThread(tx, row, actor);
  }

  async #replaceContent(
    tx: Transaction<MessageTables>,
    tenantId: string,
    rows: readonly MessageInRoom[],
    actor: EventActor | undefined,
  ): Promise<void> {
    if (rows.length === 0) return;
    const ids = rows.map(({ id }) => id);
    const empty = {
      text: null,
      mentions_json: JSON.stringify({ principalIds: [], room: false }),
      metadata_json: "{}",
      files_json: "[]",
      elements_json: null,
      pinned_at: null,
      deleted_at: iso(this.#deps.clock.now()),
    };
    await new MessageStore(tx.db).replaceContent(tenantId, ids, empty);
    const owners = rows.filter(({ files_json }) => files_json !== "[]").map(({ id }) => fileOwner(id));
    if (owners.length > 0) await this.#deps.files.detach(tx, tenantId, ...owners);
    for (const [roomId, group] of Map.groupBy(rows, ({ room_id }) => room_id)) {
      await redactEventsOf(tx, tenantId, roomId, group);
      await this.#deps.eraseDerived(tenantId, roomId, group.map(({ id }) => id));
    }
    await tx.emit(...rows.map(({ room_kind: _, ...row }) => {
      const after: MessageRow = { ...row, ...empty, version: row.version + 1 };
      return messageEvent(actor, after, "message.deleted", {
        message: presentMessage(after),
        previousMentions: Mentions.omit({ ignored: true }).strip().parse(JSON.parse(row.mentions_json)),
      });
    }));
    // An earlier version may have notified others.
    const notified = rows.filter(({ room_kind, ...row }) =>
      row.edited_at !== null || needsNotification(row, room_kind)
    );
    await tx.enqueue(...notified.map(({ id }) => ({
      tenantId,
      kind: "notification.withdraw",
      payload: { messageId: id },
    })));
  }

  async #updateThread(
    tx: Transaction<MessageTables>,
    { tenant_id: tenantId, room_id: roomId, thread_id: threadId }: MessageRow,
    actor: EventActor | undefined,
  ): Promise<void> {
    const root = threadId === null ? undefined : await new MessageStore(tx.db).recountThread(tenantId, threadId);
    if (root === undefined) return;
    await tx.emit(messageEvent(actor, root, "thread.updated", {
      roomId,
      threadId: root.id,
      replyCount: root.reply_count,
      lastReplyAt: root.last_reply_at,
    }));
  }
}

/**
 * Deletes the content of messages of a room from the events of their creation and edits. Their mentions stay, because clients count
 * mentions from all events including the deletion.
 */
async function redactEventsOf(
  tx: Transaction<MessageTables>,
  tenantId: string,
  roomId: string,
  rows: readonly MessageRow[],
): Promise<void> {
  const ref = { tenantId, stream: roomStream(roomId) };
  const { created, edited } = redactionOf(rows);
  await redactEventsAt(tx.db, { ...ref, type: "message.created", seqs: rows.map(({ seq }) => seq) }, created);
  for (const { id, seq, edited_at } of rows) {
    if (edited_at === null) continue;
    await redactEvents(tx.db, { ...ref, from: seq, type: "message.updated", to: edited_at }, id, edited);
  }
}

/** The same for messages that expire, in events since `limit`: older ones are deleted. Imported messages are older than their events. */
export async function redactYoungEvents(
  tx: Transaction<MessageTables>,
  tenantId: string,
  roomId: string,
  rows: readonly Pick<MessageRow, "id" | "seq" | "edited_at">[],
  limit: string,
): Promise<void> {
  const ref = { tenantId, stream: roomStream(roomId) };
  const { created, edited } = redactionOf(rows);
  const seqs = rows.map(({ seq }) => seq);
  await redactEventsAt(tx.db, { ...ref, type: "message.created", seqs, since: limit }, created);
  const to = rows.reduce((newest, { edited_at }) => edited_at !== null && edited_at > newest ? edited_at : newest, "");
  if (to >= limit) await redactEvents(tx.db, { ...ref, from: limit, type: "message.updated", to }, roomId, edited);
}

/** What events of the creation and of edits of these messages say without their content. */
function redactionOf(
  rows: readonly Pick<MessageRow, "id">[],
): Record<"created" | "edited", (data: EventData) => unknown> {
  const ids = new Set(rows.map(({ id }) => id));
  const created = ({ message, ...data }: EventData): unknown =>
    // Events of other messages may have an id of these, as replies or in their metadata.
    ids.has(message?.id) ? { ...data, message: redactContent(message) } : undefined;
  const edited = ({ messageId, changes, ...data }: EventData): unknown =>
    ids.has(messageId) ? { messageId, changes: redactContent(changes), ...data } : created(data);
  return { created, edited };
}

/** A message, or changes of one, without its content. */
function redactContent(fields: Record<string, unknown>): Record<string, unknown> {
  const empty = { text: null, files: [], metadata: {}, elements: [] };
  return { ...fields, ...Object.fromEntries(Object.entries(empty).filter(([field]) => field in fields)) };
}
