// The hot path: messages that arrive together are authorised, numbered and written together, with a handful of statements.
import { createHash } from "node:crypto";
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { roomStream, type StoredEvent } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { canonicalJson } from "@/core/json.ts";
import type { Context } from "@/core/operation.ts";
import type { Attachment, FileLinks } from "@/modules/file/mod.ts";
import { hiddenUpTo, type Pass, type RoomGate } from "@/modules/room/mod.ts";
import type { Reserved, Store, Transaction } from "@/ports/store.ts";
import { BatchQueue } from "./batch_queue.ts";
import { checkMentions } from "./mentions.ts";
import { noticeJob } from "./notifier.ts";
import { mentionRows, presentMessage, presentMessages } from "./presenter.ts";
import type { Message, MessageSend } from "./schema.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

/**
 * SQLite has one writer anyway. On PostgreSQL batches with different rooms run side by side, also those of other nodes; more
 * shards would overlap more and make smaller batches: two did best.
 */
const QUEUE = { sqlite: { shards: 1, patience: 0 }, postgres: { shards: 2, patience: 0.6 } };

/** What is sent, whenever it is. */
export type MessageContent = Omit<MessageSend, "sendAt">;
/** `json` is the message as JSON, of a new one. */
export type Sent = { message: Message; isNew: boolean; json?: string };
type Item = { context: Context; input: MessageContent };
type Draft = {
  item: Item;
  room: Pass["room"];
  fingerprint: string | null;
  files: readonly Attachment[];
  index: number;
};
/** A message with its place in its room's line. */
type Placed = { draft: Draft; row: MessageRow; message: Message; json: string; epoch: string };
type Result = Sent | Fault;

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  gate: RoomGate;
  files: FileLinks;
  isInTransaction: () => boolean;
};
const NO_FILES: readonly Attachment[] = [];

/**
 * Sends to a room keep their order: those of one batch by their place in it, and a batch starts only when the one before is
 * done. Each send succeeds or fails by itself; an acknowledged one is on disk.
 */
export class MessageSender {
  readonly #deps: Deps;
  readonly #queue: BatchQueue<Item, Sent>;

  constructor(deps: Deps) {
    this.#deps = deps;
    const keyOf = ({ input }: Item): string => input.roomId;
    this.#queue = new BatchQueue((items) => this.#commit(items), { keyOf, ...QUEUE[deps.store.dialect] });
  }

