// Imports: asked for, given their archive, run as a job, cancelled.
import { z } from "@zod/zod";
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { Refs } from "./draft.ts";
import { GatewayReader } from "./gateway.ts";
import { Importer } from "./importer.ts";
import { readLines } from "./lines.ts";
import { MattermostReader } from "./mattermost.ts";
import { ArchiveFault, Halted, noCounts, Report } from "./report.ts";
import { ARCHIVE_MAX_BYTES, type Import, type ImportCreate, type TransferList, UPLOAD_WITHIN_HOURS } from "./schema.ts";
import { SlackReader } from "./slack.ts";
import { type ImportRow, TransferStore, type TransferTables } from "./store.ts";
import { Archive } from "./zip.ts";

const JOB = "transfer.import";
const EXPIRE_JOB = "transfer.expire_import";
const HOUR_MS = 3_600_000;
const ATTEMPTS_MAX = 5;
const Payload = z.strictObject({ id: z.string() });

export type ImportDeps = {
  store: Store<TransferTables>;
  clock: Clock;
  cursors: Cursors;
  blobs: Blobs;
  membersMax: number;
  isStopping: () => boolean;
};

export class ImportService {
  readonly #deps: ImportDeps;

  constructor(deps: ImportDeps) {
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
        run: async ({ tenantId, payload }) => {
          await this.#move(tenantId, payload.id, ["waiting"], "cancelled", {});
        },
      }),
    ];
  }

  create(actor: Actor, { kind, namespace, principalMap }: ImportCreate): Promise<Import> {
    const { store, clock } = this.#deps;
    return store.write(async (tx) => {
      const imports = new TransferStore(tx.db);
      if (await imports.unfinished(actor.tenantId, "transfer_import") > 0) {
        throw new Fault("already_running", "Another import of the tenant has not ended; cancel it or wait");
      }
      const now = clock.now();
      const row: ImportRow = {
        tenant_id: actor.tenantId,
        id: newId("imp"),
        kind,
        namespace: namespace ?? kind,
        principal_map_json: JSON.stringify(principalMap),
        state: "waiting",
        blob_key: null,
        size: null,
        progress_json: JSON.stringify({ done: 0, total: 0, added: noCounts(), present: 0 }),
        report_json: "[]",
        failure_json: null,
        requested_by: actor.principalId,
        requester_role: actor.role,
        version: 1,
        created_at: iso(now),
        started_at: null,
        finished_at: null,
      };
      await imports.addImport(row);
      const runAt = now + UPLOAD_WITHIN_HOURS * HOUR_MS;
      await tx.enqueue({ tenantId: row.tenant_id, kind: EXPIRE_JOB, payload: { id: row.id }, runAt });
      return presentImport(row);
    });
  }

  /** Takes the archive in and starts the work. */
  async upload(actor: Actor, id: string, content: AsyncIterable<Uint8Array>): Promise<Import> {
    checkAdmin(actor);
    const { store, blobs } = this.#deps;
    if ((await this.#row(actor.tenantId, id)).state !== "waiting") throw hasArchive();
    const key = newId("archive");
    let size = 0;
    await blobs.put(
      key,
      async function* () {
        for await (const chunk of content) {
          size += chunk.length;
          if (size > ARCHIVE_MAX_BYTES) {
            throw new Fault("payload_too_large", `An archive has at most ${ARCHIVE_MAX_BYTES} bytes`);
          }
          yield chunk;
        }
      }(),
    );
    try {
      return await store.write(async (tx) => {
        const imports = new TransferStore(tx.db);
        const row = await imports.import(actor.tenantId, id);
        if (row?.state !== "waiting") throw hasArchive();
        const set = { state: "queued" as const, blob_key: key, size, version: row.version + 1 };
        await imports.updateImport(actor.tenantId, id, set);
        await tx.enqueue({ tenantId: actor.tenantId, kind: JOB, payload: { id } });
        return presentImport({ ...row, ...set });
      });
    } catch (error) {
      await blobs.delete(key);
      throw error;
    }
  }

  async read(actor: Actor, id: string): Promise<Import> {
    return presentImport(await this.#row(actor.tenantId, id));
  }

  async list(actor: Actor, { limit, cursor }: TransferList): Promise<Page<Import>> {
    const { store, cursors } = this.#deps;
    const bind = ["import.list", actor.tenantId];
    const before = cursors.open(cursor, bind)?.[0];
    const rows = await new TransferStore(store.db).imports(actor.tenantId, before?.toString(), limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], presentImport);
  }

  /** Ends an import; what came in stays, and importing again goes on from there. */
  async cancel(actor: Actor, id: string): Promise<Import> {
    const { state } = await this.#row(actor.tenantId, id);
    const row = await this.#move(actor.tenantId, id, ["waiting", "queued", "running"], "cancelled", {});
    if (row === undefined) throw new Fault("conflict", `The import is ${state}`);
    return presentImport(row);
  }

  async #run(tenantId: string, id: string, attempt: number): Promise<void> {
    const row = await this.#move(tenantId, id, ["queued", "running"], "running", {
      started_at: iso(this.#deps.clock.now()),
    });
    if (row === undefined) return;
    const report = new Report(row.size ?? 0);
    const importer = new Importer(this.#deps, row, report);
    try {
      await this.#import(row, importer, report);
      report.done = row.size ?? 0;
      await importer.checkpoint();
      await this.#move(tenantId, id, ["running"], "done", {});
    } catch (error) {
      if (error instanceof Halted) {
        if (this.#deps.isStopping()) throw new Fault("unavailable", error.message, { cause: error });
        return;
      }
      const isLast = attempt >= ATTEMPTS_MAX;
      if (!(error instanceof ArchiveFault) && !isLast) throw error;
      const failure = error instanceof ArchiveFault
        ? error.failure
        : { code: "internal", detail: "The import failed too often" };
      await this.#move(tenantId, id, ["running"], "failed", {
        failure_json: JSON.stringify(failure),
        report_json: JSON.stringify(report.items()),
      });
      if (!(error instanceof ArchiveFault)) throw error;
    }
  }

  async #import(row: ImportRow, importer: Importer, report: Report): Promise<void> {
    const { blobs, store } = this.#deps;
    const key = row.blob_key ?? "";
    const size = Number(row.size ?? 0);
    const refs = new Refs(row.tenant_id, row.namespace);
    const map: Record<string, string> = JSON.parse(row.principal_map_json);
    const isZip = row.kind === "slack" || (row.kind === "mattermost" && await startsAsZip(blobs, key, size));
    if (!isZip) {
      const content = await blobs.get(key);
      if (content === undefined) throw new ArchiveFault("missing_file", "The archive is gone");
      const lines = readLines(content, report);
      if (row.kind === "gateway") return await new GatewayReader(importer, refs).read(lines);
      return await new MattermostReader(store, row, importer, refs, map).read(lines);
    }
    const archive = await Archive.open(blobs, key, size);
    try {
      if (row.kind === "slack") return await new SlackReader(archive, importer, refs, map).read();
      const name = archive.names.find((one) => /^[^/]+\.jsonl$/.test(one));
      if (name === undefined) throw new ArchiveFault("missing_file", "The archive has no .jsonl in its root");
      const lines = readLines(archive.stream(name), report, false);
      await new MattermostReader(store, row, importer, refs, map).read(lines);
    } finally {
      archive.close();
    }
  }

  /** Moves an import from one of these states on; `undefined` when it is in none of them. */
  async #move(
    tenantId: string,
    id: string,
    from: readonly Import["state"][],
    state: Import["state"],
    set: Partial<ImportRow>,
  ): Promise<ImportRow | undefined> {
    const { store, clock, blobs } = this.#deps;
    const isOver = state !== "running";
    const moved = await store.write(async (tx: Transaction<TransferTables>) => {
      const imports = new TransferStore(tx.db);
      const row = await imports.import(tenantId, id);
      if (row === undefined || !from.includes(row.state)) return undefined;
      const changes: Partial<ImportRow> = {
        ...set,
        state,
        version: row.version + 1,
        ...(isOver ? { finished_at: iso(clock.now()), blob_key: null } : {}),
      };
      const after: ImportRow = { ...row, ...changes };
      await imports.updateImport(tenantId, id, changes);
      const stream = principalStream(row.requested_by);
      await tx.emit({ tenantId, stream, type: "import.updated", data: { import: presentImport(after) } });
      return { before: row, after };
    });
    if (isOver && moved?.before.blob_key) await blobs.delete(moved.before.blob_key);
    return moved?.after;
  }

  async #row(tenantId: string, id: string): Promise<ImportRow> {
    const row = await new TransferStore(this.#deps.store.db).import(tenantId, id);
    if (row === undefined) throw new Fault("not_found", "No such import");
    return row;
  }
}

/** Throws unless the caller runs the tenant. */
export function checkAdmin(actor: Actor): void {
  if (isAtLeast(TENANT_ROLES, actor.role, "admin")) return;
  throw new Fault("forbidden", `This needs the tenant role admin, the caller is ${actor.role}`);
}

function hasArchive(): Fault {
  return new Fault("conflict", "The import does not wait for an archive");
}

async function startsAsZip(blobs: Blobs, key: string, size: number): Promise<boolean> {
  if (size < 4) return false;
  const head = await blobs.get(key, { start: 0, end: 4 });
  const bytes = new Uint8Array(await new Response(head).arrayBuffer());
  return bytes[0] === 0x50 && bytes[1] === 0x4b;
}

function presentImport(row: ImportRow): Import {
  return {
    id: row.id,
    kind: row.kind,
    namespace: row.namespace,
    state: row.state,
    size: row.size === null ? null : Number(row.size),
    progress: JSON.parse(row.progress_json),
    report: JSON.parse(row.report_json),
    failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
    requestedBy: row.requested_by,
    version: row.version,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}
