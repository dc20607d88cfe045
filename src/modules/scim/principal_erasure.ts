// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  scim_user: {
    key: ["tenant_id", "id"],
    deletes: ["id"],
    keeps: Object.fromEntries(
      ["user_name", "user_name_key", "external_id", "email_key", "profile_json"].map((column) => [
        column,
        "of the person of the row, and deleted with it",
      ]),
    ),
  },
};
