// Stored revisions of a document, with their content.
import { Fault } from "@/core/fault.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import type { RichNode } from "../rich/node.ts";
import type { DocumentRow, RevisionRow } from "../tables.ts";
import { ContentStore } from "./store.ts";

/** A stored revision of a document; throws `not_found` if it is none. */
export async function storedRevision(db: AnyDatabase, row: DocumentRow, revision: number): Promise<RevisionRow> {
  // A number beyond the newest revision may be out of range for the database.
  const stored = revision > row.revision
    ? undefined
    : await new ContentStore(db).revision(row.tenant_id, row.id, revision);
  if (stored === undefined) {
    throw new Fault("not_found", `Revision ${revision} is not stored; list the revisions to see which are`);
  }
  return stored;
}

export function storedNodes({ revision, nodes_json }: RevisionRow): RichNode[] {
  if (nodes_json !== null) return JSON.parse(nodes_json);
  throw new Fault("payload_too_large", `Revision ${revision} was too large, so only its text is stored`);
}
