// Imports: asked for, given their archive, run as a job, cancelled.
import { type Actor, chargedId, lowerOf, TENANT_ROLES } from "@/core/actor.ts";
import type { AnyArchiveSection } from "@/core/archive/section.ts";
import { HOUR_MS, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobKind } from "@/core/job.ts";
import type { Page } from "@/core/page.ts";
import type { Blobs } from "@/ports/blob.ts";
import { ArchiveFault } from "../fault.ts";
import { JsonReader } from "../format/json_reader.ts";
import { MattermostReader } from "../format/mattermost.ts";
import { MattermostFiles } from "../format/mattermost_files.ts";
import { NativeReader } from "../format/native_reader.ts";
import { SlackReader } from "../format/slack.ts";
import { ZipArchive } from "../format/zip.ts";
import {
  ARCHIVE_MAX_BYTES,
  type Import,
  type ImportCreate,
  type TransferList,
  UPLOAD_WITHIN_HOURS,
  zeroCounts,
} from "../schema.ts";
import { type ImportRow, TransferStore } from "../store.ts";
import { isUnfinished, type TransferJobDeps, TransferJobs } from "../transfer_jobs.ts";
import { Importer } from "./importer.ts";
import { Report } from "./report.ts";

type ImportDeps = TransferJobDeps & {
  membersMax: number;
  sections: readonly AnyArchiveSection[];
};

export class ImportService {
  readonly #deps: ImportDeps;
  readonly #jobs: TransferJobs<"transfer_import", Import>;

  constructor(deps: ImportDeps) {
    this.#deps = deps;
    this.#jobs = new TransferJobs(deps, {
      table: "transfer_import",
      name: "import",
      present: (row) => this.#present(row),
      start: (tenantId, id) => this.#start(tenantId, id),
      run: (row) => this.#run(row),
      fail: (row, failure_json) => this.#end(row, { state: "failed", failure_json }),
      expire: (tenantId, id) => this.#expire(tenantId, id),
      onTransition: async (tx, { tenant_id: tenantId, id, kind, finished_at }) => {
        if (finished_at === null || kind !== "mattermost") return;
        await tx.enqueue({ tenantId, kind: this.#jobs.expireKind, payload: { id } });
      },
    });
  }

  get jobs(): JobKind[] {
    return this.#jobs.kinds;
  }