  send(context: Context, input: MessageContent): Promise<Sent> {
    const item = { context, input };
    // Inside somebody's transaction the message belongs to it; waiting for a batch there would wait for ourselves.
    if (this.#deps.isInTransaction()) return this.#commit([item]).then(([result]) => unwrap(result));
    return this.#queue.push(item);
  }

  /** Throws what sending this now would throw, clientMessageId aside. */
  async check(context: Context, input: MessageContent): Promise<void> {
    const entry = await this.#deps.gate.pass(context, input.roomId);
    await this.#check(new MessageStore(this.#deps.store.db), { context, input }, entry);
  }

  /** Written so that statements which need no answer of another are on their way together: a lane sends them in this order. */
  #commit(items: readonly Item[]): Promise<Result[]> {
    return this.#deps.store.write(async (tx) => {
      const results: Result[] = new Array(items.length);
      const messages = new MessageStore(tx.db);
      // Many nodes: the lines of the rooms are taken first, so that nobody is removed from one between being let in and the commit.
      const isShared = this.#deps.store.dialect === "postgres";
      const holding = isShared
        ? reserve(tx, items, 1, { begins: false })
        : Promise.resolve(new Map<string, Reserved>());
      const [held, passes, twins] = await Promise.all([
        holding,
        this.#passes(items, holding),
        this.#twins(messages, items),
      ]);
      const drafts = await this.#admit(messages, items, passes, twins, results);
      const sent = new Set(drafts.map(({ item }) => item));
      const refused = items.filter((item) => !sent.has(item));
      if (isShared && refused.length > 0) await reserve(tx, refused, -1, { begins: false });
      const placed = this.#place(drafts, isShared ? held : await reserve(tx, [...sent], 1));
      await this.#insert(tx, placed);
      for (const { draft, message, json } of placed) results[draft.index] = { message, isNew: true, json };
      await this.#answerTwins(items, results);
      return results;
    });
  }

  /** Lets in what may be sent; fills `results` for what is refused or was sent before. */
  async #admit(
    messages: MessageStore,
    items: readonly Item[],
    passes: readonly (Pass | Fault | undefined)[],
    twins: ReadonlyMap<number, MessageRow>,
    results: Result[],
  ): Promise<Draft[]> {
    const admit = async (item: Item, index: number): Promise<Draft | undefined> => {
      try {
        const pass = passes[index];
        if (pass === undefined || pass instanceof Fault) throw pass;
        const fingerprint = item.input.clientMessageId === undefined ? null : fingerprintOf(item.input);
        const twin = twins.get(index);
        if (twin === undefined) {
          return { item, room: pass.room, fingerprint, files: await this.#check(messages, item, pass), index };
        }
        results[index] = await repeated(messages, twin, fingerprint);
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        results[index] = error;
      }
      return undefined;
    };
    // Of those with one clientMessageId the first that is let in is sent, and stands for what follows it.
    const turns = new Map<string, Promise<Draft | undefined>>();
    const takeTurn = (item: Item, index: number): Promise<Draft | undefined> => {
      const { context: { actor }, input: { roomId, clientMessageId } } = item;
      if (clientMessageId === undefined) return admit(item, index);
      const key = `${actor.tenantId} ${roomId} ${actor.principalId} ${clientMessageId}`;
      const before = turns.get(key);
      const turn = before === undefined ? admit(item, index) : before.then((draft) => draft ?? admit(item, index));
      turns.set(key, turn);
      return turn;
    };
    const admitted: (Draft | undefined)[] = new Array(items.length);
    const looks: Promise<void>[] = [];
    for (const [index, item] of items.entries()) {
      const pass = passes[index];
      if (pass !== undefined && !(pass instanceof Fault) && isBare(item.input)) {
        admitted[index] = { item, room: pass.room, fingerprint: null, files: NO_FILES, index };
      } else looks.push(takeTurn(item, index).then((draft) => void (admitted[index] = draft)));
    }
    await Promise.all(looks);
    return [...new Set(admitted)].filter((draft) => draft !== undefined);
  }

  /** What the gate says of each item, asked once for all that one actor sends to one room. */
  async #passes(
    items: readonly Item[],
    holding: Promise<ReadonlyMap<string, Reserved>>,
  ): Promise<(Pass | Fault | undefined)[]> {
    const asked: { context: Context; roomId: string }[] = [];
    const places = new Map<Actor, Map<string, number>>();
    const at = items.map(({ context, input: { roomId } }) => {
      let rooms = places.get(context.actor);
      if (rooms === undefined) places.set(context.actor, rooms = new Map());
      let place = rooms.get(roomId);
      if (place === undefined) rooms.set(roomId, place = asked.push({ context, roomId }) - 1);
      return place;
    });
    const answers = await this.#deps.gate.passAll(asked, holding);
    return at.map((place) => answers[place]);
  }

  /** By index, the messages that were sent with the same clientMessageId before. */
  async #twins(messages: MessageStore, items: readonly Item[]): Promise<Map<number, MessageRow>> {
    const found = new Map<number, MessageRow>();
    const named = items.flatMap(({ context: { actor }, input: { roomId, clientMessageId: id } }, index) =>
      id === undefined ? [] : [{ index, actor, asked: { room_id: roomId, sender_id: actor.principalId, id } }]
    );
    for (const [tenantId, own] of Map.groupBy(named, ({ actor }) => actor.tenantId)) {
      const { dialect } = this.#deps.store;
      const rows = await messages.byClientIds(dialect, tenantId, own.map(({ asked }) => asked));
      for (const [n, row] of rows.entries()) {
        const index = own[n]?.index;
        if (row !== undefined && index !== undefined) found.set(index, row);
      }
    }
    return found;
  }

  /** Gives each draft its place in its room's line. */
  #place(drafts: readonly Draft[], reserved: ReadonlyMap<string, Reserved>): Placed[] {
    const next = new Map([...reserved].map(([stream, { epoch, first }]) => [stream, { epoch, first }]));
    const at = iso(this.#deps.clock.now());
    return drafts.flatMap((draft) => {
      const place = next.get(roomStream(draft.room.id));
      if (place === undefined) return [];
      const row = rowOf(draft, place.first++, at);
      const { mentions, metadata } = draft.item.input;
      const message = presentMessage(row, [], { mentions, metadata, files: [...draft.files] });
      return { draft, row, message, json: JSON.stringify(message), epoch: place.epoch };
    });
  }

  async #insert(tx: Transaction<MessageTables>, placed: readonly Placed[]): Promise<void> {
    if (placed.length === 0) return;
    const messages = new MessageStore(tx.db);
    const rows = placed.map(({ row }) => row);
    const mentions = placed.flatMap(({ row, message }) => mentionRows(row, message.mentions));
    const byTenant = Map.groupBy(rows, (row) => row.tenant_id);
    await Promise.all([
      tx.insertMany("message", rows),
      mentions.length === 0 ? undefined : tx.insertMany("mention", mentions),
      tx.append(placed.map(created)),
      ...[...byTenant].map(([tenantId, own]) =>
        messages.touchRooms(tenantId, [...new Set(own.map((row) => row.room_id))], own[0]?.created_at ?? "")
      ),
    ]);
    for (const { row, draft } of placed) {
      const { fileIds } = draft.item.input;
      if (fileIds === undefined) continue;
      const shown = { tenantId: row.tenant_id, owner: fileOwner(row.id), roomId: row.room_id, seq: row.seq };
      await this.#deps.files.link(tx, shown, fileIds);
    }
    const notices = placed.flatMap(({ row, draft }) => noticeJob(row, draft.room.kind) ?? []);
    if (notices.length > 0) await tx.enqueue(...notices);
    const roots = new Map(
      rows.flatMap((row) => row.thread_id === null ? [] : [[row.thread_id, row.tenant_id] as const]),
    );
    for (const [rootId, tenantId] of [...roots].sort()) await messages.recountThread(tenantId, rootId);
  }

  /** A repeat within one batch is answered with what its twin became. */
  async #answerTwins(items: readonly Item[], results: Result[]): Promise<void> {
    for (const [index, { context, input }] of items.entries()) {
      if (results[index] !== undefined || input.clientMessageId === undefined) continue;
      const messages = new MessageStore(this.#deps.store.db);
      const twin = await messages.byClientId(
        context.actor.tenantId,
        input.roomId,
        context.actor.principalId,
        input.clientMessageId,
      );
      if (twin === undefined) throw new Error("a repeat of nothing");
      results[index] = await repeated(messages, twin, fingerprintOf(input));
    }
  }

  /** What a send asks for besides membership; resolves to the files it carries. */
  async #check(
    messages: MessageStore,
    { context, input }: Item,
    { room, role }: Pass,
  ): Promise<readonly Attachment[]> {
    const { tenantId } = context.actor;
    const isThere = (row: MessageRow | undefined): row is MessageRow =>
      row?.room_id === room.id && row.seq > hiddenUpTo({ room });
    await checkMentions(this.#deps.gate, context.actor, { room, role }, input.mentions);
    if (input.threadId !== undefined) {
      const root = await messages.find(tenantId, input.threadId);
      if (!isThere(root)) throw absent("threadId");
      if (root.thread_id !== null) {
        throw new Fault("validation_failed", "/threadId: threads are flat; name the root message", {
          errors: [{ pointer: "/threadId", code: "not_root", detail: `The root is ${root.thread_id}` }],
        });
      }
    }
    if (input.replyToId !== undefined) {
      const target = await messages.find(tenantId, input.replyToId);
      if (!isThere(target)) throw absent("replyToId");
    }
    if (input.fileIds === undefined) return NO_FILES;
    return await this.#deps.files.usable(this.#deps.store.db, context.actor, room.id, input.fileIds);
  }
}

