// Attaching: how files come to be seen by a room, and how they go when nothing shows them any more.
import type { Actor } from "@/core/actor.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Transaction } from "@/ports/store.ts";
import { blobKeysOf } from "./picture/thumbnails.ts";
import { type FileRow, FileStore, type FileTables } from "./store.ts";

export const ERASE_JOB = "file.erase";
const ROOM_BATCH = 200;

/** What something else may say of a file attached to it. */
export type Attachment = Pick<FileRow, "id" | "name" | "size" | "width" | "height"> & { contentType: string };

/** Where something stands that shows files: `owner` is its kind and id, `seq` the position from which it is seen. */
export type Place = { tenantId: string; owner: string; roomId: string; seq: number };

/** Keeps a file from being purged without showing it to anybody. */
export const SEEN_BY_NONE = -1;

type Tx = Transaction<FileTables>;
type Uploader = Pick<Actor, "tenantId" | "principalId">;

/** Works within the transaction of whatever shows the files. */
export class FileLinks {
  /** The files in the order given; throws `validation_failed` unless all are the caller's own and may be shown in the room. */
  async usable(db: Tx["db"], actor: Uploader, roomId: string, ids: readonly string[]): Promise<Attachment[]> {
    const rows = new Map((await new FileStore(db).many(actor.tenantId, ids)).map((row) => [row.id, row]));
    return ids.map((id, place) => {
      const row = rows.get(id);
      const isUsable = row?.uploader_id === actor.principalId && row.state !== "deleted" &&
        (row.room_id ?? roomId) === roomId;
      if (row !== undefined && isUsable) return attachmentOf(row);
      throw Fault.at(`/fileIds/${place}`, "not_found", "No such file of the caller, or not one for this room");
    });
  }

  /** Attaches files found usable before; whoever sees the place may then read them. */
  async link(tx: Tx, { tenantId, owner, roomId, seq }: Place, ids: readonly string[]): Promise<void> {
    const files = new FileStore(tx.db);
    if (await files.markLinked(tenantId, ids) < ids.length) {
      throw new Fault("validation_failed", "/fileIds: a file was deleted just now");
    }
    await files.addLinks(ids.map((file_id) => ({ tenant_id: tenantId, file_id, owner, room_id: roomId, seq })));
  }

  /** The places are no more; files that nothing else shows go with them. */
  async unlink(tx: Tx, tenantId: string, ...owners: readonly string[]): Promise<void> {
    const files = new FileStore(tx.db);
    const ids = await files.ownedBy(tenantId, owners);
    if (ids.length === 0) return;
    await files.removeLinks(tenantId, ids, { owners });
    await dropLoose(tx, tenantId, ids);
  }

  /** The room is no more. Removes a batch; returns whether there may be another. */
  async unlinkRoom(tx: Tx, tenantId: string, roomId: string): Promise<boolean> {
    const files = new FileStore(tx.db);
    const attached = await files.attachedIn(tenantId, roomId, ROOM_BATCH);
    if (attached.length === 0) {
      return await dropLoose(tx, tenantId, await files.meantFor(tenantId, roomId, ROOM_BATCH)) > 0;
    }
    await files.removeLinks(tenantId, attached, { roomId });
    await dropLoose(tx, tenantId, attached);
    return true;
  }
}

/** Removes those of the files that nothing shows, with their contents; pictures of principals stay. */
export async function dropLoose(tx: Tx, tenantId: string, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  const files = new FileStore(tx.db);
  const loose = await files.loose(tenantId, ids);
  for (const row of loose.filter(isKept)) await files.change(tenantId, row.id, ["linked"], { state: "unlinked" });
  const gone = loose.filter((row) => !isKept(row));
  if (gone.length === 0) return 0;
  await files.remove(tenantId, gone.map((row) => row.id));
  await forget(tx, tenantId, gone.filter((row) => row.state !== "deleted"));
  return gone.length;
}

/** What follows when contents go: their bytes are given back, their blobs erased, and their uploaders told. */
export async function forget(tx: Tx, tenantId: string, rows: readonly FileRow[]): Promise<void> {
  if (rows.length === 0) return;
  await new FileStore(tx.db).giveBack(tenantId, rows.reduce((sum, row) => sum + row.size, 0));
  const keys = rows.flatMap((row) => blobKeysOf(row.id, row.content_type));
  await tx.enqueue({ tenantId, kind: ERASE_JOB, payload: { keys } });
  const known = rows.filter((row) => row.state !== "receiving");
  if (known.length > 0) await tx.emit(...known.map((row) => deleted(row, principalStream(row.uploader_id))));
}

/** Tells a room that a file it shows is gone; `seq` is the newest place that shows it. */
export function deletedInRoom(row: FileRow, roomId: string, seq: number): EventDraft {
  return { ...deleted(row, roomStream(roomId)), effect: { kind: "about", seq } };
}

function deleted(row: FileRow, stream: string): EventDraft {
  return { tenantId: row.tenant_id, stream, type: "file.deleted", data: { fileId: row.id } };
}

function isKept(row: FileRow & { is_avatar: unknown }): boolean {
  // One engine says 1, the other true.
  return Boolean(row.is_avatar) && row.state !== "deleted";
}

function attachmentOf({ id, name, content_type, size, width, height }: FileRow): Attachment {
  return { id, name, contentType: content_type, size, width, height };
}
