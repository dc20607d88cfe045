// Retention: permanently deletes messages older than the retention period of their room or tenant, in batches.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { roomStream } from "@/core/event/event.ts";
import type { Holds } from "@/core/hold.ts";
import type { JobDraft } from "@/core/job.ts";
import { paginate } from "@/core/page.ts";
import type { FileAttachments } from "@/modules/file/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { RetentionService as TenantRetention, RetentionTables } from "@/modules/tenant/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { ScheduledService } from "./scheduled/service.ts";
import type { ScheduledTables } from "./scheduled/store.ts";
import { fileOwner } from "./sender.ts";
import { type EraseDerived, redactYoungEvents } from "./tombstone.ts";
import { type MessageRow, MessageStore } from "./store.ts";
import { daysOf, type RetentionRoom, RetentionStore } from "./retention_store.ts";

export const EXPIRE_JOB = "message.expire";

/** Messages deleted in one transaction, for whose commit others wait, and the pause before the next. */
const BATCH = 200;
const PAUSE_MS = 100;
const ROOMS_PER_PAGE = 500;

export type RetentionDeps = {
  store: Store<ScheduledTables & RetentionTables>;
  clock: Clock;
  notifications: NotificationService;
  files: FileAttachments;
  scheduled: ScheduledService;
  holds: Holds;
  retention: Pick<TenantRetention, "recordDeleted">;
  /** Removes messages from the search index, within the current transaction. */
  unindex: (tenantId: string, roomId: string, messageIds: readonly string[]) => Promise<void>;
  eraseDerived: EraseDerived;
};

/**
 * Positions grow with time, so expired messages are the beginning of a room's stream, and the root of a thread expires before
 * its replies. A job per room deletes one batch and enqueues the next, so it survives a restart; concurrent runs are safe.
 */
export class RetentionService {
  readonly #deps: RetentionDeps;

  constructor(deps: RetentionDeps) {
    this.#deps = deps;
  }

  /** Enqueues a job for every room with expired messages. Safe on every node. */
  async enqueueDue(): Promise<void> {
    const { store, clock } = this.#deps;
    const retention = new RetentionStore(store.db);
    const read = (last?: { id: string }) => retention.roomsWithRetention(last?.id ?? "", ROOMS_PER_PAGE);
    for await (const rooms of paginate(ROOMS_PER_PAGE, read)) {
      const jobs = rooms.filter((room) => hasExpired(room, clock.now())).map((room) =>
        expireJob(room.tenant_id, room.id)
      );
      if (jobs.length > 0) await store.write((tx) => tx.enqueue(...jobs));
    }
  }

  /** Deletes a batch of the expired messages of a room, by its current retention period, unless under legal hold. Idempotent. */
  async expire(tenantId: string, roomId: string): Promise<void> {
    const { store, clock, notifications, scheduled, holds, retention } = this.#deps;
    const days = await new RetentionStore(store.db).days(tenantId, roomId);
    if (days === undefined) return;
    if (await holds.isHeld(store.db, tenantId, { roomId })) return;
    const limitMs = clock.now() - days * DAY_MS;
    const limit = iso(limitMs);
    const oldest = await new MessageStore(store.db).oldest(tenantId, roomId, BATCH + 1);
    const firstRetained = firstRetainedOf(oldest, limit, iso(clock.now()));
    const expired = oldest.slice(0, firstRetained);
    const isMore = expired.length === BATCH || await scheduled.deleteFailed(tenantId, roomId, limit, BATCH) === BATCH;
    // In a transaction of its own, before the deletion: one message may have thousands of notifications.
    if (expired.length > 0) await notifications.withdraw(tenantId, "message_id", ...expired.map((row) => row.id));
    while (await this.#removeDependents(tenantId, roomId, expired.map((row) => row.id)));
    const deleted = await this.#remove(tenantId, roomId, expired, limit);
    if (deleted === undefined) return;
    retention.recordDeleted("messages", tenantId, deleted);
    // Events about a message may be younger than it; without its content, they stay until they expire themselves.
    const upTo = (oldest[firstRetained]?.seq ?? Infinity) - 1;
    await store.log.trimStream(tenantId, roomStream(roomId), limitMs, upTo);
    if (isMore) {
      await store.write((tx) => tx.enqueue({ ...expireJob(tenantId, roomId), runAt: clock.now() + PAUSE_MS }));
    }
  }

  /** Some of what the messages may have any number of; resolves to whether there may be more. */
  #removeDependents(tenantId: string, roomId: string, ids: readonly string[]): Promise<boolean> {
    const { store, holds } = this.#deps;
    return store.write(async (tx) => {
      await tx.lock(tenantId, roomStream(roomId));
      if (await holds.isHeld(tx.db, tenantId, { roomId })) return false;
      return await new MessageStore(tx.db).removeDependents(tenantId, ids);
    });
  }

  /** Resolves to how many there were; `undefined` if a legal hold was created meanwhile. */
  async #remove(
    tenantId: string,
    roomId: string,
    rows: readonly Pick<MessageRow, "id" | "seq" | "edited_at" | "files_json">[],
    limit: string,
  ): Promise<number | undefined> {
    const upToSeq = rows.at(-1)?.seq;
    if (upToSeq === undefined) return 0;
    const { store, files, holds, unindex, eraseDerived } = this.#deps;
    const stream = roomStream(roomId);
    const ids = rows.map((row) => row.id);
    const owners = rows.filter((row) => row.files_json !== "[]").map((row) => fileOwner(row.id));
    return await store.write(async (tx) => {
      // The lock of the stream keeps others from replying or reacting to the messages that are deleted.
      await tx.lock(tenantId, stream);
      if (await holds.isHeld(tx.db, tenantId, { roomId })) return undefined;
      const removed = await new MessageStore(tx.db).remove(tenantId, ids);
      if (removed === 0) return 0;
      await redactYoungEvents(tx, tenantId, roomId, rows, limit);
      await files.detach(tx, tenantId, ...owners);
      await unindex(tenantId, roomId, ids);
      await eraseDerived(tenantId, roomId, ids);
      await tx.emit({
        tenantId,
        stream,
        type: "message.expired",
        data: { roomId, upToSeq },
        effect: { kind: "concerns", seq: upToSeq },
      });
      return removed;
    });
  }
}

/**
 * The index of the first message that stays. One that is dated in the future, by a clock that was wrong or an import, is as old as
 * those before the next one.
 */
function firstRetainedOf(oldest: readonly Pick<MessageRow, "created_at">[], limit: string, now: string): number {
  const retained = oldest.findIndex((row, index) =>
    index === BATCH || row.created_at >= limit && row.created_at <= now
  );
  return oldest.slice(0, retained < 0 ? oldest.length : retained).findLastIndex((row) => row.created_at < limit) + 1;
}

function hasExpired({ message_at, event_at, failed_at, ...of }: RetentionRoom, nowMs: number): boolean {
  const limit = iso(nowMs - (daysOf(of) ?? Infinity) * DAY_MS);
  return [message_at, event_at, failed_at].some((at) => at !== null && at < limit);
}

function expireJob(tenantId: string, roomId: string): JobDraft {
  return { tenantId, kind: EXPIRE_JOB, payload: { roomId }, key: roomId };
}
