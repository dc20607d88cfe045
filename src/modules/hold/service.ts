// Legal holds: what is under one is not deleted for good until it is released.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import type { IsHeld } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Store } from "@/ports/store.ts";
import type { Hold, HoldCreate, HoldList } from "./schema.ts";
import { type HoldRow, HoldStore, type HoldTables } from "./store.ts";

type Deps = { store: Store<HoldTables>; clock: Clock; cursors: Cursors };

/** In force at once: all of them are read before something is deleted. */
const HOLDS_MAX = 200;

export class HoldService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(
    { tenantId, principalId: createdBy }: Actor,
    { roomId, principalId, reason }: HoldCreate,
  ): Promise<Hold> {
    if (roomId !== undefined && principalId !== undefined) {
      throw invalidField("/principalId", "expected a room or a principal, received both");
    }
    const row: HoldRow = {
      tenant_id: tenantId,
      id: newId("hold"),
      room_id: roomId ?? null,
      principal_id: principalId ?? null,
      reason,
      created_by: createdBy,
      created_at: iso(this.#deps.clock.now()),
      released_by: null,
      released_at: null,
    };
    await this.#deps.store.write(async (tx) => {
      const holds = new HoldStore(tx.db);
      // A stream without events: its lock serializes creations, which must not exceed the limit together.
      await tx.lock(tenantId, "holds");
      // Who purges the room has it locked.
      if (roomId !== undefined) await tx.lock(tenantId, roomStream(roomId));
      if (roomId !== undefined && !await holds.hasRoom(tenantId, roomId)) throw notFound("room");
      if (principalId !== undefined && !await holds.hasPrincipal(tenantId, principalId)) throw notFound("principal");
      if ((await holds.active(tenantId)).length >= HOLDS_MAX) {
        throw new Fault("limit_reached", `A tenant has at most ${HOLDS_MAX} legal holds in force`);
      }
      await holds.add(row);
    });
    return present(row);
  }

  async list({ tenantId }: Actor, { limit, cursor, released }: HoldList): Promise<Page<Hold>> {
    const { store, cursors } = this.#deps;
    const bind = ["hold.list", tenantId, released ?? null];
    const before = cursors.decodeId(cursor, bind);
    const rows = await new HoldStore(store.db).list(tenantId, released, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async release({ tenantId, principalId }: Actor, id: string): Promise<Hold> {
    return await this.#deps.store.write(async (tx) => {
      const holds = new HoldStore(tx.db);
      const by = { released_by: principalId, released_at: iso(this.#deps.clock.now()) };
      const isReleased = await holds.release(tenantId, id, by);
      const row = await holds.find(tenantId, id);
      if (row === undefined) throw notFound("legal hold");
      if (!isReleased) throw new Fault("conflict", "The legal hold was released before");
      return present(row);
    });
  }

  readonly isHeld: IsHeld = async (db, tenantId, subject) => {
    const store = new HoldStore(db);
    const holds = await store.active(tenantId);
    if (holds.some((hold) => hold.room_id === null && hold.principal_id === null)) return true;
    if (holds.length === 0 || subject === undefined) return false;
    const rooms = holds.flatMap((hold) => hold.room_id ?? []);
    const principals = holds.flatMap((hold) => hold.principal_id ?? []);
    return "roomId" in subject
      ? rooms.includes(subject.roomId) || await store.areIn(tenantId, principals, [subject.roomId])
      : principals.includes(subject.principalId) || await store.areIn(tenantId, [subject.principalId], rooms) ||
        await store.sharesRoom(tenantId, subject.principalId, principals);
  };
}

function present(row: HoldRow): Hold {
  return {
    id: row.id,
    roomId: row.room_id,
    principalId: row.principal_id,
    reason: row.reason,
    createdBy: row.created_by,
    createdAt: row.created_at,
    releasedBy: row.released_by,
    releasedAt: row.released_at,
  };
}
