// Messages after sending: listed, read, edited with history, and deleted to a tombstone.
import type { Actor } from "@/core/actor.ts";
import { withHops } from "@/core/agent_hops.ts";
import { createYielder, nextSlice } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import type { Context } from "@/core/operation.ts";
import { type Cursors, fitToPage, type Page, PAGE_CHARACTERS_MAX } from "@/core/page.ts";
import { assertVersion, jsonOf } from "@/core/patch.ts";
import { changesBetween } from "@/core/event/event_data.ts";
import { resolvePrincipalId } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomAccess, type RoomPeople } from "@/modules/room/mod.ts";
import type { TenantService } from "@/modules/tenant/mod.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import { assertNotDeleted, MessageAccess } from "./message_access.ts";
import { resolveMentions } from "./mentions.ts";
import { mentionJob } from "./notifier.ts";
import { mentionRows, messageEvent, presentMessage, presentMessages } from "./presenter.ts";
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
import type { MessageTombstones } from "./tombstone.ts";
import { ThreadStore } from "./thread/store.ts";
import { type MessageEditRow, type MessageRow, MessageStore, type MessageTables, type SeqRange } from "./store.ts";

/** Others wait for the commit of so many, which may be long. */
const PURGE_BATCH = 200;
/** Positions that are read at once for few messages: on SQLite in some milliseconds, on PostgreSQL in few round trips. */
const STEP_POSITIONS = { sqlite: 5000, postgres: 50_000 };
const THREAD_MAX = 200;
/** Versions returned with a message; each may have the maximum length of a text. */
const VERSIONS_MAX = 50;

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  tenants: TenantService;
  people: RoomPeople;
  holds: Holds;
  tombstones: MessageTombstones;
};

