// Storing files: reserves quota, streams the content to the blob store, then commits the file.
import type { Actor } from "@/core/actor.ts";
import { type Clock, DAY_MS, HOUR_MS, iso } from "@/core/time/clock.ts";
import { type EventActor, principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import type { RouteCall } from "@/core/http/route.ts";
import { isLongerThan } from "@/core/text/text.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { detectContentType } from "./content_type.ts";
import { dimensionsOf } from "./image/dimensions.ts";
import { deleteUnreferenced } from "./attachments.ts";
import { stripMetadata } from "./image/strip_metadata.ts";
import { presentFile } from "./presenter.ts";
import type { StoredFile } from "./schema.ts";
import { type FileRow, FileStore, type FileTables } from "./store.ts";
import { type QuotaHolder, type QuotaLimits, QuotaStore, withQuota } from "./quota_store.ts";
import { HashingStream, peekStream } from "./stream.ts";

export const SWEEP_JOB = "file.sweep";
/** Unattached uploads are deleted after this time. */
export const UNLINKED_TTL_MS = DAY_MS;
/** Bytes reserved before any arrive; enough for most files. */
const INITIAL_RESERVATION_BYTES = 64 * 1024;
/** Bytes read ahead to detect the type. */
const SNIFF_BYTES = 256 * 1024;
const NAME_MAX_BYTES = 255;
const RULES: readonly (readonly [RegExp, string])[] = [
  [/^\s*$/, "A file name must not be empty"],
  [/[/\\]/, "A file name must not contain / or \\"],
  [/\.\./, "A file name must not contain two consecutive dots"],
  [/^\.$/, "A file name must not be a single dot"],
  // Control characters and direction marks, with which "gpj.exe" can be displayed as "exe.jpg".
  [
    /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u,
    "A file name must not contain control characters",
  ],
  [/\p{Cs}|\ufffd/u, "A file name must be well-formed Unicode"],
];

export type FileLimits = QuotaLimits & { fileMaxBytes: number };

/** A file to store. The caller has checked that the uploader may attach it in `roomId`. */
type FileDraft = {
  name: string;
  /** The declared type; absent or `application/octet-stream`: detected. */
  contentType?: string | undefined;
  roomId: string | null;
  /** Name and room when the content was read; absent: they are known before. */
  describe?: () => { name: string; roomId: string | null };
  /** Throws if the uploader may no longer attach it in the room; called in the transaction that commits the file. */
  authorize?: (tx: AnyTransaction) => Promise<unknown>;
  /** Default: the limit of one file. */
  maxBytes?: number;
  /** Id of an imported file, to which the member's quota does not apply. Default: a new id. */
  id?: string;
};

type Uploader = Pick<Actor, "tenantId" | "principalId" | "kind"> & { ownerId?: string | null };
type Deps = { store: Store<FileTables>; clock: Clock; blobs: Blobs; limits: FileLimits };

export class FileWriter {
  readonly #deps: Deps;
  readonly #warnRollbackFailed = rateLimitedWarning(
    logOf("file"),
    "rolling back a failed upload failed; its bytes count until maintenance deletes it",
  );

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get limits(): FileLimits {
    return this.#deps.limits;
  }

  /**
   * Stores a file, unattached. Must not be called inside a transaction. Rolls back if `source` throws, or if `once` returns
   * an earlier result.
   */
  async write(
    owner: Uploader,
    draft: FileDraft,
    source: AsyncIterable<Uint8Array>,
    once: RouteCall["runOnce"] = (_fingerprint, work) => work(),
  ): Promise<StoredFile> {
    const { blobs, limits } = this.#deps;
    const maxBytes = Math.min(draft.maxBytes ?? limits.fileMaxBytes, limits.fileMaxBytes);
    const quota = draft.id === undefined ? limits : { ...limits, memberMaxBytes: Infinity };
    const row = await this.#begin(owner, draft, Math.min(maxBytes, INITIAL_RESERVATION_BYTES), quota);
    const reserve = (bytes: number): Promise<void> => this.#reserveMore(row, bytes, quota);
    let mayBeWritten = false;
    try {
      const { head, content, close } = await peekStream(
        withQuota(source, { reserved: row.size, maxBytes, reserve }),
        SNIFF_BYTES,
      );
      try {
        const contentType = await detectContentType(head, draft.contentType);
        // Without the metadata of cameras, the header with the dimensions is within the first bytes.
        const stripped = await peekStream(stripMetadata(content), SNIFF_BYTES);
        const dimensions = await dimensionsOf(stripped.head, contentType);
        const hashing = new HashingStream(stripped.content, maxBytes);
        mayBeWritten = true;
        await blobs.put(row.id, hashing);
        const { size } = hashing;
        const { name, roomId } = draft.describe?.() ?? draft;
        const properties = {
          name: normalizeFileName(name),
          room_id: roomId,
          content_type: contentType,
          size,
          sha256: hashing.sha256(),
          ...dimensions,
        };
        const fingerprint = JSON.stringify([properties.name, properties.room_id, properties.sha256]);
        const file = await once(fingerprint, () => this.#finish(owner, row, properties, draft.authorize));
        if (file.id !== row.id) await this.#rollbackUpload(row, mayBeWritten);
        return file;
      } finally {
        await close();
      }
    } catch (thrown) {
      await this.#rollbackUpload(row, mayBeWritten);
      throw thrown;
    }
  }

  #begin(
    { tenantId, principalId, ownerId }: Uploader,
    draft: FileDraft,
    size: number,
    quota: QuotaLimits,
  ): Promise<FileRow> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    const row: FileRow = {
      tenant_id: tenantId,
      id: draft.id ?? newId("file"),
      uploader_id: principalId,
      charged_id: ownerId ?? principalId,
      room_id: draft.roomId,
      name: normalizeFileName(draft.name),
      content_type: "",
      size,
      sha256: "",
      width: null,
      height: null,
      state: "receiving",
      created_at: iso(now),
    };
    return store.write(async (tx) => {
      await new QuotaStore(tx.db).reserveQuota(quotaHolderOf(row), size, quota);
      await new FileStore(tx.db).add(row);
      // Also for uploads that a crash interrupts.
      await tx.enqueue(sweepJob(tenantId, now));
      return row;
    });
  }

  /** Reserves more bytes and stores their number in the row, from which cleanup after a crash releases them. */
  async #reserveMore(row: FileRow, bytes: number, quota: QuotaLimits): Promise<void> {
    const size = row.size + bytes;
    await this.#deps.store.write(async (tx) => {
      await new QuotaStore(tx.db).reserveQuota(quotaHolderOf(row), bytes, quota);
      if (await new FileStore(tx.db).updateInState(row.tenant_id, row.id, ["receiving"], { size })) return;
      throw new Fault("gone", "The upload timed out");
    });
    row.size = size;
  }

  #finish(
    owner: EventActor,
    row: FileRow,
    properties: Partial<FileRow>,
    authorize: FileDraft["authorize"],
  ): Promise<StoredFile> {
    const after: FileRow = { ...row, ...properties, state: "unlinked" };
    return this.#deps.store.write(async (tx) => {
      await authorize?.(tx);
      const files = new FileStore(tx.db);
      if (!await files.updateInState(row.tenant_id, row.id, ["receiving"], after)) {
        throw new Fault("gone", "The upload timed out");
      }
      await new QuotaStore(tx.db).releaseQuota(quotaHolderOf(row), row.size - after.size);
      const file = presentFile(after);
      const stream = principalStream(row.uploader_id);
      await tx.emit({ tenantId: row.tenant_id, stream, type: "file.created", actor: owner, data: { file } });
      return file;
    });
  }

  /**
   * The blob store may have the content in spite of a failure; if it cannot be deleted now, a job deletes it. The id of an
   * import may have been taken by another writer in the meantime, who then owns row and content.
   */
  async #rollbackUpload(row: FileRow, mayBeWritten: boolean): Promise<void> {
    const { store, blobs } = this.#deps;
    const { tenant_id: tenantId, id } = row;
    try {
      if (!await new FileStore(store.db).isSameUpload(row)) return;
      // On failure the job below deletes it.
      const isErased = !mayBeWritten || await blobs.delete(id).then(() => true, () => false);
      await store.write(async (tx) => {
        if (!isErased) return void await deleteUnreferenced(tx, tenantId, [id]);
        const files = new FileStore(tx.db);
        const [found] = await files.lockUnreferenced(tenantId, [id]);
        if (found === undefined) return;
        await files.remove(tenantId, [id]);
        await new QuotaStore(tx.db).releaseQuota(quotaHolderOf(row), Number(found.size));
      });
    } catch (cause) {
      this.#warnRollbackFailed(failureOf(cause));
    }
  }
}

/** Deletes files that nothing shows a day later: one job for those of an hour. */
export function sweepJob(tenantId: string, now: number): JobDraft {
  const hour = Math.ceil((now + 1) / HOUR_MS) * HOUR_MS;
  return { tenantId, kind: SWEEP_JOB, payload: {}, key: iso(hour), runAt: hour + UNLINKED_TTL_MS };
}

function quotaHolderOf({ tenant_id: tenantId, charged_id: ownerId }: FileRow): QuotaHolder {
  return { tenantId, ownerId };
}

/** The name in Unicode NFC; throws `validation_failed` if it could be a path or hide its extension. */
function normalizeFileName(raw: string): string {
  // Composing takes the square of the number of marks, and leaves a third of the bytes at least.
  const isTooLong = isLongerThan(raw, 4 * NAME_MAX_BYTES);
  const name = isTooLong ? raw : raw.normalize("NFC").trim();
  const broken = RULES.find(([pattern]) => pattern.test(raw) || pattern.test(name))?.[1] ??
    (isLongerThan(name, NAME_MAX_BYTES) ? `A file name may have at most ${NAME_MAX_BYTES} bytes of UTF-8` : undefined);
  if (broken === undefined) return name;
  throw Fault.forField("/name", "invalid_name", broken);
}
