// Access to files: for their uploader, for members of rooms that show them, for readers of documents, tasks and events that name
// them, and for all who can see the principal of an avatar.
import { type Actor, chargedId, chargedTo, isAdmin } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import { logOf, rateLimitedWarning } from "@/core/log.ts";
import type { CanRead } from "@/core/module.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { changeProfile, type PrincipalVisibility } from "@/modules/identity/mod.ts";
import { hiddenUpTo, profileJob, type RoomAccess } from "@/modules/room/mod.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import { deleteFiles, deleteUnreferenced, type FileAttachments, HIDDEN_SEQ, roomDeletedEvent } from "./attachments.ts";
import { fileIdOf, type ImageSide, Thumbnails } from "./image/thumbnails.ts";
import { Downloads } from "./downloads.ts";
import { presentFile } from "./presenter.ts";
import type { FileList, StoredFile } from "./schema.ts";
import { type QuotaLimits, QuotaStore } from "./quota_store.ts";
import { type FileRow, FileStore, type FileTables } from "./store.ts";
import { sweepJob, UNLINKED_TTL_MS } from "./writer.ts";

const SWEEP_BATCH = 200;

type Deps = {
  store: Store<FileTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  visibility: PrincipalVisibility;
  blobs: Blobs;
  holds: Holds;
  retention: RetentionService;
  /** Decides who reads a kind of owners. */
  readCheckFor: (kind: string) => CanRead | undefined;
};
/** Bytes of a content; `undefined` if the blob store no longer has it. */
type Content = Awaited<ReturnType<Blobs["get"]>>;

