// The tree of documents: who is under whom, and where a document may go without closing a circle.
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Transaction } from "@/ports/store.ts";
import { type DocumentGate, lockDocument, lockTree } from "./access.ts";
import { BRANCH_MAX, DEPTH_MAX } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";

type Tx = Transaction<DocumentTables>;

/**
 * The parent for a document of this room (null: private), or none. `moving` is a document with everything under it that
 * would go there. Takes the tree's lock where there is a parent, so that no two moves close a circle together.
 */
export async function checkPlace(
  context: Context,
  tx: Tx,
  gate: DocumentGate,
  roomId: string | null,
  parentId: string | null,
  moving?: DocumentRow,
): Promise<DocumentRow | undefined> {
  if (parentId === null) return undefined;
  await lockTree(tx, context.actor.tenantId);
  const { row: parent } = await gate.enter(context, parentId);
  if (parent.room_id !== roomId) {
    throw new Fault("validation_failed", "/parentId: a parent is of the same room, or private as well");
  }
  const documents = new DocumentStore(tx.db);
  let depth = 1;
  for (let above: DocumentRow | undefined = parent; above !== undefined; depth++) {
    if (above.id === moving?.id) throw new Fault("cycle", "/parentId: the document cannot be under itself");
    above = above.parent_id === null ? undefined : await documents.find(above.tenant_id, above.parent_id);
  }
  const height = moving === undefined ? 0 : await heightOf(tx, moving);
  if (depth + height > DEPTH_MAX) throw new Fault("limit_reached", `Documents lie at most ${DEPTH_MAX} levels deep`);
  return parent;
}

/** Everything under a document, deleted ones included, each held for a change; the caller holds the tree. */
export async function holdDescendants(tx: Tx, row: DocumentRow): Promise<DocumentRow[]> {
  const ids = (await levelsUnder(tx, row)).flat().map(({ id }) => id).sort();
  if (ids.length >= BRANCH_MAX) {
    throw new Fault(
      "limit_reached",
      `At most ${BRANCH_MAX} documents go together; begin with some of those under this one`,
    );
  }
  const held: DocumentRow[] = [];
  for (const id of ids) {
    await lockDocument(tx, row.tenant_id, id);
    const one = await new DocumentStore(tx.db).find(row.tenant_id, id);
    if (one !== undefined) held.push(one);
  }
  return held;
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
