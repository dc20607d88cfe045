// Messages after they were sent: listed, read, edited with history, deleted to a tombstone.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { checkVersion } from "@/core/patch.ts";
import type { FileLinks } from "@/modules/file/mod.ts";
import { idOf } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomGate } from "@/modules/room/mod.ts";
import type { TenantService } from "@/modules/tenant/mod.ts";
import { retell } from "@/ports/retelling.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { MessageFinder } from "./finder.ts";
import { checkMentions } from "./mentions.ts";
import { isTold, mentionJob } from "./notifier.ts";
import { changed, mentionRows, presentMessage, presentMessages, shared } from "./presenter.ts";
import {
  Mentions,
  type Message,
  type MessageDetail,
  type MessageHistory,
  type MessageList,
  type MessageRead,
  type Messages,
  type MessageUpdate,
  type MessageVersion,
} from "./schema.ts";
import { fileOwner } from "./sender.ts";
import { type MessageEditRow, type MessageRow, MessageStore, type MessageTables } from "./store.ts";

const PURGE_BATCH = 500;
const THREAD_MAX = 200;
/** How many versions come along with a message; each may be as long as a message can be. */
const VERSIONS_MAX = 50;

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  tenants: TenantService;
  files: FileLinks;
};

export class MessageService {
  readonly #deps: Deps;
  readonly #finder: MessageFinder;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#finder = new MessageFinder(deps);
  }

  async list(context: Context, input: MessageList): Promise<Messages> {
    const { roomId, before, after, around, limit, senderId: ref, ...rest } = input;
    const filter = { ...rest, senderId: ref && idOf(context.actor, ref) };
    const show = (rows: readonly MessageRow[]): Promise<Message[]> => this.present(context.actor, rows);
    const [, second] = Object.entries({ before, after, around }).filter(([, anchor]) => anchor !== undefined);
    if (second !== undefined) throw Fault.at(`/${second[0]}`, "one_of", "before, after and around exclude each other");
    const entry = await this.#deps.gate.enter(context, roomId);
    const { tenantId } = context.actor;
    const floor = hiddenUpTo(entry);
    const store = new MessageStore(this.#deps.store.db);
    const page = (from: number, to: number, isBackward: boolean, rows: number): Promise<MessageRow[]> =>
      store.page(tenantId, roomId, { from: Math.max(from, floor), to, isBackward }, filter, rows);
    const end = Number.MAX_SAFE_INTEGER;
    const position = { lastSeq: entry.room.head ?? 0, epoch: entry.room.epoch ?? "" };

    if (around !== undefined) {
      const seq = await this.#seqOf(tenantId, roomId, around, floor);
      const [older, newer] = [await page(0, seq, true, limit + 1), await page(seq - 1, end, false, limit + 1)];
      // Half before it; where one side has less than its half, the other fills the page.
      const earlier = Math.min(older.length, Math.max(Math.floor(limit / 2), limit - newer.length));
      const later = Math.min(newer.length, limit - earlier);
      const items = await show([...older.slice(0, earlier).reverse(), ...newer.slice(0, later)]);
      const [hasBefore, hasAfter] = [older.length > earlier, newer.length > later];
      return { items, hasMore: hasBefore || hasAfter, hasBefore, hasAfter, ...position };
    }
    if (after !== undefined) {
      const seq = await this.#seqOf(tenantId, roomId, after, floor);
      const rows = await page(seq, end, false, limit + 1);
      const hasAfter = rows.length > limit;
      const hasBefore = (await page(0, seq + 1, true, 1)).length > 0;
      const items = await show(rows.slice(0, limit));
      return { items, hasMore: hasAfter, hasBefore, hasAfter, ...position };
    }
    const seq = before === undefined ? end : await this.#seqOf(tenantId, roomId, before, floor);
    const rows = await page(0, seq, true, limit + 1);
    const hasBefore = rows.length > limit;
    const hasAfter = before !== undefined && (await page(seq - 1, end, false, 1)).length > 0;
    const items = await show(rows.slice(0, limit).reverse());
    return { items, hasMore: hasBefore, hasBefore, hasAfter, ...position };
  }

  async read(context: Context, id: string, include: MessageRead["include"] = []): Promise<MessageDetail> {
    const { row, entry } = await this.#finder.find(context, id);
    const [message] = await this.present(context.actor, [row]);
    if (message === undefined) throw new Error("one message in, none out");
    return {
      ...message,
      ...include.includes("thread") ? { thread: await this.#thread(context.actor, row, hiddenUpTo(entry)) } : {},
      ...include.includes("history") ? { history: await this.#lastVersions(row) } : {},
    };
  }

  /** All versions, the current one last. */
  async history(context: Context, { id, limit, cursor }: MessageHistory): Promise<Page<MessageVersion>> {
    const { row } = await this.#finder.find(context, id);
    const { store, cursors } = this.#deps;
    const bind = ["message.history", row.tenant_id, context.actor.principalId, id];
    const after = Number(cursors.open(cursor, bind)?.[0] ?? 0);
    const edits = await new MessageStore(store.db).edits(row.tenant_id, id, after, limit + 1);
    const versions = [...edits.map(presentEdit), ...row.version > after ? [presentVersion(row)] : []];
    return cursors.page(versions, limit, bind, ({ version }) => [version], (version) => version);
  }

  /** Messages as somebody sees them who may. */
  present(actor: Actor, rows: readonly MessageRow[]): Promise<Message[]> {
    return presentMessages(new MessageStore(this.#deps.store.db), actor.tenantId, actor.principalId, rows);
  }

  update(context: Context, { id, version, mentions, metadata, ...input }: MessageUpdate): Promise<Message> {
    const { actor } = context;
    return this.#deps.store.write(async (tx) => {
      const { row, entry } = await this.#finder.findToChange(tx, context, id);
      const messages = new MessageStore(tx.db);
      await this.#checkEditable(actor, row, version);
      if (mentions !== undefined) await checkMentions(this.#deps.gate, actor, entry, mentions);
      const given = [input.text, input.format, mentions, metadata];
      if (given.every((value) => value === undefined)) {
        return (await this.present(actor, [row]))[0] ?? presentMessage(row);
      }
      const previousMentions = Mentions.parse(JSON.parse(row.mentions_json));
      const now = iso(this.#deps.clock.now());
      await messages.addEdit({
        tenant_id: actor.tenantId,
        message_id: id,
        version: row.version,
        text: row.text,
        editor_id: row.sender_id,
        at: row.edited_at ?? row.created_at,
      });
      const after: MessageRow = {
        ...row,
        text: input.text ?? row.text,
        format: input.format ?? row.format,
        mentions_json: mentions === undefined ? row.mentions_json : JSON.stringify(mentions),
        metadata_json: metadata === undefined ? row.metadata_json : JSON.stringify(metadata),
        edited_at: now,
        edit_count: row.edit_count + 1,
        version: row.version + 1,
      };
      if (mentions !== undefined) {
        await messages.removeMentions(actor.tenantId, id);
        await messages.addMentions(mentionRows(row, mentions));
        const notice = mentionJob(row, previousMentions, mentions);
        if (notice !== undefined) await tx.enqueue(notice);
      }
      await messages.update(actor.tenantId, id, after);
      const [message = presentMessage(after)] = await this.present(actor, [after]);
      await tx.emit(changed(actor, after, "message.updated", {
        message: { ...message, reactions: shared(message.reactions) },
        previousMentions,
      }));
      return message;
    });
  }

  /** Leaves a tombstone at the same id and seq; what it said, and what it said before, is gone, from its events as well. */
  async delete(context: Context, id: string): Promise<void> {
    const { actor } = context;
    const { tenantId } = actor;
    await this.#deps.store.write(async (tx) => {
      const { row, entry } = await this.#finder.findToChange(tx, context, id);
      const { room, role } = entry;
      if (row.sender_id !== actor.principalId && (room.kind === "direct" || role !== "moderator" && role !== "owner")) {
        throw new Fault(
          "forbidden",
          "Messages of others are deleted by moderators of the room, in a direct room by nobody",
        );
      }
      if (row.deleted_at !== null) throw new Fault("not_found", "The message is deleted already");
      const messages = new MessageStore(tx.db);
      const after: MessageRow = {
        ...row,
        text: null,
        mentions_json: JSON.stringify({ principalIds: [], room: false }),
        metadata_json: "{}",
        files_json: "[]",
        pinned_at: null,
        deleted_at: iso(this.#deps.clock.now()),
        version: row.version + 1,
      };
      await messages.removeMentions(tenantId, id);
      await messages.removeEdits(tenantId, id);
      await messages.removeReactions(tenantId, id);
      if (row.files_json !== "[]") await this.#deps.files.unlink(tx, tenantId, fileOwner(id));
      await messages.update(tenantId, id, after);
      await this.#silence(tx, row);
      await tx.emit(changed(actor, after, "message.deleted", {
        message: presentMessage(after),
        previousMentions: Mentions.parse(JSON.parse(row.mentions_json)),
      }));
      // Before it was edited it may have been told to others.
      if (row.edited_at !== null || isTold(row, entry.room.kind)) {
        await tx.enqueue({ tenantId, kind: "notification.retract", payload: { messageId: id } });
      }
      const root = row.thread_id === null ? undefined : await messages.recountThread(tenantId, row.thread_id);
      if (root === undefined) return;
      await tx.emit(changed(actor, root, "thread.updated", {
        roomId: row.room_id,
        threadId: root.id,
        replyCount: root.reply_count,
        lastReplyAt: root.last_reply_at,
      }));
    });
  }

  /** Removes the messages of a purged room, batch by batch so that nobody waits long. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    let removed: number;
    do {
      removed = await this.#deps.store.write(async (tx) => {
        const messages = new MessageStore(tx.db);
        const rows = await messages.oldest(tenantId, roomId, PURGE_BATCH);
        await messages.remove(tenantId, rows.map((row) => row.id));
        return rows.length;
      });
    } while (removed > 0);
  }

  async #thread(actor: Actor, row: MessageRow, hidden: number): Promise<MessageDetail["thread"]> {
    const rows = await new MessageStore(this.#deps.store.db).page(
      actor.tenantId,
      row.room_id,
      { from: hidden, to: Number.MAX_SAFE_INTEGER, isBackward: false },
      { threadId: row.thread_id ?? row.id },
      THREAD_MAX + 1,
    );
    return { items: await this.present(actor, rows.slice(0, THREAD_MAX)), hasMore: rows.length > THREAD_MAX };
  }

  async #lastVersions(row: MessageRow): Promise<MessageVersion[]> {
    const messages = new MessageStore(this.#deps.store.db);
    const edits = await messages.edits(row.tenant_id, row.id, "newest", VERSIONS_MAX - 1);
    return [...edits.reverse().map(presentEdit), presentVersion(row)];
  }

  /**
   * Takes what a message said out of the events of its sending and its edits. They keep whom they mention: those who count
   * mentions go by all of them, the one of the deletion included.
   */
  async #silence(
    tx: Transaction<MessageTables>,
    { tenant_id, room_id, id, seq, edited_at }: MessageRow,
  ): Promise<void> {
    const line = { tenantId: tenant_id, stream: roomStream(room_id), from: seq };
    // deno-lint-ignore no-explicit-any -- data of an event, as it was once written
    const change = ({ message, ...data }: any): unknown =>
      // Others may name it, in their metadata or as what they reply to.
      message.id === id ? { ...data, message: { ...message, text: null, files: [], metadata: {} } } : undefined;
    await retell(tx.db, { ...line, type: "message.created", to: seq }, id, change);
    if (edited_at !== null) await retell(tx.db, { ...line, type: "message.updated", to: edited_at }, id, change);
  }

  async #seqOf(tenantId: string, roomId: string, anchor: number | string, hidden: number): Promise<number> {
    // A position in a query string arrives as text; no message id is all digits.
    if (typeof anchor === "number" || /^\d+$/.test(anchor)) return Math.min(Number(anchor), Number.MAX_SAFE_INTEGER);
    const row = await new MessageStore(this.#deps.store.db).find(tenantId, anchor);
    if (row === undefined || row.room_id !== roomId || row.seq <= hidden) {
      throw new Fault("not_found", `No message ${anchor} in the room`);
    }
    return row.seq;
  }

  async #checkEditable(actor: Actor, row: MessageRow, version: number | undefined): Promise<void> {
    if (row.sender_id !== actor.principalId) throw new Fault("forbidden", "Only the author edits a message");
    if (row.deleted_at !== null) throw new Fault("not_found", "The message is deleted");
    const { settings } = await this.#deps.tenants.read(actor.tenantId);
    const windowSeconds = settings.messageEditWindowSeconds;
    if (windowSeconds !== null && this.#deps.clock.now() > Date.parse(row.created_at) + windowSeconds * 1000) {
      throw new Fault("edit_window_closed", `Messages may be edited for ${windowSeconds} s after sending`);
    }
    checkVersion("message", row.version, version);
  }
}

function presentEdit({ version, text, editor_id, at }: MessageEditRow): MessageVersion {
  return { version, text, editorId: editor_id, at };
}

/** What the message says now. */
function presentVersion({ version, text, sender_id, edited_at, created_at }: MessageRow): MessageVersion {
  return { version, text, editorId: sender_id, at: edited_at ?? created_at };
}