export class FileService {
  readonly #deps: Deps;
  readonly #warnMissing = rateLimitedWarning(
    logOf("file"),
    "the content of a file is missing; nodes of one database need one SVC_DATA_DIR, or S3",
  );
  readonly #thumbnails: Thumbnails;
  /** Downloads of all modules that serve contents. */
  readonly downloads: Downloads;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.downloads = new Downloads(deps.clock);
    this.#thumbnails = new Thumbnails(deps.blobs);
  }

  /** A file; throws `not_found` if the caller may not read it, `gone` if its content was deleted. */
  async read(actor: Actor, id: string): Promise<StoredFile> {
    const row = await this.#requireReadable(actor, id);
    if (row.state === "deleted") throw new Fault("gone", "The file was deleted");
    return presentFile(row);
  }

  /** Those of the ids whose content the caller may read, in the same order. */
  async filterReadable(actor: Actor, ids: readonly string[]): Promise<string[]> {
    const { db } = this.#deps.store;
    const rows = await new FileStore(db).findMany(actor.tenantId, ids);
    const existing = rows.filter(({ state }) => state !== "deleted");
    const isReadable = await Promise.all(existing.map((row) => this.#isReadable(db, actor, row)));
    const readable = new Set(existing.flatMap(({ id }, index) => isReadable[index] === true ? [id] : []));
    return ids.filter((id) => readable.has(id));
  }

  /** The content of a file that the caller may read, or a range of it. */
  async open({ id }: Pick<StoredFile, "id">, range?: { start: number; end: number }): Promise<NonNullable<Content>> {
    const content = await this.#deps.blobs.get(id, range);
    if (content !== undefined) return content;
    this.#warnMissing({ file: id });
    throw new Fault("gone", "The content no longer exists");
  }

  /**
   * A JPEG or PNG thumbnail of a file that the caller may read, for models always a JPEG; throws `validation_failed` if there can be
   * none.
   */
  thumbnail(actor: Actor, file: StoredFile, maxSide: ImageSide): Promise<Uint8Array<ArrayBuffer>> {
    const fileExists = async (): Promise<boolean> => await this.find(actor.tenantId, file.id) !== undefined;
    return this.#thumbnails.read(chargedTo(actor), { file, maxSide, fileExists });
  }

  /** Any file of the tenant, for internal use such as an export. */
  async find(tenantId: string, id: string): Promise<StoredFile | undefined> {
    const [row] = await new FileStore(this.#deps.store.db).findMany(tenantId, [id]);
    return row === undefined || row.state === "deleted" ? undefined : presentFile(row);
  }

  async list(context: Context, { limit, cursor, roomId }: FileList): Promise<Page<StoredFile>> {
    const { cursors, store, roomAccess } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const bind = ["file.list", tenantId, principalId, roomId ?? null];
    const before = cursors.decodeId(cursor, bind);
    const files = new FileStore(store.db);
    const rows = roomId === undefined
      ? await files.listByUploader(tenantId, principalId, before, limit + 1)
      : await files.listInRoom(
        tenantId,
        roomId,
        hiddenUpTo(await roomAccess.require(context, roomId)),
        before,
        limit + 1,
      );
    return cursors.page(rows, limit, bind, (row) => [row.id], presentFile);
  }

  /** Deletes a file for an admin who can see it, or for its uploader while a member or reader of all that shows it. */
  async delete({ actor }: Context, id: string): Promise<void> {
    const { tenantId, principalId } = actor;
    await this.#deps.store.write(async (tx) => {
      const files = new FileStore(tx.db);
      const row = await this.#requireReadable(actor, id, tx.db);
      if (row.uploader_id !== principalId && !isAdmin(actor)) {
        throw new Fault("forbidden", "A file can be deleted by its uploader, or with the message that shows it");
      }
      const isDeleted = await files.updateInState(tenantId, id, ["unlinked", "linked"], { state: "deleted" });
      if (!isDeleted) throw notVisible("file");
      // The update locks the file, so it cannot be attached elsewhere.
      const rooms = await files.rooms(tenantId, id);
      // Locks the rooms before membership is checked, so that the caller cannot be removed in between.
      await tx.lock(tenantId, ...rooms.map(({ room_id }) => roomStream(room_id)));
      const owners = await this.#ownersWithoutRoom(tx.db, actor, row);
      if (!isAdmin(actor) && (owners.readable < owners.all || !await this.#isMemberOfAll(tx.db, actor, rooms))) {
        const detail =
          "The file is shown in a room that the caller is no longer in, or in a document, task or event that it cannot read";
        throw new Fault("forbidden", detail);
      }
      for (const subject of [{ principalId: row.uploader_id }, ...rooms.map(({ room_id: roomId }) => ({ roomId }))]) {
        await this.#deps.holds.assertNotHeld("The file cannot be deleted", tx.db, tenantId, subject);
      }
      await deleteFiles(tx, tenantId, [row]);
      await this.#clearPicture(tx, tenantId, id);
      if (rooms.length === 0 && owners.all === 0) await files.remove(tenantId, [id]);
      if (rooms.length > 0) await tx.emit(...rooms.map(({ room_id, seq }) => roomDeletedEvent(row, room_id, seq)));
    });
  }

  /** Used bytes and limits of an actor with its agents, and of its tenant. */
  usage(actor: Actor, limits: QuotaLimits): ReturnType<QuotaStore["usage"]> {
    const holder = { tenantId: actor.tenantId, ownerId: chargedId(actor) };
    return new QuotaStore(this.#deps.store.db).usage(holder, limits);
  }

  /** Deletes incomplete and unattached uploads that are older than the tenant keeps them, unless a legal hold is on them. */
  async deleteStaleUploads(tenantId: string): Promise<void> {
    const { store, clock, holds, retention } = this.#deps;
    const now = clock.now();
    const days = await retention.days(tenantId, "files");
    const before = iso(now - (days === undefined ? UNLINKED_TTL_MS : days * DAY_MS));
    const held = new Set<string>();
    for (let isMore = true; isMore;) {
      const [found, deleted] = await store.write(async (tx) => {
        const stale = await new FileStore(tx.db).stale(tenantId, before, [...held], SWEEP_BATCH);
        let count = 0;
        for (const [principalId, files] of Map.groupBy(stale, (row) => row.uploader_id)) {
          const isHeld = await holds.isHeld(tx.db, tenantId, { principalId });
          if (isHeld) held.add(principalId);
          else count += await deleteUnreferenced(tx, tenantId, files.map(({ id }) => id));
        }
        return [stale.length, count];
      });
      retention.recordDeleted("files", tenantId, deleted);
      isMore = found === SWEEP_BATCH;
    }
    // Those that are under a hold, or that the tenant stores longer, are found again in a day.
    const [left] = await new FileStore(store.db).stale(tenantId, iso(now - UNLINKED_TTL_MS), [], 1);
    if (left !== undefined) await store.write((tx) => tx.enqueue(sweepJob(tenantId, now)));
  }

  /** Deletes contents that no row names, as one of an import may again. */
  async deleteBlobs(keys: readonly string[]): Promise<void> {
    const { store, blobs } = this.#deps;
    const named = await new FileStore(store.db).idsWithContent([...new Set(keys.map(fileIdOf))]);
    for (const key of keys) if (!named.has(fileIdOf(key))) await blobs.delete(key);
  }

  async purgeRoom(attachments: FileAttachments, tenantId: string, roomId: string): Promise<void> {
    while (await this.#deps.store.write((tx) => attachments.detachRoom(tx, tenantId, roomId)));
  }

  async #requireReadable(actor: Actor, id: string, db: AnyDatabase = this.#deps.store.db): Promise<FileRow> {
    const [row] = await new FileStore(db).findMany(actor.tenantId, [id]);
    if (row !== undefined && await this.#isReadable(db, actor, row)) return row;
    throw notVisible("file");
  }

  async #isMemberOfAll(
    db: AnyDatabase,
    actor: Actor,
    rooms: readonly { room_id: string; seq: number }[],
  ): Promise<boolean> {
    const visible = rooms.filter(({ seq }) => seq !== HIDDEN_SEQ);
    const grants = await Promise.all(visible.map(({ room_id }) => this.#deps.roomAccess.find(actor, room_id, db)));
    return grants.every((grant) => grant !== undefined && grant.role !== null);
  }

  async #isReadable(db: AnyDatabase, actor: Actor, row: FileRow): Promise<boolean> {
    if (row.uploader_id === actor.principalId) return true;
    const files = new FileStore(db);
    for (const { room_id, seq } of await files.rooms(actor.tenantId, row.id)) {
      const grant = await this.#deps.roomAccess.find(actor, room_id, db);
      if (grant !== undefined && seq > hiddenUpTo(grant)) return true;
    }
    if ((await this.#ownersWithoutRoom(db, actor, row)).readable > 0) return true;
    const shownBy = await files.shownBy(actor.tenantId, row.id);
    return (await this.#deps.visibility.filterVisible(actor, shownBy, db)).length > 0;
  }

  /** How many resources show the file besides those of rooms, and how many of these the actor may read. */
  async #ownersWithoutRoom(db: AnyDatabase, actor: Actor, { id }: FileRow): Promise<{ all: number; readable: number }> {
    const owners = await new FileStore(db).ownersWithoutRoom(actor.tenantId, id);
    const byKind = Map.groupBy(owners.map((owner) => owner.split(":", 2)), ([kind]) => kind ?? "");
    let readable = 0;
    for (const [kind, own] of byKind) {
      const ids = await this.#deps.readCheckFor(kind)?.(actor, own.map(([, ownerId]) => ownerId ?? ""), db);
      readable += ids?.size ?? 0;
    }
    return { all: owners.length, readable };
  }

  /** Those whose picture a deleted file was have none now. */
  async #clearPicture(tx: AnyTransaction, tenantId: string, fileId: string): Promise<void> {
    for (const { id } of await new FileStore(tx.db).shownBy(tenantId, fileId)) {
      await changeProfile(tx, this.#deps.clock, { tenantId, id }, { avatarFileId: null });
      await tx.enqueue(profileJob(tenantId, id));
    }
  }
}
