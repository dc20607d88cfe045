// "Contains this text", without regard to case, the same on both engines.
import { type RawBuilder, sql, type SqlBool } from "kysely";

/** Whether a text column contains `part`, in any case; wildcards in `part` are plain characters. */
export function contains(column: string, part: string): RawBuilder<SqlBool> {
  const pattern = `%${part.replaceAll(/[\\%_]/g, "\\$&")}%`;
  // Both sides by the engine: what it leaves as it is in the one it leaves in the other.
  return sql<SqlBool>`fold_case(${sql.ref(column)}) like fold_case(${pattern}) escape '\\'`;
}
