// Scheduled messages: stored until their time, then sent with the permissions that their sender has by then, or marked failed.
import { type Actor, scopesOf, textOfScopes } from "@/core/actor.ts";
import { withHops } from "@/core/agent_hops.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalEvent, principalStream } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { canonicalJson } from "@/core/json.ts";
import type { DeadLetterReason } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type FileAttachments, HIDDEN_SEQ } from "@/modules/file/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { AnyTransaction, Store, Transaction } from "@/ports/store.ts";
import type { MessageContent } from "../admission.ts";
import type { MessageFilter } from "../filter.ts";
import { sendContext } from "../message_access.ts";
import type { Message, MessageSend } from "../schema.ts";
import type { MessageSender } from "../sender.ts";
import { MessageStore } from "../store.ts";
import { SCHEDULED_AHEAD_MS, SCHEDULED_MAX, type ScheduledList, type ScheduledMessage } from "./schema.ts";
import { type ScheduledRow, ScheduledStore, type ScheduledTables } from "./store.ts";

export const SEND_JOB = "message.send_scheduled";
const PURGE_BATCH = 100;

/** Scheduled messages of runs: those who asked for a run are behind what it sends later, too. */
export type RunMessages = {
  /** The actor of the run that scheduled a message, with the rights of now; `undefined` if no run did. */
  actorOf: (tx: AnyTransaction, tenantId: string, scheduledId: string) => Promise<Actor | undefined>;
  sent: (tx: AnyTransaction, tenantId: string, scheduledId: string, messageId: string) => Promise<void>;
};

type Deps = {
  store: Store<ScheduledTables>;
  clock: Clock;
  cursors: Cursors;
  sender: MessageSender;
  identity: IdentityService;
  notifications: NotificationService;
  files: FileAttachments;
  runMessages: RunMessages;
  filter: MessageFilter;
};

