// Files that a document names, by an address or in a node: they stay, and its readers may read them, until it is purged.
import type { FileAttachments, NamedFile } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { DocumentRow } from "./tables.ts";

const FILE_ID = /file_[0-9A-Za-z]{32}/g;
/** Most that are looked for in one text. */
const FILES_MAX = 200;

export type DocumentFiles = Pick<FileAttachments, "attachNamed" | "detach">;
/** Naming a file is no right to show it: whether who named it has that. */
export type MayShow = (file: NamedFile) => boolean;

/** The document as the owner of the files that it names. */
export function documentFileOwner(id: string): string {
  return `document:${id}`;
}

export function uploadedBy(principalId: string): MayShow {
  return (file) => file.uploader_id === principalId;
}

/** Ids of the files that a text names. */
export function namedFiles(text: string): Set<string> {
  return new Set(text.matchAll(FILE_ID).map(([id]) => id).take(FILES_MAX));
}

/** Attaches files that a document names. */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: DocumentFiles,
  { tenant_id: tenantId, id, room_id: roomId }: DocumentRow,
  ids: ReadonlySet<string>,
  mayShow: MayShow,
): Promise<void> {
  if (ids.size === 0) return;
  await files.attachNamed(tx, { tenantId, owner: documentFileOwner(id), roomId }, [...ids], mayShow);
}
