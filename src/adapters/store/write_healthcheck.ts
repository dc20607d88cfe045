// The probe of readiness: a write that shows whether the database takes writes.
import { type Kysely, sql } from "kysely";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";

/** More than most writes need. */
const SPACE_BYTES = 256_000;
const ROW_BYTES = 32;
const RETRY_PAUSE_MS = 1000;

const log = logOf("store");

type Deps = {
  store: Pick<Store<CoreTables>, "dialect" | "write">;
  /** Why a write was refused last, if that was the database's doing. */
  writeHealth: { last: Fault | undefined };
};

/**
 * A small write while all is well. On a full disk such a write may succeed while larger ones fail; so after a failure only a
 * write that needs new pages shows that there is space again.
 */
export class WriteHealthcheck {
  readonly #deps: Deps;
  #retryAt = -Infinity;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async run(): Promise<void> {
    const { writeHealth } = this.#deps;
    const refusal = writeHealth.last;
    if (refusal === undefined) return await this.#writeMarker(crypto.randomUUID());
    if (performance.now() < this.#retryAt) throw refusal;
    this.#retryAt = performance.now() + RETRY_PAUSE_MS;
    await this.#allocatePages();
    await this.#writeMarker(crypto.randomUUID());
    // A failure that was recorded meanwhile remains.
    if (writeHealth.last !== refusal) return;
    writeHealth.last = undefined;
    log.info("the database takes writes again");
  }

  /**
   * The mark differs each time: SQLite skips a write that changes nothing. Where nodes share a database each writes a row of
   * its own, so that none waits for one that was cut off in the middle of its probe.
   */
  async #writeMarker(epoch: string): Promise<void> {
    const isShared = this.#deps.store.dialect === "postgres";
    const row = { tenant_id: "", name: isShared ? `probe:${epoch}` : "probe", epoch, head: 0, floor: 0 };
    await this.#deps.store.write(async ({ db }) => {
      await db.insertInto("stream").values(row)
        .onConflict((conflict) => conflict.columns(["tenant_id", "name"]).doUpdateSet({ epoch })).execute();
      if (isShared) {
        await db.deleteFrom("stream").where("tenant_id", "=", row.tenant_id).where("name", "=", row.name).execute();
      }
    });
  }

  async #allocatePages(): Promise<void> {
    const { store } = this.#deps;
    if (store.dialect === "sqlite") return await this.#writeMarker("x".repeat(SPACE_BYTES));
    // A new table, which is rolled back: an existing one has free pages from deleted rows.
    await store.write(async ({ db }) => {
      await fillTable(db);
      throw new Error("There is space");
    }).catch((thrown) => {
      // Any other failure, such as for want of the right to make tables, says nothing about the disk.
      if (Fault.from(thrown).code === "unavailable") throw thrown;
    });
  }
}

async function fillTable(db: Kysely<CoreTables>): Promise<void> {
  const rows = sql.lit(Math.ceil(SPACE_BYTES / ROW_BYTES));
  await sql`create table readiness_probe as select generate_series(1, ${rows}) as n`.execute(db);
}
