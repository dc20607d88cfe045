// Notifications of messages: to mentioned principals, the members of a direct room, and the authors in a thread.
import { z } from "@zod/zod";
import { type Actor, chargedTo, scopesOf, textOfScopes } from "@/core/actor.ts";
import { hopsAfterMessage, hopsIn } from "@/core/agent_hops.ts";
import { nextSlice } from "@/core/caller.ts";
import { type Clock, MINUTE_MS } from "@/core/time/clock.ts";
import type { JobDraft } from "@/core/job.ts";
import { paginate } from "@/core/page.ts";
import type { NotificationDraft, NotificationService } from "@/modules/notification/mod.ts";
import {
  type AgentPolicy,
  hiddenUpTo,
  isMuted,
  membersByName,
  type RoomAccess,
  type RoomRow,
  RoomStore,
  type RoomViewer,
  wantsNotification,
} from "@/modules/room/mod.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import { Mentions, type Message } from "./schema.ts";
import { ThreadStore } from "./thread/store.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

export const NOTIFY_JOB = "message.notify";
/** Recipients per transaction; others have their turns in between. */
const PAGE = 100;
/** How long a notification from one agent to another counts against `maxAgentTurns`. */
const AGENT_TURNS_WINDOW_MS = 5 * MINUTE_MS;
const NO_MENTIONS_JSON = JSON.stringify({ principalIds: [], room: false });

export const NotifyPayload = z.strictObject({
  messageId: z.string(),
  /** Scopes of the token that it was sent with, see `textOfScopes`. */
  scopes: z.string().nullable().default(null),
  /** Mentions that an edit added; absent for a new message. */
  mentioned: Mentions.optional(),
});
type NotifyPayload = z.output<typeof NotifyPayload>;

/** Whether a message has recipients to notify. A plain message in a channel has none, and a notice never has. */
export function needsNotification(row: MessageRow, roomKind: string | undefined): boolean {
  if (row.type === "notice" || row.type === "system") return false;
  return row.thread_id !== null || row.reply_to_id !== null || roomKind === "direct" ||
    row.mentions_json !== NO_MENTIONS_JSON || row.text?.startsWith("/") === true;
}

/** The job that notifies of a new message; `undefined` if there is nobody to notify. */
export function notifyJob(actor: Actor, row: MessageRow, roomKind: string | undefined): JobDraft | undefined {
  return needsNotification(row, roomKind) ? jobOf(actor, { messageId: row.id }) : undefined;
}

/** The job that notifies principals whom an edit newly mentions. */
export function mentionJob(actor: Actor, row: MessageRow, before: Mentions, after: Mentions): JobDraft | undefined {
  const known = new Set(before.principalIds);
  const mentioned = {
    principalIds: after.principalIds.filter((id) => !known.has(id)),
    room: after.room && !before.room,
  };
  if (row.type === "notice" || (mentioned.principalIds.length === 0 && !mentioned.room)) return undefined;
  return jobOf(actor, { messageId: row.id, mentioned });
}

/** Charged to the sender: the batch that it is sent in has those of others. */
function jobOf(actor: Actor, payload: Omit<NotifyPayload, "scopes">): JobDraft {
  return {
    tenantId: actor.tenantId,
    kind: NOTIFY_JOB,
    payload: { ...payload, scopes: textOfScopes(actor.scopes) },
    chargedTo: chargedTo(actor),
  };
}

type Kind = "mention" | "reply" | "direct_message";
/** What it notifies of: a new message or what an edit added, and the scopes of the token behind it. */
type Occasion = { isEdit: boolean; scopes: Actor["scopes"] };

/** A message that notifies agents, each with the reason. */
export type AgentTrigger = {
  tenantId: string;
  message: Pick<Message, "id" | "roomId" | "seq" | "threadId" | "senderId" | "senderKind"> & {
    text: string;
    mentionedIds: readonly string[];
    /** How many agents led to it through other services. */
    agentHops: number;
    /** Whether an edit added the mentions. */
    isEdit: boolean;
    /** Scopes of the token that it was sent with: what it starts has no others. */
    scopes: Actor["scopes"];
  };
  agents: readonly { id: string; reason: Kind | "command" }[];
};

/** Starts what agents do about a message; part of the transaction that notifies them, and safe to repeat. */
export type TriggerAgents = (tx: AnyTransaction, trigger: AgentTrigger) => Promise<void>;

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  notifications: NotificationService;
  triggerAgents: TriggerAgents;
};

