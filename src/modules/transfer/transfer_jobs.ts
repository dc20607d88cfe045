// The state machines of imports and exports: rows that move from state to state, each move published to its requester, and the
// jobs that work on them. A job whose process died runs again; one that was taken over by another node stops.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { principalStream } from "@/core/event/event.ts";
import { type Fault, isFault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import { logOf } from "@/core/log.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { eraseBlobs, type QuotaHolder, QuotaStore, withQuota } from "@/modules/file/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { ArchiveFault, Cancelled } from "./fault.ts";
import type { ModuleArchives } from "./format/content_records.ts";
import type { Failure, TransferList } from "./schema.ts";
import { type ExportRow, type JobTable, TransferJobStore, type TransferTables } from "./store.ts";

const ATTEMPTS_MAX = 5;
/** While the file store or the database is unavailable, which lasts minutes where it is restarted. */
const OUTAGE_ATTEMPTS_MAX = 10;
/** Those after the last attempt only put on record that it failed. */
const RUNS_MAX = OUTAGE_ATTEMPTS_MAX + ATTEMPTS_MAX;
const JobPayload = z.strictObject({ id: z.string() });

type Tx = Transaction<TransferTables>;
type Row<Table extends JobTable> = TransferTables[Table];

export type TransferJobDeps = {
  store: Store<TransferTables>;
  clock: Clock;
  cursors: Cursors;
  blobs: Blobs;
  archives: ModuleArchives;
  isStopping: () => boolean;
};

/** What is particular to one of the two. */
type TransferJobRules<Table extends JobTable, Shown> = {
  table: Table;
  name: "import" | "export";
  present: (row: Row<Table>) => Shown;
  /** Claims the transfer for a run; nothing if there is nothing to do. */
  start: (tenantId: string, id: string) => Promise<Row<Table> | undefined>;
  run: (row: Row<Table>) => Promise<void>;
  /** Records that a run failed finally. */
  fail: (row: Row<Table>, failure_json: string) => Promise<void>;
  /** Called at the time of a job of `expireKind`. */
  expire: (tenantId: string, id: string) => Promise<unknown>;
  /** Runs with each move, in its transaction. */
  onTransition: (tx: Tx, row: Row<Table>) => Promise<void>;
};

const log = logOf("transfer");

export class TransferJobs<Table extends JobTable, Shown> {
  readonly #deps: TransferJobDeps;
  readonly #rules: TransferJobRules<Table, Shown>;

  constructor(deps: TransferJobDeps, rules: TransferJobRules<Table, Shown>) {
    this.#deps = deps;
    this.#rules = rules;
  }

  /** The rows as `tx` sees them, or as they are. */
  rows(tx?: Tx): TransferJobStore<Table> {
    return new TransferJobStore((tx ?? this.#deps.store).db, this.#rules.table);
  }

  /** The rows, of which nobody else makes one until the transaction ends. */
  async lockRows(tx: Tx, tenantId: string): Promise<TransferJobStore<Table>> {
    // A stream that never has an event.
    await tx.lock(tenantId, this.#rules.table);
    return this.rows(tx);
  }

  async row(tenantId: string, id: string): Promise<Row<Table>> {
    const row = await this.rows().find(tenantId, id);
    if (row === undefined) throw this.notFound();
    return row;
  }

  notFound(): Fault {
    return notFound(this.#rules.name);
  }

  /** Newest first; `whose`: of one principal only. */
  async list(actor: Actor, { limit, cursor }: TransferList, whose?: string): Promise<Page<Shown>> {
    const { cursors } = this.#deps;
    const bind = [`${this.#rules.name}.list`, actor.tenantId, actor.principalId, whose ?? null];
    const before = cursors.decodeId(cursor, bind);
    const rows = await this.rows().page(actor.tenantId, whose, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], this.#rules.present);
  }

  /**
   * Moves a transfer on when it is where `isThere` says; `undefined` when it is not. A content that its row names no more
   * is deleted by a job of the same transaction, so that no crash leaves it behind.
   */
  async transition(
    tenantId: string,
    id: string,
    isThere: (row: Row<Table>) => boolean,
    set: Partial<Row<Table>>,
  ): Promise<Row<Table> | undefined> {
    const { name, present, onTransition } = this.#rules;
    return await this.#deps.store.write(async (tx) => {
      const rows = this.rows(tx);
      const before = await rows.lock(tenantId, id);
      if (before === undefined || !isThere(before)) return undefined;
      // A stored content reserves its size only; a content that is no longer named reserves nothing.
      const isLeft = set.blob_key !== undefined && set.blob_key !== before.blob_key;
      const charged_bytes = isLeft ? 0 : set.size ?? before.charged_bytes;
      const after: Row<Table> = { ...before, ...set, charged_bytes, version: before.version + 1 };
      await rows.update(tenantId, id, { ...set, charged_bytes, version: after.version });
      await new QuotaStore(tx.db).releaseQuota(
        quotaHolderOf(before),
        Number(before.charged_bytes) - Number(charged_bytes),
      );
      if (before.blob_key !== null && isLeft) await eraseBlobs(tx, tenantId, [before.blob_key]);
      if (before.state !== after.state) {
        const stream = principalStream(after.requested_by);
        await tx.emit({ tenantId, stream, type: `${name}.updated`, data: { [name]: present(after) } });
      }
      await onTransition(tx, after);
      return after;
    });
  }

  /** Names a new content for a transfer before there is any of it; what it named until now is deleted. */
  async assignContent(
    tenantId: string,
    id: string,
    isThere: (row: Row<Table>) => boolean,
    set: Partial<Row<Table>> = {},
  ): Promise<{ row: Row<Table>; key: string } | undefined> {
    const key = newId(this.#rules.name);
    const row = await this.transition(tenantId, id, isThere, { ...set, blob_key: key });
    return row === undefined ? undefined : { row, key };
  }

  /** A content on its way in, for which space is taken as it comes; throws `quota_exceeded` where there is none. */
  withQuota(row: Row<Table>, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { store, archives: { writer } } = this.#deps;
    const reserve = (bytes: number): Promise<void> =>
      store.write(async (tx) => {
        await new QuotaStore(tx.db).reserveQuota(quotaHolderOf(row), bytes, writer.limits);
        if (await this.rows(tx).chargeBytes(row, bytes)) return;
        throw new Cancelled(`The content of the ${this.#rules.name} was replaced`);
      });
    return withQuota(source, { reserved: 0, maxBytes: Infinity, reserve });
  }

  /** Throws `quota_exceeded` when a principal has no space left at all. */
  async assertQuota(tx: Tx, row: Pick<ExportRow, "tenant_id" | "charged_id">): Promise<void> {
    const space = new QuotaStore(tx.db);
    await space.reserveQuota(quotaHolderOf(row), 1, this.#deps.archives.writer.limits);
    await space.releaseQuota(quotaHolderOf(row), 1);
  }

  /** The job that does the work of a transfer, and that of its expiry. */
  get kinds(): JobKind[] {
    const { expire } = this.#rules;
    const expiry = defineJob({
      kind: this.expireKind,
      payload: JobPayload,
      run: async ({ tenantId, payload }) => void await expire(tenantId, payload.id),
    });
    return [this.#workJob(), expiry];
  }

  get workKind(): string {
    return `transfer.${this.#rules.name}`;
  }

  get expireKind(): string {
    return `transfer.expire_${this.#rules.name}`;
  }

  /** A gateway that stops leaves the work to the next one. What fails is retried, and finally marked as failed. */
  #workJob(): JobKind {
    const { start, run, fail } = this.#rules;
    const kind = this.workKind;
    return defineJob({
      kind,
      payload: JobPayload,
      maxAttempts: RUNS_MAX,
      isLongRunning: true,
      run: async ({ tenantId, payload, attempt }) => {
        const row = await start(tenantId, payload.id);
        if (row === undefined) return;
        try {
          if (attempt > OUTAGE_ATTEMPTS_MAX) throw new Error("recording a failure failed");
          await run(row);
        } catch (thrown) {
          if (thrown instanceof Cancelled) {
            if (this.#deps.isStopping()) await this.#deps.store.write((tx) => tx.enqueue({ tenantId, kind, payload }));
            return;
          }
          const isOutage = isFault(thrown, "unavailable");
          const attemptsMax = isOutage ? OUTAGE_ATTEMPTS_MAX : ATTEMPTS_MAX;
          if (!(thrown instanceof ArchiveFault) && attempt < attemptsMax) throw thrown;
          const failure: Failure = thrown instanceof ArchiveFault
            ? thrown.failure
            : { code: "internal", detail: `The ${this.#rules.name} failed too often` };
          await fail(row, JSON.stringify(failure));
          if (!(thrown instanceof ArchiveFault)) {
            log.error("job failed permanently", { kind, tenant: tenantId, cause: String(thrown) });
          }
        }
      },
      onDeadLetter: async ({ tenantId, payload, reason }) => {
        const row = await start(tenantId, payload.id);
        const detail = reason === "interrupted"
          ? `The gateway stopped several times while running this ${this.#rules.name}`
          : `The ${this.#rules.name} failed too often`;
        const failure: Failure = { code: "internal", detail };
        if (row !== undefined) await fail(row, JSON.stringify(failure));
      },
    });
  }
}

/** Whether there is work to do: it waits for its first run, or for the next one. */
export function isUnfinished({ state }: Pick<Row<JobTable>, "state">): boolean {
  return state === "queued" || state === "running";
}

/** Whether it has a content, or will have one. */
export function isStored(row: Pick<Row<JobTable>, "state">): boolean {
  return row.state === "done" || isUnfinished(row);
}

function quotaHolderOf(
  { tenant_id: tenantId, charged_id: ownerId }: Pick<ExportRow, "tenant_id" | "charged_id">,
): QuotaHolder {
  return { tenantId, ownerId };
}
