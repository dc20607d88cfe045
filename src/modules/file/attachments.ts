// Attachments: make files visible in a room, and delete files that nothing references.
import type { Actor } from "@/core/actor.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event/event.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { compareText } from "@/core/text/text.ts";
import type { AnyTransaction, Transaction } from "@/ports/store.ts";
import { blobKeysOf, thumbnailObstacle } from "./image/thumbnails.ts";
import { QuotaStore } from "./quota_store.ts";
import { type FileRow, FileStore, type FileTables, NO_ROOM } from "./store.ts";

export const ERASE_JOB = "file.erase";
const ROOM_BATCH = 200;
/** Reading a picture, and deleting it, looks at all that show it. */
const SHOWN_BY_MAX = 100;

/** The properties of an attached file that other resources store. */
export type Attachment = Pick<FileRow, "id" | "name" | "size" | "width" | "height"> & { contentType: string };

/** The resource that files are attached to: `owner` is its kind and id, `seq` its position in the room. */
type AttachmentTarget = { tenantId: string; owner: string; roomId: string; seq: number };

/** What names files in its text, and the owner that it is a copy of. */
type NamingTarget = Pick<AttachmentTarget, "tenantId" | "owner"> & {
  roomId: string | null;
  copyOf?: string | undefined;
};

/** The `seq` of an attachment that retains a file without making it visible. */
export const HIDDEN_SEQ = -1;

/** A file that a resource names. */
export type NamedFile = Pick<FileRow, "id" | "uploader_id">;

type Tx = Transaction<FileTables>;
type Uploader = Pick<Actor, "tenantId" | "principalId">;

/** Every method is part of the transaction that changes the resource with the files. */
export class FileAttachments {
  /** Files by id, in this order; throws `validation_failed` unless all are uploads of the caller that the room may show. */
  async findAttachable(db: Tx["db"], actor: Uploader, roomId: string, ids: readonly string[]): Promise<Attachment[]> {
    const rows = new Map((await new FileStore(db).findMany(actor.tenantId, ids)).map((row) => [row.id, row]));
    return ids.map((id, index) => {
      const row = rows.get(id);
      const isUsable = row?.uploader_id === actor.principalId && row.state !== "deleted" &&
        (row.room_id ?? roomId) === roomId;
      if (row !== undefined && isUsable) return attachmentOf(row);
      throw Fault.forField(`/fileIds/${index}`, "not_found", "no such file of the caller, or not usable in this room");
    });
  }

  /** Locks a file that becomes a picture; throws `validation_failed` unless it is an image that the caller may show to all. */
  async lockPicture(tx: AnyTransaction, { tenantId, principalId }: Uploader, id: string): Promise<void> {
    const files = new FileStore(tx.db);
    const row = await files.lockUpload(tenantId, principalId, id);
    if (row === undefined || row.room_id !== null) {
      throw Fault.forField("/avatarFileId", "not_found", "no such file of the caller, or uploaded for one room only");
    }
    const obstacle = thumbnailObstacle(attachmentOf(row));
    if (obstacle !== undefined) throw Fault.forField("/avatarFileId", "no_thumbnail", obstacle);
    if ((await files.shownBy(tenantId, id)).length >= SHOWN_BY_MAX) {
      throw Fault.forField(
        "/avatarFileId",
        "limit_reached",
        `at most ${SHOWN_BY_MAX} principals have the same picture`,
      );
    }
  }

  /** Attaches files that `findAttachable` returned; readers of the resource may then read them. */
  async attach(
    tx: AnyTransaction,
    { tenantId, owner, roomId, seq }: AttachmentTarget,
    ids: readonly string[],
  ): Promise<void> {
    const files = new FileStore(tx.db);
    if (await files.markLinked(tenantId, ids) < ids.length) {
      throw invalidField("/fileIds", "a file was deleted concurrently");
    }
    await files.addLinks(ids.map((file_id) => ({ tenant_id: tenantId, file_id, owner, room_id: roomId, seq })));
  }