/** Whether nothing is to be looked at besides membership: most messages ask for no more. */
function isBare({ clientMessageId, threadId, replyToId, fileIds, mentions }: MessageContent): boolean {
  return (clientMessageId ?? threadId ?? replyToId ?? fileIds) === undefined &&
    mentions.principalIds.length === 0 && !mentions.room;
}

/**
 * So many places for each item in its room's line. Room ids are unique across tenants, so their lines fit into one map. Tenants
 * in one order, as their rooms are, so that two nodes never wait for each other in a ring.
 */
async function reserve(
  tx: Transaction<MessageTables>,
  items: readonly Item[],
  each: 1 | -1,
  options?: { begins?: boolean },
): Promise<Map<string, Reserved>> {
  const byTenant = Map.groupBy(items, ({ context }) => context.actor.tenantId);
  const inOrder = [...byTenant].sort(([a], [b]) => a < b ? -1 : 1);
  const reserved = await Promise.all(inOrder.map(([tenantId, own]) => {
    const counts = new Map<string, number>();
    for (const { input } of own) {
      const stream = roomStream(input.roomId);
      counts.set(stream, (counts.get(stream) ?? 0) + each);
    }
    return tx.reserveAll(tenantId, counts, options);
  }));
  const [only] = reserved;
  return reserved.length === 1 && only !== undefined ? only : new Map(reserved.flatMap((map) => [...map]));
}

