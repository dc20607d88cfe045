// Tenants: the walls between teams that share a gateway.
export { tenantModule } from "./api.ts";
export { OriginList } from "./origins.ts";
export { TenantService } from "./service.ts";
export { Tenant } from "./schema.ts";
