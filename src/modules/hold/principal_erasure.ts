// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  legal_hold: {
    key: ["id"],
    renames: ["principal_id", "created_by", "released_by"],
    keeps: { reason: "why the hold was created, in the words of an administrator" },
  },
  held_state: {
    key: ["id"],
    renames: ["principal_id", "replaced_by"],
    json: ["state_json"],
    keeps: { resource_id: "a task or an event" },
  },
};