  /**
   * Attaches those of the files that may be shown there: of a copy, also those of what it is a copy of. The readers of the owner,
   * which decides by its `canRead` who they are, may then read them.
   */
  async attachNamed(
    tx: AnyTransaction,
    { tenantId, owner, roomId, copyOf }: NamingTarget,
    ids: ReadonlySet<string>,
    mayShow: (file: NamedFile) => boolean,
  ): Promise<void> {
    if (ids.size === 0) return;
    const files = new FileStore(tx.db);
    const attached = new Set(await files.idsByOwner(tenantId, [owner]));
    const copied = new Set(copyOf === undefined || copyOf === owner ? [] : await files.idsByOwner(tenantId, [copyOf]));
    const found = await files.findMany(tenantId, [...ids.difference(attached)]);
    const shown = found.filter((row) =>
      row.state !== "deleted" && (row.room_id ?? roomId) === roomId && (copied.has(row.id) || mayShow(row))
    );
    if (shown.length === 0) return;
    await this.attach(tx, { tenantId, owner, roomId: NO_ROOM, seq: HIDDEN_SEQ }, shown.map(({ id }) => id));
  }

  /** Detaches files from deleted resources; deletes files that are not referenced elsewhere. */
  async detach(tx: AnyTransaction, tenantId: string, ...owners: readonly string[]): Promise<void> {
    const files = new FileStore(tx.db);
    const ids = await files.idsByOwner(tenantId, owners);
    if (ids.length === 0) return;
    await files.removeLinks(tenantId, ids, { owners });
    await deleteUnreferenced(tx, tenantId, ids);
  }

  /** Detaches a batch of files from a purged room; returns whether there may be more. */
  async detachRoom(tx: Tx, tenantId: string, roomId: string): Promise<boolean> {
    const files = new FileStore(tx.db);
    const attached = await files.idsAttachedInRoom(tenantId, roomId, ROOM_BATCH);
    if (attached.length === 0) {
      return await deleteUnreferenced(tx, tenantId, await files.unlinkedIdsForRoom(tenantId, roomId, ROOM_BATCH)) > 0;
    }
    await files.removeLinks(tenantId, attached, { roomId });
    await deleteUnreferenced(tx, tenantId, attached);
    return true;
  }
}

/** Deletes unreferenced files with their contents, except for avatars. Returns the number of deleted files. */
export async function deleteUnreferenced(tx: Tx, tenantId: string, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  const files = new FileStore(tx.db);
  const unreferenced = await files.lockUnreferenced(tenantId, ids);
  for (const row of unreferenced.filter(isRetained)) {
    await files.updateInState(tenantId, row.id, ["linked"], { state: "unlinked" });
  }
  const deleted = unreferenced.filter((row) => !isRetained(row));
  if (deleted.length === 0) return 0;
  await files.remove(tenantId, deleted.map((row) => row.id));
  await deleteFiles(tx, tenantId, deleted.filter((row) => row.state !== "deleted"));
  return deleted.length;
}

/** Deletes the contents of files: releases their quota, enqueues the deletion of blobs, and notifies the uploaders. */
export async function deleteFiles(tx: Tx, tenantId: string, rows: readonly FileRow[]): Promise<void> {
  if (rows.length === 0) return;
  const quota = new QuotaStore(tx.db);
  for (const [ownerId, own] of [...Map.groupBy(rows, (row) => row.charged_id)].sort(([a], [b]) => compareText(a, b))) {
    await quota.releaseQuota({ tenantId, ownerId }, own.reduce((sum, row) => sum + Number(row.size), 0));
  }
  await eraseBlobs(tx, tenantId, rows.flatMap((row) => blobKeysOf(row.id, row.content_type)));
  const complete = rows.filter((row) => row.state !== "receiving");
  if (complete.length > 0) await tx.emit(...complete.map((row) => deletedEvent(row, principalStream(row.uploader_id))));
}

/** Enqueues the deletion of contents that no row names. */
export async function eraseBlobs(tx: AnyTransaction, tenantId: string, keys: readonly string[]): Promise<void> {
  await tx.enqueue({ tenantId, kind: ERASE_JOB, payload: { keys } });
}

/** The event that a file visible in a room was deleted; `seq` is the newest position that shows it. */
export function roomDeletedEvent(row: FileRow, roomId: string, seq: number): EventDraft {
  return { ...deletedEvent(row, roomStream(roomId)), effect: { kind: "concerns", seq } };
}

function deletedEvent(row: FileRow, stream: string): EventDraft {
  return { tenantId: row.tenant_id, stream, type: "file.deleted", data: { fileId: row.id } };
}

function isRetained(row: FileRow & { is_avatar: unknown }): boolean {
  // SQLite returns 1, PostgreSQL true.
  return Boolean(row.is_avatar) && row.state !== "deleted";
}

function attachmentOf({ id, name, content_type, size, width, height }: FileRow): Attachment {
  return { id, name, contentType: content_type, size, width, height };
}
