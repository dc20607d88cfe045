// SQL of credentials: whether principals and tokens are still valid, and the locks that guarantee it until a commit.
import { type Kysely, type RawBuilder, sql } from "kysely";
import type { PrincipalKind, TenantRole } from "@/core/actor.ts";
import { jsonRows } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { IdentityTables } from "./store.ts";

/** A principal and its token; `tokenId` is empty without one. */
export type CredentialKey = { principalId: string; tokenId: string };

/** The state of a principal and its token; null = not found. */
export type CredentialRow = {
  kind: PrincipalKind | null;
  role: TenantRole | null;
  is_disabled: number | null;
  owner_id: string | null;
  owner_role: TenantRole | null;
  owner_disabled: number | null;
  stored_token_id: string | null;
  revoked_jti: string | null;
};

const COLUMNS = [
  "principal.kind",
  "principal.role",
  "principal.is_disabled",
  "principal.owner_id",
  "owner.role as owner_role",
  "owner.is_disabled as owner_disabled",
  "api_token.id as stored_token_id",
  "revoked_jti.jti as revoked_jti",
] as const;

const credentialByKey = prepared(
  (db: Kysely<IdentityTables>, value: Param<{ tenantId: string } & CredentialKey>) =>
    db.selectFrom("principal")
      .leftJoin("principal as owner", (join) =>
        join.onRef("owner.tenant_id", "=", "principal.tenant_id").onRef("owner.id", "=", "principal.owner_id"))
      .leftJoin("api_token", (join) =>
        join.onRef("api_token.tenant_id", "=", "principal.tenant_id").on("api_token.id", "=", value("tokenId")))
      .leftJoin("revoked_jti", (join) =>
        join.onRef("revoked_jti.tenant_id", "=", "principal.tenant_id").on("revoked_jti.jti", "=", value("tokenId")))
      .select(COLUMNS)
      .where("principal.tenant_id", "=", value("tenantId")).where("principal.id", "=", value("principalId")),
  { cacheable: true },
);

/** Many by one statement; PostgreSQL only. */
const credentialsByKeys = prepared((db: Kysely<IdentityTables>, value: Param<{ tenantId: string; keys: string }>) =>
  db.selectFrom(
    jsonRows<{ n: number; principal_id: string; token_id: string }, "asked">(
      value("keys"),
      sql`asked(n int, principal_id text, token_id text)`,
    ),
  )
    // Each key by itself: joined, a tenant that grew since PostgreSQL planned this would be compared with itself, row by row.
    .leftJoinLateral(
      (eb) =>
        eb.selectFrom("principal")
          .leftJoin("principal as owner", (join) =>
            join.onRef("owner.tenant_id", "=", "principal.tenant_id").onRef("owner.id", "=", "principal.owner_id"))
          .leftJoin("api_token", (join) =>
            join.onRef("api_token.tenant_id", "=", "principal.tenant_id").onRef("api_token.id", "=", "asked.token_id"))
          .leftJoin("revoked_jti", (join) =>
            join.onRef("revoked_jti.tenant_id", "=", "principal.tenant_id")
              .onRef("revoked_jti.jti", "=", "asked.token_id"))
          .select(COLUMNS)
          .where("principal.tenant_id", "=", value("tenantId")).whereRef("principal.id", "=", "asked.principal_id")
          .limit(1).as("credential"),
      (join) => join.onTrue(),
    )
    .selectAll("credential").select("asked.n")
);

/** Advisory locks until the commit; names are hashed to numbers. PostgreSQL only. */
const prepareLock = (lock: RawBuilder<unknown>) =>
  prepared((db: Kysely<IdentityTables>, value: Param<{ names: string }>) =>
    db.selectFrom(jsonRows<{ name: string }, "lock">(value("names"), sql`lock(name text)`))
      .select(sql`${lock}(hashtextextended(lock.name, 0))`.as("locked"))
  );
const lockShared = prepareLock(sql`pg_advisory_xact_lock_shared`);
const lockExclusive = prepareLock(sql`pg_advisory_xact_lock`);

export class CredentialStore {
  readonly #db: Kysely<IdentityTables>;

  constructor(db: Kysely<IdentityTables>) {
    this.#db = db;
  }

  async find(tenantId: string, key: CredentialKey): Promise<CredentialRow | undefined> {
    return await credentialByKey.first(this.#db, { tenantId, ...key });
  }

  /** Credentials of one tenant, in the order of the keys; PostgreSQL only. */
  async findMany(tenantId: string, keys: readonly CredentialKey[]): Promise<(CredentialRow | undefined)[]> {
    const rows = await credentialsByKeys.all(this.#db, {
      tenantId,
      keys: JSON.stringify(keys.map(({ principalId, tokenId }, n) => ({
        n,
        principal_id: principalId,
        token_id: tokenId,
      }))),
    });
    const found = new Map(rows.map((row) => [row.n, row]));
    return keys.map((_, n) => found.get(n));
  }

  /** Waits for exclusive locks of any of these, and blocks new ones until the commit. */
  async lockShared(names: readonly string[]): Promise<void> {
    await lockShared.all(this.#db, { names: lockNamesJson(names) });
  }

  /** Waits for all locks of any of these, and blocks new ones until the commit. */
  async lockExclusive(names: readonly string[]): Promise<void> {
    await lockExclusive.all(this.#db, { names: lockNamesJson(names) });
  }
}

function lockNamesJson(names: readonly string[]): string {
  return JSON.stringify([...new Set(names)].sort().map((name) => ({ name })));
}
