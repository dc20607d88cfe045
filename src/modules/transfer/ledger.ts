// The ledger of imports, and that of exports: rows that move from state to state, each move told to who asked for it, and the
// jobs that work on them. A job that died with its process is run again; one that was run again elsewhere gives way.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import { logOf } from "@/core/log.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { ArchiveFault, Halted } from "./report.ts";
import type { Failure, TransferList } from "./schema.ts";
import { type JobTable, TransferRows, type TransferTables } from "./store.ts";

const ATTEMPTS_MAX = 5;
/** The last of these only puts on record that the others ended without a word. */
const CLAIMS_MAX = 2 * ATTEMPTS_MAX;
const Ref = z.strictObject({ id: z.string() });

type Tx = Transaction<TransferTables>;
type Row<Table extends JobTable> = TransferTables[Table];

export type LedgerDeps = {
  store: Store<TransferTables>;
  clock: Clock;
  cursors: Cursors;
  blobs: Blobs;
  isStopping: () => boolean;
};

/** What is particular to one of the two. */
type Rules<Table extends JobTable, Shown> = {
  table: Table;
  name: "import" | "export";
  present: (row: Row<Table>) => Shown;
  /** Goes with each move, in its transaction. */
  moved: (tx: Tx, row: Row<Table>) => Promise<void>;
};

const log = logOf("transfer");

export class Ledger<Table extends JobTable, Shown> {
  readonly #deps: LedgerDeps;
  readonly #rules: Rules<Table, Shown>;

  constructor(deps: LedgerDeps, rules: Rules<Table, Shown>) {
    this.#deps = deps;
    this.#rules = rules;
  }

  /** The rows as `tx` sees them, or as they are. */
  rows(tx?: Tx): TransferRows<Table> {
    return new TransferRows((tx ?? this.#deps.store).db, this.#rules.table);
  }

  /** The rows, of which nobody else makes one until the transaction ends. */
  async holdRows(tx: Tx, tenantId: string): Promise<TransferRows<Table>> {
    // A stream that never has an event.
    await tx.reserve(tenantId, this.#rules.table, 0);
    return this.rows(tx);
  }

  async row(tenantId: string, id: string): Promise<Row<Table>> {
    const row = await this.rows().find(tenantId, id);
    if (row === undefined) throw this.absent();
    return row;
  }

  absent(): Fault {
    return new Fault("not_found", `No such ${this.#rules.name}`);
  }

  /** Newest first; `whose`: of one principal only. */
  async list(actor: Actor, { limit, cursor }: TransferList, whose?: string): Promise<Page<Shown>> {
    const { cursors } = this.#deps;
    const bind = [`${this.#rules.name}.list`, actor.tenantId, actor.principalId, whose ?? null];
    const before = cursors.open(cursor, bind)?.[0]?.toString();
    const rows = await this.rows().page(actor.tenantId, whose, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], this.#rules.present);
  }

  /**
   * Moves a transfer on when it is where `isThere` says; `undefined` when it is not. A content that its row names no more
   * is deleted by a job of the same transaction, so that no crash leaves it behind.
   */
  async move(
    tenantId: string,
    id: string,
    isThere: (row: Row<Table>) => boolean,
    set: Partial<Row<Table>>,
  ): Promise<Row<Table> | undefined> {
    const { name, present, moved } = this.#rules;
    return await this.#deps.store.write(async (tx) => {
      const rows = this.rows(tx);
      const before = await rows.lock(tenantId, id);
      if (before === undefined || !isThere(before)) return undefined;
      const after: Row<Table> = { ...before, ...set, version: before.version + 1 };
      await rows.update(tenantId, id, { ...set, version: after.version });
      if (before.blob_key !== null && before.blob_key !== after.blob_key) {
        await tx.enqueue({ tenantId, kind: this.#discardKind, payload: { id: before.blob_key } });
      }
      if (before.state !== after.state) {
        const stream = principalStream(after.requested_by);
        await tx.emit({ tenantId, stream, type: `${name}.updated`, data: { [name]: present(after) } });
      }
      await moved(tx, after);
      return after;
    });
  }

  /** Names a new content for a transfer before there is any of it; what it named until now is deleted. */
  async nameContent(
    tenantId: string,
    id: string,
    isThere: (row: Row<Table>) => boolean,
    set: Partial<Row<Table>> = {},
  ): Promise<{ row: Row<Table>; key: string } | undefined> {
    const key = newId(this.#rules.name);
    const row = await this.move(tenantId, id, isThere, { ...set, blob_key: key });
    return row === undefined ? undefined : { row, key };
  }

  /** A job about one transfer. */
  job(kind: string, run: (tenantId: string, id: string) => Promise<unknown>): JobKind {
    return defineJob({
      kind,
      payload: Ref,
      run: async ({ tenantId, payload }) => void await run(tenantId, payload.id),
    });
  }

  /** Deletes contents that no row names any more. */
  get discardJob(): JobKind {
    return this.job(this.#discardKind, (_tenantId, key) => this.#deps.blobs.delete(key));
  }

  /**
   * The job that does the work of a transfer. `start` takes it up, and resolves to nothing when there is nothing to take up.
   * A gateway that stops leaves it to the next; what fails is tried again, and in the end said to have failed.
   */
  workJob(
    kind: string,
    start: (tenantId: string, id: string) => Promise<Row<Table> | undefined>,
    work: (row: Row<Table>) => Promise<void>,
    fail: (row: Row<Table>, failure: Failure) => Promise<unknown>,
  ): JobKind {
    return defineJob({
      kind,
      payload: Ref,
      maxAttempts: CLAIMS_MAX,
      isLong: true,
      run: async ({ tenantId, payload, attempt }) => {
        const row = await start(tenantId, payload.id);
        if (row === undefined) return;
        try {
          // So often it has ended with its process, it would do so again.
          if (attempt > ATTEMPTS_MAX) throw new Error("ended without a word too often");
          await work(row);
        } catch (error) {
          if (error instanceof Halted) {
            if (this.#deps.isStopping()) await this.#deps.store.write((tx) => tx.enqueue({ tenantId, kind, payload }));
            return;
          }
          if (!(error instanceof ArchiveFault) && attempt < ATTEMPTS_MAX) throw error;
          const failure: Failure = error instanceof ArchiveFault
            ? error.failure
            : { code: "internal", detail: `The ${this.#rules.name} failed too often` };
          await fail(row, failure);
          if (!(error instanceof ArchiveFault)) log.error("given up", { kind, tenant: tenantId, cause: String(error) });
        }
      },
    });
  }

  get #discardKind(): string {
    return `transfer.discard_${this.#rules.name}`;
  }
}
