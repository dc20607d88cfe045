// Writing: bytes are set aside, the content goes to the blob store as it comes, and only then there is a file.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { RouteCall } from "@/core/route.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store } from "@/ports/store.ts";
import { contentTypeOf } from "./content_type.ts";
import { dimensionsOf } from "./image.ts";
import { checkName } from "./name.ts";
import { stripped } from "./picture/strip.ts";
import { presentFile } from "./presenter.ts";
import type { StoredFile } from "./schema.ts";
import { type FileRow, FileStore, type FileTables } from "./store.ts";
import { Measured, peek } from "./stream.ts";

export const SWEEP_JOB = "file.sweep";
/** An upload that nothing shows after this long is purged. */
export const UNLINKED_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Read ahead to find out what a content is. */
const HEAD_BYTES = 256 * 1024;

export type FileLimits = {
  /** Of one file. */
  fileMaxBytes: number;
  /** Of all files of a tenant. */
  tenantMaxBytes: number;
};

/** A file about to be written. Whether the uploader may put it into `roomId` has been checked. */
export type FileDraft = {
  name: string;
  /** What the content is said to be; absent or `application/octet-stream`: found out. */
  contentType?: string | undefined;
  roomId: string | null;
  /** Most bytes it can have; default the limit of one file. */
  maxBytes?: number;
  /** Of a file that comes from elsewhere; default a new one. */
  id?: string;
};

type Deps = { store: Store<FileTables>; clock: Clock; blobs: Blobs; limits: FileLimits };

export class FileWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get limits(): FileLimits {
    return this.#deps.limits;
  }

  /**
   * Stores a file, unlinked. Not to be called inside a transaction. What `source` throws leaves nothing behind, nor does
   * what `once` finds stored already.
   */
  async write(
    owner: Pick<Actor, "tenantId" | "principalId" | "kind">,
    draft: FileDraft,
    source: AsyncIterable<Uint8Array>,
    once: RouteCall["once"] = (_said, work) => work(),
  ): Promise<StoredFile> {
    const { blobs, limits } = this.#deps;
    const row = await this.#begin(owner, draft);
    let mayBeWritten = false;
    try {
      const { head, content, close } = await peek(source, HEAD_BYTES);
      try {
        const contentType = await contentTypeOf(head, draft.contentType);
        // Without what cameras put in front of it, the picture tells its size within the first bytes.
        const picture = await peek(stripped(content), HEAD_BYTES);
        const dimensions = await dimensionsOf(picture.head, contentType);
        const measured = new Measured(picture.content, Math.min(row.size, limits.fileMaxBytes));
        mayBeWritten = true;
        await blobs.put(row.id, measured);
        const { size } = measured;
        const facts = { content_type: contentType, size, sha256: measured.sha256(), ...dimensions };
        const said = JSON.stringify([row.name, row.room_id, facts.sha256]);
        const file = await once(said, () => this.#finish(owner, row, facts));
        if (file.id !== row.id) await this.#abandon(row, mayBeWritten);
        return file;
      } finally {
        await close();
      }
    } catch (error) {
      await this.#abandon(row, mayBeWritten);
      throw error;
    }
  }

  #begin({ tenantId, principalId }: Pick<Actor, "tenantId" | "principalId">, draft: FileDraft): Promise<FileRow> {
    const { store, clock, limits } = this.#deps;
    const now = clock.now();
    const row: FileRow = {
      tenant_id: tenantId,
      id: draft.id ?? newId("file"),
      uploader_id: principalId,
      room_id: draft.roomId,
      name: checkName(draft.name),
      content_type: "",
      size: draft.maxBytes ?? limits.fileMaxBytes,
      sha256: "",
      width: null,
      height: null,
      state: "receiving",
      created_at: iso(now),
    };
    return store.write(async (tx) => {
      const files = new FileStore(tx.db);
      if (!await files.take(tenantId, row.size, limits.tenantMaxBytes)) {
        throw new Fault("quota_exceeded", `The tenant's files may take ${limits.tenantMaxBytes} bytes in all`, {
          retryAfterMs: HOUR_MS,
        });
      }
      await files.add(row);
      // One sweep for all uploads of an hour; it finds this one old enough, whatever becomes of it or of us.
      const hour = Math.ceil((now + 1) / HOUR_MS) * HOUR_MS;
      await tx.enqueue({ tenantId, kind: SWEEP_JOB, payload: {}, key: iso(hour), runAt: hour + UNLINKED_MS });
      return row;
    });
  }

  #finish(owner: Pick<Actor, "principalId" | "kind">, row: FileRow, facts: Partial<FileRow>): Promise<StoredFile> {
    const after: FileRow = { ...row, ...facts, state: "unlinked" };
    return this.#deps.store.write(async (tx) => {
      const files = new FileStore(tx.db);
      if (!await files.change(row.tenant_id, row.id, ["receiving"], after)) {
        throw new Fault("gone", "The upload took too long");
      }
      await files.giveBack(row.tenant_id, row.size - after.size);
      const file = presentFile(after);
      const stream = principalStream(row.uploader_id);
      await tx.emit({ tenantId: row.tenant_id, stream, type: "file.created", actor: owner, data: { file } });
      return file;
    });
  }

  /**
   * What cannot be undone now is undone by the sweep. A store that failed may have the content all the same. An id that came
   * from elsewhere may have been taken up by another writer meanwhile, and then content and row are theirs.
   */
  async #abandon(row: FileRow, mayBeWritten: boolean): Promise<void> {
    const { store, blobs } = this.#deps;
    if (!await new FileStore(store.db).isOnly(row).catch(() => false)) return;
    if (mayBeWritten) await blobs.delete(row.id).catch(() => {});
    await store.write(async (tx) => {
      const files = new FileStore(tx.db);
      const [found] = await files.loose(row.tenant_id, [row.id]);
      if (found === undefined) return;
      await files.remove(row.tenant_id, [row.id]);
      await files.giveBack(row.tenant_id, found.size);
    }).catch(() => {});
  }
}
