// Files that a document or a comment names: its readers may read them until it is purged.
import type { MayShow, NamedFiles } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { DocumentRow } from "./tables.ts";

/** The document as the owner of the files that it names. */
export function documentFileOwner(id: string): string {
  return `document:${id}`;
}

/** Attaches files that a document names. */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: NamedFiles,
  { tenant_id: tenantId, id, room_id: roomId }: DocumentRow,
  ids: ReadonlySet<string>,
  mayShow: MayShow,
): Promise<void> {
  await files.attachNamed(tx, { tenantId, owner: documentFileOwner(id), roomId }, ids, mayShow);
}
