// Deleted rooms: hidden for 30 days, in which they can be brought back, then gone for good.
import { isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream, roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { type Store, type Transaction, UniqueViolation } from "@/ports/store.ts";
import { freeKey } from "./direct.ts";
import { admitted, effectiveRole, notFound, type RoomGate, seer } from "./gate.ts";
import { presentShared, roomEvent } from "./presenter.ts";
import { type RoomRow, RoomStore, type RoomTables, type Undo } from "./store.ts";
import type { RoomSuccession } from "./succession/service.ts";

const UNDO_MS = 30 * 86_400_000;

type Deps = {
  store: Store<RoomTables>;
  clock: Clock;
  gate: RoomGate;
  succession: RoomSuccession;
  /** What other modules remove when a room is purged. */
  purgers: () => readonly ((tenantId: string, roomId: string) => Promise<void>)[];
};

export class RoomBin {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Hides the room for 30 days, then removes it; `purge` removes it now, hidden or not, and takes a tenant admin. */
  async delete(context: Context, id: string, purge: boolean): Promise<void> {
    const { actor } = context;
    if (purge && !isAtLeast(TENANT_ROLES, actor.role, "admin")) {
      throw new Fault("forbidden", "Purging needs the tenant role admin besides owning the room");
    }
    const { store, clock, gate } = this.#deps;
    await store.write(async (tx) => {
      const purged = purge
        ? await this.#abandoned(tx, actor.tenantId, id) ?? await this.#hidden(tx, context, id)
        : undefined;
      const room = purged ?? (await gate.enterToChange(tx, context, id)).room;
      const now = clock.now();
      await tx.enqueue({
        tenantId: actor.tenantId,
        kind: "room.purge",
        payload: { roomId: id },
        key: id,
        runAt: purge ? now : now + UNDO_MS,
      });
      const rooms = new RoomStore(tx.db);
      // What is purged has had its days: nobody brings back half of it.
      const deleted_at = iso(purge ? now - UNDO_MS : now);
      if (room.state === "deleted") return await rooms.update(actor.tenantId, id, { deleted_at });
      const undo: Undo = { slug: room.slug, state: room.state };
      const memberIds = await rooms.memberIds(actor.tenantId, id);
      await rooms.update(actor.tenantId, id, {
        state: "deleted",
        deleted_at,
        updated_at: iso(now),
        slug: null,
        direct_key: null,
        undo_json: JSON.stringify(undo),
      });
      const deleted = roomEvent(actor, id, "room.deleted", { roomId: id });
      await tx.emit(
        { ...deleted, effect: { kind: "evict", principalIds: "*", reason: "room deleted" } },
        ...memberIds.map((principalId) => ({ ...deleted, stream: principalStream(principalId) })),
      );
    });
  }

  /** Brings a deleted room back within 30 days; for its owner. */
  async restore(context: Context, id: string): Promise<void> {
    const { actor } = context;
    const { store, clock } = this.#deps;
    await store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      if (((await rooms.seen(seer(actor), id))?.my_role ?? null) === null) throw notFound();
      await tx.reserve(actor.tenantId, roomStream(id), 0);
      const row = await rooms.seen(seer(actor), id);
      const role = row === undefined || row.my_role === null ? undefined : effectiveRole(actor, row);
      if (row === undefined || role === undefined) throw notFound();
      admitted(context, { room: row, role }, "owner");
      if (row.state !== "deleted") throw new Fault("conflict", "The room is not deleted");
      const now = clock.now();
      if (this.#isPurged(row)) throw new Fault("gone", "The room was purged");
      const memberIds = await rooms.memberIds(actor.tenantId, id);
      const { slug, state }: Undo = row.undo_json === null
        ? { slug: null, state: "active" }
        : JSON.parse(row.undo_json);
      const set = {
        state,
        // Somebody may have taken it meanwhile.
        slug: slug === null || await rooms.isSlugTaken(actor.tenantId, slug) ? null : slug,
        undo_json: null,
        deleted_at: null,
        direct_key: row.kind === "direct" ? await freeKey(rooms, actor, memberIds) : null,
        version: row.version + 1,
        updated_at: iso(now),
      };
      await rooms.update(actor.tenantId, id, set);
      const restored = roomEvent(actor, id, "room.updated", {
        room: presentShared({ ...row, ...set }, row.epoch ?? ""),
      });
      await tx.emit(
        restored,
        ...memberIds.map((principalId) => ({ ...restored, stream: principalStream(principalId) })),
      );
    }).catch((thrown) => {
      if (!(thrown instanceof UniqueViolation)) throw thrown;
      throw new Fault("conflict", "Another room took the slug or the members of this one just now; try again", {
        cause: thrown,
      });
    });
  }

  /** Removes a deleted room for good, unless it was restored meanwhile. */
  async purge(tenantId: string, roomId: string): Promise<void> {
    const { store, purgers } = this.#deps;
    const row = await new RoomStore(store.db).find(tenantId, roomId);
    if (row === undefined || row.state !== "deleted") return;
    for (const remove of purgers()) await remove(tenantId, roomId);
    // Events hold what was said. The line itself stays, so that nobody takes its positions for new ones.
    await store.log.trimStream(tenantId, roomStream(roomId), Infinity, Infinity);
    await store.write((tx) => new RoomStore(tx.db).purge(tenantId, roomId));
  }

  /**
   * Holds the room, and answers it if nobody is left to manage it: an admin of the tenant clears it away without getting to
   * see it.
   */
  async #abandoned(tx: Transaction<RoomTables>, tenantId: string, id: string): Promise<RoomRow | undefined> {
    const rooms = new RoomStore(tx.db);
    if (await rooms.find(tenantId, id) === undefined) return undefined;
    await tx.reserve(tenantId, roomStream(id), 0);
    const room = await rooms.find(tenantId, id);
    if (room === undefined || this.#isPurged(room)) return undefined;
    return await this.#deps.succession.isAbandoned(tx, tenantId, id) ? room : undefined;
  }

  /** A room that is held and deleted, but not purged yet; for its owner. */
  async #hidden(tx: Transaction<RoomTables>, context: Context, id: string): Promise<RoomRow | undefined> {
    const room = await new RoomStore(tx.db).seen(seer(context.actor), id);
    if (room === undefined || room.state !== "deleted" || this.#isPurged(room)) return undefined;
    const role = room.my_role === null ? undefined : effectiveRole(context.actor, room);
    return role === undefined ? undefined : admitted(context, { room, role }, "owner").room;
  }

  #isPurged({ deleted_at }: RoomRow): boolean {
    return deleted_at !== null && Date.parse(deleted_at) + UNDO_MS <= this.#deps.clock.now();
  }
}
