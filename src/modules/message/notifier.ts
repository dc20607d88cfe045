// Who is notified of a message: those it mentions, the others of a direct room, those who take part in its thread.
import { z } from "@zod/zod";
import type { JobDraft } from "@/core/job.ts";
import { byPages } from "@/core/page.ts";
import type { NotificationDraft, NotificationService } from "@/modules/notification/mod.ts";
import {
  type AgentPolicy,
  hiddenUpTo,
  isMuted,
  type RoomGate,
  type RoomRow,
  RoomStore,
  type Visitor,
} from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { Mentions } from "./schema.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

export const NOTIFY_JOB = "message.notify";
/** People looked at and told in one transaction. */
const PAGE = 200;
/** How long it counts that an agent has woken another. */
const TURNS_MS = 5 * 60_000;
const NOBODY = JSON.stringify({ principalIds: [], room: false });

export const NotifyPayload = z.strictObject({
  messageId: z.string(),
  /** Those an edit mentions who were not mentioned before; absent for a new message. */
  mentioned: Mentions.optional(),
});
type NotifyPayload = z.output<typeof NotifyPayload>;

/** Whether a message is anybody's business in particular. A plain message in a channel is not, and a notice never. */
export function isTold(row: MessageRow, roomKind: string | undefined): boolean {
  if (row.type === "notice" || row.type === "system") return false;
  return row.thread_id !== null || row.reply_to_id !== null || roomKind === "direct" || row.mentions_json !== NOBODY;
}

/** The job that tells of a new message; `undefined` where nobody needs to be told. */
export function noticeJob(row: MessageRow, roomKind: string | undefined): JobDraft | undefined {
  if (!isTold(row, roomKind)) return undefined;
  return { tenantId: row.tenant_id, kind: NOTIFY_JOB, payload: { messageId: row.id } };
}

/** The job that tells those whom an edit newly mentions. */
export function mentionJob(row: MessageRow, before: Mentions, after: Mentions): JobDraft | undefined {
  const known = new Set(before.principalIds);
  const mentioned = {
    principalIds: after.principalIds.filter((id) => !known.has(id)),
    room: after.room && !before.room,
  };
  if (row.type === "notice" || (mentioned.principalIds.length === 0 && !mentioned.room)) return undefined;
  return { tenantId: row.tenant_id, kind: NOTIFY_JOB, payload: { messageId: row.id, mentioned } };
}

type Deps = { store: Store<MessageTables>; gate: RoomGate; notifications: NotificationService };
type Kind = "mention" | "reply" | "direct_message";

export class MessageNotifier {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Tells of a message as it is now. Safe to repeat: one source makes one notification. */
  async run(tenantId: string, { messageId, mentioned }: NotifyPayload): Promise<void> {
    const row = await this.#find(tenantId, messageId);
    // An earlier run may have told of it, and been cut off before it looked again.
    if (row === undefined) return await this.#deps.notifications.retract(tenantId, "message_id", messageId);
    const kinds = await this.#concerned(row, mentioned);
    const mentions = mentioned ?? Mentions.parse(JSON.parse(row.mentions_json));
    if (mentions.room) await this.#tellEverybody(row, kinds, mentioned !== undefined);
    const rest = [...kinds];
    for (let at = 0; at < rest.length; at += PAGE) {
      await this.#tell(row, new Map(rest.slice(at, at + PAGE)), mentioned !== undefined);
    }
    // Whoever deleted it meanwhile took back only what had been told by then.
    if (await this.#find(tenantId, messageId) === undefined) {
      await this.#deps.notifications.retract(tenantId, "message_id", messageId);
    }
  }

  /** A message that is there still. */
  async #find(tenantId: string, id: string): Promise<MessageRow | undefined> {
    const row = await new MessageStore(this.#deps.store.db).find(tenantId, id);
    return row?.deleted_at === null ? row : undefined;
  }

  /** Tells all members, page by page, and takes them out of `kinds`. */
  async #tellEverybody(row: MessageRow, kinds: Map<string, Kind>, isEdit: boolean): Promise<void> {
    const rooms = new RoomStore(this.#deps.store.db);
    const read = (last?: { principal_id: string }) =>
      rooms.members(row.tenant_id, row.room_id, {}, last?.principal_id, PAGE);
    for await (const page of byPages(PAGE, read)) {
      await this.#tell(row, new Map(page.map((member) => [member.principal_id, "mention"])), isEdit);
      for (const member of page) kinds.delete(member.principal_id);
    }
  }

