// Decides which of the messages that are sent together are new, and which are refused or repeat an earlier one.
import type { Actor } from "@/core/actor.ts";
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { canonicalJson } from "@/core/json.ts";
import type { Context } from "@/core/operation.ts";
import type { Attachment, FileAttachments } from "@/modules/file/mod.ts";
import type { CredentialGuard } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomAccess, type SendGrant } from "@/modules/room/mod.ts";
import type { AnyDatabase, Dialect, SeqRange, Transaction } from "@/ports/store.ts";
import { resolveMentions } from "./mentions.ts";
import { presentMessage, presentMessages } from "./presenter.ts";
import type { Mentions, Message, MessageSend } from "./schema.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

/** A message to send, now or later. */
export type MessageContent = Omit<MessageSend, "sendAt">;
/** `given` is what the caller sent: a repeat of it returns the first message, whatever filters make of it. */
export type SendRequest = { context: Context; input: MessageContent; given: MessageContent };
/** `json` is the serialized message if it is new. */
export type Sent = { message: Message; isNew: boolean; json?: string };
/** What is sent of a request; `index` is the place of the request in its batch. */
export type Draft = SendRequest & {
  room: SendGrant["room"];
  fingerprint: string | null;
  files: readonly Attachment[];
  mentions: Mentions;
  index: number;
};
type Reserved = ReadonlyMap<string, SeqRange>;
type Admission = {
  drafts: readonly Draft[];
  reserved: Reserved;
  /** By index, what is known of the others; repeats within the batch are resolved after it was written. */
  results: (Sent | Fault)[];
};

export type AdmissionDeps = {
  roomAccess: RoomAccess;
  files: FileAttachments;
  credentials: Pick<CredentialGuard, "findFaults">;
};
const NO_FILES: readonly Attachment[] = [];

export class SendAdmission {
  readonly #deps: AdmissionDeps;
  readonly #dialect: Dialect;

  constructor(deps: AdmissionDeps, dialect: Dialect) {
    this.#deps = deps;
    this.#dialect = dialect;
  }

  /**
   * `reserve` locks the streams of the rooms, where that comes first. Independent statements are started together, so that the
   * connection pipelines them in this order.
   */
  async admit(
    tx: Transaction<MessageTables>,
    requests: readonly SendRequest[],
    reserve: () => Promise<Reserved>,
  ): Promise<Admission> {
    const actors = [...new Set(requests.map(({ context }) => context.actor))];
    // Callers whose credentials ended since their request was authenticated.
    const checking = this.#deps.credentials.findFaults(tx.db, actors);
    const locking = reserve();
    const [reserved, grants, existing, faults] = await Promise.all([
      locking,
      this.#authorize(tx, requests, locking),
      this.#existingSends(tx.db, requests),
      checking,
    ]);
    const faultOf = new Map(actors.map((actor, n) => [actor, faults[n]]));
    const results: (Sent | Fault)[] = new Array(requests.length);
    // The first admitted of the requests with one clientMessageId is sent; the others are repeats of it.
    const pending = new Map<string, Promise<Draft | undefined>>();
    const drafts = await Promise.all(requests.map((request, index) => {
      const { context: { actor }, input: { roomId, clientMessageId, mentions } } = request;
      const grant = faultOf.get(actor) ?? grants[index];
      if (grant !== undefined && !(grant instanceof Fault) && needsOnlyMembership(request.input)) {
        return { ...request, room: grant.room, fingerprint: null, files: NO_FILES, mentions, index };
      }
      const admit = () => this.#admitOne(tx.db, { request, index, grant, first: existing.get(index) }, results);
      if (clientMessageId === undefined) return admit();
      const key = `${actor.tenantId} ${roomId} ${actor.principalId} ${clientMessageId}`;
      const draft = pending.get(key)?.then((before) => before ?? admit()) ?? admit();
      pending.set(key, draft);
      return draft;
    }));
    return { drafts: [...new Set(drafts)].filter((draft) => draft !== undefined), reserved, results };
  }

  /** Repeats within one batch get the message of the first. */
  async resolveRepeats(db: AnyDatabase, requests: readonly SendRequest[], results: (Sent | Fault)[]): Promise<void> {
    const messages = new MessageStore(db);
    for (const [index, { context: { actor }, input: { roomId, clientMessageId }, given }] of requests.entries()) {
      if (results[index] !== undefined || clientMessageId === undefined) continue;
      const first = await messages.findByClientId(actor.tenantId, roomId, actor.principalId, clientMessageId);
      if (first === undefined) throw new Error("Expected a message to repeat, received none");
      results[index] = await resultOfRepeat(messages, first, fingerprintOf(given));
    }
  }