  create(actor: Actor, { kind, namespace, principalMap }: ImportCreate): Promise<Import> {
    const { store, clock } = this.#deps;
    if (kind === "gateway" && Object.keys(principalMap).length > 0) {
      throw Fault.forField(
        "/principalMap",
        "invalid",
        "not supported for exports of a gateway, whose principals keep their ids",
      );
    }
    return store.write(async (tx) => {
      const imports = await this.#jobs.lockRows(tx, actor.tenantId);
      if (await imports.countUnfinished(actor.tenantId) > 0) {
        throw new Fault("already_running", "Another import of the tenant is still running; cancel it or wait");
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
        progress_json: JSON.stringify({ done: 0, total: 0, added: zeroCounts(this.#deps.sections), present: 0 }),
        report_json: "[]",
        failure_json: null,
        requested_by: actor.principalId,
        charged_id: chargedId(actor),
        charged_bytes: 0,
        requester_role: actor.role,
        version: 1,
        created_at: iso(now),
        started_at: null,
        finished_at: null,
      };
      await imports.add(row);
      const runAt = now + UPLOAD_WITHIN_HOURS * HOUR_MS;
      await tx.enqueue({ tenantId: row.tenant_id, kind: this.#jobs.expireKind, payload: { id: row.id }, runAt });
      return this.#present(row);
    });
  }

  /** Stores the archive and starts the import. Of two concurrent uploads, the one that began last counts. */
  async upload(actor: Actor, id: string, content: AsyncIterable<Uint8Array>): Promise<Import> {
    const { tenantId } = actor;
    const { store, blobs } = this.#deps;
    const { requester_role } = await this.#jobs.row(tenantId, id);
    const named = await this.#jobs.assignContent(tenantId, id, ({ state }) => state === "waiting");
    if (named === undefined) throw notWaiting();
    const { key, row } = named;
    let size = 0;
    const isMine = ({ state, blob_key }: ImportRow): boolean => state === "waiting" && blob_key === key;
    await blobs.put(
      key,
      this.#jobs.withQuota(
        row,
        async function* () {
          for await (const chunk of content) {
            size += chunk.length;
            if (size > ARCHIVE_MAX_BYTES) {
              throw new Fault("payload_too_large", `An archive may have at most ${ARCHIVE_MAX_BYTES} bytes`);
            }
            yield chunk;
          }
        }(),
      ),
    ).catch(async (error) => {
      // The space of a failed upload is released; the import waits for another upload.
      await this.#jobs.transition(tenantId, id, isMine, { blob_key: null });
      throw error;
    });
    const queued = await store.write(async (tx) => {
      const moved = await this.#jobs.transition(tenantId, id, isMine, {
        state: "queued",
        size,
        requester_role: lowerOf(TENANT_ROLES, requester_role, actor.role),
      });
      if (moved !== undefined) await tx.enqueue({ tenantId, kind: this.#jobs.workKind, payload: { id } });
      return moved;
    });
    if (queued !== undefined) return this.#present(queued);
    await blobs.delete(key);
    throw notWaiting();
  }

  async read(actor: Actor, id: string): Promise<Import> {
    return this.#present(await this.#jobs.row(actor.tenantId, id));
  }

  list(actor: Actor, page: TransferList): Promise<Page<Import>> {
    return this.#jobs.list(actor, page);
  }

  /** Cancels an import; what was imported stays, and another import of the archive adds the rest. */
  async cancel(actor: Actor, id: string): Promise<Import> {
    const row = await this.#cancel(actor.tenantId, id, ["waiting", "queued", "running"]);
    if (row !== undefined) return this.#present(row);
    const { state } = await this.#jobs.row(actor.tenantId, id);
    throw new Fault("conflict", `The import is ${state}`);
  }

  #cancel(tenantId: string, id: string, from: readonly Import["state"][]): Promise<ImportRow | undefined> {
    return this.#jobs.transition(
      tenantId,
      id,
      ({ state }) => from.includes(state),
      this.#finished({ state: "cancelled" }),
    );
  }

  /** Cancels an import that got no archive; what one that ended left of its archive is deleted in parts. */
  async #expire(tenantId: string, id: string): Promise<void> {
    await this.#cancel(tenantId, id, ["waiting"]);
    const { finished_at } = await this.#jobs.row(tenantId, id);
    if (finished_at === null) return;
    while (await this.#deps.store.write((tx) => new TransferStore(tx.db).removeLines(tenantId, id)));
  }

  #start(tenantId: string, id: string): Promise<ImportRow | undefined> {
    const started_at = iso(this.#deps.clock.now());
    return this.#jobs.transition(tenantId, id, isUnfinished, { state: "running", started_at });
  }

  async #run(row: ImportRow): Promise<void> {
    const report = new Report(row, this.#deps.sections);
    const importer = new Importer(this.#deps, row, report);
    try {
      await this.#import(row, importer, report);
    } catch (thrown) {
      // Counts up to the last complete batch.
      if (thrown instanceof ArchiveFault) await importer.checkpoint();
      throw thrown;
    }
    report.done = Number(row.size ?? 0);
    await importer.checkpoint();
    await this.#end(row, { state: "done" });
  }

  /** Ends a run, unless another run has replaced it or it was cancelled. */
  async #end(row: ImportRow, set: Partial<ImportRow>): Promise<void> {
    await this.#jobs.transition(row.tenant_id, row.id, ({ version }) => version === row.version, this.#finished(set));
  }

  #finished(set: Partial<ImportRow>): Partial<ImportRow> {
    return { ...set, blob_key: null, finished_at: iso(this.#deps.clock.now()) };
  }

  async #import(row: ImportRow, importer: Importer, report: Report): Promise<void> {
    const { blobs, store } = this.#deps;
    const key = row.blob_key ?? "";
    const size = Number(row.size ?? 0);
    const { refs } = importer;
    const map = new Map<string, string>(Object.entries(JSON.parse(row.principal_map_json)));
    const isZip = row.kind === "slack" || (row.kind === "mattermost" && await startsAsZip(blobs, key, size));
    using json = new JsonReader(importer);
    if (!isZip) {
      const content = await blobs.get(key);
      if (content === undefined) throw new ArchiveFault("missing_file", "The archive no longer exists");
      const lines = json.values({ content: countBytes(content, report), size, name: "The archive", layout: "lines" });
      if (row.kind === "gateway") return await new NativeReader(importer).read(lines);
      return await new MattermostReader(store, row, importer, { refs, map }).read(lines);
    }
    const archive = await ZipArchive.open(blobs, key, size);
    try {
      if (row.kind === "slack") return await new SlackReader(archive, json, importer, refs, map).read();
      const name = archive.names.find((one) => /^[^/]+\.jsonl$/.test(one));
      if (name === undefined) {
        throw new ArchiveFault("missing_file", "The archive has no .jsonl file in its root directory");
      }
      const file = { content: archive.stream(name), size: archive.size(name) ?? 0, name, layout: "lines" as const };
      const files = new MattermostFiles(archive, importer, refs);
      await new MattermostReader(store, row, importer, { refs, map, files }).read(json.values(file));
    } finally {
      archive.close();
    }
  }

  #present(row: ImportRow): Import {
    const progress: Import["progress"] = JSON.parse(row.progress_json);
    return {
      id: row.id,
      kind: row.kind,
      namespace: row.namespace,
      state: row.state,
      size: row.size === null ? null : Number(row.size),
      progress: { ...progress, added: { ...zeroCounts(this.#deps.sections), ...progress.added } },
      report: JSON.parse(row.report_json),
      failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
      requestedBy: row.requested_by,
      version: row.version,
      createdAt: row.created_at,
      startedAt: row.started_at,
      finishedAt: row.finished_at,
    };
  }
}

/** The content, whose bytes are dealt with as they are read. */
async function* countBytes(content: AsyncIterable<Uint8Array>, report: Report): AsyncGenerator<Uint8Array> {
  for await (const chunk of content) {
    yield chunk;
    report.done += chunk.length;
  }
}

function notWaiting(): Fault {
  return new Fault("conflict", "The import is not waiting for an archive");
}

async function startsAsZip(blobs: Blobs, key: string, size: number): Promise<boolean> {
  if (size < 4) return false;
  const head = await blobs.get(key, { start: 0, end: 4 });
  const bytes = new Uint8Array(await new Response(head).arrayBuffer());
  return bytes[0] === 0x50 && bytes[1] === 0x4b;
}
