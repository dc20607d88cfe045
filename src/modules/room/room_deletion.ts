// Deleted rooms: restorable for 30 days, then purged.
import { type Actor, isAdmin } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { principalStream, roomEvent, roomStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import { type Store, type Transaction, whenTaken } from "@/ports/store.ts";
import { assertGranted, effectiveRole, type RoomAccess, viewerOf } from "./room_access.ts";
import { roomChanges } from "./presenter.ts";
import { type RestoreState, type RoomRow, RoomStore, type RoomTables } from "./store.ts";
import type { OwnershipTransfer } from "./ownership_transfer.ts";

/** How long deleted rooms, documents and tasks can be restored. */
export const RESTORE_WINDOW_MS = 30 * DAY_MS;

export const PURGE_JOB = "room.purge";

type Deps = {
  store: Store<RoomTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  ownership: OwnershipTransfer;
  holds: Holds;
  /** Deletes what other modules store for a room. */
  purgeHooks: () => readonly ((tenantId: string, roomId: string) => Promise<void>)[];
};

export class RoomDeletion {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Deletes the room and purges it after 30 days. `purge` purges it now, deleted or not, and requires a tenant admin. */
  async delete(context: Context, id: string, purge: boolean): Promise<void> {
    const { actor } = context;
    if (purge && !isAdmin(actor)) {
      throw new Fault("forbidden", "Purging requires the tenant role admin and being owner of the room");
    }
    const { store, clock, roomAccess, holds } = this.#deps;
    await store.write(async (tx) => {
      const purged = purge
        ? await this.#abandonedForUpdate(tx, actor.tenantId, id) ?? await this.#findDeleted(tx, context, id)
        : undefined;
      const room = purged ?? (await roomAccess.requireForUpdate(tx, context, id)).room;
      if (purge) await holds.assertNotHeld("The room cannot be purged", tx.db, actor.tenantId, { roomId: id });
      await deleteRoom(tx, actor, room, { now: clock.now(), purge });
    });
  }

  /** Restores a deleted room within 30 days; for its owner. */
  async restore(context: Context, id: string): Promise<void> {
    const { actor } = context;
    const { store, clock } = this.#deps;
    await store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const row = await this.#ownedForUpdate(tx, context, id);
      if (row.state !== "deleted") throw new Fault("conflict", "The room is not deleted");
      const now = clock.now();
      if (this.#isPurged(row)) throw new Fault("gone", "The room was purged");
      const memberIds = await rooms.memberIds(actor.tenantId, id);
      const { slug, state }: RestoreState = row.restore_state_json === null
        ? { slug: null, state: "active" }
        : JSON.parse(row.restore_state_json);
      const set = {
        state,
        // Another room may use it by now.
        slug: slug === null || await rooms.isSlugTaken(actor.tenantId, slug) ? null : slug,
        restore_state_json: null,
        deleted_at: null,
        version: row.version + 1,
        updated_at: iso(now),
      };
      await rooms.update(actor.tenantId, id, set);
      const restored = roomEvent(actor, id, "room.updated", roomChanges(row, { ...row, ...set }));
      // Members read the room again; their own streams say nothing of it, for when they are members no more.
      const data = roomChanges(row, { ...row, ...set, slug: row.slug });
      await tx.emit(
        restored,
        ...memberIds.map((principalId) => ({ ...restored, data, stream: principalStream(principalId) })),
      );
    }).catch(
      whenTaken((cause) =>
        new Fault("conflict", "The slug was taken by another room concurrently; try again", { cause })
      ),
    );
  }

  /** Purges a deleted room, unless it was restored meanwhile; not under legal hold. */
  async purge(tenantId: string, roomId: string): Promise<void> {
    const { store, holds, purgeHooks } = this.#deps;
    if (!await this.#beginPurge(tenantId, roomId)) return;
    const steps = [
      ...purgeHooks(),
      // Events contain messages. The stream itself remains, so that its positions are never assigned again.
      () => store.log.trimStream(tenantId, roomStream(roomId), Infinity, Infinity),
      async () => {
        while (await store.write((tx) => new RoomStore(tx.db).purge(tenantId, roomId)));
      },
    ];
    for (const remove of steps) {
      // A hold may be created meanwhile: the job fails, and its next attempt is postponed.
      await holds.assertNotHeld("The room cannot be purged", store.db, tenantId, { roomId });
      await remove(tenantId, roomId);
    }
  }

  /** Ends the restore window, on every node, if the room may be purged. */
  #beginPurge(tenantId: string, roomId: string): Promise<boolean> {
    const { store, clock, holds } = this.#deps;
    return store.write(async (tx) => {
      await tx.lock(tenantId, roomStream(roomId));
      const rooms = new RoomStore(tx.db);
      const row = await rooms.find(tenantId, roomId);
      if (row?.state !== "deleted" || await holds.postpones(tx, purgeJob(tenantId, roomId), { roomId })) return false;
      if (!this.#isPurged(row)) {
        await rooms.update(tenantId, roomId, { deleted_at: iso(clock.now() - RESTORE_WINDOW_MS) });
      }
      return true;
    });
  }

  /**
   * Locks the room, and returns it if it is abandoned: a tenant admin may purge such a room without access to it.
   */
  async #abandonedForUpdate(tx: Transaction<RoomTables>, tenantId: string, id: string): Promise<RoomRow | undefined> {
    const rooms = new RoomStore(tx.db);
    if (await rooms.find(tenantId, id) === undefined) return undefined;
    await tx.lock(tenantId, roomStream(id));
    const room = await rooms.find(tenantId, id);
    if (room === undefined || this.#isPurged(room)) return undefined;
    return await this.#deps.ownership.isAbandoned(tx, tenantId, id) ? room : undefined;
  }

  /** A deleted room that is not purged yet; for its owner. The caller has locked it. */
  async #findDeleted(tx: Transaction<RoomTables>, context: Context, id: string): Promise<RoomRow | undefined> {
    const room = await this.#findOwned(tx, context, id);
    return room?.state === "deleted" && !this.#isPurged(room) ? room : undefined;
  }

  /** The room, deleted or not, locked; for its owner. */
  async #ownedForUpdate(tx: Transaction<RoomTables>, context: Context, id: string): Promise<RoomRow> {
    const isOwned = await this.#findOwned(tx, context, id) !== undefined;
    if (isOwned) await tx.lock(context.actor.tenantId, roomStream(id));
    const room = isOwned ? await this.#findOwned(tx, context, id) : undefined;
    if (room === undefined) throw notVisible("room");
    return room;
  }

  /** The room, deleted or not, if the caller has access as a member; throws unless as owner. */
  async #findOwned(tx: Transaction<RoomTables>, context: Context, id: string): Promise<RoomRow | undefined> {
    const room = await new RoomStore(tx.db).findForViewer(viewerOf(context.actor), id);
    const role = room === undefined || room.my_role === null ? undefined : effectiveRole(context.actor, room);
    return room === undefined || role === undefined ? undefined : assertGranted(context, { room, role }, "owner").room;
  }

  #isPurged({ deleted_at }: RoomRow): boolean {
    return deleted_at !== null && Date.parse(deleted_at) + RESTORE_WINDOW_MS <= this.#deps.clock.now();
  }
}

