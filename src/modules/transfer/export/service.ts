// Exports: asked for, written as a job, downloaded for 72 hours.
import { type Actor, chargedId, chargedTo, isAdmin, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import type { AnyArchiveSection } from "@/core/archive/section.ts";
import { HOUR_MS, iso } from "@/core/time/clock.ts";
import { Fault, invalidField, isFault, notVisible } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobKind } from "@/core/job.ts";
import { type Access, asReadOnly, type Context, requiredRoomRole } from "@/core/operation.ts";
import type { Page } from "@/core/page.ts";
import { coversScope } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { hiddenUpTo } from "@/modules/room/mod.ts";
import { ArchiveFault } from "../fault.ts";
import {
  type Export,
  EXPORT_RETENTION_HOURS,
  type ExportCreate,
  EXPORTS_PER_PRINCIPAL,
  OWN_EXPORT_HOURS,
  type TransferList,
  zeroCounts,
} from "../schema.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { type ExportRow, TransferStore } from "../store.ts";
import { isStored, isUnfinished, type TransferJobDeps, TransferJobs } from "../transfer_jobs.ts";
import { Exporter } from "./exporter.ts";
import type { OwnDataDeps } from "./own_data.ts";

/** Access to exports; a direct room has no owner, and each member can read all of it. Nothing is written in the room. */
export const EXPORT_ACCESS: Access = {
  scope: "transfer.manage",
  namedRoom: "owner",
  direct: "member",
  archived: true,
  muted: true,
};

type ExportDeps = TransferJobDeps & OwnDataDeps & { sections: readonly AnyArchiveSection[]; notify: Notify };

/** Kinds of notifications of the person whose copy has ended, by its state. */
export const COPY_NOTIFICATIONS: Readonly<Partial<Record<Export["state"], string>>> = {
  done: "export_ready",
  failed: "export_failed",
};

export class ExportService {
  readonly #deps: ExportDeps;
  readonly #jobs: TransferJobs<"transfer_export", Export>;

  constructor(deps: ExportDeps) {
    this.#deps = deps;
    this.#jobs = new TransferJobs(deps, {
      table: "transfer_export",
      name: "export",
      present: (row) => this.#present(row),
      start: (tenantId, id) => this.#start(tenantId, id),
      run: (row) => this.#run(row),
      fail: (row, failure_json) => this.#end(row, { state: "failed", blob_key: null, failure_json }),
      expire: (tenantId, id) => this.#expire(tenantId, id),
      onTransition: async (tx, { tenant_id: tenantId, id, kind, state, expires_at, requested_by }) => {
        const notification = kind === "principal" ? COPY_NOTIFICATIONS[state] : undefined;
        if (notification !== undefined) {
          const resource = { type: "export", id };
          await deps.notify({ tenantId, principalIds: [requested_by], kind: notification, resource, source: id });
        }
        if (state !== "done" || expires_at === null) return;
        await tx.enqueue({ tenantId, kind: this.#jobs.expireKind, payload: { id }, runAt: Date.parse(expires_at) });
      },
    });
  }

  get jobs(): JobKind[] {
    return this.#jobs.kinds;
  }

