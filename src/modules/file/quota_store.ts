// Storage quotas: the bytes that a tenant and each principal use in files, exports and imports. An upload reserves its bytes
// as they arrive, so that a declared length does not block quota for others.
import { type Kysely, sql } from "kysely";
import { HOUR_MS } from "@/core/time/clock.ts";
import { Fault, isFault } from "@/core/fault.ts";

/** Bytes reserved ahead of what has arrived. */
const STEP_BYTES = 1024 * 1024;
const RETRY_MS = HOUR_MS;

export type QuotaTables = {
  file_usage: { tenant_id: string; bytes: number };
  member_usage: { tenant_id: string; owner_id: string; bytes: number };
};
export type QuotaLimits = {
  tenantMaxBytes: number;
  /** For a principal and its agents. */
  memberMaxBytes: number;
};
/** The charged principal; for an agent its owner. */
export type QuotaHolder = { tenantId: string; ownerId: string };
type QuotaUsage = { bytes: number; limit: number };

export class QuotaStore {
  readonly #db: Kysely<QuotaTables>;

  constructor(db: object) {
    // Callers with other table types share these tables.
    this.#db = db as Kysely<QuotaTables>;
  }

  /** Reserves bytes; throws `quota_exceeded` if too few are left. Locks the tenant's usage until the commit. */
  async reserveQuota({ tenantId, ownerId }: QuotaHolder, bytes: number, limits: QuotaLimits): Promise<void> {
    const { tenantMaxBytes, memberMaxBytes } = limits;
    await this.#db.insertInto("file_usage").values({ tenant_id: tenantId, bytes: 0 })
      .onConflict((conflict) => conflict.column("tenant_id").doNothing()).execute();
    const ofTenant = await this.#db.updateTable("file_usage").set({ bytes: sql`bytes + ${bytes}` })
      .where("tenant_id", "=", tenantId).where("bytes", "<=", tenantMaxBytes - bytes).executeTakeFirst();
    if (ofTenant.numUpdatedRows === 0n) {
      throw quotaExceeded(`Files, exports and imports of this tenant may use at most ${tenantMaxBytes} bytes`);
    }
    await this.#db.insertInto("member_usage").values({ tenant_id: tenantId, owner_id: ownerId, bytes: 0 })
      .onConflict((conflict) => conflict.columns(["tenant_id", "owner_id"]).doNothing()).execute();
    const ofMember = await this.#db.updateTable("member_usage").set({ bytes: sql`bytes + ${bytes}` })
      .where("tenant_id", "=", tenantId).where("owner_id", "=", ownerId)
      .$if(memberMaxBytes !== Infinity, (query) => query.where("bytes", "<=", memberMaxBytes - bytes))
      .executeTakeFirst();
    if (ofMember.numUpdatedRows === 0n) {
      throw quotaExceeded(
        `Files, exports and imports of a principal and its agents may use at most ${memberMaxBytes} bytes; delete ` +
          "some",
      );
    }
  }

  async releaseQuota({ tenantId, ownerId }: QuotaHolder, bytes: number): Promise<void> {
    if (bytes === 0) return;
    const set = { bytes: sql<number>`bytes - ${bytes}` };
    await this.#db.updateTable("file_usage").set(set).where("tenant_id", "=", tenantId).execute();
    await this.#db.updateTable("member_usage").set(set).where("tenant_id", "=", tenantId)
      .where("owner_id", "=", ownerId).execute();
  }

  async usage(
    { tenantId, ownerId }: QuotaHolder,
    limits: QuotaLimits,
  ): Promise<Record<"member" | "tenant", QuotaUsage>> {
    const tenant = await this.#db.selectFrom("file_usage").select("bytes").where("tenant_id", "=", tenantId)
      .executeTakeFirst();
    const member = await this.#db.selectFrom("member_usage").select("bytes").where("tenant_id", "=", tenantId)
      .where("owner_id", "=", ownerId).executeTakeFirst();
    return {
      member: { bytes: Number(member?.bytes ?? 0), limit: limits.memberMaxBytes },
      tenant: { bytes: Number(tenant?.bytes ?? 0), limit: limits.tenantMaxBytes },
    };
  }
}

/**
 * A content whose arrived bytes are always reserved: before a chunk is passed on, `reserve` reserves what it needs and some
 * bytes ahead, up to `maxBytes` in total.
 */
export async function* withQuota(
  source: AsyncIterable<Uint8Array>,
  { reserved, maxBytes, reserve }: { reserved: number; maxBytes: number; reserve: (bytes: number) => Promise<void> },
): AsyncGenerator<Uint8Array> {
  let arrived = 0;
  for await (const chunk of source) {
    arrived += chunk.length;
    if (arrived > reserved) {
      const wanted = Math.max(arrived, Math.min(arrived + STEP_BYTES, maxBytes));
      const isAhead = await reserve(wanted - reserved).then(() => true, (error) => {
        if (!isFault(error, "quota_exceeded") || wanted === arrived) throw error;
        return false;
      });
      // Near the limit, bytes are reserved chunk by chunk.
      if (!isAhead) await reserve(arrived - reserved);
      reserved = isAhead ? wanted : arrived;
    }
    yield chunk;
  }
}

function quotaExceeded(detail: string): Fault {
  return new Fault("quota_exceeded", detail, { retryAfterMs: RETRY_MS });
}
