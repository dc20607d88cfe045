// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  // Not by `n`, which documents of one millisecond share on PostgreSQL, and which has no index there.
  search_document: { key: ["id", "kind"], renames: ["principal_id", "author_id"] },
  search_reindex: { key: ["tenant_id"], renames: ["requested_by"] },
};