export class MessageNotifier {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Notifies of a message in its current state. Idempotent: one source creates one notification. */
  async run(tenantId: string, { messageId, mentioned, scopes }: NotifyPayload): Promise<void> {
    const row = await this.#findActive(tenantId, messageId);
    // An earlier run may have notified and been interrupted before its check for a deletion.
    if (row === undefined) return await this.#deps.notifications.withdraw(tenantId, "message_id", messageId);
    const kinds = await this.#recipients(row, mentioned);
    const mentions = mentioned ?? Mentions.parse(JSON.parse(row.mentions_json));
    const occasion = { isEdit: mentioned !== undefined, scopes: scopesOf(scopes) };
    if (mentions.room) await this.#notifyAllMembers(row, kinds, occasion);
    const rest = [...kinds];
    for (let at = 0; at < rest.length; at += PAGE) {
      if (at > 0) await nextSlice();
      await this.#notify(row, new Map(rest.slice(at, at + PAGE)), occasion);
    }
    // A concurrent deletion withdrew only the notifications that existed by then.
    if (await this.#findActive(tenantId, messageId) === undefined) {
      await this.#deps.notifications.withdraw(tenantId, "message_id", messageId);
    }
  }

  async #findActive(tenantId: string, id: string): Promise<MessageRow | undefined> {
    const row = await new MessageStore(this.#deps.store.db).find(tenantId, id);
    return row?.deleted_at === null ? row : undefined;
  }

  /** Notifies all members, page by page, and removes them from `kinds`. */
  async #notifyAllMembers(row: MessageRow, kinds: Map<string, Kind>, occasion: Occasion): Promise<void> {
    const rooms = new RoomStore(this.#deps.store.db);
    const read = (last?: { principal_id: string }) =>
      rooms.members(row.tenant_id, row.room_id, {}, last?.principal_id, PAGE);
    for await (const page of paginate(PAGE, read)) {
      await nextSlice();
      await this.#notify(row, new Map(page.map((member) => [member.principal_id, "mention"])), occasion);
      for (const member of page) kinds.delete(member.principal_id);
    }
  }

