// One batch of imported messages: missing ones get positions in the room's stream; rows, events and counts are written together.
import { candidateIds, type Ref } from "@/core/archive/ids.ts";
import { roomStream, type StoredEvent } from "@/core/event/event.ts";
import { newId } from "@/core/id.ts";
import {
  addArchivedMessages,
  type ExistingMessage,
  MENTIONS_MAX,
  MessageArchiveStore,
  type MessageEditRow,
  type MessageRow,
  presentMessage,
  REACTION_KINDS_MAX,
  ReactionKey,
  type ReactionRow,
} from "@/modules/message/mod.ts";
import { compareText } from "@/core/text/text.ts";
import { RoomArchiveStore } from "@/modules/room/mod.ts";
import { idsOfOtherTenants } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import type { SourceMessage } from "../format/model.ts";
import type { TransferTables } from "../store.ts";
import type { FileImport } from "./files.ts";
import { withoutErased } from "./erased_people.ts";
import type { ImportedPrincipals } from "./principals.ts";
import type { Report } from "./report.ts";
import type { ImportRun, OpenRoom } from "./run.ts";
import { splitText } from "./split_text.ts";

type Tx = Transaction<TransferTables>;
type NumberedMessage = { draft: SourceMessage; row: MessageRow };

export class MessageBatch {
  readonly #tenantId: string;
  readonly #room: OpenRoom;
  readonly #principals: ImportedPrincipals;
  readonly #files: FileImport;
  readonly #report: Report;
  readonly #now: string;
  /** Messages that exist, by id. */
  readonly #existingMessages = new Map<string, ExistingMessage>();
  #otherTenantIds: ReadonlySet<string> = new Set();

  constructor(tenantId: string, room: OpenRoom, { principals, files, report, now }: ImportRun & { files: FileImport }) {
    this.#tenantId = tenantId;
    this.#room = room;
    this.#principals = principals;
    this.#files = files;
    this.#report = report;
    this.#now = now;
  }

  async importMessages(tx: Tx, given: readonly SourceMessage[]): Promise<void> {
    const drafts = (await this.#withoutErased(tx, given)).map((draft) =>
      draft.deletedAt === null ? draft : tombstone(draft)
    )
      .flatMap((draft) => splitText(draft, this.#report));
    await this.#loadExisting(tx, drafts);
    const fresh: SourceMessage[] = [];
    const seen = new Set<string>();
    for (const draft of drafts) {
      const present = this.#existingMessages.get(this.#existingId(draft.ref) ?? "");
      if (present !== undefined) await this.#files.attachMissing(tx, present, draft.files);
      if (present === undefined && !seen.has(draft.ref.fallback)) fresh.push(draft);
      else this.#report.present++;
      seen.add(draft.ref.fallback);
    }
    if (fresh.length === 0) return;
    await this.#ensurePrincipals(tx, fresh);
    await this.#write(tx, await this.#rows(tx, fresh));
  }

  async #withoutErased(tx: Tx, drafts: readonly SourceMessage[]): Promise<readonly SourceMessage[]> {
    const named = drafts.flatMap(({ senderId, mentions, reactions }) => [
      senderId,
      ...mentions.principalIds,
      ...reactions.map(({ principalId }) => principalId),
    ]);
    const erased = await this.#principals.erasedAmong(tx, named, this.#now);
    return erased === undefined ? drafts : drafts.map((draft) => withoutErased(draft, erased));
  }

  /** Loads the messages that exist, and the ids that other tenants have. */
  async #loadExisting(tx: Tx, drafts: readonly SourceMessage[]): Promise<void> {
    const store = new MessageArchiveStore(tx.db);
    const refs = drafts.flatMap(({ ref, thread, replyTo }) => [ref, thread, replyTo]).filter((ref) => ref !== null);
    for (const row of await store.messages(this.#tenantId, [...new Set(refs.flatMap(candidateIds))])) {
      this.#existingMessages.set(row.id, row);
    }
    const own = new Set(drafts.flatMap(({ ref }) => ref.original === null ? [] : [ref.original]));
    this.#otherTenantIds = await idsOfOtherTenants(tx.db, "message", this.#tenantId, [...own]);
  }

  async #ensurePrincipals(tx: Tx, drafts: readonly SourceMessage[]): Promise<void> {
    const authors = drafts.flatMap(({ senderId, reactions }) => [
      senderId,
      ...reactions.map((reaction) => reaction.principalId),
    ]);
    await this.#principals.createPlaceholders(tx, authors, this.#now);
    await this.#principals.load(tx, drafts.flatMap((draft) => draft.mentions.principalIds));
  }