export class ScheduledService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Stores a message to send later. Returns the earlier message if one was sent or scheduled with its clientMessageId. `given` is
   * what the caller sent, whatever filters made of it.
   */
  schedule(
    context: Context,
    { sendAt = "", ...input }: MessageSend,
    { sendAt: _, ...given }: MessageSend,
  ): Promise<ScheduledMessage | Message> {
    const { tenantId, principalId } = context.actor;
    const { store, clock, sender } = this.#deps;
    const at = Date.parse(sendAt);
    const now = clock.now();
    return store.write(async (tx) => {
      const scheduled = new ScheduledStore(tx.db);
      // Serializes calls of one sender, so that a repeat finds the message it repeats.
      await tx.lock(tenantId, principalStream(principalId));
      // Sending checks the same later; checking now reports mistakes to the caller.
      await sender.check(tx, context, input);
      const metadata = withHops(input.metadata, context.agentHops ?? 0);
      const message_json = JSON.stringify({ ...input, metadata });
      if (input.clientMessageId !== undefined) {
        const sent = await new MessageStore(tx.db).findByClientId(
          tenantId,
          input.roomId,
          principalId,
          input.clientMessageId,
        );
        if (sent !== undefined) return (await sender.send(context, input, given)).message;
        const before = await scheduled.findByClientId(tenantId, input.roomId, principalId, input.clientMessageId);
        const isRepeat = before !== undefined && Date.parse(before.send_at) === at &&
          canonicalJson(givenOf(before)) === canonicalJson(given);
        if (isRepeat) return present(before);
        if (before !== undefined) {
          throw new Fault("client_message_id_conflict", `The clientMessageId is used by ${before.id}`);
        }
      }
      // After the check for repeats, because a repeat may arrive after its time has passed.
      if (at <= now || at > now + SCHEDULED_AHEAD_MS) {
        throw Fault.forField("/sendAt", "out_of_range", "expected a time in the future, at most one year ahead");
      }
      if ((await scheduled.list(tenantId, principalId, undefined, undefined, SCHEDULED_MAX)).length >= SCHEDULED_MAX) {
        throw new Fault("limit_reached", `A principal has at most ${SCHEDULED_MAX} scheduled messages`);
      }
      const row: ScheduledRow = {
        tenant_id: tenantId,
        id: newId("sch"),
        room_id: input.roomId,
        sender_id: principalId,
        sender_scopes: textOfScopes(context.actor.scopes),
        client_message_id: input.clientMessageId ?? null,
        message_json,
        given_json: canonicalJson(given) === canonicalJson(input) ? null : JSON.stringify(given),
        send_at: iso(at),
        state: "scheduled",
        failure_json: null,
        version: 1,
        created_at: iso(now),
      };
      await scheduled.add(row);
      if (input.fileIds !== undefined) {
        const target = { tenantId, owner: scheduledFileOwner(row.id), roomId: row.room_id, seq: HIDDEN_SEQ };
        await this.#deps.files.attach(tx, target, input.fileIds);
      }
      await tx.enqueue({ tenantId, kind: SEND_JOB, payload: { id: row.id }, key: row.id, runAt: at });
      await tx.emit(scheduledEvent(row, "scheduled_message.created", { scheduledMessage: present(row) }));
      return present(row);
    });
  }

  async list(actor: Actor, { limit, cursor, roomId }: ScheduledList): Promise<Page<ScheduledMessage>> {
    const { cursors, store } = this.#deps;
    const bind = ["scheduled_message.list", actor.tenantId, actor.principalId, roomId ?? null];
    const after = cursors.decodeId(cursor, bind);
    const rows = await new ScheduledStore(store.db).list(actor.tenantId, actor.principalId, roomId, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async read({ tenantId, principalId }: Actor, id: string): Promise<ScheduledMessage> {
    const row = await new ScheduledStore(this.#deps.store.db).find(tenantId, id);
    if (row?.sender_id !== principalId) throw notFound("scheduled message; it may have been sent");
    return present(row);
  }

  async cancel(actor: Actor, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const row = await new ScheduledStore(tx.db).find(actor.tenantId, id);
      if (row?.sender_id !== actor.principalId || !await this.#remove(tx, row)) {
        throw notFound("scheduled message; it may have been sent");
      }
    });
  }

  /** Removes messages of any sender, in one transaction; resolves to how many. */
  cancelMany(tenantId: string, ids: readonly string[]): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      let removed = 0;
      for (const id of ids) {
        const row = await new ScheduledStore(tx.db).find(tenantId, id);
        if (row !== undefined && await this.#remove(tx, row)) removed++;
      }
      return removed;
    });
  }

  /** Deletes up to `limit` failed messages of a room that were due before a time; returns how many. */
  deleteFailed(tenantId: string, roomId: string, before: string, limit: number): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const rows = await new ScheduledStore(tx.db).failedBefore(tenantId, roomId, before, limit);
      for (const row of rows) await this.#remove(tx, row);
      return rows.length;
    });
  }

  /** Sends a message that is due; resolves to the message if this call sent it. */
  async deliver(tenantId: string, id: string): Promise<Message | undefined> {
    const { store, sender } = this.#deps;
    const stored = await new ScheduledStore(store.db).find(tenantId, id);
    if (stored === undefined || stored.state === "failed") return undefined;
    const [filtering] = await Promise.allSettled([this.#filter(stored)]);
    return await store.write(async (tx) => {
      const scheduled = new ScheduledStore(tx.db);
      const row = await scheduled.find(tenantId, id);
      if (row === undefined || row.state === "failed") return undefined;
      // Removed first, so that of two concurrent runs the second finds nothing.
      if (!await scheduled.remove(tenantId, id)) return undefined;
      const input = contentOf(row);
      try {
        if (filtering.status === "rejected") throw filtering.reason;
        const { message, isNew } = await sender.send(await this.#contextOf(tx, row), filtering.value, givenOf(row));
        if (input.fileIds !== undefined) await this.#deps.files.detach(tx, tenantId, scheduledFileOwner(id));
        await this.#deps.runMessages.sent(tx, tenantId, id, message.id);
        await tx.emit(
          scheduledEvent(row, "scheduled_message.removed", { scheduledMessageId: id, messageId: message.id }),
        );
        return isNew ? message : undefined;
      } catch (thrown) {
        // The job retries transient faults; the rollback restores the row.
        if (!(thrown instanceof Fault) || thrown.spec.retryable || thrown.spec.status >= 500) throw thrown;
        await this.#markFailed(tx, row, thrown);
        return undefined;
      }
    });
  }

  /** Marks a message as failed whose job will not run again. */
  abandon(tenantId: string, id: string, reason: DeadLetterReason): Promise<void> {
    const detail = reason === "interrupted"
      ? "The gateway stopped several times while sending the message"
      : "Sending the message failed too often";
    return this.#deps.store.write(async (tx) => {
      const scheduled = new ScheduledStore(tx.db);
      const row = await scheduled.find(tenantId, id);
      // A run of the job that was believed dead may have sent it, or may be about to: only one of the two removes the row.
      if (row === undefined || row.state === "failed" || !await scheduled.remove(tenantId, id)) return;
      await this.#markFailed(tx, row, new Fault("internal", detail));
    });
  }

  /** Deletes the scheduled messages of a purged room in batches, so that no transaction is long. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    let removed: number;
    do {
      removed = await this.#deps.store.write(async (tx) => {
        const rows = await new ScheduledStore(tx.db).listByRoom(tenantId, roomId, PURGE_BATCH);
        for (const row of rows) await this.#remove(tx, row);
        return rows.length;
      });
    } while (removed > 0);
  }

  /** Removes a message without sending it, and publishes that; returns whether it existed. */
  async #remove(tx: Transaction<ScheduledTables>, row: ScheduledRow): Promise<boolean> {
    const { tenant_id: tenantId, id } = row;
    if (!await new ScheduledStore(tx.db).remove(tenantId, id)) return false;
    await this.#deps.files.detach(tx, tenantId, scheduledFileOwner(id));
    await tx.emit(scheduledEvent(row, "scheduled_message.removed", { scheduledMessageId: id, messageId: null }));
    return true;
  }

  async #markFailed(tx: Transaction<ScheduledTables>, row: ScheduledRow, { code, message }: Fault): Promise<void> {
    const failed: ScheduledRow = {
      ...row,
      state: "failed",
      failure_json: JSON.stringify({ code, detail: message }),
      version: row.version + 1,
    };
    await new ScheduledStore(tx.db).add(failed);
    await tx.emit(scheduledEvent(row, "scheduled_message.failed", { scheduledMessage: present(failed) }));
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

  /** The message as the filters that its room has by now let it through. They decide outside of the transaction that sends it. */
  async #filter(row: ScheduledRow): Promise<MessageContent> {
    const { store, filter } = this.#deps;
    const input = contentOf(row);
    if (!filter.appliesTo(row.tenant_id, row.room_id)) return input;
    return await filter.apply(await store.write((tx) => this.#contextOf(tx, row)), row.room_id, input);
  }

  /** The sender with current permissions, within the token that scheduled the message. */
  async #contextOf(tx: Transaction<ScheduledTables>, row: ScheduledRow): Promise<Context> {
    const { identity, runMessages } = this.#deps;
    const subject = await identity.subject(row.tenant_id, row.sender_id, tx.db);
    const scopes = scopesOf(row.sender_scopes);
    const actor = await runMessages.actorOf(tx, row.tenant_id, row.id) ??
      { ...subject, displayName: row.sender_id, scopes, tokenId: undefined, expiresAt: undefined };
    return sendContext(actor, row.id);
  }
}

function contentOf(row: ScheduledRow): MessageContent {
  return JSON.parse(row.message_json);
}

function givenOf(row: ScheduledRow): MessageContent {
  return row.given_json === null ? contentOf(row) : JSON.parse(row.given_json);
}

function scheduledFileOwner(scheduledId: string): string {
  return `scheduled_message:${scheduledId}`;
}

function scheduledEvent(row: ScheduledRow, type: string, data: unknown): EventDraft {
  return principalEvent({ tenantId: row.tenant_id }, row.sender_id, type, data);
}

function present(row: ScheduledRow): ScheduledMessage {
  const { text, fileIds, type, format, threadId, replyToId, mentions, clientMessageId, metadata } = contentOf(row);
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
