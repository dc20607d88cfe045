// SQL of principals, API tokens and revoked JWT ids. Token families have a store of their own.
import type { Kysely } from "kysely";
import type { PrincipalKind, TenantRole } from "@/core/actor.ts";
import { collectInSlices } from "@/core/caller.ts";
import { defineSignal } from "@/core/event/event.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import type { PrincipalKey } from "@/core/module.ts";
import { inChunks, queryInChunks } from "@/core/page.ts";
import { containsText, lastIdOfSlice } from "@/ports/sql/filters.ts";
import { dialectOf, type Param, prepared } from "@/ports/sql/prepared.ts";

/** Ids of the principals of hooks start with this. */
export const HOOK_PREFIX = "hook:";

/** Sent when a principal, its rights or its tokens changed; the id is the principal's. */
export const principalChanged = defineSignal("principal");

export type PrincipalRow = {
  tenant_id: string;
  id: string;
  kind: PrincipalKind;
  handle: string | null;
  display_name: string;
  role: TenantRole;
  /** When the role was last set, through the API or by a token; a token issued later may set it again. */
  role_set_at: string | null;
  owner_id: string | null;
  external_id: string | null;
  avatar_file_id: string | null;
  timezone: string | null;
  locale: string | null;
  prefs_json: string;
  /** Scopes that no token of the principal exceeds, separated by spaces; null = no such limit. */
  scope_limit: string | null;
  status_text: string | null;
  status_emoji: string | null;
  /** When the status expires; null = never. */
  status_until: string | null;
  is_disabled: number;
  version: number;
  created_at: string;
  updated_at: string;
};

/** A principal created at `now`, with defaults for all columns that are not given. */
export function newPrincipal(
  at: string,
  given: Pick<PrincipalRow, "tenant_id" | "id" | "kind" | "display_name" | "role"> & Partial<PrincipalRow>,
): PrincipalRow {
  return {
    handle: null,
    role_set_at: null,
    owner_id: null,
    external_id: null,
    avatar_file_id: null,
    timezone: null,
    locale: null,
    scope_limit: null,
    prefs_json: "{}",
    status_text: null,
    status_emoji: null,
    status_until: null,
    is_disabled: 0,
    version: 1,
    created_at: at,
    updated_at: at,
    ...given,
  };
}

/** Those of these principals that are there; some of their ids may be there in another of their tenants, too. */
export function findPrincipals(db: AnyDatabase, principals: readonly PrincipalKey[]): Promise<PrincipalKey[]> {
  const tenants = [...new Set(principals.map(({ tenantId }) => tenantId))];
  return (db as Kysely<IdentityTables>).selectFrom("principal").select(["tenant_id as tenantId", "id"])
    .where("tenant_id", "in", tenants).where("id", "in", principals.map(({ id }) => id)).execute();
}

export type TokenRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  name: string;
  /** Hash of the token; for a family, of the key that its refresh tokens share. */
  hash: string;
  scopes: string;
  created_by: string;
  created_at: string;
  expires_at: string;
  last_used_at: string | null;
};

/** The additional columns of a token family. */
export type TokenFamilyRow = {
  tenant_id: string;
  token_id: string;
  /** Highest role of its access tokens. */
  role: TenantRole;
  access_seconds: number;
  access_expires_at: string;
  /** Hash of the secret in the valid refresh token. */
  hash: string;
  /** Hash of the secret in the previous one, and when that was first used. */
  previous_hash: string | null;
  rotated_at: string | null;
};

export type ListedToken = TokenRow & { access_expires_at: string | null };

export type IdentityTables = {
  principal: PrincipalRow;
  api_token: TokenRow;
  token_family: TokenFamilyRow;
  revoked_jti: { tenant_id: string; jti: string; expires_at: string };
  erased_principal: { tenant_id: string; hash: string; at: string };
  /** As far as its handles are also those of principals. */
  user_group: { tenant_id: string; id: string; handle: string | null };
};

/** Families of expired tokens that one statement deletes. */
const FAMILIES_AT_ONCE = 1000;

