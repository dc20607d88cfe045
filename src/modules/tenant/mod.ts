// Tenants: teams that share a gateway and cannot see each other.
import type { Module } from "@/core/module.ts";
import type { Platform } from "@/ports/platform.ts";
import { tenantApi } from "./api.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { OriginList } from "./origins.ts";
import { TenantService } from "./service.ts";

export { originsChanged } from "./store.ts";
export { Tenant } from "./schema.ts";
export type { TenantService };

export type TenantModule = Module & { tenants: TenantService; origins: OriginList };

export function tenantModule({ store, clock }: Platform): TenantModule {
  const tenants = new TenantService({ store, clock });
  const origins = new OriginList({ store, clock });
  return {
    name: "tenant",
    migrations,
    erases,
    ...tenantApi(tenants),
    stop: () => origins.waitForReload(),
    tenants,
    origins,
  };
}