export class MessageService {
  readonly #deps: Deps;
  readonly #access: MessageAccess;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#access = new MessageAccess(deps);
  }

  /** A page of messages, on request with their senders. */
  async list(context: Context, { include, ...input }: MessageList): Promise<Messages> {
    const page = await this.#list(context, input);
    return include.includes("senders")
      ? { ...page, senders: await this.#deps.people.sendersOf(context.actor, page.items) }
      : page;
  }

  async #list(context: Context, input: Omit<MessageList, "include">): Promise<Messages> {
    const { roomId, before, after, around, limit, senderId: ref, ...rest } = input;
    const filter = { ...rest, senderId: ref && resolvePrincipalId(context.actor, ref) };
    const present = (rows: readonly MessageRow[]): Promise<Message[]> => this.present(context.actor, rows);
    const [, second] = Object.entries({ before, after, around }).filter(([, anchor]) => anchor !== undefined);
    if (second !== undefined) {
      throw Fault.forField(`/${second[0]}`, "one_of", "before, after and around are mutually exclusive");
    }
    const grant = await this.#deps.roomAccess.require(context, roomId);
    const { tenantId } = context.actor;
    const floor = hiddenUpTo(grant);
    const store = new MessageStore(this.#deps.store.db);
    const isSearched = filter.threadId === undefined && filter.types !== undefined;
    const end = isSearched ? (grant.room.head ?? 0) + 1 : Number.MAX_SAFE_INTEGER;
    const page = (from: number, to: number, isBackward: boolean, rows: number): Promise<MessageRow[]> => {
      const read = (range: SeqRange, limit: number) => store.page(tenantId, roomId, range, filter, limit);
      const range = { from: Math.max(from, floor), to: Math.min(to, end), isBackward };
      return isSearched ? readInSteps(read, range, rows, STEP_POSITIONS[this.#deps.store.dialect]) : read(range, rows);
    };
    const position = { lastSeq: grant.room.head ?? 0, epoch: grant.room.epoch ?? "" };

    if (around !== undefined) {
      const seq = await this.#seqOf(tenantId, roomId, around, floor);
      const [older, newer] = [await page(0, seq, true, limit + 1), await page(seq - 1, end, false, limit + 1)];
      // Half of the page on each side; if one side has less, the other fills the page.
      const most = Math.max(Math.floor(limit / 2), limit - newer.length);
      const earlier = fitToPage(older, most, PAGE_CHARACTERS_MAX / 2);
      const later = fitToPage(newer, limit - Math.min(older.length, most), PAGE_CHARACTERS_MAX / 2);
      const items = await present([...earlier.reverse(), ...later]);
      const [hasBefore, hasAfter] = [older.length > earlier.length, newer.length > later.length];
      return { items, hasMore: hasBefore || hasAfter, hasBefore, hasAfter, ...position };
    }
    if (after !== undefined) {
      const seq = await this.#seqOf(tenantId, roomId, after, floor);
      const rows = await page(seq, end, false, limit + 1);
      const shown = fitToPage(rows, limit);
      const hasAfter = rows.length > shown.length;
      const hasBefore = (await page(0, seq + 1, true, 1)).length > 0;
      const items = await present(shown);
      return { items, hasMore: hasAfter, hasBefore, hasAfter, ...position };
    }
    const seq = before === undefined ? end : await this.#seqOf(tenantId, roomId, before, floor);
    const rows = await page(0, seq, true, limit + 1);
    const shown = fitToPage(rows, limit);
    const hasBefore = rows.length > shown.length;
    const hasAfter = before !== undefined && (await page(seq - 1, end, false, 1)).length > 0;
    const items = await present(shown.reverse());
    return { items, hasMore: hasBefore, hasBefore, hasAfter, ...position };
  }

  async read(context: Context, id: string, include: MessageRead["include"] = []): Promise<MessageDetail> {
    const { row, grant } = await this.#access.require(context, id);
    const [message] = await this.present(context.actor, [row]);
    if (message === undefined) throw new Error("Expected a message, received none");
    const { actor } = context;
    const thread = include.includes("thread") ? await this.#thread(actor, row, hiddenUpTo(grant)) : undefined;
    const messages = [message, ...thread?.items ?? []];
    return {
      ...message,
      thread,
      ...include.includes("following")
        ? { following: await new ThreadStore(this.#deps.store.db).isFollowed(actor, row) }
        : {},
      ...include.includes("history") ? { history: await this.#lastVersions(row) } : {},
      ...include.includes("senders") ? { senders: await this.#deps.people.sendersOf(actor, messages) } : {},
    };
  }

  /** A message visible to the caller, as seen by a transaction that links something to it. */
  async require(tx: AnyTransaction, context: Context, id: string): Promise<Message> {
    const { row } = await this.#access.require(context, id, tx);
    return presentMessage(row);
  }

  /** All versions, the current one last. */
  async history(context: Context, { id, limit, cursor }: MessageHistory): Promise<Page<MessageVersion>> {
    const { row } = await this.#access.require(context, id);
    const { store, cursors } = this.#deps;
    const bind = ["message.history", row.tenant_id, context.actor.principalId, id];
    const after = Number(cursors.decode(cursor, bind)?.[0] ?? 0);
    const edits = await new MessageStore(store.db).edits(row.tenant_id, id, after, limit + 1);
    const versions = [...edits.map(presentEdit), ...row.version > after ? [presentVersion(row)] : []];
    return cursors.page(versions, limit, bind, ({ version }) => [version], (version) => version);
  }

  /** Messages as seen by an actor who may read them. */
  present(actor: Actor, rows: readonly MessageRow[], db: AnyDatabase = this.#deps.store.db): Promise<Message[]> {
    return presentMessages(new MessageStore(db), actor.tenantId, actor.principalId, rows);
  }

  update(
    context: Context,
    { id, version, mentions: given, parseMentions, metadata, elements, ...input }: MessageUpdate,
  ): Promise<Message> {
    const { actor } = context;
    return this.#deps.store.write(async (tx) => {
      const { row, grant } = await this.#access.requireForUpdate(tx, context, id);
      const messages = new MessageStore(tx.db);
      await this.#checkEditable(tx.db, actor, row, version);
      const content = { text: input.text ?? row.text ?? "", format: input.format ?? row.format };
      const mentions = parseMentions === true || given !== undefined
        ? await resolveMentions(
          tx.db,
          this.#deps.roomAccess,
          actor,
          grant,
          parseMentions === true ? content : undefined,
          given ?? { principalIds: [], room: false },
        )
        : undefined;
      const values = [input.text, input.format, mentions, metadata, elements];
      if (values.every((value) => value === undefined)) {
        return (await this.present(actor, [row], tx.db))[0] ?? presentMessage(row);
      }
      const previousMentions = Mentions.parse(JSON.parse(row.mentions_json));
      const now = iso(this.#deps.clock.now());
      const after: MessageRow = {
        ...row,
        text: input.text ?? row.text,
        format: input.format ?? row.format,
        mentions_json: jsonOf(mentions) ?? row.mentions_json,
        metadata_json: JSON.stringify(withHops(metadata ?? JSON.parse(row.metadata_json), context.agentHops ?? 0)),
        elements_json: jsonOf(elements) ?? row.elements_json,
        edited_at: now,
        edit_count: row.edit_count + 1,
        version: row.version + 1,
      };
      // The history has texts only: an edit of other fields adds no entry.
      if (after.text !== row.text) await messages.addEdit(editOf(row));
      if (mentions !== undefined) {
        await messages.removeMentions(actor.tenantId, id);
        await messages.addMentions(mentionRows(row, mentions));
        await new ThreadStore(tx.db).addParticipants(actor.tenantId, [id]);
        const job = mentionJob(actor, row, previousMentions, mentions);
        if (job !== undefined) await tx.enqueue(job);
      }
      await messages.update(actor.tenantId, id, after);
      const [message = presentMessage(after)] = await this.present(actor, [after], tx.db);
      const current = presentMessage(after);
      await tx.emit(messageEvent(actor, after, "message.updated", {
        messageId: id,
        roomId: row.room_id,
        seq: row.seq,
        senderId: row.sender_id,
        ...changesBetween(presentMessage(row), current, { alwaysIncluded: ["text", "elements"] }),
        mentions: current.mentions,
        previousMentions,
      }));
      return message;
    });
  }

  /** Replaces a message by a tombstone, see `MessageTombstones`. */
  async delete(context: Context, id: string): Promise<void> {
    const { actor } = context;
    await this.#deps.store.write(async (tx) => {
      const { row, grant: { room, role } } = await this.#access.requireForUpdate(tx, context, id);
      if (row.sender_id !== actor.principalId && role !== "moderator" && role !== "owner") {
        throw new Fault(
          "forbidden",
          "Deleting messages of others requires a moderator of the room; in a direct room it is not possible",
        );
      }
      if (row.deleted_at !== null) throw new Fault("not_found", "The message is already deleted");
      await this.#deps.holds.assertNotHeld("The message cannot be deleted", tx.db, actor.tenantId, { roomId: room.id });
      await this.#deps.tombstones.replace(tx, row, room.kind, actor);
    });
  }

  /** Deletes the messages of a purged room in batches, so that no transaction is long. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    const { store, holds } = this.#deps;
    for (let isMore = true; isMore;) {
      isMore = await store.write(async (tx) => {
        await holds.assertNotHeld("The room cannot be purged", tx.db, tenantId, { roomId });
        const messages = new MessageStore(tx.db);
        const ids = (await messages.oldest(tenantId, roomId, PURGE_BATCH)).map(({ id }) => id);
        return await messages.removeDependents(tenantId, ids) || await messages.remove(tenantId, ids) > 0;
      });
      await nextSlice();
    }
  }

  async #thread(actor: Actor, row: MessageRow, floor: number): Promise<NonNullable<MessageDetail["thread"]>> {
    const rows = await new MessageStore(this.#deps.store.db).page(
      actor.tenantId,
      row.room_id,
      { from: floor, to: Number.MAX_SAFE_INTEGER, isBackward: false },
      { threadId: row.thread_id ?? row.id },
      THREAD_MAX + 1,
    );
    const shown = fitToPage(rows, THREAD_MAX);
    return { items: await this.present(actor, shown), hasMore: rows.length > shown.length };
  }

  async #lastVersions(row: MessageRow): Promise<MessageVersion[]> {
    const messages = new MessageStore(this.#deps.store.db);
    const edits = await messages.edits(row.tenant_id, row.id, "newest", VERSIONS_MAX - 1);
    return [...edits.reverse().map(presentEdit), presentVersion(row)];
  }

  async #seqOf(tenantId: string, roomId: string, anchor: number | string, floor: number): Promise<number> {
    // A position in a query string arrives as text; no message id is all digits.
    if (typeof anchor === "number" || /^\d+$/.test(anchor)) return Math.min(Number(anchor), Number.MAX_SAFE_INTEGER);
    const row = await new MessageStore(this.#deps.store.db).find(tenantId, anchor);
    if (row === undefined || row.room_id !== roomId || row.seq <= floor) {
      throw new Fault("not_found", `No message ${anchor} in the room`);
    }
    return row.seq;
  }

  async #checkEditable(db: AnyDatabase, actor: Actor, row: MessageRow, version: number | undefined): Promise<void> {
    if (row.sender_id !== actor.principalId) throw new Fault("forbidden", "Only the author may edit a message");
    assertNotDeleted(row);
    const { settings } = await this.#deps.tenants.read(actor.tenantId, db);
    const windowSeconds = settings.messageEditWindowSeconds;
    if (windowSeconds !== null && this.#deps.clock.now() > Date.parse(row.created_at) + windowSeconds * 1000) {
      throw new Fault("edit_window_closed", `Messages can be edited for ${windowSeconds} s after sending`);
    }
    assertVersion("message", row.version, version);
  }
}

/** A page of the messages in a range, of which few may match: others get their turn before all positions are read. */
async function readInSteps(
  read: (range: SeqRange, limit: number) => Promise<MessageRow[]>,
  { from, to, isBackward }: SeqRange,
  limit: number,
  positions: number,
): Promise<MessageRow[]> {
  const yieldIfDue = createYielder();
  const rows: MessageRow[] = [];
  while (rows.length < limit && from + 1 < to) {
    const border = isBackward ? Math.max(from, to - positions - 1) : Math.min(to, from + positions + 1);
    const step = isBackward ? { from: border, to, isBackward } : { from, to: border, isBackward };
    rows.push(...await read(step, limit - rows.length));
    if (isBackward) to = border + 1;
    else from = border - 1;
    await yieldIfDue();
  }
  return rows;
}

/** The current version as an entry of the history. */
function editOf({ tenant_id, id, version, text, sender_id, edited_at, created_at }: MessageRow): MessageEditRow {
  return { tenant_id, message_id: id, version, text, editor_id: sender_id, at: edited_at ?? created_at };
}

function presentEdit({ version, text, editor_id, at }: MessageEditRow): MessageVersion {
  return { version, text, editorId: editor_id, at };
}

function presentVersion({ version, text, sender_id, edited_at, created_at }: MessageRow): MessageVersion {
  return { version, text, editorId: sender_id, at: edited_at ?? created_at };
}
