// Messages for later: kept until their time, then sent with the rights their sender has at that time, or refused visibly.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { canonicalJson } from "@/core/json.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type FileLinks, SEEN_BY_NONE } from "@/modules/file/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { Message, MessageSend } from "../schema.ts";
import type { MessageContent, MessageSender } from "../sender.ts";
import { MessageStore } from "../store.ts";
import { SCHEDULED_AHEAD_MS, SCHEDULED_MAX, type ScheduledList, type ScheduledMessage } from "./schema.ts";
import { type ScheduledRow, ScheduledStore, type ScheduledTables } from "./store.ts";

export const SEND_JOB = "message.send_scheduled";
const PURGE_BATCH = 100;

type Deps = {
  store: Store<ScheduledTables>;
  clock: Clock;
  cursors: Cursors;
  sender: MessageSender;
  identity: IdentityService;
  notifications: NotificationService;
  files: FileLinks;
};

export class ScheduledService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Keeps a message for later. What was sent or scheduled before under its clientMessageId is answered instead. */
  schedule(context: Context, { sendAt = "", ...input }: MessageSend): Promise<ScheduledMessage | Message> {
    const { tenantId, principalId } = context.actor;
    const { store, clock, sender } = this.#deps;
    const at = Date.parse(sendAt);
    const now = clock.now();
    return store.write(async (tx) => {
      const scheduled = new ScheduledStore(tx.db);
      // One after the other of each sender, so that a repeat meets what it repeats.
      await tx.reserve(tenantId, principalStream(principalId), 0);
      // Everything that sending checks is checked now as well, so that a plain mistake is not found out at night.
      await sender.check(context, input);
      const message_json = JSON.stringify(input);
      if (input.clientMessageId !== undefined) {
        const sent = await new MessageStore(tx.db).byClientId(
          tenantId,
          input.roomId,
          principalId,
          input.clientMessageId,
        );
        if (sent !== undefined) return (await sender.send(context, input)).message;
        const before = await scheduled.byClientId(tenantId, input.roomId, principalId, input.clientMessageId);
        const isRepeat = before !== undefined && Date.parse(before.send_at) === at &&
          canonicalJson(JSON.parse(before.message_json)) === canonicalJson(input);
        if (isRepeat) return present(before);
        if (before !== undefined) {
          throw new Fault("client_message_id_conflict", `The clientMessageId belongs to ${before.id}`);
        }
      }
      // A repeat may come when the time has passed.
      if (at <= now || at > now + SCHEDULED_AHEAD_MS) {
        throw Fault.at("/sendAt", "out_of_range", "a time in the future, at most a year ahead");
      }
      if ((await scheduled.list(tenantId, principalId, undefined, undefined, SCHEDULED_MAX)).length >= SCHEDULED_MAX) {
        throw new Fault("limit_reached", `A principal has at most ${SCHEDULED_MAX} messages for later`);
      }
      const row: ScheduledRow = {
        tenant_id: tenantId,
        id: newId("sch"),
        room_id: input.roomId,
        sender_id: principalId,
        client_message_id: input.clientMessageId ?? null,
        message_json,
        send_at: iso(at),
        state: "scheduled",
        failure_json: null,
        version: 1,
        created_at: iso(now),
      };
      await scheduled.add(row);
      if (input.fileIds !== undefined) {
        const place = { tenantId, owner: fileOwner(row.id), roomId: row.room_id, seq: SEEN_BY_NONE };
        await this.#deps.files.link(tx, place, input.fileIds);
      }
      await tx.enqueue({ tenantId, kind: SEND_JOB, payload: { id: row.id }, key: row.id, runAt: at });
      await tx.emit(told(row, "scheduled_message.created", { scheduledMessage: present(row) }));
      return present(row);
    });
  }

  async list(actor: Actor, { limit, cursor, roomId }: ScheduledList): Promise<Page<ScheduledMessage>> {
    const { cursors, store } = this.#deps;
    const bind = ["scheduled_message.list", actor.tenantId, actor.principalId, roomId ?? null];
    const after = cursors.open(cursor, bind)?.[0]?.toString();
    const rows = await new ScheduledStore(store.db).list(
      actor.tenantId,
      actor.principalId,
      roomId,
      after,
      limit + 1,
    );
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async read({ tenantId, principalId }: Actor, id: string): Promise<ScheduledMessage> {
    const row = await new ScheduledStore(this.#deps.store.db).find(tenantId, id);
    if (row?.sender_id !== principalId) throw absent();
    return present(row);
  }

  async cancel(actor: Actor, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const row = await new ScheduledStore(tx.db).find(actor.tenantId, id);
      if (row?.sender_id !== actor.principalId || !await this.#drop(tx, row)) throw absent();
    });
  }

  /** Drops some of what could not be sent to a room and should have been before a time; returns how many. */
  expire(tenantId: string, roomId: string, before: string, limit: number): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const rows = await new ScheduledStore(tx.db).failedBefore(tenantId, roomId, before, limit);
      for (const row of rows) await this.#drop(tx, row);
      return rows.length;
    });
  }

  /** Sends one whose time has come; resolves to the message if it was sent by this very call. */
  deliver(tenantId: string, id: string): Promise<Message | undefined> {
    const { store, sender } = this.#deps;
    return store.write(async (tx) => {
      const scheduled = new ScheduledStore(tx.db);
      const row = await scheduled.find(tenantId, id);
      if (row === undefined || row.state === "failed") return undefined;
      // Taken first: of two runs at once the second finds nothing.
      if (!await scheduled.remove(tenantId, id)) return undefined;
      const input: MessageContent = JSON.parse(row.message_json);
      try {
        const { message, isNew } = await sender.send(await this.#contextOf(row), input);
        if (input.fileIds !== undefined) await this.#deps.files.unlink(tx, tenantId, fileOwner(id));
        await tx.emit(told(row, "scheduled_message.removed", { scheduledMessageId: id, messageId: message.id }));
        return isNew ? message : undefined;
      } catch (error) {
        // What may pass is tried again by the job; everything taken is put back with the transaction.
        if (!(error instanceof Fault) || error.kind.retryable || error.kind.status >= 500) throw error;
        await this.#refuse(tx, row, error);
        return undefined;
      }
    });
  }

  /** Drops those for a purged room, batch by batch so that nobody waits long. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    let dropped: number;
    do {
      dropped = await this.#deps.store.write(async (tx) => {
        const rows = await new ScheduledStore(tx.db).ofRoom(tenantId, roomId, PURGE_BATCH);
        for (const row of rows) await this.#drop(tx, row);
        return rows.length;
      });
    } while (dropped > 0);
  }

  /** Removes one that is not sent, and tells its sender; whether it was there. */
  async #drop(tx: Transaction<ScheduledTables>, row: ScheduledRow): Promise<boolean> {
    const { tenant_id: tenantId, id } = row;
    if (!await new ScheduledStore(tx.db).remove(tenantId, id)) return false;
    await this.#deps.files.unlink(tx, tenantId, fileOwner(id));
    await tx.emit(told(row, "scheduled_message.removed", { scheduledMessageId: id, messageId: null }));
    return true;
  }

  async #refuse(tx: Transaction<ScheduledTables>, row: ScheduledRow, { code, message }: Fault): Promise<void> {
    const failed: ScheduledRow = {
      ...row,
      state: "failed",
      failure_json: JSON.stringify({ code, detail: message }),
      version: row.version + 1,
    };
    await new ScheduledStore(tx.db).add(failed);
    await tx.emit(told(row, "scheduled_message.failed", { scheduledMessage: present(failed) }));
    await this.#deps.notifications.notify({
      tenantId: row.tenant_id,
      principalIds: [row.sender_id],
      kind: "scheduled_message_failed",
      roomId: row.room_id,
      resource: { type: "scheduled_message", id: row.id },
      data: { code, detail: message },
      source: row.id,
    });
  }

  /** The sender as they are now. What the token allowed was checked when they scheduled it. */
  async #contextOf(row: ScheduledRow): Promise<Context> {
    const subject = await this.#deps.identity.subject(row.tenant_id, row.sender_id);
    return {
      actor: { ...subject, displayName: row.sender_id, scopes: undefined, tokenId: undefined, expiresAt: undefined },
      requestId: row.id,
      access: { scope: "message.write", room: "member" },
      operation: "message.send",
      isRead: false,
    };
  }
}

function absent(): Fault {
  return new Fault("not_found", "No such message for later; it may have been sent");
}

function fileOwner(scheduledId: string): string {
  return `scheduled_message:${scheduledId}`;
}

function told(row: ScheduledRow, type: string, data: unknown): EventDraft {
  return { tenantId: row.tenant_id, stream: principalStream(row.sender_id), type, data };
}

function present(row: ScheduledRow): ScheduledMessage {
  const { text, fileIds, type, format, threadId, replyToId, mentions, clientMessageId, metadata }: MessageContent = JSON
    .parse(
      row.message_json,
    );
  return {
    id: row.id,
    roomId: row.room_id,
    sendAt: row.send_at,
    state: row.state,
    failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
    message: {
      text,
      fileIds: fileIds ?? [],
      type,
      format,
      threadId: threadId ?? null,
      replyToId: replyToId ?? null,
      mentions,
      clientMessageId: clientMessageId ?? null,
      metadata,
    },
    version: row.version,
    createdAt: row.created_at,
  };
}
