// SQL of legal holds.
import { type Kysely, sql } from "kysely";
import type { IdentityTables } from "@/modules/identity/mod.ts";
import type { MessageTables } from "@/modules/message/mod.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";

export type HoldRow = {
  tenant_id: string;
  id: string;
  /** Null, as `principal_id`: the hold is on the tenant. */
  room_id: string | null;
  principal_id: string | null;
  reason: string;
  created_by: string;
  created_at: string;
  released_by: string | null;
  released_at: string | null;
};
export type HeldStateRow = {
  tenant_id: string;
  id: string;
  type: string;
  resource_id: string;
  version: number;
  /** The room or the principal that is under the hold. */
  room_id: string | null;
  principal_id: string | null;
  state_json: string;
  replaced_by: string | null;
  replaced_at: string;
};
type OwnTables = { legal_hold: HoldRow; held_state: HeldStateRow };
export type StateSubject = Pick<HeldStateRow, "tenant_id" | "room_id" | "principal_id">;
export type HoldTables = OwnTables & RoomTables & MessageTables & IdentityTables;

/** Asked before each deletion. */
const active = prepared((db: Kysely<OwnTables>, value: Param<{ tenantId: string }>) =>
  db.selectFrom("legal_hold").select(["room_id", "principal_id"]).where("tenant_id", "=", value("tenantId"))
    .where("released_at", "is", sql.lit(null))
);

export class HoldStore {
  readonly #db: Kysely<HoldTables>;

  constructor(db: Kysely<HoldTables>) {
    this.#db = db;
  }

  async add(row: HoldRow): Promise<void> {
    await this.#db.insertInto("legal_hold").values(row).execute();
  }

  find(tenantId: string, id: string): Promise<HoldRow | undefined> {
    return this.#db.selectFrom("legal_hold").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** Returns whether it was in force. */
  async release(tenantId: string, id: string, by: Pick<HoldRow, "released_by" | "released_at">): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("legal_hold").set(by).where("tenant_id", "=", tenantId)
      .where("id", "=", id).where("released_at", "is", null).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** The newest first, before this id. */
  list(
    tenantId: string,
    isReleased: boolean | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<HoldRow[]> {
    let query = this.#db.selectFrom("legal_hold").selectAll().where("tenant_id", "=", tenantId);
    if (isReleased !== undefined) query = query.where("released_at", isReleased ? "is not" : "is", null);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** What holds in force are on. */
  active(tenantId: string): Promise<Pick<HoldRow, "room_id" | "principal_id">[]> {
    return active.all(this.#db, { tenantId });
  }

  async addState(row: HeldStateRow): Promise<void> {
    await this.#db.insertInto("held_state").values(row).execute();
  }

  /** The newest first, before this id. */
  listStates(
    tenantId: string,
    resourceId: string | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<HeldStateRow[]> {
    let query = this.#db.selectFrom("held_state").selectAll().where("tenant_id", "=", tenantId);
    if (resourceId !== undefined) query = query.where("resource_id", "=", resourceId);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** Rooms and principals that states are of, in all tenants. */
  stateSubjects(): Promise<StateSubject[]> {
    return this.#db.selectFrom("held_state").select(["tenant_id", "room_id", "principal_id"]).distinct().execute();
  }

  /** Deletes some states of a room or a principal; returns whether there were as many. */
  async removeStates({ tenant_id, room_id, principal_id }: StateSubject, limit: number): Promise<boolean> {
    const { numDeletedRows } = await this.#db.deleteFrom("held_state").where("tenant_id", "=", tenant_id)
      .where("id", "in", (part) =>
        part.selectFrom("held_state").select("id").where("tenant_id", "=", tenant_id)
          .where("room_id", room_id === null ? "is" : "=", room_id)
          .where("principal_id", principal_id === null ? "is" : "=", principal_id).limit(limit)).executeTakeFirst();
    return numDeletedRows >= BigInt(limit);
  }

  /** Whether any of the principals is a member of any of the rooms, or has written there. */
  async areIn(tenantId: string, principalIds: readonly string[], roomIds: readonly string[]): Promise<boolean> {
    if (principalIds.length === 0 || roomIds.length === 0) return false;
    const member = await this.#db.selectFrom("member").select("room_id").where("tenant_id", "=", tenantId)
      .where("room_id", "in", roomIds).where("principal_id", "in", principalIds).limit(1).executeTakeFirst();
    if (member !== undefined) return true;
    const message = await this.#db.selectFrom("message").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "in", roomIds).where("sender_id", "in", principalIds).limit(1).executeTakeFirst();
    return message !== undefined;
  }

  /** Whether the principal is a member of a room where one of the others is. */
  async sharesRoom(tenantId: string, principalId: string, others: readonly string[]): Promise<boolean> {
    if (others.length === 0) return false;
    const row = await this.#db.selectFrom("member as own").select("own.room_id")
      .innerJoin("member as other", "other.room_id", "own.room_id")
      .where("own.tenant_id", "=", tenantId).where("own.principal_id", "=", principalId)
      .where("other.tenant_id", "=", tenantId).where("other.principal_id", "in", others).limit(1).executeTakeFirst();
    return row !== undefined;
  }

  /** Whether there is such a room, deleted or not. */
  async hasRoom(tenantId: string, id: string): Promise<boolean> {
    const row = await this.#db.selectFrom("room").select("id").where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
    return row !== undefined;
  }

  /** Whether there is such a principal, disabled or not. */
  async hasPrincipal(tenantId: string, id: string): Promise<boolean> {
    const row = await this.#db.selectFrom("principal").select("id").where("tenant_id", "=", tenantId)
      .where("id", "=", id).executeTakeFirst();
    return row !== undefined;
  }
}