  /** Recipients by id, each with the most important reason. */
  async #recipients(row: MessageRow, mentioned: Mentions | undefined): Promise<Map<string, Kind>> {
    if (mentioned !== undefined) return new Map(mentioned.principalIds.map((id) => [id, "mention"]));
    const { store } = this.#deps;
    const messages = new MessageStore(store.db);
    const rooms = new RoomStore(store.db);
    const kinds = new Map<string, Kind>();
    const room = await rooms.find(row.tenant_id, row.room_id);
    if (room?.kind === "direct") {
      for (const id of await rooms.memberIds(row.tenant_id, row.room_id)) kinds.set(id, "direct_message");
    }
    if (row.thread_id !== null) {
      const authors = await messages.threadAuthors(row.tenant_id, row.thread_id, row.seq);
      for (const id of authors) kinds.set(id, "reply");
      for (
        const { principal_id: id, following } of await new ThreadStore(store.db).decided(row.tenant_id, row.thread_id)
      ) {
        if (following === 1) kinds.set(id, "reply");
        else if (kinds.get(id) === "reply") kinds.delete(id);
      }
    }
    const target = row.reply_to_id === null ? undefined : await messages.find(row.tenant_id, row.reply_to_id);
    if (target !== undefined) kinds.set(target.sender_id, "reply");
    for (const id of Mentions.parse(JSON.parse(row.mentions_json)).principalIds) kinds.set(id, "mention");
    const commanded = room === undefined ? undefined : await this.#commandedAgent(room, row, store.db);
    if (commanded !== undefined) kinds.set(commanded, "mention");
    return kinds;
  }

  /** The agent whose handle or id begins the text, as in `/helper what is open?`. */
  async #commandedAgent(room: RoomRow, { text }: MessageRow, db: AnyDatabase): Promise<string | undefined> {
    const name = commandOf(text);
    if (name === undefined) return undefined;
    const found = await membersByName(this.#deps.roomAccess, room, [name], db);
    return [...found.values()].find(({ kind }) => kind === "agent")?.id;
  }

  /**
   * Notifies those recipients who can see the message now and have not read it yet. Mentions of an edit are notified
   * regardless of the read position, which is about the earlier version.
   */
  async #notify(row: MessageRow, kinds: ReadonlyMap<string, Kind>, { isEdit, scopes }: Occasion): Promise<void> {
    const { store, clock, roomAccess, notifications } = this.#deps;
    const now = clock.now();
    await store.write(async (tx) => {
      const room = await new RoomStore(tx.db).find(row.tenant_id, row.room_id);
      if (room === undefined || room.state === "deleted") return;
      const viewers = await roomAccess.filterViewers(room, [...kinds.keys()], tx.db);
      const isNew = ({ last_read_seq }: RoomViewer): boolean => isEdit || (last_read_seq ?? 0) < row.seq;
      const isVisible = ({ my_joined_seq, owner_joined_seq }: RoomViewer): boolean =>
        row.seq > hiddenUpTo({ room: { ...room, my_joined_seq, owner_joined_seq } });
      const kindOf = (viewer: RoomViewer): Kind => kinds.get(viewer.id) ?? "mention";
      const notified: RoomViewer[] = [];
      for (const viewer of viewers.values()) {
        if (!isVisible(viewer) || !wantsNotification(viewer, kindOf(viewer) === "mention", now)) continue;
        if (!triggersAgent(viewer, room, kindOf(viewer), row.sender_kind)) continue;
        if (!await this.#agentTurnLimitReached(tx.db, viewer, room, row)) notified.push(viewer);
      }
      const agents = notified.filter(({ id, kind }) => kind === "agent" && id !== row.sender_id);
      if (agents.length > 0) await this.#triggerAgents(tx, room, row, { agents, kindOf, isEdit, scopes });
      const recipients = notified.filter(isNew);
      const byKind = Map.groupBy(recipients, kindOf);
      await notifications.notify(...[...byKind].map(([kind, ofKind]): NotificationDraft => ({
        tenantId: row.tenant_id,
        principalIds: ofKind.map(({ id }) => id),
        kind,
        actor: { principalId: row.sender_id, kind: row.sender_kind },
        roomId: row.room_id,
        agentHops: hopsAfterMessage(JSON.parse(row.metadata_json), row.sender_kind),
        message: { id: row.id, seq: row.seq },
        source: `${kind === "mention" ? kind : "message"}:${row.id}`,
      })));
    });
  }

  /** Agents react to a message also if they have read on meanwhile. */
  async #triggerAgents(
    tx: AnyTransaction,
    room: RoomRow,
    row: MessageRow,
    { agents, kindOf, ...occasion }: {
      agents: readonly RoomViewer[];
      kindOf: (viewer: RoomViewer) => Kind;
    } & Occasion,
  ): Promise<void> {
    const commanded = await this.#commandedAgent(room, row, tx.db);
    const mentionedIds = Mentions.parse(JSON.parse(row.mentions_json)).principalIds;
    await this.#deps.triggerAgents(tx, {
      tenantId: row.tenant_id,
      message: {
        id: row.id,
        roomId: row.room_id,
        seq: row.seq,
        threadId: row.thread_id,
        senderId: row.sender_id,
        senderKind: row.sender_kind,
        text: row.text ?? "",
        mentionedIds,
        agentHops: hopsIn(JSON.parse(row.metadata_json)),
        ...occasion,
      },
      agents: agents.map((viewer) => ({ id: viewer.id, reason: viewer.id === commanded ? "command" : kindOf(viewer) })),
    });
  }

  /** Whether agents have notified an agent here `maxAgentTurns` times since the last message of a person. */
  async #agentTurnLimitReached(
    db: AnyDatabase,
    { id, kind }: RoomViewer,
    room: Pick<RoomRow, "agent_policy_json">,
    { tenant_id: tenantId, room_id: roomId, sender_kind: senderKind }: MessageRow,
  ): Promise<boolean> {
    if (kind !== "agent" || senderKind !== "agent") return false;
    const { notifications } = this.#deps;
    const { maxAgentTurns }: AgentPolicy = JSON.parse(room.agent_policy_json);
    const turns = await notifications.recentSeqs(
      { tenantId, principalId: id, roomId, actorKind: "agent" },
      AGENT_TURNS_WINDOW_MS,
      maxAgentTurns,
      db,
    );
    if (turns.length < maxAgentTurns) return false;
    // With a limit of 0 there is no first turn, so the limit is always reached.
    const first = turns.at(-1) ?? Number.MAX_SAFE_INTEGER;
    return !await new MessageStore(db).hasMessageAfter(tenantId, roomId, "human", first);
  }
}

/** The name in a text that begins with a command. */
function commandOf(text: string | null): string | undefined {
  return /^\/([a-z0-9._-]{1,64})(?:\s|$)/.exec(text?.slice(0, 80) ?? "")?.[1];
}

/** Whether a message notifies an agent: messages of agents only with a mention, unless the room's policy is `all`. */
function triggersAgent(
  { id, kind }: RoomViewer,
  room: Pick<RoomRow, "agent_policy_json">,
  reason: Kind,
  senderKind: MessageRow["sender_kind"],
): boolean {
  if (kind !== "agent") return true;
  if (isMuted({ kind, principalId: id }, room)) return false;
  const { mode }: AgentPolicy = JSON.parse(room.agent_policy_json);
  return mode === "all" || reason === "mention" || senderKind !== "agent";
}
