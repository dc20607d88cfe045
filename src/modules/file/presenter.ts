// Files as JSON.
import type { StoredFile } from "./schema.ts";
import type { FileRow } from "./store.ts";

export function presentFile(row: FileRow): StoredFile {
  return {
    id: row.id,
    name: row.name,
    contentType: row.content_type,
    size: row.size,
    sha256: row.sha256,
    width: row.width,
    height: row.height,
    state: row.state === "linked" ? "linked" : "unlinked",
    uploaderId: row.uploader_id,
    roomId: row.room_id,
    createdAt: row.created_at,
  };
}
