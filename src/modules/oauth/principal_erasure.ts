// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  oauth_code: { key: ["hash"], deletes: ["principal_id"], keeps: { client_name: "an application" } },
  oauth_grant: { key: ["token_id"], deletes: ["principal_id"] },
};
