// Imports: asked for, given their archive, run as a job, cancelled.
import { type Actor, isAtLeast, lowerOf, TENANT_ROLES } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobKind } from "@/core/job.ts";
import type { Page } from "@/core/page.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Contents } from "./contents.ts";
import { Refs } from "./draft.ts";
import { GatewayReader } from "./gateway.ts";
import { Importer } from "./importer.ts";
import { Ledger, type LedgerDeps } from "./ledger.ts";
import { readLines } from "./lines.ts";
import { MattermostReader } from "./mattermost.ts";
import { ArchiveFault, noCounts, Report } from "./report.ts";
import { ARCHIVE_MAX_BYTES, type Import, type ImportCreate, type TransferList, UPLOAD_WITHIN_HOURS } from "./schema.ts";
import { SlackReader } from "./slack.ts";
import { type ImportRow, TransferStore } from "./store.ts";
import { Archive } from "./zip.ts";

const JOB = "transfer.import";
const EXPIRE_JOB = "transfer.expire_import";
const HOUR_MS = 3_600_000;

export type ImportDeps = LedgerDeps & { membersMax: number; contents: Contents };

export class ImportService {
  readonly #deps: ImportDeps;
  readonly #ledger: Ledger<"transfer_import", Import>;

  constructor(deps: ImportDeps) {
    this.#deps = deps;
    this.#ledger = new Ledger(deps, {
      table: "transfer_import",
      name: "import",
      present: presentImport,
      async moved(tx, { tenant_id: tenantId, id, finished_at }) {
        if (finished_at !== null) await new TransferStore(tx.db).removeLines(tenantId, id);
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
        (row, failure) => this.#end(row, { state: "failed", failure_json: JSON.stringify(failure) }),
      ),
      ledger.job(EXPIRE_JOB, (tenantId, id) => this.#cancel(tenantId, id, ["waiting"])),
      ledger.discardJob,
    ];
  }

