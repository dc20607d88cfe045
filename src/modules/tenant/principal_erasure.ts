// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  tenant: {
    key: ["id"],
    keeps: { name: "names the tenant", settings_json: "of the tenant", allowed_origins_json: "of the tenant" },
  },
  tenant_retention: { key: ["tenant_id"] },
};