  /** Throws what sending this now would throw, except for its clientMessageId. */
  async check(tx: Transaction<MessageTables>, context: Context, input: MessageContent): Promise<void> {
    await this.#check(
      tx.db,
      context.actor,
      input,
      await this.#deps.roomAccess.requireForSend(context, input.roomId, tx),
    );
  }

  /** The draft of a request that may be sent; otherwise sets its result. */
  async #admitOne(
    db: AnyDatabase,
    { request, index, grant, first }: {
      request: SendRequest;
      index: number;
      grant: SendGrant | Fault | undefined;
      first: MessageRow | undefined;
    },
    results: (Sent | Fault)[],
  ): Promise<Draft | undefined> {
    try {
      if (grant === undefined || grant instanceof Fault) throw grant;
      const { context, input, given } = request;
      const fingerprint = input.clientMessageId === undefined ? null : fingerprintOf(given);
      if (first === undefined) {
        const checked = await this.#check(db, context.actor, input, grant);
        return { ...request, room: grant.room, fingerprint, ...checked, index };
      }
      results[index] = await resultOfRepeat(new MessageStore(db), first, fingerprint);
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown;
      results[index] = thrown;
    }
    return undefined;
  }

  /** The access of each request, checked once for all of one actor and room. */
  async #authorize(
    tx: Transaction<MessageTables>,
    requests: readonly SendRequest[],
    locking: Promise<Reserved>,
  ): Promise<(SendGrant | Fault | undefined)[]> {
    const distinct: { context: Context; roomId: string }[] = [];
    const indexes = new Map<Actor, Map<string, number>>();
    const indexOf = requests.map(({ context, input: { roomId } }) =>
      indexes.getOrInsertComputed(context.actor, () => new Map<string, number>())
        .getOrInsertComputed(roomId, () => distinct.push({ context, roomId }) - 1)
    );
    const grants = await this.#deps.roomAccess.requireManyForSend(tx, distinct, locking);
    return indexOf.map((index) => grants[index]);
  }

  /** By index, the messages that were sent with the same clientMessageId before. */
  async #existingSends(db: AnyDatabase, requests: readonly SendRequest[]): Promise<Map<number, MessageRow>> {
    const found = new Map<number, MessageRow>();
    const lookups = requests.flatMap(({ context: { actor }, input: { roomId, clientMessageId: id } }, index) =>
      id === undefined ? [] : [{ index, actor, query: { room_id: roomId, sender_id: actor.principalId, id } }]
    );
    for (const [tenantId, own] of Map.groupBy(lookups, ({ actor }) => actor.tenantId)) {
      const queries = own.map(({ query }) => query);
      const rows = await new MessageStore(db).findByClientIds(this.#dialect, tenantId, queries);
      for (const [n, { index }] of own.entries()) {
        if (rows[n] !== undefined) found.set(index, rows[n]);
      }
    }
    return found;
  }

  /** Checks everything besides membership; resolves to the files to attach and the mentions. */
  async #check(
    db: AnyDatabase,
    actor: Actor,
    input: MessageContent,
    grant: SendGrant,
  ): Promise<Pick<Draft, "files" | "mentions">> {
    const { room } = grant;
    const messages = new MessageStore(db);
    const requireVisible = async (field: "threadId" | "replyToId"): Promise<MessageRow | undefined> => {
      const id = input[field];
      const row = id === undefined ? undefined : await messages.find(actor.tenantId, id);
      if (id === undefined || (row?.room_id === room.id && row.seq > hiddenUpTo({ room }))) return row;
      throw Fault.forField(`/${field}`, "not_found", "no such message in the room");
    };
    const content = input.parseMentions === true ? input : undefined;
    const mentions = await resolveMentions(db, this.#deps.roomAccess, actor, grant, content, input.mentions);
    const root = await requireVisible("threadId");
    if (root !== undefined && root.thread_id !== null) {
      const detail = `threads cannot be nested; the root message is ${root.thread_id}`;
      throw Fault.forField("/threadId", "not_root", detail);
    }
    await requireVisible("replyToId");
    const files = input.fileIds === undefined
      ? NO_FILES
      : await this.#deps.files.findAttachable(db, actor, room.id, input.fileIds);
    return { files, mentions };
  }
}

/** Whether membership is the only check, as for most messages. */
function needsOnlyMembership(
  { clientMessageId, threadId, replyToId, fileIds, parseMentions, mentions }: MessageContent,
): boolean {
  return (clientMessageId ?? threadId ?? replyToId ?? fileIds ?? parseMentions) === undefined &&
    mentions.principalIds.length === 0 && !mentions.room && (mentions.groups ?? mentions.ignored) === undefined;
}

/** Equal for equal content. Only metadata needs a canonical form: the other fields are in the order of the schema. */
function fingerprintOf({ clientMessageId: _, ...content }: MessageContent): string {
  const isPlain = Object.keys(content.metadata).length === 0;
  return hashText(isPlain ? JSON.stringify(content) : canonicalJson(content), "base64url");
}

async function resultOfRepeat(
  messages: MessageStore,
  row: MessageRow,
  fingerprint: string | null,
): Promise<Sent | Fault> {
  if (row.fingerprint === fingerprint) {
    const [message = presentMessage(row)] = await presentMessages(messages, row.tenant_id, row.sender_id, [row]);
    return { message, isNew: false };
  }
  return new Fault(
    "client_message_id_conflict",
    `The clientMessageId is used by ${row.id}, which has different content`,
  );
}
