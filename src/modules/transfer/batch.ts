// One batch of imported messages: what is missing gets its place in the room's line, with rows, events and counts together.
import { roomStream, type StoredEvent } from "@/core/event.ts";
import { newId } from "@/core/id.ts";
import {
  mentionRows,
  MENTIONS_MAX,
  type MessageRow,
  presentMessage,
  REACTION_KINDS_MAX,
  ReactionKey,
} from "@/modules/message/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import type { MessageDraft, Ref } from "./draft.ts";
import type { FileImport } from "./files.ts";
import type { Importer, OpenRoom } from "./importer.ts";
import { idsOf } from "./places.ts";
import type { People } from "./people.ts";
import type { Report } from "./report.ts";
import { splitText } from "./split.ts";
import { type PlacedMessage, TransferStore, type TransferTables } from "./store.ts";

type Tx = Transaction<TransferTables>;
type Placed = { draft: MessageDraft; row: MessageRow };
type ReactionRow = TransferTables["reaction"];

export class MessageBatch {
  readonly #tenantId: string;
  readonly #room: OpenRoom;
  readonly #people: People;
  readonly #files: FileImport;
  readonly #report: Report;
  readonly #now: string;
  /** Messages that exist, by id. */
  readonly #present = new Map<string, PlacedMessage>();
  #elsewhere: ReadonlySet<string> = new Set();

  constructor(tenantId: string, room: OpenRoom, { people, files, report, now }: Importer) {
    this.#tenantId = tenantId;
    this.#room = room;
    this.#people = people;
    this.#files = files;
    this.#report = report;
    this.#now = now;
  }

