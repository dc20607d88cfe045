// Sending, the hot path: messages that arrive together are authorized, numbered and written with a few statements.
import { chargedTo } from "@/core/actor.ts";
import { withHops } from "@/core/agent_hops.ts";
import { runAsSystem } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { roomStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { SeqRange, Store, Transaction } from "@/ports/store.ts";
import {
  type AdmissionDeps,
  type Draft,
  type MessageContent,
  SendAdmission,
  type SendRequest,
  type Sent,
} from "./admission.ts";
import { BatchQueue, QUEUE_OPTIONS } from "./batch_queue.ts";
import { notifyJob } from "./notifier.ts";
import { mentionRows, presentMessage } from "./presenter.ts";
import type { Message } from "./schema.ts";
import { reserveSeqs } from "./seq_reservation.ts";
import { ThreadStore } from "./thread/store.ts";
import { type MessageRow, MessageStore, type MessageTables, type ThreadCount } from "./store.ts";

/** A message with its position in the room's stream. */
type NumberedMessage = Draft & { row: MessageRow; message: Message; json: string; epoch: string };

type Deps = AdmissionDeps & { store: Store<MessageTables>; clock: Clock };

/**
 * Sends to one room are committed in order: by index within a batch, and a batch starts only when the one before it has
 * ended. Each send succeeds or fails on its own; an acknowledged one is durable.
 */
export class MessageSender {
  readonly #deps: Deps;
  readonly #admission: SendAdmission;
  readonly #queue: BatchQueue<SendRequest, Sent>;

  constructor(deps: Deps) {
    const { dialect } = deps.store;
    this.#deps = deps;
    this.#admission = new SendAdmission(deps, dialect);
    this.#queue = new BatchQueue((requests) => runAsSystem(() => this.#commit(requests)), {
      keyOf: ({ input }) => input.roomId,
      weightOf: ({ input: { mentions, fileIds = [] } }) => mentions.principalIds.length + fileIds.length,
      ...QUEUE_OPTIONS[dialect],
    });
  }

  /** `given` is what the caller sent: a repeat of it returns the first message, whatever filters make of it. */
  async send(context: Context, input: MessageContent, given: MessageContent): Promise<Sent> {
    const metadata = withHops(input.metadata, context.agentHops ?? 0);
    const request = { context, input: metadata === input.metadata ? input : { ...input, metadata }, given };
    if (!this.#deps.store.isInTransaction) return await this.#queue.push(request);
    // Inside a transaction the message is part of it; waiting for a batch there would be a deadlock.
    const [result] = await this.#commit([request]);
    if (result === undefined) throw new Error("Expected a result for each message, received none");
    if (result instanceof Fault) throw result;
    return result;
  }

  /** Throws what sending this now would throw, except for its clientMessageId. */
  check(tx: Transaction<MessageTables>, context: Context, input: MessageContent): Promise<void> {
    return this.#admission.check(tx, context, input);
  }

  #commit(requests: readonly SendRequest[]): Promise<(Sent | Fault)[]> {
    const { store } = this.#deps;
    return store.write(async (tx) => {
      // With several nodes the room streams are locked first, so that no member is removed between authorization and commit.
      const isShared = store.dialect === "postgres";
      const reserve = () =>
        isShared ? reserveSeqs(tx, requests, 1, { begins: false }) : Promise.resolve(new Map<string, SeqRange>());
      const { drafts, reserved, results } = await this.#admission.admit(tx, requests, reserve);
      const admitted = new Set(drafts.map(({ index }) => index));
      const refused = requests.filter((_, index) => !admitted.has(index));
      if (isShared && refused.length > 0) await reserveSeqs(tx, refused, -1, { begins: false });
      const numbered = this.#assignSeqs(drafts, isShared ? reserved : await reserveSeqs(tx, drafts, 1));
      tx.charge(bytesOf(numbered));
      await this.#insert(tx, numbered);
      for (const { index, message, json } of numbered) results[index] = { message, isNew: true, json };
      await this.#admission.resolveRepeats(tx.db, requests, results);
      return results;
    });
  }

  /** Gives each draft its position in the room's stream. */
  #assignSeqs(drafts: readonly Draft[], reserved: ReadonlyMap<string, SeqRange>): NumberedMessage[] {
    const next = new Map([...reserved].map(([stream, { epoch, first }]) => [stream, { epoch, first }]));
    const at = iso(this.#deps.clock.now());
    return drafts.flatMap((draft) => {
      const range = next.get(roomStream(draft.room.id));
      if (range === undefined) return [];
      const row = rowOf(draft, range.first++, at);
      const { mentions, input: { metadata }, files } = draft;
      const message = presentMessage(row, [], { mentions, metadata, files: [...files] });
      return { ...draft, row, message, json: JSON.stringify(message), epoch: range.epoch };
    });
  }

  async #insert(tx: Transaction<MessageTables>, numbered: readonly NumberedMessage[]): Promise<void> {
    if (numbered.length === 0) return;
    const messages = new MessageStore(tx.db);
    const rows = numbered.map(({ row }) => row);
    const mentions = numbered.flatMap(({ row, message }) => mentionRows(row, message.mentions));
    const byTenant = Map.groupBy(rows, (row) => row.tenant_id);
    const hasReplies = rows.some((row) => row.thread_id !== null);
    await Promise.all([
      tx.insertMany("message", rows),
      mentions.length === 0 ? undefined : tx.insertMany("mention", mentions),
      hasReplies ? undefined : tx.append(numbered.map((one) => createdEvent(one))),
      ...[...byTenant].map(([tenantId, own]) =>
        messages.touchRooms(tenantId, [...new Set(own.map((row) => row.room_id))], own[0]?.created_at ?? "")
      ),
    ]);
    if (hasReplies) {
      const counts = await messages.recountThreads(rows);
      await new ThreadStore(tx.db).addParticipantsOf(rows);
      await tx.append(numbered.map((one) => createdEvent(one, counts.get(one.row.id))));
    }
    for (const { row, input: { fileIds } } of numbered) {
      if (fileIds === undefined) continue;
      const target = { tenantId: row.tenant_id, owner: fileOwner(row.id), roomId: row.room_id, seq: row.seq };
      await this.#deps.files.attach(tx, target, fileIds);
    }
    const jobs = numbered.flatMap(({ context, row, room }) => notifyJob(context.actor, row, room.kind) ?? []);
    if (jobs.length > 0) await tx.enqueue(...jobs);
  }
}