  /** Rows in the order of the drafts, numbered. */
  async #rows(
    tx: Tx,
    drafts: readonly SourceMessage[],
  ): Promise<{ numbered: NumberedMessage[]; epoch: string; first: number }> {
    const clientIds = drafts.flatMap(({ clientMessageId }) => clientMessageId === null ? [] : [clientMessageId]);
    const taken = await new MessageArchiveStore(tx.db).clientIds(this.#tenantId, this.#room.id, clientIds);
    const { epoch, first } = await tx.reserve(this.#tenantId, roomStream(this.#room.id), drafts.length);
    const numbered = drafts.map((draft, index): NumberedMessage => {
      const id = draft.ref.original !== null && !this.#otherTenantIds.has(draft.ref.original)
        ? draft.ref.original
        : draft.ref.fallback;
      const threadId = this.#threadOf(draft);
      const row: MessageRow = {
        tenant_id: this.#tenantId,
        id,
        room_id: this.#room.id,
        seq: first + index,
        sender_id: draft.senderId,
        sender_kind: this.#principals.kindOf(draft.senderId),
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
        metadata_json: JSON.stringify(this.#report.limitMetadata(draft.metadata, draft.where)),
        elements_json: this.#report.elementsJson(draft.elements, draft.where),
        files_json: JSON.stringify(this.#files.mapFileIds(draft.files)),
        pinned_at: draft.pinnedAt,
        edited_at: draft.editedAt,
        edit_count: draft.editCount,
        deleted_at: draft.deletedAt,
        version: draft.version,
        // Retention would wait for a date in the future.
        created_at: draft.at < this.#now ? draft.at : this.#now,
      };
      this.#existingMessages.set(id, row);
      return { draft, row };
    });
    return { numbered, epoch, first };
  }

  async #write(
    tx: Tx,
    { numbered, epoch, first }: { numbered: NumberedMessage[]; epoch: string; first: number },
  ): Promise<void> {
    const rows = numbered.map(({ row }) => row);
    const reactions = new Map(numbered.map((one) => [one.row.id, this.#reactions(one)]));
    const reactionRows = [...reactions.values()].flat();
    const edits = numbered.flatMap(editRows);
    await addArchivedMessages(tx, { messages: rows, reactions: reactionRows, edits });
    for (const { draft, row } of numbered) await this.#files.attach(tx, row, draft.files);
    await tx.append(rows.map((row) => this.#created(row, epoch, reactions.get(row.id) ?? [])));

    const roots = new Set(rows.flatMap((row) => row.thread_id === null ? [] : [row.thread_id]));
    const counted = await new MessageArchiveStore(tx.db).recountThreads(this.#tenantId, [...roots]);
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
        effect: { kind: "concerns" as const, seq: root.seq },
      })),
    );
    const newest = rows.reduce((at, row) => row.created_at > at ? row.created_at : at, "");
    const rooms = new RoomArchiveStore(tx.db);
    await rooms.touchRoom(this.#tenantId, this.#room.id, newest);
    if (!this.#room.isNew) {
      const { first: next } = await tx.reserve(this.#tenantId, roomStream(this.#room.id), 0);
      for (const id of await rooms.advanceReaders(this.#tenantId, this.#room.id, first - 1, next - 1)) {
        this.#room.advancedReaders.add(id);
      }
    }
    const { added } = this.#report;
    added.messages += rows.length;
    added.reactions += reactionRows.length;
    added.edits += edits.length;
  }

  #existingId(ref: Ref): string | undefined {
    return candidateIds(ref).find((id) => this.#existingMessages.has(id));
  }

  /** The root of the thread: a message of the same room that is not a reply itself. */
  #threadOf({ thread, where }: SourceMessage): string | null {
    if (thread === null) return null;
    const id = this.#existingId(thread);
    const root = id === undefined ? undefined : this.#existingMessages.get(id);
    if (id !== undefined && root?.room_id === this.#room.id && root.thread_id === null) return id;
    this.#report.skip("thread_root_missing", where);
    return null;
  }

  #replyTo({ replyTo, where }: SourceMessage): string | null {
    if (replyTo === null) return null;
    const id = this.#existingId(replyTo);
    if (id !== undefined && this.#existingMessages.get(id)?.room_id === this.#room.id) return id;
    this.#report.skip("reply_target_missing", where);
    return null;
  }

  #mentions({ mentions, where }: SourceMessage): SourceMessage["mentions"] {
    const ids = [...new Set(mentions.principalIds)];
    const known = ids.filter((id) => this.#principals.isKnown(id));
    if (known.length < ids.length) {
      this.#report.skip("unknown_principal", `${where}: mention`, ids.length - known.length);
    }
    if (known.length > MENTIONS_MAX) this.#report.skip("too_many_mentions", where);
    return { ...mentions, principalIds: known.slice(0, MENTIONS_MAX) };
  }

  #clientId({ clientMessageId, senderId, where }: SourceMessage, taken: Set<string>): string | null {
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
  #reactions({ draft, row }: NumberedMessage): ReactionRow[] {
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

  /** The complete message as it is now: no other event carries its reactions, edits and pin. */
  #created(row: MessageRow, epoch: string, reactions: readonly ReactionRow[]): StoredEvent {
    const type = "message.created";
    const byKey = Map.groupBy(reactions.toSorted((a, b) => compareText(a.created_at, b.created_at)), ({ key }) => key);
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

/** A deleted message without its content. */
function tombstone(draft: SourceMessage): SourceMessage {
  const mentions = { principalIds: [], room: false };
  return {
    ...draft,
    text: null,
    mentions,
    files: [],
    reactions: [],
    edits: [],
    metadata: {},
    elements: undefined,
    pinnedAt: null,
  };
}

function editRows({ draft, row }: NumberedMessage): MessageEditRow[] {
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
