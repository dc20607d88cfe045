// Sending, the hot path: messages that arrive together are authorized, numbered and written with a few statements.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { withHops } from "@/core/agent_hops.ts";
import { runAsSystem } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { roomStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { canonicalJson } from "@/core/json.ts";
import type { Context } from "@/core/operation.ts";
import type { Attachment, FileAttachments } from "@/modules/file/mod.ts";
import type { CredentialGuard } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomAccess, type SendGrant } from "@/modules/room/mod.ts";
import type { AnyDatabase, SeqRange, Store, Transaction } from "@/ports/store.ts";
import { BatchQueue, QUEUE_OPTIONS } from "./batch_queue.ts";
import { addNamedMentions, assertCanMention } from "./mentions.ts";
import { notifyJob } from "./notifier.ts";
import { mentionRows, presentMessage, presentMessages } from "./presenter.ts";
import type { Mentions, Message, MessageSend } from "./schema.ts";
import { reserveSeqs } from "./seq_reservation.ts";
import { ThreadStore } from "./thread/store.ts";
import { type MessageRow, MessageStore, type MessageTables, type ThreadCount } from "./store.ts";

/** A message to send, now or later. */
export type MessageContent = Omit<MessageSend, "sendAt">;
/** `json` is the serialized message if it is new. */
type Sent = { message: Message; isNew: boolean; json?: string };
/** `given`: what the caller sent, where a filter changed it. */
type Item = { context: Context; input: MessageContent; given?: MessageContent };
type Draft = {
  item: Item;
  room: SendGrant["room"];
  fingerprint: string | null;
  files: readonly Attachment[];
  mentions: Mentions;
  index: number;
};
/** A message with its position in the room's stream. */
type NumberedMessage = { draft: Draft; row: MessageRow; message: Message; json: string; epoch: string };
type Result = Sent | Fault;

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  files: FileAttachments;
  isInTransaction: () => boolean;
  credentials: Pick<CredentialGuard, "findFaults">;
};
const NO_FILES: readonly Attachment[] = [];

/**
 * Sends to one room are committed in order: by index within a batch, and a batch starts only when the one before it has
 * ended. Each send succeeds or fails on its own; an acknowledged one is durable.
 */
export class MessageSender {
  readonly #deps: Deps;
  readonly #queue: BatchQueue<Item, Sent>;