/** Bytes that a batch writes for each charged principal: per message a row, an event and their index entries. */
function bytesOf(numbered: readonly NumberedMessage[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { context, json } of numbered) {
    const key = chargedTo(context.actor);
    bytes.set(key, (bytes.get(key) ?? 0) + 2 * json.length + 200);
  }
  return bytes;
}

/** The message as the owner of attached files. */
export function fileOwner(messageId: string): string {
  return `message:${messageId}`;
}

function rowOf({ context, input, fingerprint, files, mentions }: Draft, seq: number, at: string): MessageRow {
  return {
    tenant_id: context.actor.tenantId,
    id: newId("msg"),
    room_id: input.roomId,
    seq,
    sender_id: context.actor.principalId,
    sender_kind: context.actor.kind,
    type: input.text === "" ? "file" : input.type,
    text: input.text,
    format: input.format,
    thread_id: input.threadId ?? null,
    reply_to_id: input.replyToId ?? null,
    mentions_json: JSON.stringify(mentions),
    reply_count: 0,
    last_reply_at: null,
    client_message_id: input.clientMessageId ?? null,
    fingerprint,
    metadata_json: JSON.stringify(input.metadata),
    files_json: files.length === 0 ? "[]" : JSON.stringify(files),
    elements_json: input.elements === undefined ? null : JSON.stringify(input.elements),
    pinned_at: null,
    edited_at: null,
    edit_count: 0,
    deleted_at: null,
    version: 1,
    created_at: at,
  };
}

function createdEvent({ room, row, json: message, epoch }: NumberedMessage, count?: ThreadCount): StoredEvent {
  const type = "message.created";
  const actor = { id: row.sender_id, kind: row.sender_kind };
  const head = JSON.stringify({ id: newId("evt"), type, at: row.created_at, actor });
  // Members with hidden history must not learn how many older replies there are.
  const isCounted = count !== undefined && room.history_visibility === "shared";
  const thread = isCounted ? `,"thread":${JSON.stringify(count)}` : "";
  const json = `${head.slice(0, -1)},"data":{"message":${message}${thread}}}`;
  return { tenantId: row.tenant_id, stream: roomStream(row.room_id), epoch, seq: row.seq, type, json };
}
