// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  invitation: {
    key: ["id"],
    deletes: ["principal_id"],
    renames: ["created_by"],
    keeps: { name: "of a person who has no principal yet; deleted when the invitation expires" },
  },
};
