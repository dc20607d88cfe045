// New epochs for all streams, so that no client continues from an offset that will be used again.
import type { Kysely } from "kysely";
import { newSecret } from "@/core/id.ts";
import type { CoreTables } from "./core_tables.ts";

type Db = Kysely<CoreTables>;

/** Streams in one statement: all at once could take too long. */
const RESET_BATCH = 5000;

/** Gives every stream of every tenant the same new epoch; `write` runs each part of the change. */
export async function resetAllEpochs(
  db: Db,
  write: (reset: (db: Db) => Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const epoch = newSecret(9);
  let after = { tenant_id: "", name: "" };
  while (true) {
    const page = await db.selectFrom("stream").select(["tenant_id", "name"]).where("tenant_id", "<>", "")
      .where(({ refTuple, tuple, eb }) => eb(refTuple("tenant_id", "name"), ">", tuple(after.tenant_id, after.name)))
      .orderBy("tenant_id").orderBy("name").limit(RESET_BATCH).execute();
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
