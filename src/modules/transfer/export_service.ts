// Exports: asked for, written as a job, downloaded for 72 hours.
import { z } from "@zod/zod";
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import { asRead, type Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { hiddenUpTo, notFound, type RoomGate } from "@/modules/room/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store } from "@/ports/store.ts";
import { Exporter } from "./exporter.ts";
import { checkAdmin } from "./import_service.ts";
import { noCounts } from "./report.ts";
import { type Export, EXPORT_KEPT_HOURS, type ExportCreate, type TransferList } from "./schema.ts";
import { type ExportRow, TransferStore, type TransferTables } from "./store.ts";

const JOB = "transfer.export";
const EXPIRE_JOB = "transfer.expire_export";
const HOUR_MS = 3_600_000;
const ATTEMPTS_MAX = 5;
const Payload = z.strictObject({ id: z.string() });

export type ExportDeps = {
  store: Store<TransferTables>;
  clock: Clock;
  cursors: Cursors;
  blobs: Blobs;
  gate: RoomGate;
};

export class ExportService {
  readonly #deps: ExportDeps;

  constructor(deps: ExportDeps) {
    this.#deps = deps;
  }

  get jobs(): JobKind[] {
    return [
      defineJob({
        kind: JOB,
        payload: Payload,
        maxAttempts: ATTEMPTS_MAX,
        run: ({ tenantId, payload, attempt }) => this.#run(tenantId, payload.id, attempt),
      }),
      defineJob({
        kind: EXPIRE_JOB,
        payload: Payload,
        run: ({ tenantId, payload }) => this.#expire(tenantId, payload.id),
      }),
    ];
  }

  create(context: Context, { kind, roomId }: ExportCreate): Promise<Export> {
    const { actor } = context;
    const { store, clock, gate } = this.#deps;
    if ((kind === "room") !== (roomId !== undefined)) {
      throw new Fault("validation_failed", "/roomId: goes with kind room, and only with it");
    }
    return store.write(async (tx) => {
      if (kind === "tenant") checkAdmin(actor);
      const entry = roomId === undefined ? undefined : await gate.enter(asRead(context), roomId, "owner");
      const exports = new TransferStore(tx.db);
      if (await exports.unfinished(actor.tenantId, "transfer_export", actor.principalId) > 0) {
        throw new Fault("already_running", "Another export of yours has not ended");
      }
      const row: ExportRow = {
        tenant_id: actor.tenantId,
        id: newId("exp"),
        kind,
        room_id: roomId ?? null,
        hidden_up_to: entry === undefined ? 0 : hiddenUpTo(entry),
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
      await exports.addExport(row);
      await tx.enqueue({ tenantId: row.tenant_id, kind: JOB, payload: { id: row.id } });
      return presentExport(row);
    });
  }

  async read(actor: Actor, id: string): Promise<Export> {
    return presentExport(await this.#row(actor, id));
  }

  async list(actor: Actor, { limit, cursor }: TransferList): Promise<Page<Export>> {
    const { store, cursors } = this.#deps;
    const bind = ["export.list", actor.tenantId, actor.principalId, actor.role];
    const before = cursors.open(cursor, bind)?.[0]?.toString();
    const whose = isAtLeast(TENANT_ROLES, actor.role, "admin") ? undefined : actor.principalId;
    const rows = await new TransferStore(store.db).exports(actor.tenantId, whose, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], presentExport);
  }

  /** The finished file, for who may still ask for it. */
  async content(actor: Actor, id: string): Promise<{ stream: ReadableStream<Uint8Array<ArrayBuffer>>; size: number }> {
    const { blobs, gate } = this.#deps;
    const row = await this.#row(actor, id);
    if (row.kind === "tenant") checkAdmin(actor);
    else if ((await gate.look(actor, row.room_id ?? ""))?.role !== "owner") throw notFound();
    if (row.state === "expired") throw new Fault("gone", "The file was kept for 72 hours; export again");
    const stream = row.blob_key === null ? undefined : await blobs.get(row.blob_key);
    if (stream === undefined) throw new Fault("conflict", `The export is ${row.state}`);
    return { stream, size: Number(row.size ?? 0) };
  }

  async #run(tenantId: string, id: string, attempt: number): Promise<void> {
    const { store, clock, blobs } = this.#deps;
    const row = await new TransferStore(store.db).export(tenantId, id);
    if (row === undefined || (row.state !== "queued" && row.state !== "running")) return;
    await this.#set(row, { state: "running" });
    const exporter = new Exporter(store, row);
    const key = newId("export");
    try {
      await blobs.put(key, exporter.content(iso(clock.now())));
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX) {
        const failure_json = JSON.stringify({ code: "internal", detail: "The export failed too often" });
        await this.#set(row, { state: "failed", failure_json, finished_at: iso(clock.now()) });
      }
      throw error;
    }
    const now = clock.now();
    await this.#set(row, {
      state: "done",
      blob_key: key,
      size: exporter.bytes,
      counts_json: JSON.stringify(exporter.counts),
      finished_at: iso(now),
      expires_at: iso(now + EXPORT_KEPT_HOURS * HOUR_MS),
    });
  }

  async #expire(tenantId: string, id: string): Promise<void> {
    const { store, blobs } = this.#deps;
    const row = await new TransferStore(store.db).export(tenantId, id);
    if (row === undefined || row.blob_key === null) return;
    await blobs.delete(row.blob_key);
    await this.#set(row, { state: "expired", blob_key: null });
  }

  /** Changes an export and tells who asked for it. */
  async #set({ tenant_id: tenantId, id }: ExportRow, set: Partial<ExportRow>): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const exports = new TransferStore(tx.db);
      const row = await exports.export(tenantId, id);
      if (row === undefined) return;
      const changes = { ...set, version: row.version + 1 };
      await exports.updateExport(tenantId, id, changes);
      const after: ExportRow = { ...row, ...changes };
      const stream = principalStream(row.requested_by);
      await tx.emit({ tenantId, stream, type: "export.updated", data: { export: presentExport(after) } });
      if (after.state === "done" && after.expires_at !== null) {
        await tx.enqueue({ tenantId, kind: EXPIRE_JOB, payload: { id }, runAt: Date.parse(after.expires_at) });
      }
    });
  }

  async #row(actor: Actor, id: string): Promise<ExportRow> {
    const row = await new TransferStore(this.#deps.store.db).export(actor.tenantId, id);
    const isMine = row?.requested_by === actor.principalId || isAtLeast(TENANT_ROLES, actor.role, "admin");
    if (row === undefined || !isMine) throw new Fault("not_found", "No such export");
    return row;
  }
}

function presentExport(row: ExportRow): Export {
  return {
    id: row.id,
    kind: row.kind,
    roomId: row.room_id,
    format: "ndjson",
    state: row.state,
    size: row.size === null ? null : Number(row.size),
    counts: JSON.parse(row.counts_json),
    failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
    requestedBy: row.requested_by,
    version: row.version,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    expiresAt: row.expires_at,
  };
}