/** A message as files know it. */
export function fileOwner(messageId: string): string {
  return `message:${messageId}`;
}

function absent(field: string): Fault {
  return new Fault("validation_failed", `/${field}: no such message in the room`, {
    errors: [{ pointer: `/${field}`, code: "not_found", detail: "No such message in the room" }],
  });
}

function rowOf({ item: { context, input }, fingerprint, files }: Draft, seq: number, at: string): MessageRow {
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
    mentions_json: JSON.stringify(input.mentions),
    reply_count: 0,
    last_reply_at: null,
    client_message_id: input.clientMessageId ?? null,
    fingerprint,
    metadata_json: JSON.stringify(input.metadata),
    files_json: files.length === 0 ? "[]" : JSON.stringify(files),
    pinned_at: null,
    edited_at: null,
    edit_count: 0,
    deleted_at: null,
    version: 1,
    created_at: at,
  };
}

function created({ row, json: message, epoch }: Placed): StoredEvent {
  const type = "message.created";
  const actor = { id: row.sender_id, kind: row.sender_kind };
  const head = JSON.stringify({ id: newId("evt"), type, at: row.created_at, actor });
  const json = `${head.slice(0, -1)},"data":{"message":${message}}}`;
  return { tenantId: row.tenant_id, stream: roomStream(row.room_id), epoch, seq: row.seq, type, json };
}

/** The same for the same content. Its fields are in the order of the schema, but those of metadata in the sender's. */
function fingerprintOf({ clientMessageId: _, ...content }: MessageContent): string {
  const isPlain = Object.keys(content.metadata).length === 0;
  return createHash("sha256").update(isPlain ? JSON.stringify(content) : canonicalJson(content)).digest("base64url");
}

async function repeated(messages: MessageStore, row: MessageRow, fingerprint: string | null): Promise<Result> {
  if (row.fingerprint === fingerprint) {
    const [message = presentMessage(row)] = await presentMessages(messages, row.tenant_id, row.sender_id, [row]);
    return { message, isNew: false };
  }
  return new Fault("client_message_id_conflict", `The clientMessageId belongs to ${row.id}, which says something else`);
}

function unwrap(result: Result | undefined): Sent {
  if (result === undefined) throw new Error("a send without a result");
  if (result instanceof Fault) throw result;
  return result;
}
