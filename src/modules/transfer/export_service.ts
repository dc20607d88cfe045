// Exports: asked for, written as a job, downloaded for 72 hours.
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobKind } from "@/core/job.ts";
import { asRead, type Context } from "@/core/operation.ts";
import type { Page } from "@/core/page.ts";
import { hiddenUpTo, notFound, type RoomGate } from "@/modules/room/mod.ts";
import type { Contents } from "./contents.ts";
import { Exporter } from "./exporter.ts";
import { checkAdmin } from "./import_service.ts";
import { Ledger, type LedgerDeps } from "./ledger.ts";
import { noCounts } from "./report.ts";
import { type Export, EXPORT_KEPT_HOURS, type ExportCreate, EXPORTS_KEPT, type TransferList } from "./schema.ts";
import type { ExportRow } from "./store.ts";

const JOB = "transfer.export";
const EXPIRE_JOB = "transfer.expire_export";
const HOUR_MS = 3_600_000;

export type ExportDeps = LedgerDeps & { gate: RoomGate; contents: Contents };

export class ExportService {
  readonly #deps: ExportDeps;
  readonly #ledger: Ledger<"transfer_export", Export>;

  constructor(deps: ExportDeps) {
    this.#deps = deps;
    this.#ledger = new Ledger(deps, {
      table: "transfer_export",
      name: "export",
      present: presentExport,
      async moved(tx, { tenant_id: tenantId, id, state, expires_at }) {
        if (state !== "done" || expires_at === null) return;
        await tx.enqueue({ tenantId, kind: EXPIRE_JOB, payload: { id }, runAt: Date.parse(expires_at) });
      },
    });
  }

  get jobs(): JobKind[] {
    const ledger = this.#ledger;
    return [
      ledger.workJob(
        JOB,
        (tenantId, id) => this.#start(tenantId, id),
        (row) => this.#run(row),
        (row, failure) => this.#end(row, { state: "failed", blob_key: null, failure_json: JSON.stringify(failure) }),
      ),
      ledger.job(EXPIRE_JOB, (tenantId, id) => this.#expire(tenantId, id)),
      ledger.discardJob,
    ];
  }

  create(context: Context, { kind, roomId, files, revisions }: ExportCreate): Promise<Export> {
    const { actor } = context;
    const { store, clock, gate } = this.#deps;
    if ((kind === "room") !== (roomId !== undefined)) {
      throw new Fault("validation_failed", "/roomId: goes with kind room, and only with it");
    }
    return store.write(async (tx) => {
      if (kind === "tenant") checkAdmin(actor);
      const entry = roomId === undefined ? undefined : await gate.enter(asRead(context), roomId, "owner");
      const exports = await this.#ledger.holdRows(tx, actor.tenantId);
      if (await exports.unfinished(actor.tenantId, actor.principalId) > 0) {
        throw new Fault("already_running", "Another export of yours has not ended");
      }
      const row: ExportRow = {
        tenant_id: actor.tenantId,
        id: newId("exp"),
        kind,
        room_id: roomId ?? null,
        hidden_up_to: entry === undefined ? 0 : hiddenUpTo(entry),
        with_files: Number(files),
        with_revisions: Number(revisions),
        state: "queued",
        blob_key: null,
        size: null,
        counts_json: JSON.stringify(noCounts()),
        failure_json: null,
        requested_by: actor.principalId,
        version: 1,
        created_at: iso(clock.now()),
        finished_at: null,
        expires_at: null,
      };
      await exports.add(row);
      // They take space that is nobody's to count.
      for (const id of (await exports.finished(actor.tenantId, actor.principalId)).slice(EXPORTS_KEPT - 1)) {
        await this.#expire(actor.tenantId, id);
      }
      await tx.enqueue({ tenantId: row.tenant_id, kind: JOB, payload: { id: row.id } });
      return presentExport(row);
    });
  }

  async read(actor: Actor, id: string): Promise<Export> {
    return presentExport(await this.#row(actor, id));
  }

  list(actor: Actor, page: TransferList): Promise<Page<Export>> {
    return this.#ledger.list(actor, page, isAtLeast(TENANT_ROLES, actor.role, "admin") ? undefined : actor.principalId);
  }

  /** The finished file, for who may still ask for it. */
  async content(actor: Actor, id: string): Promise<{ stream: ReadableStream<Uint8Array<ArrayBuffer>>; size: number }> {
    const { blobs, gate, clock } = this.#deps;
    const row = await this.#row(actor, id);
    if (row.kind === "tenant") checkAdmin(actor);
    else if ((await gate.look(actor, row.room_id ?? ""))?.role !== "owner") throw notFound();
    const isDone = row.state === "done";
    if (!isDone && row.state !== "expired") throw new Fault("conflict", `The export is ${row.state}`);
    const isKept = isDone && row.expires_at !== null && Date.parse(row.expires_at) > clock.now();
    const stream = isKept && row.blob_key !== null ? await blobs.get(row.blob_key) : undefined;
    if (stream === undefined) throw new Fault("gone", "The file is no longer kept; export again");
    return { stream, size: Number(row.size ?? 0) };
  }

  async #start(tenantId: string, id: string): Promise<ExportRow | undefined> {
    const isOpen = ({ state }: ExportRow): boolean => state === "queued" || state === "running";
    return (await this.#ledger.nameContent(tenantId, id, isOpen, { state: "running" }))?.row;
  }

  async #run(row: ExportRow): Promise<void> {
    const { clock, blobs } = this.#deps;
    const exporter = new Exporter(this.#deps, row);
    await blobs.put(row.blob_key ?? "", exporter.content(iso(clock.now())));
    await this.#end(row, {
      state: "done",
      size: exporter.bytes,
      counts_json: JSON.stringify(exporter.counts),
      expires_at: iso(clock.now() + EXPORT_KEPT_HOURS * HOUR_MS),
    });
  }

  /** Ends a run, unless another has taken its place. */
  async #end(row: ExportRow, set: Partial<ExportRow>): Promise<void> {
    const { clock, blobs } = this.#deps;
    const ended = { ...set, finished_at: iso(clock.now()) };
    const moved = await this.#ledger.move(row.tenant_id, row.id, ({ version }) => version === row.version, ended);
    if (moved === undefined && row.blob_key !== null) await blobs.delete(row.blob_key);
  }

  #expire(tenantId: string, id: string): Promise<ExportRow | undefined> {
    return this.#ledger.move(tenantId, id, ({ state }) => state === "done", { state: "expired", blob_key: null });
  }

  async #row(actor: Actor, id: string): Promise<ExportRow> {
    const row = await this.#ledger.row(actor.tenantId, id);
    if (row.requested_by === actor.principalId || isAtLeast(TENANT_ROLES, actor.role, "admin")) return row;
    throw this.#ledger.absent();
  }
}

function presentExport(row: ExportRow): Export {
  return {
    id: row.id,
    kind: row.kind,
    roomId: row.room_id,
    format: "ndjson",
    files: row.with_files === 1,
    revisions: row.with_revisions === 1,
    state: row.state,
    size: row.size === null ? null : Number(row.size),
    counts: { ...noCounts(), ...JSON.parse(row.counts_json) },
    failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
    requestedBy: row.requested_by,
    version: row.version,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    expiresAt: row.expires_at,
  };
}
