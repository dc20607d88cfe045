// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  audit_entry: {
    key: ["id"],
    renames: ["actor_id", "owner_id", "resource_id"],
    json: ["changes_json"],
    // The chain has digests of these, which nobody can guess without the salts.
    clears: [
      { of: ["actor_id", "owner_id"], set: { token_id: null, ip: null, user_agent: null, who_salt: null } },
      { of: ["resource_id", "changes_json"], set: { what_salt: null } },
    ],
    keeps: { who_digest: "of what was erased, with a salt that was deleted", what_digest: "as who_digest" },
  },
  audit_cut: { key: ["tenant_id"], keeps: { signature: "of the chain" } },
};
