// Ownership transfer: when the last enabled owner of a room is disabled, the longest-standing person becomes owner. If none can, the
// first one that is enabled later does.
import type { RoomRole } from "@/core/actor.ts";
import { type EventDraft, principalStream, roomEvent, roomStream } from "@/core/event/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { paginate } from "@/core/page.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { RoomStore, type RoomTables } from "./store.ts";
import { type OwnedRooms, OwnershipStore } from "./ownership_store.ts";

export const OWNERSHIP_TRANSFER_JOB = "room.transfer_ownership";
const ROOMS_AT_ONCE = 200;

/** The job to enqueue in the transaction that disables a principal. */
export function ownershipTransferJob(tenantId: string, principalId: string): JobDraft {
  return transferJob(tenantId, principalId, "owned");
}

/** The same for one that enables it: it may be the first who can own rooms that were left without. */
export function ownershipClaimJob(tenantId: string, principalId: string): JobDraft {
  return transferJob(tenantId, principalId, "all");
}

function transferJob(tenantId: string, principalId: string, rooms: OwnedRooms): JobDraft {
  return { tenantId, kind: OWNERSHIP_TRANSFER_JOB, payload: { principalId, rooms }, key: principalId };
}

/**
 * A job with one transaction per room: disabling a principal is quick however many rooms it owns, and no writer waits for
 * more than one of them. Rooms already transferred have owners, so a repeated run finds only the rest.
 */
export class OwnershipTransfer {
  readonly #store: Store<RoomTables>;

  constructor(store: Store<RoomTables>) {
    this.#store = store;
  }

  /** Transfers those rooms of the principal that have no enabled owner. Safe to repeat. */
  async transferRooms(tenantId: string, principalId: string, which: OwnedRooms): Promise<void> {
    const ownership = new OwnershipStore(this.#store.db);
    const read = (after = "") => ownership.roomsOf(tenantId, principalId, which, { after, limit: ROOMS_AT_ONCE });
    for await (const roomIds of paginate(ROOMS_AT_ONCE, read)) {
      for (const roomId of roomIds) {
        // Most rooms have an owner, which one that was enabled cannot lose. One that was disabled looks under the lock: another owner
        // may be leaving.
        if (which === "all" && (await ownership.effectiveOwners(tenantId, roomId)).length > 0) continue;
        await this.#transferRoom(tenantId, roomId, principalId);
      }
    }
  }

  /** Whether the room has neither an enabled owner nor a possible next one. */
  async isAbandoned(tx: Transaction<RoomTables>, tenantId: string, roomId: string): Promise<boolean> {
    const ownership = new OwnershipStore(tx.db);
    return (await ownership.effectiveOwners(tenantId, roomId)).length === 0 &&
      await ownership.nextOwner(tenantId, roomId) === undefined;
  }

  /** The former owner remains a member, and does not become owner again when it is enabled. */
  async #transferRoom(tenantId: string, roomId: string, principalId: string): Promise<void> {
    await this.#store.write(async (tx) => {
      // With the stream locked, members and roles do not change until the commit.
      await tx.lock(tenantId, roomStream(roomId));
      const rooms = new RoomStore(tx.db);
      const room = await rooms.find(tenantId, roomId);
      if (room === undefined || room.state === "deleted") return;
      const ownership = new OwnershipStore(tx.db);
      const formerId = await ownership.ownerByRole(tenantId, roomId, principalId);
      if (formerId === undefined || (await ownership.effectiveOwners(tenantId, roomId)).length > 0) return;
      const nextId = await lockNextOwner(tx, tenantId, roomId);
      if (nextId === undefined) return;
      await rooms.setRole(tenantId, roomId, nextId, "owner");
      await rooms.setRole(tenantId, roomId, formerId, "member");
      await tx.emit(
        ...roleEvents(tenantId, roomId, nextId, "owner", room.member_count),
        ...roleEvents(tenantId, roomId, formerId, "member", room.member_count),
      );
    });
  }
}

/**
 * The next owner, locked so that it stays enabled until the commit: disabling locks the principal's stream, too. If it is
 * disabled right after, it owns the room by then, and the job of that change transfers it again.
 */
async function lockNextOwner(
  tx: Transaction<RoomTables>,
  tenantId: string,
  roomId: string,
): Promise<string | undefined> {
  const ownership = new OwnershipStore(tx.db);
  let lockedId: string | undefined;
  while (true) {
    const nextId = await ownership.nextOwner(tenantId, roomId);
    if (nextId === undefined || nextId === lockedId) return nextId;
    await tx.lock(tenantId, principalStream(nextId));
    lockedId = nextId;
  }
}

/** The change of a role, on the streams of the room and of the member; without an actor. */
function roleEvents(
  tenantId: string,
  roomId: string,
  principalId: string,
  role: RoomRole,
  memberCount: number,
): EventDraft[] {
  const data = { roomId, principalId, role, memberCount };
  const event: EventDraft = roomEvent({ tenantId }, roomId, "member.updated", data);
  return [event, { ...event, stream: principalStream(principalId) }];
}
