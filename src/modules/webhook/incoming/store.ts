// SQL of incoming hooks.
import type { Kysely } from "kysely";
import type { IdentityTables } from "@/modules/identity/mod.ts";

type HookColumns = {
  tenant_id: string;
  id: string;
  room_id: string;
  principal_id: string;
  /** Who created it or rotated it last. */
  responsible_id: string;
  /** Scopes of the token of the responsible principal, see `textOfScopes`. */
  scopes: string | null;
  display_name: string;
  description: string | null;
  /** Hash of the secret part of its address. */
  hash: string;
  signing_secret_encrypted: string | null;
  may_mention_all: number;
  is_enabled: number;
  version: number;
  created_at: string;
  updated_at: string;
};
/** With the picture of its principal. */
export type HookRow = HookColumns & { avatar_file_id: string | null };
export type HookTables = IdentityTables & { incoming_hook: HookColumns };

export class HookStore {
  readonly #db: Kysely<HookTables>;

  constructor(db: Kysely<HookTables>) {
    this.#db = db;
  }

  async add(row: HookRow): Promise<void> {
    await this.#db.insertInto("incoming_hook").values(columnsOf(row)).execute();
  }

  find(tenantId: string, id: string): Promise<HookRow | undefined> {
    return selectHooks(this.#db).where("incoming_hook.tenant_id", "=", tenantId).where("incoming_hook.id", "=", id)
      .executeTakeFirst();
  }

  /** The only query without a tenant: the hash identifies it. */
  findByHash(hash: string): Promise<HookRow | undefined> {
    return selectHooks(this.#db).where("hash", "=", hash).executeTakeFirst();
  }

  list(tenantId: string, roomId: string, after: string | undefined, limit: number): Promise<HookRow[]> {
    let query = selectHooks(this.#db).where("incoming_hook.tenant_id", "=", tenantId).where("room_id", "=", roomId);
    if (after !== undefined) query = query.where("incoming_hook.id", ">", after);
    return query.orderBy("incoming_hook.id").limit(limit).execute();
  }

  async update(row: HookRow): Promise<void> {
    await this.#db.updateTable("incoming_hook").set(columnsOf(row)).where("tenant_id", "=", row.tenant_id)
      .where("id", "=", row.id).execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("incoming_hook").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async removeOfRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#db.deleteFrom("incoming_hook").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .execute();
  }
}

function selectHooks(db: Kysely<HookTables>) {
  return db.selectFrom("incoming_hook").innerJoin(
    "principal",
    (join) =>
      join.onRef("principal.tenant_id", "=", "incoming_hook.tenant_id")
        .onRef("principal.id", "=", "incoming_hook.principal_id"),
  ).selectAll("incoming_hook").select("avatar_file_id");
}

function columnsOf({ avatar_file_id: _ofPrincipal, ...columns }: HookRow): HookColumns {
  return columns;
}