  create(actor: Actor, { kind, namespace, principalMap }: ImportCreate): Promise<Import> {
    const { store, clock } = this.#deps;
    if (kind === "gateway" && Object.keys(principalMap).length > 0) {
      throw new Fault("validation_failed", "/principalMap: principals of our own exports keep their ids");
    }
    return store.write(async (tx) => {
      const imports = await this.#ledger.holdRows(tx, actor.tenantId);
      if (await imports.unfinished(actor.tenantId) > 0) {
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
      await imports.add(row);
      const runAt = now + UPLOAD_WITHIN_HOURS * HOUR_MS;
      await tx.enqueue({ tenantId: row.tenant_id, kind: EXPIRE_JOB, payload: { id: row.id }, runAt });
      return presentImport(row);
    });
  }

  /** Takes the archive in and starts the work. Of two uploads at a time the one that began last counts. */
  async upload(actor: Actor, id: string, content: AsyncIterable<Uint8Array>): Promise<Import> {
    checkAdmin(actor);
    const { tenantId } = actor;
    const { store, blobs } = this.#deps;
    const { requester_role } = await this.#ledger.row(tenantId, id);
    const named = await this.#ledger.nameContent(tenantId, id, ({ state }) => state === "waiting");
    if (named === undefined) throw hasArchive();
    const { key } = named;
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
    const queued = await store.write(async (tx) => {
      const isMine = ({ state, blob_key }: ImportRow): boolean => state === "waiting" && blob_key === key;
      const moved = await this.#ledger.move(tenantId, id, isMine, {
        state: "queued",
        size,
        requester_role: lowerOf(TENANT_ROLES, requester_role, actor.role),
      });
      if (moved !== undefined) await tx.enqueue({ tenantId, kind: JOB, payload: { id } });
      return moved;
    });
    if (queued !== undefined) return presentImport(queued);
    await blobs.delete(key);
    throw hasArchive();
  }

  async read(actor: Actor, id: string): Promise<Import> {
    return presentImport(await this.#ledger.row(actor.tenantId, id));
  }

  list(actor: Actor, page: TransferList): Promise<Page<Import>> {
    return this.#ledger.list(actor, page);
  }

  /** Ends an import; what came in stays, and importing again goes on from there. */
  async cancel(actor: Actor, id: string): Promise<Import> {
    const row = await this.#cancel(actor.tenantId, id, ["waiting", "queued", "running"]);
    if (row !== undefined) return presentImport(row);
    const { state } = await this.#ledger.row(actor.tenantId, id);
    throw new Fault("conflict", `The import is ${state}`);
  }

  #cancel(tenantId: string, id: string, from: readonly Import["state"][]): Promise<ImportRow | undefined> {
    return this.#ledger.move(tenantId, id, ({ state }) => from.includes(state), this.#over({ state: "cancelled" }));
  }

  #start(tenantId: string, id: string): Promise<ImportRow | undefined> {
    const isOpen = ({ state }: ImportRow): boolean => state === "queued" || state === "running";
    return this.#ledger.move(tenantId, id, isOpen, { state: "running", started_at: iso(this.#deps.clock.now()) });
  }

  async #run(row: ImportRow): Promise<void> {
    const report = new Report(row);
    const importer = new Importer(this.#deps, row, report);
    try {
      await this.#import(row, importer, report);
    } catch (error) {
      // What was found up to there, without the batch that went wrong.
      if (error instanceof ArchiveFault) await importer.checkpoint();
      throw error;
    }
    report.done = Number(row.size ?? 0);
    await importer.checkpoint();
    await this.#end(row, { state: "done" });
  }

  /** Ends a run, unless another has taken its place or it was cancelled. */
  async #end(row: ImportRow, set: Partial<ImportRow>): Promise<void> {
    await this.#ledger.move(row.tenant_id, row.id, ({ version }) => version === row.version, this.#over(set));
  }

  #over(set: Partial<ImportRow>): Partial<ImportRow> {
    return { ...set, blob_key: null, finished_at: iso(this.#deps.clock.now()) };
  }

  async #import(row: ImportRow, importer: Importer, report: Report): Promise<void> {
    const { blobs, store } = this.#deps;
    const key = row.blob_key ?? "";
    const size = Number(row.size ?? 0);
    const refs = new Refs(row.tenant_id, row.namespace);
    const map = new Map<string, string>(Object.entries(JSON.parse(row.principal_map_json)));
    const isZip = row.kind === "slack" || (row.kind === "mattermost" && await startsAsZip(blobs, key, size));
    if (!isZip) {
      const content = await blobs.get(key);
      if (content === undefined) throw new ArchiveFault("missing_file", "The archive is gone");
      const lines = readLines(content, report, () => importer.checkpoint());
      if (row.kind === "gateway") return await new GatewayReader(importer, refs).read(lines);
      return await new MattermostReader(store, row, importer, refs, map).read(lines);
    }
    const archive = await Archive.open(blobs, key, size);
    try {
      if (row.kind === "slack") return await new SlackReader(archive, importer, refs, map).read();
      const name = archive.names.find((one) => /^[^/]+\.jsonl$/.test(one));
      if (name === undefined) throw new ArchiveFault("missing_file", "The archive has no .jsonl in its root");
      const lines = readLines(archive.stream(name), report, () => importer.checkpoint(), false);
      await new MattermostReader(store, row, importer, refs, map).read(lines);
    } finally {
      archive.close();
    }
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
  const progress: Import["progress"] = JSON.parse(row.progress_json);
  return {
    id: row.id,
    kind: row.kind,
    namespace: row.namespace,
    state: row.state,
    size: row.size === null ? null : Number(row.size),
    progress: { ...progress, added: { ...noCounts(), ...progress.added } },
    report: JSON.parse(row.report_json),
    failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
    requestedBy: row.requested_by,
    version: row.version,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}
