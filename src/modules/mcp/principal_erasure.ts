// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  mcp_server: { key: ["tenant_id", "id"], keeps: { url: "an address of another system" } },
};
