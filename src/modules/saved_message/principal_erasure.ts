// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = { saved_message: { key: ["id"], deletes: ["principal_id"] } };
