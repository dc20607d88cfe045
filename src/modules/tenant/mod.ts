// Tenants: teams that share a gateway and cannot see each other.
import type { Module } from "@/core/module.ts";
import type { Platform } from "@/ports/platform.ts";
import { tenantApi } from "./api.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { OriginList } from "./origins.ts";
import { RetentionService } from "./retention.ts";
import { TenantService } from "./service.ts";

export { originsChanged } from "./store.ts";
export { RUN_DAYS, Tenant } from "./schema.ts";
export type { RetentionTables } from "./retention_store.ts";
export type { RetentionService, TenantService };

export type TenantModule = Module & { tenants: TenantService; origins: OriginList; retention: RetentionService };

export function tenantModule(
  { store, clock, holds, metrics }: Platform,
  { auditDays }: { auditDays: number },
): TenantModule {
  const retention = new RetentionService({ store, clock, holds, metrics, auditDays });
  const tenants = new TenantService({ store, clock });
  const origins = new OriginList({ store, clock });
  return {
    name: "tenant",
    migrations,
    erases,
    ...tenantApi(tenants, retention),
    stop: () => origins.waitForReload(),
    tenants,
    origins,
    retention,
  };
}
