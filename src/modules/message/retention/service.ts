// Retention: rooms that keep messages for some days only let go of older ones, batch by batch, for good.
import { type Clock, iso } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { byPages } from "@/core/page.ts";
import type { FileLinks } from "@/modules/file/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { ScheduledService } from "../scheduled/service.ts";
import type { ScheduledTables } from "../scheduled/store.ts";
import { fileOwner } from "../sender.ts";
import { MessageStore } from "../store.ts";
import { type KeepingRoom, RetentionStore } from "./store.ts";

export const EXPIRE_JOB = "message.expire";

const DAY_MS = 86_400_000;
/** Messages removed in one transaction, for which those who send to the room wait; and the rest before the next. */
const BATCH = 500;
const REST_MS = 100;
const ROOMS_AT_ONCE = 500;

type Deps = {
  store: Store<ScheduledTables>;
  clock: Clock;
  notifications: NotificationService;
  files: FileLinks;
  scheduled: ScheduledService;
  /** Takes messages out of the search index, within the running transaction. */
  unindex: (tenantId: string, roomId: string, messageIds: readonly string[]) => Promise<void>;
};

/**
 * Positions grow with time, so what is too old is the beginning of a room's line, and no root of a thread goes after its
 * replies. A job per room takes one batch and asks for the next, so that a stop loses nothing; two at once do no harm.
 */
export class RetentionService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Asks for the first batch in every room that has something older than it keeps. Every node may. */
  async sweep(): Promise<void> {
    const { store, clock } = this.#deps;
    const retention = new RetentionStore(store.db);
    const read = (last?: { id: string }) => retention.keeping(last?.id ?? "", ROOMS_AT_ONCE);
    for await (const rooms of byPages(ROOMS_AT_ONCE, read)) {
      const jobs = rooms.filter((room) => isDue(room, clock.now())).map((room) => expiry(room.tenant_id, room.id));
      if (jobs.length > 0) await store.write((tx) => tx.enqueue(...jobs));
    }
  }

  /** Removes a batch of what a room kept too long, as its limit is now. Safe to repeat. */
  async expire(tenantId: string, roomId: string): Promise<void> {
    const { store, clock, notifications, scheduled } = this.#deps;
    const room = await new RoomStore(store.db).find(tenantId, roomId);
    if (room === undefined || room.retention_days === null) return;
    const limitMs = clock.now() - room.retention_days * DAY_MS;
    const limit = iso(limitMs);
    const oldest = await new MessageStore(store.db).oldest(tenantId, roomId, BATCH + 1);
    const stays = oldest.findIndex((row, place) => place === BATCH || row.created_at >= limit);
    const gone = stays < 0 ? oldest : oldest.slice(0, stays);
    const isMore = gone.length === BATCH || await scheduled.expire(tenantId, roomId, limit, BATCH) === BATCH;
    // By itself, and before: one message may have told thousands.
    if (gone.length > 0) await notifications.retract(tenantId, "message_id", ...gone.map((row) => row.id));
    await this.#remove(tenantId, roomId, gone);
    // Events may be younger than the message they tell of; they go when they reach the limit themselves.
    const upTo = (oldest[stays]?.seq ?? Infinity) - 1;
    await store.log.trimStream(tenantId, roomStream(roomId), limitMs, upTo);
    if (isMore) await store.write((tx) => tx.enqueue({ ...expiry(tenantId, roomId), runAt: clock.now() + REST_MS }));
  }

  async #remove(
    tenantId: string,
    roomId: string,
    rows: readonly { id: string; seq: number; files_json: string }[],
  ): Promise<void> {
    const upToSeq = rows.at(-1)?.seq;
    if (upToSeq === undefined) return;
    const { store, files, unindex } = this.#deps;
    const stream = roomStream(roomId);
    const ids = rows.map((row) => row.id);
    const owners = rows.filter((row) => row.files_json !== "[]").map((row) => fileOwner(row.id));
    await store.write(async (tx) => {
      // With the line held nobody reacts to a message, or replies to it, that is about to go.
      await tx.reserve(tenantId, stream, 0);
      if (await new MessageStore(tx.db).remove(tenantId, ids) === 0) return;
      await files.unlink(tx, tenantId, ...owners);
      await unindex(tenantId, roomId, ids);
      await tx.emit({
        tenantId,
        stream,
        type: "message.expired",
        data: { roomId, upToSeq },
        effect: { kind: "about", seq: upToSeq },
      });
    });
  }
}

function isDue({ retention_days, message_at, event_at, failed_at }: KeepingRoom, nowMs: number): boolean {
  const limit = iso(nowMs - retention_days * DAY_MS);
  return [message_at, event_at, failed_at].some((at) => at !== null && at < limit);
}

function expiry(tenantId: string, roomId: string): JobDraft {
  return { tenantId, kind: EXPIRE_JOB, payload: { roomId }, key: roomId };
}
