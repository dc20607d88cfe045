// New epochs for all streams: nobody goes on from a place that is given anew.
import type { Kysely } from "kysely";
import { newSecret } from "@/core/id.ts";
import type { CoreTables } from "./core_tables.ts";

type Db = Kysely<CoreTables>;

/** Streams of one statement: with very many, all at once would take too long. */
const RENEWED_AT_ONCE = 5000;

/** Gives every stream of every tenant the same new epoch; `write` runs each part of the change. */
export async function renewEpochs(
  db: Db,
  write: (part: (db: Db) => Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const epoch = newSecret(9);
  let after = { tenant_id: "", name: "" };
  while (true) {
    const page = await db.selectFrom("stream").select(["tenant_id", "name"]).where("tenant_id", "<>", "")
      .where(({ refTuple, tuple, eb }) => eb(refTuple("tenant_id", "name"), ">", tuple(after.tenant_id, after.name)))
      .orderBy("tenant_id").orderBy("name").limit(RENEWED_AT_ONCE).execute();
    const last = page.at(-1);
    if (last === undefined) return;
    const from = after;
    await write((db) =>
      db.updateTable("stream").set({ epoch }).where("tenant_id", "<>", "")
        .where(({ refTuple, tuple, eb, and }) =>
          and([
            eb(refTuple("tenant_id", "name"), ">", tuple(from.tenant_id, from.name)),
            eb(refTuple("tenant_id", "name"), "<=", tuple(last.tenant_id, last.name)),
          ])
        ).execute()
    );
    after = last;
  }
}
