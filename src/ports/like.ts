// "Contains this text", without regard to case, the same on both engines.
import { type RawBuilder, sql, type SqlBool } from "kysely";

/** Whether a text column contains `part`; ASCII case is folded, wildcards in `part` are plain characters. */
export function contains(column: string, part: string): RawBuilder<SqlBool> {
  const pattern = `%${part.toLowerCase().replaceAll(/[\\%_]/g, "\\$&")}%`;
  return sql<SqlBool>`lower(${sql.ref(column)}) like ${pattern} escape '\\'`;
}