  create(context: Context, { kind, roomId, files, revisions }: ExportCreate): Promise<Export> {
    const { actor } = context;
    const { store, clock, roomAccess } = this.#deps;
    if ((kind === "room") !== (roomId !== undefined)) {
      throw invalidField("/roomId", "required with kind room, not allowed otherwise");
    }
    return store.write(async (tx) => {
      if (kind === "tenant") assertMayExportTenant(actor);
      if (kind === "principal") {
        assertPerson(actor);
        assertMayReadAll(actor);
      }
      const grant = roomId === undefined ? undefined : await roomAccess.require(asReadOnly(context), roomId, { tx });
      const exports = await this.#jobs.lockRows(tx, actor.tenantId);
      if (await exports.countUnfinished(actor.tenantId, chargedId(actor)) > 0) {
        throw new Fault("already_running", "Another export of the caller or one of its agents is still running");
      }
      if (kind === "principal") await this.#assertNoneRecently(tx, actor);
      const row: ExportRow = {
        tenant_id: actor.tenantId,
        id: newId("exp"),
        kind,
        room_id: roomId ?? null,
        hidden_up_to: grant === undefined ? 0 : hiddenUpTo(grant),
        with_files: Number(files),
        with_revisions: Number(revisions),
        state: "queued",
        blob_key: null,
        size: null,
        counts_json: JSON.stringify(zeroCounts(this.#deps.sections)),
        failure_json: null,
        requested_by: actor.principalId,
        charged_id: chargedId(actor),
        charged_bytes: 0,
        version: 1,
        created_at: iso(clock.now()),
        finished_at: null,
        expires_at: null,
      };
      await exports.add(row);
      for (const id of (await exports.finishedIds(actor.tenantId, row.charged_id)).slice(EXPORTS_PER_PRINCIPAL - 1)) {
        await this.#expire(actor.tenantId, id);
      }
      await this.#jobs.assertQuota(tx, row);
      await tx.enqueue({ tenantId: row.tenant_id, kind: this.#jobs.workKind, payload: { id: row.id } });
      return this.#present(row);
    });
  }

  async read(actor: Actor, id: string): Promise<Export> {
    const shown = this.#present(await this.#row(actor, id));
    return (await this.#withoutHiddenRooms(actor, [shown]))[0] ?? shown;
  }

  async list(actor: Actor, page: TransferList): Promise<Page<Export>> {
    const whose = isAdmin(actor) ? undefined : actor.principalId;
    const shown = await this.#jobs.list(actor, page, whose);
    return { ...shown, items: await this.#withoutHiddenRooms(actor, shown.items) };
  }

  /** Exports of others do not name rooms that the caller cannot see. */
  async #withoutHiddenRooms(actor: Actor, items: readonly Export[]): Promise<Export[]> {
    const others = items.filter(({ requestedBy }) => requestedBy !== actor.principalId);
    const roomIds = others.flatMap(({ roomId }) => roomId ?? []);
    if (roomIds.length === 0) return [...items];
    const visible = await this.#deps.roomAccess.findMany(actor, roomIds);
    const hidden = new Set(others.filter(({ roomId }) => roomId !== null && !visible.has(roomId)));
    return items.map((item) => hidden.has(item) ? { ...item, roomId: null } : item);
  }

  /** The finished file. The right to export is checked again. */
  async content(
    actor: Actor,
    id: string,
    format: "ndjson" | "html",
  ): Promise<{ stream: ReadableStream<Uint8Array<ArrayBuffer>>; size: number }> {
    const { archives, blobs, roomAccess, clock } = this.#deps;
    const row = await this.#row(actor, id);
    if (row.kind === "tenant") assertMayExportTenant(actor);
    else if (row.kind === "principal") {
      if (row.requested_by !== actor.principalId) {
        throw new Fault("forbidden", "Only the person that it is of may have it");
      }
      assertMayReadAll(actor);
    } else {
      const grant = await roomAccess.find(actor, row.room_id ?? "");
      const least = requiredRoomRole(grant?.room.kind, EXPORT_ACCESS, actor) ?? "owner";
      if (!isAtLeast(ROOM_ROLES, grant?.role ?? "observer", least)) throw notVisible("room");
    }
    if (format === "html" && row.kind !== "principal") {
      throw invalidField("/format", "html is for copies of the caller's own data");
    }
    const isDone = row.state === "done";
    if (!isDone && row.state !== "expired") throw new Fault("conflict", `The export is ${row.state}`);
    const isStored = isDone && row.expires_at !== null && Date.parse(row.expires_at) > clock.now();
    const key = isStored ? row.blob_key : null;
    const stream = key === null
      ? undefined
      : await archives.files.downloads.start(chargedTo(actor), () => blobs.get(key));
    if (stream === undefined) throw new Fault("gone", "The file is no longer stored; create another export");
    return { stream, size: Number(row.size ?? 0) };
  }

  async #assertNoneRecently(tx: AnyTransaction, { tenantId, principalId }: Actor): Promise<void> {
    const last = await new TransferStore(tx.db).lastOwnExportAt(tenantId, principalId);
    const retryAfterMs = Date.parse(last ?? iso(0)) + OWN_EXPORT_HOURS * HOUR_MS - this.#deps.clock.now();
    if (retryAfterMs <= 0) return;
    throw new Fault("rate_limited", `One copy of the caller's data within ${OWN_EXPORT_HOURS} hours`, { retryAfterMs });
  }

  async #start(tenantId: string, id: string): Promise<ExportRow | undefined> {
    return (await this.#jobs.assignContent(tenantId, id, isUnfinished, { state: "running" }))?.row;
  }

  async #run(row: ExportRow): Promise<void> {
    const { clock, blobs } = this.#deps;
    const exporter = new Exporter(this.#deps, row);
    try {
      await blobs.put(row.blob_key ?? "", this.#jobs.withQuota(row, exporter.content(iso(clock.now()))));
    } catch (thrown) {
      if (!isFault(thrown, "quota_exceeded")) throw thrown;
      throw new ArchiveFault("quota_exceeded", thrown.message);
    }
    await this.#end(row, {
      state: "done",
      size: exporter.bytes,
      counts_json: JSON.stringify(exporter.counts),
      expires_at: iso(clock.now() + EXPORT_RETENTION_HOURS * HOUR_MS),
    });
  }

  /** Ends a run, unless another run has replaced it. */
  async #end(row: ExportRow, set: Partial<ExportRow>): Promise<void> {
    const { clock, blobs } = this.#deps;
    const ended = { ...set, finished_at: iso(clock.now()) };
    const moved = await this.#jobs.transition(row.tenant_id, row.id, ({ version }) => version === row.version, ended);
    if (moved === undefined && row.blob_key !== null) await blobs.delete(row.blob_key);
  }

  /** Ends copies of the data of a person, written or not, and deletes their files; resolves to how many there were. */
  async expireCopies(tenantId: string, ids: readonly string[]): Promise<number> {
    const finished_at = iso(this.#deps.clock.now());
    let ended = 0;
    for (const id of ids) {
      const set = { state: "expired", blob_key: null, finished_at } as const;
      if (await this.#jobs.transition(tenantId, id, isStored, set) !== undefined) ended++;
    }
    return ended;
  }

  #expire(tenantId: string, id: string): Promise<ExportRow | undefined> {
    return this.#jobs.transition(tenantId, id, ({ state }) => state === "done", { state: "expired", blob_key: null });
  }

  async #row(actor: Actor, id: string): Promise<ExportRow> {
    const row = await this.#jobs.row(actor.tenantId, id);
    if (row.requested_by === actor.principalId || isAdmin(actor)) return row;
    throw this.#jobs.notFound();
  }

  #present(row: ExportRow): Export {
    return {
      id: row.id,
      kind: row.kind,
      roomId: row.room_id,
      format: "ndjson",
      files: row.with_files === 1,
      revisions: row.with_revisions === 1,
      state: row.state,
      size: row.size === null ? null : Number(row.size),
      counts: { ...zeroCounts(this.#deps.sections), ...JSON.parse(row.counts_json) },
      failure: row.failure_json === null ? null : JSON.parse(row.failure_json),
      requestedBy: row.requested_by,
      version: row.version,
      createdAt: row.created_at,
      finishedAt: row.finished_at,
      expiresAt: row.expires_at,
    };
  }
}

function assertMayExportTenant(actor: Actor): void {
  if (isAdmin(actor)) return;
  throw new Fault("forbidden", `Exporting the tenant requires the tenant role admin, the caller has ${actor.role}`);
}

/** The copy has what each scope allows to read, such as private documents. */
function assertMayReadAll(actor: Actor): void {
  if (coversScope(actor, "*")) return;
  throw new Fault("scope_missing", "A copy of the caller's data requires a token with all scopes");
}

function assertPerson({ kind }: Actor): void {
  if (kind !== "human") throw new Fault("forbidden", "Agents and services have no data of a person");
}
