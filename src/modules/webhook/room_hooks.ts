// What hooks and commands of rooms have in common: each belongs to a room, is changed by its moderators, and posts as a principal.
import type { Clock } from "@/core/time/clock.ts";
import { Fault, isFault, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Page } from "@/core/page.ts";
import { changeProfile } from "@/modules/identity/mod.ts";
import type { RoomAccess, RoomMembers, RoomRow } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import type { AnyDatabase, AnyTransaction } from "@/ports/store.ts";
import type { HookPrincipal } from "./hook_principal.ts";

type AnyRow = Pick<HookPrincipal, "tenant_id" | "principal_id"> & { id: string; room_id: string };

/** SQL of one kind. */
type Rows<Row> = {
  find(tenantId: string, id: string): Promise<Row | undefined>;
  list(tenantId: string, roomId: string, after: string | undefined, limit: number): Promise<Row[]>;
  remove(tenantId: string, id: string): Promise<void>;
  removeOfRoom(tenantId: string, roomId: string): Promise<void>;
};

type Kind<Row> = {
  /** In messages. */
  one: string;
  many: string;
  /** Also the name of its cursors. */
  listOperation: string;
  /** In a room. */
  max: number;
  rowsIn: (db: AnyDatabase) => Rows<Row>;
};

type Deps = Pick<Platform, "store" | "clock" | "cursors"> & {
  roomAccess: RoomAccess;
  members: Pick<RoomMembers, "remove">;
};

/** Hooks of rooms, or commands. */
export class RoomHooks<Row extends AnyRow> {
  readonly #deps: Deps;
  readonly #kind: Kind<Row>;

  constructor({ store, clock, cursors, roomAccess, members }: Deps, kind: Kind<Row>) {
    this.#deps = { store, clock, cursors, roomAccess, members };
    this.#kind = kind;
  }

  /** Locks the room of a new one, for a moderator. */
  async requireRoom(tx: AnyTransaction, context: Context, roomId: string): Promise<RoomRow> {
    const { many, max, rowsIn } = this.#kind;
    const { room } = await this.#deps.roomAccess.requireForUpdate(tx, context, roomId, "moderator");
    if (room.kind === "direct") throw new Fault("conflict", `A direct room has no ${many}`);
    const existing = await rowsIn(tx.db).list(room.tenant_id, room.id, undefined, max);
    if (existing.length >= max) throw new Fault("limit_reached", `A room has at most ${max} ${many}`);
    return room;
  }

  async list<View>(
    context: Context,
    { roomId, limit, cursor }: { roomId: string; limit: number; cursor?: string | undefined },
    present: (row: Row) => View,
  ): Promise<Page<View>> {
    const { store, cursors, roomAccess } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await roomAccess.require(context, roomId);
    const bind = [this.#kind.listOperation, tenantId, principalId, roomId];
    const after = cursors.decodeId(cursor, bind);
    const rows = await this.#kind.rowsIn(store.db).list(tenantId, roomId, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  /** Loads one and locks its room, for a moderator; `not_found` if the caller does not see the room. */
  async requireForUpdate(tx: AnyTransaction, context: Context, id: string): Promise<Row> {
    const { roomAccess } = this.#deps;
    const { one, rowsIn } = this.#kind;
    const find = () => rowsIn(tx.db).find(context.actor.tenantId, id);
    const found = await find();
    if (found === undefined || await roomAccess.find(context.actor, found.room_id, tx.db) === undefined) {
      throw notFound(one);
    }
    await roomAccess.requireForUpdate(tx, context, found.room_id, "moderator");
    const row = await find();
    if (row === undefined) throw notFound(one);
    return row;
  }

  /** Deletes one. Its principal is disabled and leaves the room; its messages remain. */
  async remove(tx: AnyTransaction, context: Context, row: Row): Promise<void> {
    const { clock, members } = this.#deps;
    await this.#kind.rowsIn(tx.db).remove(row.tenant_id, row.id);
    await disablePrincipal(tx, clock, row);
    await members.remove(context, { id: row.room_id, principalId: row.principal_id, ban: false }).catch((thrown) => {
      // Somebody removed it from the room before.
      if (!isFault(thrown, "not_found")) throw thrown;
    });
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    const { store, clock } = this.#deps;
    const { max, rowsIn } = this.#kind;
    await store.write(async (tx) => {
      const rows = rowsIn(tx.db);
      for (const row of await rows.list(tenantId, roomId, undefined, max)) await disablePrincipal(tx, clock, row);
      await rows.removeOfRoom(tenantId, roomId);
    });
  }
}

async function disablePrincipal(
  tx: AnyTransaction,
  clock: Clock,
  { tenant_id: tenantId, principal_id: id }: AnyRow,
): Promise<void> {
  await changeProfile(tx, clock, { tenantId, id }, { isDisabled: true });
}
