// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  search_document: { key: ["n"], renames: ["principal_id", "author_id"] },
  search_reindex: { key: ["tenant_id"], renames: ["requested_by"] },
};
