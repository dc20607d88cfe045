// How long a tenant keeps what is deleted by its age: no longer than the gateway, and no shorter than its rooms. Each module deletes
// its own.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import { logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import { AUDIT_DAYS_MIN, type Retention, type RetentionPut } from "./schema.ts";
import { type RetentionKind, type RetentionRow, RetentionStore, type RetentionTables } from "./retention_store.ts";

type Deps = {
  store: Store<RetentionTables>;
  clock: Clock;
  holds: Holds;
  metrics: Metrics;
  /** Days of the audit log, by the settings of the gateway; a tenant may have fewer. */
  auditDays: number;
};

const log = logOf("retention");

export class RetentionService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read({ tenantId }: Actor, db: AnyDatabase = this.#deps.store.db): Promise<Retention> {
    const row = await new RetentionStore(db).find(tenantId);
    const { auditDays, holds } = this.#deps;
    return {
      messagesDays: row?.messages_days ?? null,
      filesDays: row?.files_days ?? null,
      runsDays: row?.runs_days ?? null,
      auditDays: row?.audit_days ?? null,
      maxAuditDays: auditDays,
      legalHold: await holds.isHeld(db, tenantId),
      updatedAt: row?.updated_at ?? null,
    };
  }

  async put(actor: Actor, { messagesDays, filesDays, runsDays, auditDays }: RetentionPut): Promise<Retention> {
    const { store, clock, auditDays: most } = this.#deps;
    if (auditDays !== null && auditDays > most) {
      throw Fault.forField("/auditDays", "too_big", `expected at most ${most}, the days that the gateway stores`);
    }
    const least = Math.min(AUDIT_DAYS_MIN, most);
    if (auditDays !== null && auditDays < least) {
      throw Fault.forField("/auditDays", "too_small", `expected at least ${least}`);
    }
    const row: RetentionRow = {
      tenant_id: actor.tenantId,
      messages_days: messagesDays,
      files_days: filesDays,
      runs_days: runsDays,
      audit_days: auditDays,
      updated_at: iso(clock.now()),
    };
    return await store.write(async (tx) => {
      await new RetentionStore(tx.db).put(row);
      return await this.read(actor, tx.db);
    });
  }

  /** Throws if messages of a room were to be stored longer than those of its tenant. */
  async assertMayKeepMessages(db: AnyDatabase, tenantId: string, days: number | null | undefined): Promise<void> {
    if (days === null || days === undefined) return;
    const { messages_days: most } = await new RetentionStore(db).find(tenantId) ?? {};
    if (typeof most !== "number" || days <= most) return;
    throw Fault.forField(
      "/retentionDays",
      "too_big",
      `expected at most ${most}, the days that the tenant stores messages`,
    );
  }

  /** The days of one kind of those tenants that have set them. */
  daysByTenant(kind: RetentionKind): Promise<ReadonlyMap<string, number>> {
    return new RetentionStore(this.#deps.store.db).daysByTenant(kind);
  }

  /** The days of one tenant; `undefined` if it has not set them. */
  async days(tenantId: string, kind: RetentionKind): Promise<number | undefined> {
    return (await new RetentionStore(this.#deps.store.db).find(tenantId))?.[`${kind}_days`] ?? undefined;
  }

  /** Logs and counts what was deleted because of its age. */
  recordDeleted(kind: RetentionKind, tenantId: string, count: number): void {
    if (count === 0) return;
    this.#deps.metrics.retentionDeleted.inc({ kind }, count);
    log.info("deleted by retention", { kind, tenant: tenantId, count });
  }
}
