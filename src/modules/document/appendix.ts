// What follows a document on its way out of a gateway and into one: the revisions that are kept of it, and its comments.
import type { Store, Transaction } from "@/ports/store.ts";
import { lockDocument } from "./access.ts";
import { CommentStore } from "./comment/store.ts";
import { type ContentLog, revisionOf } from "./content/log.ts";
import { ContentStore } from "./content/store.ts";
import { cleanPosition, textOf } from "./crdt.ts";
import { presentComment, presentRevision, tell } from "./presenter.ts";
import type { Comment, Origin } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { CommentRow, DocumentRow, DocumentTables } from "./tables.ts";

export type CarriedRevision = Origin & { revision: number; text: string };

/** A comment; `start` and `end` of its anchor are places in the CRDT. */
export type CarriedComment = Omit<Comment, "documentId" | "anchor" | "resolved"> & {
  anchor: { quote: string; start: string; end: string } | null;
};

/** A document that is being added to, held until the transaction ends, and what there is of it. */
export type HeldDocument = {
  row: DocumentRow;
  /** No revision that is kept is older. */
  oldest: number;
  revisions: number;
  comments: number;
};

type Tx = Transaction<DocumentTables>;
type Deps = { store: Store<DocumentTables>; log: ContentLog };

export class DocumentAppendix {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A kept revision; `undefined` when it is kept no more. */
  async revision(tenantId: string, id: string, revision: number): Promise<CarriedRevision | undefined> {
    const row = await new ContentStore(this.#deps.store.db).revision(tenantId, id, revision);
    if (row === undefined) return undefined;
    const { bytes: _bytes, ...info } = presentRevision(row);
    return { ...info, text: row.text };
  }

  /** Those of these comments that are still there, in the same order. */
  async comments(tenantId: string, id: string, ids: readonly string[]): Promise<CarriedComment[]> {
    const rows = await new CommentStore(this.#deps.store.db).some(tenantId, id, ids);
    const found = new Map(rows.map((row) => [row.id, row]));
    return ids.flatMap((one) => found.get(one) ?? []).map(carried);
  }

  /** Takes a document up to add to it; `undefined` when it is gone. */
  async hold(tx: Tx, tenantId: string, id: string): Promise<HeldDocument | undefined> {
    await lockDocument(tx, tenantId, id);
    const row = await new DocumentStore(tx.db).find(tenantId, id);
    if (row === undefined || row.deleted_at !== null) return undefined;
    const { oldest, count } = await new ContentStore(tx.db).kept(tenantId, id);
    const comments = await new CommentStore(tx.db).count(tenantId, id);
    return { row, oldest: oldest ?? row.revision + 1, revisions: count, comments };
  }

  /** Adds revisions, each older than any that is kept: whatever their numbers, none is in the way of one to come. */
  async addRevisions(tx: Tx, { row, oldest }: HeldDocument, revisions: readonly CarriedRevision[]): Promise<void> {
    if (revisions.length === 0) return;
    if (revisions.some(({ revision }) => revision >= oldest)) throw new RangeError("not older than what is kept");
    const rows = revisions.map(({ revision, text, ...origin }) => revisionOf({ ...row, revision }, text, origin));
    await tx.insertMany("document_revision", rows);
  }

  /**
   * Adds comments, whose ids are free, and tells of them. Resolves to them: without a parent where that is no comment of
   * the document, and without an anchor where that is no place in a text.
   */
  async addComments(tx: Tx, { row }: HeldDocument, comments: readonly CarriedComment[]): Promise<Comment[]> {
    if (comments.length === 0) return [];
    const { tenant_id: tenantId, id } = row;
    const parentIds = comments.flatMap(({ parentId }) => parentId ?? []);
    const known = new Map(
      (await new CommentStore(tx.db).some(tenantId, id, [...new Set(parentIds)])).map((one) => [one.id, one]),
    );
    const rows: CommentRow[] = [];
    for (const comment of comments) {
      const parent = known.get(comment.parentId ?? "");
      const added = rowOf(row, comment, parent?.parent_id === null ? parent : undefined);
      known.set(added.id, added);
      rows.push(added);
    }
    await tx.insertMany("document_comment", rows);
    const { doc } = await this.#deps.log.open(tenantId, id);
    const text = textOf(doc);
    const presented = rows.map((one) => presentComment(one, doc, text));
    for (const comment of presented) {
      await tell(tx, row, "document.commented", { documentId: id, action: "created", comment });
    }
    return presented;
  }
}

function carried(row: CommentRow): CarriedComment {
  const { quote, anchor_start: start, anchor_end: end } = row;
  return {
    id: row.id,
    parentId: row.parent_id,
    authorId: row.author_id,
    text: row.text,
    anchor: quote === null || start === null || end === null ? null : { quote, start, end },
    resolvedBy: row.resolved_by,
    resolvedAt: row.resolved_at,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/** The row of a comment; a reply is where its comment is, and resolved with it. */
function rowOf(document: DocumentRow, comment: CarriedComment, parent: CommentRow | undefined): CommentRow {
  const { anchor } = comment;
  const start = anchor === null || parent !== undefined ? undefined : cleanPosition(anchor.start);
  const end = anchor === null || parent !== undefined ? undefined : cleanPosition(anchor.end);
  const isAnchored = start !== undefined && end !== undefined;
  return {
    tenant_id: document.tenant_id,
    id: comment.id,
    document_id: document.id,
    parent_id: parent?.id ?? null,
    author_id: comment.authorId,
    text: comment.text,
    quote: isAnchored ? anchor?.quote ?? null : null,
    anchor_start: isAnchored ? start : null,
    anchor_end: isAnchored ? end : null,
    resolved_by: parent === undefined ? comment.resolvedBy : parent.resolved_by,
    resolved_at: parent === undefined ? comment.resolvedAt : parent.resolved_at,
    version: comment.version,
    created_at: comment.createdAt,
    updated_at: comment.updatedAt,
  };
}
