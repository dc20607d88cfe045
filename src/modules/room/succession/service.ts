// Succession: rooms whose last enabled owner is disabled pass to the person who has been there longest.
import type { RoomRole } from "@/core/actor.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { byPages } from "@/core/page.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { RoomStore, type RoomTables } from "../store.ts";
import { SuccessionStore } from "./store.ts";

export const SUCCESSION_JOB = "room.succession";
const ROOMS_AT_ONCE = 200;

/** The job to be promised in the transaction that disables a principal. */
export function successionJob(tenantId: string, principalId: string): JobDraft {
  return { tenantId, kind: SUCCESSION_JOB, payload: { principalId }, key: principalId };
}

/**
 * A job, and in it a transaction per room: however many rooms somebody owns, being disabled is quick and nobody waits for
 * more than one of them. What a stopped run has passed on is owned by others, so the next one finds only the rest.
 */
export class RoomSuccession {
  readonly #store: Store<RoomTables>;

  constructor(store: Store<RoomTables>) {
    this.#store = store;
  }

  /** Passes on every room that somebody owns and no enabled owner is left in. Safe to repeat. */
  async passOn(tenantId: string, principalId: string): Promise<void> {
    const read = (last = "") => new SuccessionStore(this.#store.db).ownedBy(tenantId, principalId, last, ROOMS_AT_ONCE);
    for await (const roomIds of byPages(ROOMS_AT_ONCE, read)) {
      for (const roomId of roomIds) await this.#passOne(tenantId, roomId, principalId);
    }
  }

  /** Whether nobody manages the room and there is nobody it could pass to. */
  async isAbandoned(tx: Transaction<RoomTables>, tenantId: string, roomId: string): Promise<boolean> {
    const succession = new SuccessionStore(tx.db);
    return (await succession.owners(tenantId, roomId)).length === 0 &&
      await succession.heir(tenantId, roomId) === undefined;
  }

  /** The former owner stays as a member, so that being enabled again gives nothing back. */
  async #passOne(tenantId: string, roomId: string, formerId: string): Promise<void> {
    await this.#store.write(async (tx) => {
      // With the line held nobody joins, leaves or gets another role; who was leaving just now has left.
      await tx.reserve(tenantId, roomStream(roomId), 0);
      const rooms = new RoomStore(tx.db);
      const room = await rooms.find(tenantId, roomId);
      if (room === undefined || room.state === "deleted") return;
      if ((await rooms.member(tenantId, roomId, formerId))?.role !== "owner") return;
      if ((await new SuccessionStore(tx.db).owners(tenantId, roomId)).length > 0) return;
      const heirId = await holdHeir(tx, tenantId, roomId);
      if (heirId === undefined) return;
      await rooms.setRole(tenantId, roomId, heirId, "owner");
      await rooms.setRole(tenantId, roomId, formerId, "member");
      await tx.emit(
        ...updated(tenantId, roomId, heirId, "owner", room.member_count),
        ...updated(tenantId, roomId, formerId, "member", room.member_count),
      );
    });
  }
}

/**
 * Who is next, and enabled until the commit: being disabled is told on one's own line, which is held here. Whoever is
 * disabled right after it owns the room by then, and the job which that asked for passes it on.
 */
async function holdHeir(tx: Transaction<RoomTables>, tenantId: string, roomId: string): Promise<string | undefined> {
  const succession = new SuccessionStore(tx.db);
  let held: string | undefined;
  while (true) {
    const heirId = await succession.heir(tenantId, roomId);
    if (heirId === undefined || heirId === held) return heirId;
    await tx.reserve(tenantId, principalStream(heirId), 0);
    held = heirId;
  }
}

/** The change of a role, on the line of the room and on that of the member; nobody in particular did it. */
function updated(
  tenantId: string,
  roomId: string,
  principalId: string,
  role: RoomRole,
  memberCount: number,
): EventDraft[] {
  const data = { roomId, principalId, role, memberCount };
  const event: EventDraft = { tenantId, stream: roomStream(roomId), type: "member.updated", data };
  return [event, { ...event, stream: principalStream(principalId) }];
}
