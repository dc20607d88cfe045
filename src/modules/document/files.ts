// Files that a document names, by an address or in a node: they stay, and its readers may read them, until it is purged.
import type { FileAttachments } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { Representation } from "./content/representation.ts";
import type { DocumentRow } from "./tables.ts";

const FILE_ID = /\bfile_[0-9A-Za-z]{32}\b/g;
/** Most files of a document, of which each commit looks at as many. */
const FILES_MAX = 200;

export type DocumentFiles = Pick<FileAttachments, "attachUploads" | "detach">;

/** The document as the owner of the files that it names. */
export function documentFileOwner(id: string): string {
  return `document:${id}`;
}

/** Attaches the files that a content names, if its authors uploaded them: naming a file is no right to show it. */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: DocumentFiles,
  { tenant_id: tenantId, id, room_id: roomId }: DocumentRow,
  { text, nodes }: Pick<Representation, "text" | "nodes">,
  authorIds: readonly string[],
): Promise<void> {
  const ids = new Set<string>();
  for (const [fileId] of (nodes ?? text).matchAll(FILE_ID)) {
    ids.add(fileId);
    if (ids.size === FILES_MAX) break;
  }
  if (ids.size > 0) {
    await files.attachUploads(tx, { tenantId, owner: documentFileOwner(id), roomId }, authorIds, [...ids]);
  }
}
