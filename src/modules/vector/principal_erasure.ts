// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";
import { principalScope } from "./chunks.ts";

const OF_PERSON = { column: "scope", text: principalScope };

export const erases: PrincipalErasure = {
  vector_row: { key: ["n"], renames: [OF_PERSON] },
  vector_scope: { key: ["tenant_id", "space", "scope"], renames: [OF_PERSON] },
};