  async put(tx: Tx, given: readonly MessageDraft[]): Promise<void> {
    const drafts = given.map((draft) => draft.deletedAt === null ? draft : tombstone(draft))
      .flatMap((draft) => splitText(draft, this.#report));
    await this.#look(tx, drafts);
    const fresh: MessageDraft[] = [];
    const seen = new Set<string>();
    for (const draft of drafts) {
      const present = this.#present.get(this.#existing(draft.ref) ?? "");
      if (present !== undefined) await this.#files.complete(tx, present, draft.files);
      if (present === undefined && !seen.has(draft.ref.derived)) fresh.push(draft);
      else this.#report.present++;
      seen.add(draft.ref.derived);
    }
    if (fresh.length === 0) return;
    await this.#meet(tx, fresh);
    await this.#write(tx, await this.#rows(tx, fresh));
  }

  /** Learns which of the messages named here exist, and which ids are not free. */
  async #look(tx: Tx, drafts: readonly MessageDraft[]): Promise<void> {
    const store = new TransferStore(tx.db);
    const refs = drafts.flatMap(({ ref, thread, replyTo }) => [ref, thread, replyTo]).filter((ref) => ref !== null);
    for (const row of await store.messages(this.#tenantId, [...new Set(refs.flatMap(idsOf))])) {
      this.#present.set(row.id, row);
    }
    const own = new Set(drafts.flatMap(({ ref }) => ref.own === null ? [] : [ref.own]));
    this.#elsewhere = await store.takenElsewhere(this.#tenantId, "message", [...own]);
  }

  async #meet(tx: Tx, drafts: readonly MessageDraft[]): Promise<void> {
    const authors = drafts.flatMap(({ senderId, reactions }) => [
      senderId,
      ...reactions.map((reaction) => reaction.principalId),
    ]);
    await this.#people.standIn(tx, authors, this.#now);
    await this.#people.learn(tx, drafts.flatMap((draft) => draft.mentions.principalIds));
  }

  /** Rows in the order of the drafts, numbered. */
  async #rows(tx: Tx, drafts: readonly MessageDraft[]): Promise<{ placed: Placed[]; epoch: string; first: number }> {
    const clientIds = drafts.flatMap(({ clientMessageId }) => clientMessageId === null ? [] : [clientMessageId]);
    const taken = await new TransferStore(tx.db).clientIds(this.#tenantId, this.#room.id, clientIds);
    const { epoch, first } = await tx.reserve(this.#tenantId, roomStream(this.#room.id), drafts.length);
    const placed = drafts.map((draft, place): Placed => {
      const id = draft.ref.own !== null && !this.#elsewhere.has(draft.ref.own) ? draft.ref.own : draft.ref.derived;
      const threadId = this.#threadOf(draft);
      const row: MessageRow = {
        tenant_id: this.#tenantId,
        id,
        room_id: this.#room.id,
        seq: first + place,
        sender_id: draft.senderId,
        sender_kind: this.#people.kindOf(draft.senderId),
        type: draft.type,
        text: draft.text,
        format: draft.format,
        thread_id: threadId,
        reply_to_id: this.#replyTo(draft),
        mentions_json: JSON.stringify(this.#mentions(draft)),
        reply_count: 0,
        last_reply_at: null,
        client_message_id: this.#clientId(draft, taken),
        fingerprint: null,
        metadata_json: JSON.stringify(this.#report.fitMetadata(draft.metadata, draft.where)),
        files_json: JSON.stringify(this.#files.shown(draft.files)),
        pinned_at: draft.pinnedAt,
        edited_at: draft.editedAt,
        edit_count: draft.editCount,
        deleted_at: draft.deletedAt,
        version: draft.version,
        created_at: draft.at,
      };
      this.#present.set(id, row);
      return { draft, row };
    });
    return { placed, epoch, first };
  }

  async #write(tx: Tx, { placed, epoch, first }: { placed: Placed[]; epoch: string; first: number }): Promise<void> {
    const store = new TransferStore(tx.db);
    const rows = placed.map(({ row }) => row);
    const reactions = new Map(placed.map((one) => [one.row.id, this.#reactions(one)]));
    await tx.insertMany("message", rows);
    const mentions = rows.flatMap((row) => mentionRows(row, JSON.parse(row.mentions_json)));
    if (mentions.length > 0) await tx.insertMany("mention", mentions);
    const reactionRows = [...reactions.values()].flat();
    if (reactionRows.length > 0) await tx.insertMany("reaction", reactionRows);
    for (const { draft, row } of placed) await this.#files.link(tx, row, draft.files);
    const edits = placed.flatMap(editRows);
    if (edits.length > 0) await tx.insertMany("message_edit", edits);
    await tx.append(rows.map((row) => this.#created(row, epoch, reactions.get(row.id) ?? [])));

    const roots = new Set(rows.flatMap((row) => row.thread_id === null ? [] : [row.thread_id]));
    const counted = await store.recountThreads(this.#tenantId, [...roots]);
    // Listeners count a reply for each message; of a deleted one the root counts none.
    const cut = new Set(
      rows.flatMap((row) => row.deleted_at !== null && row.thread_id !== null ? [row.thread_id] : []),
    );
    await tx.emit(
      ...counted.filter(({ id }) => cut.has(id)).map((root) => ({
        tenantId: this.#tenantId,
        stream: roomStream(this.#room.id),
        type: "thread.updated",
        data: {
          roomId: this.#room.id,
          threadId: root.id,
          replyCount: root.reply_count,
          lastReplyAt: root.last_reply_at,
        },
        effect: { kind: "about" as const, seq: root.seq },
      })),
    );
    const newest = rows.reduce((at, row) => row.created_at > at ? row.created_at : at, "");
    await store.touchRoom(this.#tenantId, this.#room.id, newest);
    if (!this.#room.isNew) {
      const { first: next } = await tx.reserve(this.#tenantId, roomStream(this.#room.id), 0);
      for (const id of await store.readOn(this.#tenantId, this.#room.id, first - 1, next - 1)) {
        this.#room.movedOn.add(id);
      }
    }
    const { added } = this.#report;
    added.messages += rows.length;
    added.reactions += reactionRows.length;
    added.edits += edits.length;
  }

  #existing(ref: Ref): string | undefined {
    return idsOf(ref).find((id) => this.#present.has(id));
  }

  /** The root a reply hangs under: of the same room, and itself no reply. */
  #threadOf({ thread, where }: MessageDraft): string | null {
    if (thread === null) return null;
    const id = this.#existing(thread);
    const root = id === undefined ? undefined : this.#present.get(id);
    if (id !== undefined && root?.room_id === this.#room.id && root.thread_id === null) return id;
    this.#report.skip("thread_root_missing", where);
    return null;
  }

  #replyTo({ replyTo, where }: MessageDraft): string | null {
    if (replyTo === null) return null;
    const id = this.#existing(replyTo);
    if (id !== undefined && this.#present.get(id)?.room_id === this.#room.id) return id;
    this.#report.skip("reply_target_missing", where);
    return null;
  }

  #mentions({ mentions, where }: MessageDraft): MessageDraft["mentions"] {
    const ids = [...new Set(mentions.principalIds)];
    const known = ids.filter((id) => this.#people.isKnown(id));
    if (known.length < ids.length) {
      this.#report.skip("unknown_principal", `${where}: mention`, ids.length - known.length);
    }
    if (known.length > MENTIONS_MAX) this.#report.skip("too_many_mentions", where);
    return { principalIds: known.slice(0, MENTIONS_MAX), room: mentions.room };
  }

  #clientId({ clientMessageId, senderId, where }: MessageDraft, taken: Set<string>): string | null {
    if (clientMessageId === null) return null;
    const pair = `${senderId} ${clientMessageId}`;
    if (taken.has(pair)) {
      this.#report.skip("client_message_id_taken", where);
      return null;
    }
    taken.add(pair);
    return clientMessageId;
  }

  /** One per principal and key, keys in their order, of as many kinds as a message may have. */
  #reactions({ draft, row }: Placed): ReactionRow[] {
    const kinds = new Set<string>();
    const rows = new Map<string, ReactionRow>();
    for (const { key, principalId, at } of draft.reactions) {
      if (!ReactionKey.safeParse(key).success) {
        this.#report.skip("reaction_invalid", `${draft.where}: ${key}`);
      } else if (kinds.size >= REACTION_KINDS_MAX && !kinds.has(key)) {
        this.#report.skip("too_many_reactions", draft.where);
      } else {
        kinds.add(key);
        const reaction = {
          tenant_id: this.#tenantId,
          message_id: row.id,
          key,
          principal_id: principalId,
          created_at: at,
        };
        rows.set(`${key} ${principalId}`, reaction);
      }
    }
    return [...rows.values()];
  }

  /** The message whole, as it is now: nothing else tells listeners of its reactions, edits and pin. */
  #created(row: MessageRow, epoch: string, reactions: readonly ReactionRow[]): StoredEvent {
    const type = "message.created";
    const byKey = Map.groupBy(
      reactions.toSorted((a, b) => a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0),
      ({ key }) => key,
    );
    const message = presentMessage(row, [...byKey].map(([key, { length: count }]) => ({ key, count })));
    const json = JSON.stringify({
      id: newId("evt"),
      type,
      at: this.#now,
      actor: { id: row.sender_id, kind: row.sender_kind },
      data: { message },
    });
    return { tenantId: this.#tenantId, stream: roomStream(this.#room.id), epoch, seq: row.seq, type, json };
  }
}

/** What is left of a message that was deleted. */
function tombstone(draft: MessageDraft): MessageDraft {
  const mentions = { principalIds: [], room: false };
  return { ...draft, text: null, mentions, files: [], reactions: [], edits: [], metadata: {}, pinnedAt: null };
}

function editRows({ draft, row }: Placed): TransferTables["message_edit"][] {
  const versions = new Map(
    draft.edits.filter(({ version }) => version < row.version).map((edit) => [edit.version, edit]),
  );
  return [...versions.values()].map(({ version, text, editorId, at }) => ({
    tenant_id: row.tenant_id,
    message_id: row.id,
    version,
    text,
    editor_id: editorId,
    at,
  }));
}