/** Deletes a room that the caller has locked. With `purge` it cannot be restored, also if it is deleted already. */
export async function deleteRoom(
  tx: Transaction<RoomTables>,
  by: Actor | { tenantId: string },
  room: RoomRow,
  { now, purge }: { now: number; purge: boolean },
): Promise<void> {
  const { tenant_id: tenantId, id } = room;
  await tx.enqueue({ ...purgeJob(tenantId, id), runAt: purge ? now : now + RESTORE_WINDOW_MS });
  const rooms = new RoomStore(tx.db);
  // A purge ends the restore window: a room that is partly purged must not be restored.
  const deleted_at = iso(purge ? now - RESTORE_WINDOW_MS : now);
  if (room.state === "deleted") return await rooms.update(tenantId, id, { deleted_at });
  const restoreState: RestoreState = { slug: room.slug, state: room.state };
  const memberIds = await rooms.memberIds(tenantId, id);
  await rooms.update(tenantId, id, {
    state: "deleted",
    deleted_at,
    updated_at: iso(now),
    slug: null,
    direct_key: null,
    restore_state_json: JSON.stringify(restoreState),
  });
  const deleted = roomEvent(by, id, "room.deleted", { roomId: id });
  await tx.emit(
    { ...deleted, effect: { kind: "evict", principalIds: "*", reason: "room deleted" } },
    ...memberIds.map((principalId) => ({ ...deleted, stream: principalStream(principalId) })),
  );
}

function purgeJob(tenantId: string, roomId: string): JobDraft {
  return { tenantId, kind: PURGE_JOB, payload: { roomId }, key: roomId };
}
