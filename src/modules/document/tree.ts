// The tree of documents: valid parents, and locks of descendants.
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Transaction } from "@/ports/store.ts";
import { type DocumentAccess, lockDocument, lockTree } from "./access.ts";
import { BRANCH_MAX, DEPTH_MAX } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";

type Tx = Transaction<DocumentTables>;

/**
 * Resolves the parent for a document of this room (null: private), and throws unless it is allowed. `moving` is the document
 * to be moved there with its descendants. Locks the tree if there is a parent, so that no two moves close a cycle together.
 */
export async function requireParent(
  tx: Tx,
  context: Context,
  access: DocumentAccess,
  roomId: string | null,
  parentId: string | null,
  moving?: DocumentRow,
): Promise<DocumentRow | undefined> {
  if (parentId === null) return undefined;
  await lockTree(tx, context.actor.tenantId);
  const { row: parent } = await access.require(context, parentId, "live", tx);
  if (parent.room_id !== roomId) {
    throw Fault.forField("/parentId", "invalid", "the parent must be in the same room, or private like the document");
  }
  const documents = new DocumentStore(tx.db);
  let depth = 1;
  for (let above: DocumentRow | undefined = parent; above !== undefined; depth++) {
    if (above.id === moving?.id) throw new Fault("cycle", "/parentId: a document cannot be its own descendant");
    above = above.parent_id === null ? undefined : await documents.find(above.tenant_id, above.parent_id);
  }
  const height = moving === undefined ? 0 : await heightOf(tx, moving);
  if (depth + height > DEPTH_MAX) {
    throw new Fault("limit_reached", `Documents can be nested at most ${DEPTH_MAX} levels deep`);
  }
  return parent;
}

/** Locks and reads all descendants of a document, including deleted ones. The caller has locked the tree. */
export async function lockDescendants(tx: Tx, row: DocumentRow): Promise<DocumentRow[]> {
  const ids = (await levelsUnder(tx, row)).flat().map(({ id }) => id).sort();
  if (ids.length >= BRANCH_MAX) {
    throw new Fault(
      "limit_reached",
      `At most ${BRANCH_MAX} documents can be moved or deleted at once; start with those under this one`,
    );
  }
  const locked: DocumentRow[] = [];
  for (const id of ids) {
    await lockDocument(tx, row.tenant_id, id);
    const one = await new DocumentStore(tx.db).find(row.tenant_id, id);
    if (one !== undefined) locked.push(one);
  }
  return locked;
}

async function heightOf(tx: Tx, row: DocumentRow): Promise<number> {
  return (await levelsUnder(tx, row)).length;
}

async function levelsUnder(tx: Tx, { tenant_id: tenantId, id }: DocumentRow): Promise<DocumentRow[][]> {
  const documents = new DocumentStore(tx.db);
  const levels: DocumentRow[][] = [];
  for (let level = await documents.children(tenantId, [id]); level.length > 0;) {
    levels.push(level);
    level = await documents.children(tenantId, level.map((one) => one.id));
  }
  return levels;
}