  constructor(deps: Deps) {
    this.#deps = deps;
    const keyOf = ({ input }: Item): string => input.roomId;
    this.#queue = new BatchQueue((items) => runAsSystem(() => this.#commit(items)), {
      keyOf,
      weightOf: ({ input: { mentions, fileIds = [] } }) => mentions.principalIds.length + fileIds.length,
      ...QUEUE_OPTIONS[deps.store.dialect],
    });
  }

  /** `given` is what the caller sent: a repeat of it returns the first message, whatever filters make of it. */
  send(context: Context, input: MessageContent, given: MessageContent): Promise<Sent> {
    const metadata = withHops(input.metadata, context.agentHops ?? 0);
    const item = { context, input: metadata === input.metadata ? input : { ...input, metadata }, given };
    // Inside a transaction the message is part of it; waiting for a batch there would be a deadlock.
    if (this.#deps.isInTransaction()) return this.#commit([item]).then(([result]) => unwrap(result));
    return this.#queue.push(item);
  }

  /** Throws what sending this now would throw, except for its clientMessageId. */
  async check(tx: Transaction<MessageTables>, context: Context, input: MessageContent): Promise<void> {
    const grant = await this.#deps.roomAccess.requireForSend(context, input.roomId, tx);
    await this.#check(tx.db, { context, input }, grant);
  }

  /** Independent statements are started together, so that the connection pipelines them in this order. */
  #commit(items: readonly Item[]): Promise<Result[]> {
    return this.#deps.store.write(async (tx) => {
      const results: Result[] = new Array(items.length);
      const messages = new MessageStore(tx.db);
      const checking = this.#credentialFaults(tx, items);
      // With several nodes the room streams are locked first, so that no member is removed between authorization and commit.
      const isShared = this.#deps.store.dialect === "postgres";
      const locking = isShared
        ? reserveSeqs(tx, items, 1, { begins: false })
        : Promise.resolve(new Map<string, SeqRange>());
      const [reserved, grants, existing, faults] = await Promise.all([
        locking,
        this.#authorize(tx, items, locking),
        this.#existingSends(messages, items),
        checking,
      ]);
      for (const [index, item] of items.entries()) grants[index] = faults.get(item.context.actor) ?? grants[index];
      const drafts = await this.#admit(tx.db, items, grants, existing, results);
      const sent = new Set(drafts.map(({ item }) => item));
      const refused = items.filter((item) => !sent.has(item));
      if (isShared && refused.length > 0) await reserveSeqs(tx, refused, -1, { begins: false });
      const numbered = this.#assignSeqs(drafts, isShared ? reserved : await reserveSeqs(tx, [...sent], 1));
      tx.charge(bytesOf(numbered));
      await this.#insert(tx, numbered);
      for (const { draft, message, json } of numbered) results[draft.index] = { message, isNew: true, json };
      await this.#resolveRepeats(messages, items, results);
      return results;
    });
  }

  /** Faults of callers whose credentials ended since their request was authenticated; one check for each caller. */
  async #credentialFaults(
    { db }: Transaction<MessageTables>,
    items: readonly Item[],
  ): Promise<ReadonlyMap<Actor, Fault | undefined>> {
    const actors = [...new Set(items.map(({ context }) => context.actor))];
    const faults = await this.#deps.credentials.findFaults(db, actors);
    return new Map(actors.map((actor, n) => [actor, faults[n]]));
  }

  /** Returns drafts of the items that may be sent; fills `results` for refused and repeated ones. */
  async #admit(
    db: AnyDatabase,
    items: readonly Item[],
    grants: readonly (SendGrant | Fault | undefined)[],
    existing: ReadonlyMap<number, MessageRow>,
    results: Result[],
  ): Promise<Draft[]> {
    const messages = new MessageStore(db);
    const admit = async (item: Item, index: number): Promise<Draft | undefined> => {
      try {
        const grant = grants[index];
        if (grant === undefined || grant instanceof Fault) throw grant;
        const fingerprint = item.input.clientMessageId === undefined ? null : fingerprintOf(item.given ?? item.input);
        const first = existing.get(index);
        if (first === undefined) {
          return { item, room: grant.room, fingerprint, ...await this.#check(db, item, grant), index };
        }
        results[index] = await resultOfRepeat(messages, first, fingerprint);
      } catch (thrown) {
        if (!(thrown instanceof Fault)) throw thrown;
        results[index] = thrown;
      }
      return undefined;
    };
    // The first admitted of the items with one clientMessageId is sent; the others are repeats of it.
    const pending = new Map<string, Promise<Draft | undefined>>();
    const admitInOrder = (item: Item, index: number): Promise<Draft | undefined> => {
      const { context: { actor }, input: { roomId, clientMessageId } } = item;
      if (clientMessageId === undefined) return admit(item, index);
      const key = `${actor.tenantId} ${roomId} ${actor.principalId} ${clientMessageId}`;
      const before = pending.get(key);
      const draft = before === undefined ? admit(item, index) : before.then((first) => first ?? admit(item, index));
      pending.set(key, draft);
      return draft;
    };
    const admitted: (Draft | undefined)[] = new Array(items.length);
    const checks: Promise<void>[] = [];
    for (const [index, item] of items.entries()) {
      const grant = grants[index];
      if (grant !== undefined && !(grant instanceof Fault) && needsOnlyMembership(item.input)) {
        const { mentions } = item.input;
        admitted[index] = { item, room: grant.room, fingerprint: null, files: NO_FILES, mentions, index };
      } else checks.push(admitInOrder(item, index).then((draft) => void (admitted[index] = draft)));
    }
    await Promise.all(checks);
    return [...new Set(admitted)].filter((draft) => draft !== undefined);
  }

  /** The access of each item, checked once for all items of one actor and room. */
  async #authorize(
    tx: Transaction<MessageTables>,
    items: readonly Item[],
    locking: Promise<ReadonlyMap<string, SeqRange>>,
  ): Promise<(SendGrant | Fault | undefined)[]> {
    const requests: { context: Context; roomId: string }[] = [];
    const indexes = new Map<Actor, Map<string, number>>();
    const requestOf = items.map(({ context, input: { roomId } }) => {
      let rooms = indexes.get(context.actor);
      if (rooms === undefined) indexes.set(context.actor, rooms = new Map());
      let index = rooms.get(roomId);
      if (index === undefined) rooms.set(roomId, index = requests.push({ context, roomId }) - 1);
      return index;
    });
    const grants = await this.#deps.roomAccess.requireManyForSend(tx, requests, locking);
    return requestOf.map((index) => grants[index]);
  }

  /** By index, the messages that were sent with the same clientMessageId before. */
  async #existingSends(messages: MessageStore, items: readonly Item[]): Promise<Map<number, MessageRow>> {
    const found = new Map<number, MessageRow>();
    const lookups = items.flatMap(({ context: { actor }, input: { roomId, clientMessageId: id } }, index) =>
      id === undefined ? [] : [{ index, actor, query: { room_id: roomId, sender_id: actor.principalId, id } }]
    );
    for (const [tenantId, own] of Map.groupBy(lookups, ({ actor }) => actor.tenantId)) {
      const { dialect } = this.#deps.store;
      const rows = await messages.findByClientIds(dialect, tenantId, own.map(({ query }) => query));
      for (const [n, row] of rows.entries()) {
        const index = own[n]?.index;
        if (row !== undefined && index !== undefined) found.set(index, row);
      }
    }
    return found;
  }

  /** Gives each draft its position in the room's stream. */
  #assignSeqs(drafts: readonly Draft[], reserved: ReadonlyMap<string, SeqRange>): NumberedMessage[] {
    const next = new Map([...reserved].map(([stream, { epoch, first }]) => [stream, { epoch, first }]));
    const at = iso(this.#deps.clock.now());
    return drafts.flatMap((draft) => {
      const range = next.get(roomStream(draft.room.id));
      if (range === undefined) return [];
      const row = rowOf(draft, range.first++, at);
      const { mentions, item: { input: { metadata } } } = draft;
      const message = presentMessage(row, [], { mentions, metadata, files: [...draft.files] });
      return { draft, row, message, json: JSON.stringify(message), epoch: range.epoch };
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
    for (const { row, draft: { item: { input: { fileIds } } } } of numbered) {
      if (fileIds === undefined) continue;
      const target = { tenantId: row.tenant_id, owner: fileOwner(row.id), roomId: row.room_id, seq: row.seq };
      await this.#deps.files.attach(tx, target, fileIds);
    }
    const jobs = numbered.flatMap(({ row, draft }) => notifyJob(draft.item.context.actor, row, draft.room.kind) ?? []);
    if (jobs.length > 0) await tx.enqueue(...jobs);
  }

  /** Repeats within one batch get the message of the first. */
  async #resolveRepeats(messages: MessageStore, items: readonly Item[], results: Result[]): Promise<void> {
    for (const [index, { context, input, given = input }] of items.entries()) {
      if (results[index] !== undefined || input.clientMessageId === undefined) continue;
      const first = await messages.findByClientId(
        context.actor.tenantId,
        input.roomId,
        context.actor.principalId,
        input.clientMessageId,
      );
      if (first === undefined) throw new Error("Expected a message to repeat, received none");
      results[index] = await resultOfRepeat(messages, first, fingerprintOf(given));
    }
  }

  /** Checks everything besides membership; resolves to the files to attach and the mentions. */
  async #check(
    db: AnyDatabase,
    { context, input }: Item,
    { room, role }: SendGrant,
  ): Promise<Pick<Draft, "files" | "mentions">> {
    const { tenantId } = context.actor;
    const messages = new MessageStore(db);
    const isVisible = (row: MessageRow | undefined): row is MessageRow =>
      row?.room_id === room.id && row.seq > hiddenUpTo({ room });
    await assertCanMention(db, this.#deps.roomAccess, context.actor, { room, role }, input.mentions);
    const content = input.parseMentions === true ? input : undefined;
    const mentions = await addNamedMentions(
      db,
      this.#deps.roomAccess,
      context.actor,
      { room, role },
      content,
      input.mentions,
    );
    if (input.threadId !== undefined) {
      const root = await messages.find(tenantId, input.threadId);
      if (!isVisible(root)) throw messageNotInRoom("threadId");
      if (root.thread_id !== null) {
        const detail = `threads cannot be nested; the root message is ${root.thread_id}`;
        throw Fault.forField("/threadId", "not_root", detail);
      }
    }
    if (input.replyToId !== undefined) {
      const target = await messages.find(tenantId, input.replyToId);
      if (!isVisible(target)) throw messageNotInRoom("replyToId");
    }
    if (input.fileIds === undefined) return { files: NO_FILES, mentions };
    return {
      files: await this.#deps.files.findAttachable(db, context.actor, room.id, input.fileIds),
      mentions,
    };
  }
}