const principalById = prepared((db: Kysely<IdentityTables>, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("principal").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);

export class IdentityStore {
  readonly #db: Kysely<IdentityTables>;

  constructor(db: Kysely<IdentityTables>) {
    this.#db = db;
  }

  async principal(tenantId: string, id: string): Promise<PrincipalRow | undefined> {
    return await principalById.first(this.#db, { tenantId, id });
  }

  /** Those of these principals that exist, in the order of their ids. */
  principals(tenantId: string, ids: readonly string[]): Promise<PrincipalRow[]> {
    return this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId).where("id", "in", ids)
      .orderBy("id").execute();
  }

  /** Those of these principals that exist, with the owner of each agent. */
  ownersOf(tenantId: string, ids: readonly string[]): Promise<Pick<PrincipalRow, "id" | "owner_id">[]> {
    return queryInChunks(
      ids,
      (some) =>
        this.#db.selectFrom("principal").select(["id", "owner_id"]).where("tenant_id", "=", tenantId)
          .where("id", "in", some).execute(),
    );
  }

  /** Those of these principals that are enabled; agents only if their owner is enabled as well. */
  findEnabled(tenantId: string, ids: readonly string[]): Promise<PrincipalRow[]> {
    return this.#db.selectFrom("principal")
      .leftJoin(
        "principal as owner",
        (join) =>
          join.onRef("owner.tenant_id", "=", "principal.tenant_id").onRef("owner.id", "=", "principal.owner_id"),
      )
      .selectAll("principal").where("principal.tenant_id", "=", tenantId).where("principal.id", "in", ids)
      .where("principal.is_disabled", "=", 0)
      .where((row) => row.or([row("principal.owner_id", "is", null), row("owner.is_disabled", "=", 0)])).execute();
  }

  /** Adds the principal unless its id or handle exists; returns whether it was added. */
  async addPrincipal(row: PrincipalRow): Promise<boolean> {
    const added = await this.#db.insertInto("principal").values(row).onConflict((conflict) => conflict.doNothing())
      .returning("id").execute();
    return added.length > 0;
  }

  async updatePrincipal(tenantId: string, id: string, set: Partial<PrincipalRow>): Promise<void> {
    await this.#db.updateTable("principal").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async removePrincipal(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("principal").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async addErased(tenantId: string, hash: string, at: string): Promise<void> {
    await this.#db.insertInto("erased_principal").values({ tenant_id: tenantId, hash, at })
      .onConflict((conflict) => conflict.columns(["tenant_id", "hash"]).doUpdateSet({ at })).execute();
  }

  /** When a principal was erased whose id has this digest. */
  async erasedAt(tenantId: string, hash: string): Promise<string | undefined> {
    const row = await this.#db.selectFrom("erased_principal").select("at").where("tenant_id", "=", tenantId)
      .where("hash", "=", hash).executeTakeFirst();
    return row?.at;
  }

  async countErased(tenantId: string): Promise<number> {
    const row = await this.#db.selectFrom("erased_principal").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  async list(
    tenantId: string,
    filter: { kind?: PrincipalKind | undefined; role?: TenantRole | undefined; q?: string | undefined },
    after: string | undefined,
    limit: number,
  ): Promise<PrincipalRow[]> {
    let query = this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId);
    // Hooks are seen in their rooms only.
    query = query.where("id", "not like", `${HOOK_PREFIX}%`);
    if (filter.kind !== undefined) query = query.where("kind", "=", filter.kind);
    if (filter.role !== undefined) query = query.where("role", "=", filter.role);
    if (filter.q !== undefined) {
      const part = filter.q;
      query = query.where(({ or }) => or(["display_name", "handle", "id"].map((column) => containsText(column, part))));
    }
    const page = (from: string | undefined, last: string | undefined, rows: number): Promise<PrincipalRow[]> =>
      query.$if(from !== undefined, (part) => part.where("id", ">", from ?? ""))
        .$if(last !== undefined, (part) => part.where("id", "<=", last ?? "")).orderBy("id").limit(rows).execute();
    if (dialectOf(this.#db) !== "sqlite" || (filter.kind ?? filter.role ?? filter.q) === undefined) {
      return await page(after, undefined, limit);
    }
    // No index has parts of names: all of a tenant may be read for few.
    return await collectInSlices(after, limit, async (from, left) => {
      const next = await lastIdOfSlice(this.#db, "principal", tenantId, from, "asc");
      return { rows: await page(from, next, left), next };
    });
  }

  /** Those of these names that are handles of other principals or groups than `id`, or ids of other principals. */
  async takenNames(tenantId: string, names: readonly string[], id: string): Promise<ReadonlySet<string>> {
    const others = this.#db.selectFrom("principal").where("tenant_id", "=", tenantId).where("id", "<>", id);
    const groups = this.#db.selectFrom("user_group").where("tenant_id", "=", tenantId).where("id", "<>", id);
    const rows = await others.select("handle as name").where("handle", "in", names)
      .unionAll(others.select("id as name").where("id", "in", names))
      .unionAll(groups.select("handle as name").where("handle", "in", names)).execute();
    return new Set(rows.flatMap(({ name }) => name ?? []));
  }

  /** Number of enabled owners of the tenant except one principal; owned agents do not count. */
  async countOtherOwners(tenantId: string, id: string): Promise<number> {
    const row = await this.#db.selectFrom("principal").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("role", "=", "owner").where("is_disabled", "=", 0)
      .where("owner_id", "is", null).where("id", "<>", id).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Ids of the agents a principal owns. */
  async agentsOf(tenantId: string, ownerId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("principal").select("id").where("tenant_id", "=", tenantId)
      .where("owner_id", "=", ownerId).execute();
    return rows.map((row) => row.id);
  }

  /** Number of enabled agents of a principal. */
  async countAgents(tenantId: string, ownerId: string): Promise<number> {
    const row = await this.#db.selectFrom("principal").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("owner_id", "=", ownerId).where("is_disabled", "=", 0)
      .executeTakeFirstOrThrow();
    return Number(row.n);
  }

  async addToken(row: TokenRow): Promise<void> {
    await this.#db.insertInto("api_token").values(row).execute();
  }

  /** The only query without a tenant: the hash identifies it. */
  tokenByHash(hash: string): Promise<TokenRow | undefined> {
    return this.#db.selectFrom("api_token").selectAll().where("hash", "=", hash).executeTakeFirst();
  }

  token(tenantId: string, id: string): Promise<TokenRow | undefined> {
    return this.#db.selectFrom("api_token").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** Tokens of a principal that expire after `at`. */
  tokens(
    tenantId: string,
    principalId: string,
    at: string,
    after: string | undefined,
    limit: number,
  ): Promise<ListedToken[]> {
    let query = this.#db.selectFrom("api_token").leftJoin("token_family", "token_id", "id").selectAll("api_token")
      .select("access_expires_at").where("api_token.tenant_id", "=", tenantId).where("principal_id", "=", principalId)
      .where("expires_at", ">", at);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  /** Those of these tokens that expire after `at`. */
  tokensByIds(tenantId: string, ids: readonly string[], at: string): Promise<TokenRow[]> {
    return this.#db.selectFrom("api_token").selectAll().where("tenant_id", "=", tenantId).where("id", "in", ids)
      .where("expires_at", ">", at).execute();
  }

  async extendToken(tenantId: string, id: string, expiresAt: string): Promise<void> {
    await this.#db.updateTable("api_token").set({ expires_at: expiresAt }).where("tenant_id", "=", tenantId)
      .where("id", "=", id).execute();
  }

  /** The token row of a family and its role; `undefined` for other tokens. */
  family(tenantId: string, id: string): Promise<TokenRow & Pick<TokenFamilyRow, "role"> | undefined> {
    return this.#db.selectFrom("api_token").innerJoin("token_family", "token_id", "id").selectAll("api_token")
      .select("role").where("api_token.tenant_id", "=", tenantId).where("id", "=", id).executeTakeFirst();
  }

  async removeToken(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("api_token").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
    await this.#db.deleteFrom("token_family").where("tenant_id", "=", tenantId).where("token_id", "=", id).execute();
  }

  /** Deletes all tokens of a principal; returns their ids. */
  async removeTokens(tenantId: string, principalId: string): Promise<string[]> {
    const removed = await this.#db.deleteFrom("api_token").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).returning("id").execute();
    const ids = removed.map(({ id }) => id);
    if (ids.length > 0) {
      await this.#db.deleteFrom("token_family").where("tenant_id", "=", tenantId).where("token_id", "in", ids)
        .execute();
    }
    return ids;
  }

  async markUsed(tenantId: string, id: string, at: string): Promise<void> {
    await this.#db.updateTable("api_token").set({ last_used_at: at }).where("tenant_id", "=", tenantId)
      .where("id", "=", id).execute();
  }

  async isRevoked(tenantId: string, jti: string): Promise<boolean> {
    const row = await this.#db.selectFrom("revoked_jti").select("jti").where("tenant_id", "=", tenantId)
      .where("jti", "=", jti).executeTakeFirst();
    return row !== undefined;
  }

  async revoke(tenantId: string, jti: string, expiresAt: string): Promise<void> {
    await this.#db.insertInto("revoked_jti").values({ tenant_id: tenantId, jti, expires_at: expiresAt })
      .onConflict((conflict) => conflict.columns(["tenant_id", "jti"]).doNothing()).execute();
  }

  /** Deletes revocations and API tokens that expired before `at`, in all tenants. */
  async deleteExpired(at: string): Promise<void> {
    await this.#db.deleteFrom("revoked_jti").where("expires_at", "<", at).execute();
    const expired = await this.#db.deleteFrom("api_token").where("expires_at", "<", at).returning("id").execute();
    // After the tokens: a family that is refreshed concurrently keeps both of its rows, or neither.
    for (const ids of inChunks(expired.map(({ id }) => id), FAMILIES_AT_ONCE)) {
      await this.#db.deleteFrom("token_family").where("token_id", "in", ids).execute();
    }
  }
}