  /** By name, each for the most pressing of their reasons. */
  async #concerned(row: MessageRow, mentioned: Mentions | undefined): Promise<Map<string, Kind>> {
    if (mentioned !== undefined) return new Map(mentioned.principalIds.map((id) => [id, "mention"]));
    const messages = new MessageStore(this.#deps.store.db);
    const rooms = new RoomStore(this.#deps.store.db);
    const kinds = new Map<string, Kind>();
    const room = await rooms.find(row.tenant_id, row.room_id);
    if (room?.kind === "direct") {
      for (const id of await rooms.memberIds(row.tenant_id, row.room_id)) kinds.set(id, "direct_message");
    }
    if (row.thread_id !== null) {
      const authors = await messages.threadAuthors(row.tenant_id, row.thread_id, row.seq);
      for (const id of authors) kinds.set(id, "reply");
    }
    const target = row.reply_to_id === null ? undefined : await messages.find(row.tenant_id, row.reply_to_id);
    if (target !== undefined) kinds.set(target.sender_id, "reply");
    for (const id of Mentions.parse(JSON.parse(row.mentions_json)).principalIds) kinds.set(id, "mention");
    return kinds;
  }

  /** Tells those who see the message now and have not read that far; whom an edit mentions has read it as it was. */
  async #tell(row: MessageRow, kinds: ReadonlyMap<string, Kind>, isEdit: boolean): Promise<void> {
    const { store, gate, notifications } = this.#deps;
    await store.write(async (tx) => {
      const room = await new RoomStore(tx.db).find(row.tenant_id, row.room_id);
      if (room === undefined || room.state === "deleted") return;
      const seeing = await gate.seeing(room, [...kinds.keys()]);
      const isNew = ({ last_read_seq }: Visitor): boolean => isEdit || (last_read_seq ?? 0) < row.seq;
      const isSeen = ({ my_joined_seq, owner_joined_seq }: Visitor): boolean =>
        row.seq > hiddenUpTo({ room: { ...room, my_joined_seq, owner_joined_seq } });
      const kindOf = (visitor: Visitor): Kind => kinds.get(visitor.id) ?? "mention";
      const told: Visitor[] = [];
      for (const visitor of seeing.values()) {
        if (!isNew(visitor) || !isSeen(visitor)) continue;
        if (!isWoken(visitor, room, kindOf(visitor), row.sender_kind)) continue;
        if (!await this.#isTired(visitor, room, row)) told.push(visitor);
      }
      const byKind = Map.groupBy(told, kindOf);
      await notifications.notify(...[...byKind].map(([kind, visitors]): NotificationDraft => ({
        tenantId: row.tenant_id,
        principalIds: visitors.map((visitor) => visitor.id),
        kind,
        actor: { principalId: row.sender_id, kind: row.sender_kind },
        roomId: row.room_id,
        message: { id: row.id, seq: row.seq },
        source: `${kind === "mention" ? kind : "message"}:${row.id}`,
      })));
    });
  }

  /** Whether agents have woken an agent here as often as the room lets them since a person last wrote. */
  async #isTired(
    { id, kind }: Visitor,
    room: Pick<RoomRow, "agent_policy_json">,
    { tenant_id: tenantId, room_id: roomId, sender_kind: senderKind }: MessageRow,
  ): Promise<boolean> {
    if (kind !== "agent" || senderKind !== "agent") return false;
    const { store, notifications } = this.#deps;
    const { maxAgentTurns }: AgentPolicy = JSON.parse(room.agent_policy_json);
    const turns = await notifications.toldOf(
      { tenantId, principalId: id, roomId, actorKind: "agent" },
      TURNS_MS,
      maxAgentTurns,
    );
    if (turns.length < maxAgentTurns) return false;
    // Where none is ever allowed, nobody has written after the first of them.
    const first = turns.at(-1) ?? Number.MAX_SAFE_INTEGER;
    return !await new MessageStore(store.db).hasFrom(tenantId, roomId, "human", first);
  }
}

/** Whether an agent is to hear of a message: not of what agents write to it without a mention, unless the room wants it to. */
function isWoken(
  { id, kind }: Visitor,
  room: Pick<RoomRow, "agent_policy_json">,
  reason: Kind,
  senderKind: MessageRow["sender_kind"],
): boolean {
  if (kind !== "agent") return true;
  if (isMuted({ kind, principalId: id }, room)) return false;
  const { mode }: AgentPolicy = JSON.parse(room.agent_policy_json);
  return mode === "all" || reason === "mention" || senderKind !== "agent";
}