/** Bytes that a batch writes for each charged principal: per message a row, an event and their index entries. */
function bytesOf(numbered: readonly NumberedMessage[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { draft: { item: { context } }, json } of numbered) {
    const key = chargedTo(context.actor);
    bytes.set(key, (bytes.get(key) ?? 0) + 2 * json.length + 200);
  }
  return bytes;
}

/** Whether membership is the only check, as for most messages. */
function needsOnlyMembership(
  { clientMessageId, threadId, replyToId, fileIds, parseMentions, mentions }: MessageContent,
): boolean {
  return (clientMessageId ?? threadId ?? replyToId ?? fileIds ?? parseMentions) === undefined &&
    mentions.principalIds.length === 0 && !mentions.room && (mentions.groups ?? mentions.ignored) === undefined;
}

/** The message as the owner of attached files. */
export function fileOwner(messageId: string): string {
  return `message:${messageId}`;
}

function messageNotInRoom(field: string): Fault {
  return Fault.forField(`/${field}`, "not_found", "no such message in the room");
}

function rowOf({ item: { context, input }, fingerprint, files, mentions }: Draft, seq: number, at: string): MessageRow {
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

function createdEvent({ draft, row, json: message, epoch }: NumberedMessage, count?: ThreadCount): StoredEvent {
  const type = "message.created";
  const actor = { id: row.sender_id, kind: row.sender_kind };
  const head = JSON.stringify({ id: newId("evt"), type, at: row.created_at, actor });
  // Members with hidden history must not learn how many older replies there are.
  const isCounted = count !== undefined && draft.room.history_visibility === "shared";
  const thread = isCounted ? `,"thread":${JSON.stringify(count)}` : "";
  const json = `${head.slice(0, -1)},"data":{"message":${message}${thread}}}`;
  return { tenantId: row.tenant_id, stream: roomStream(row.room_id), epoch, seq: row.seq, type, json };
}

/** Equal for equal content. Only metadata needs a canonical form: the other fields are in the order of the schema. */
function fingerprintOf({ clientMessageId: _, ...content }: MessageContent): string {
  const isPlain = Object.keys(content.metadata).length === 0;
  return hashText(isPlain ? JSON.stringify(content) : canonicalJson(content), "base64url");
}

async function resultOfRepeat(messages: MessageStore, row: MessageRow, fingerprint: string | null): Promise<Result> {
  if (row.fingerprint === fingerprint) {
    const [message = presentMessage(row)] = await presentMessages(messages, row.tenant_id, row.sender_id, [row]);
    return { message, isNew: false };
  }
  return new Fault(
    "client_message_id_conflict",
    `The clientMessageId is used by ${row.id}, which has different content`,
  );
}

function unwrap(result: Result | undefined): Sent {
  if (result === undefined) throw new Error("Expected a result for each message, received none");
  if (result instanceof Fault) throw result;
  return result;
}
