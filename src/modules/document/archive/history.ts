// Exports and imports the history of a document: its stored revisions, and its comments.
import { type MayShow, type NamedFiles, namedFiles } from "@/modules/file/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { lockDocument } from "../access.ts";
import { commentEntries } from "../comment/searchable.ts";
import { CommentStore } from "../comment/store.ts";
import { type ContentLog, revisionOf } from "../content/log.ts";
import { ContentStore } from "../content/store.ts";
import { normalizeAnchor } from "../content/crdt.ts";
import { anchoredTextOf } from "../content/representation.ts";
import { presentComment, presentRevision, publishCommentEvent } from "../presenter.ts";
import type { Origin } from "../content/schema.ts";
import { attachNamedFiles } from "../files.ts";
import type { Comment } from "../schema.ts";
import { DocumentStore } from "../store.ts";
import type { CommentRow, DocumentRow, DocumentTables } from "../tables.ts";
import type { DocumentIndex } from "../searchable.ts";

/** `nodes`: those of a rich document, as JSON in a text, since records may not nest as deep. */
type ArchivedRevision = Origin & { revision: number; text: string; nodes: string | null };

/** A comment; `start` and `end` of its anchor are places in the CRDT. */
export type ArchivedComment = Omit<Comment, "documentId" | "anchor" | "resolved"> & {
  anchor: { quote: string; start: string; end: string } | null;
};

/** A document to add to, locked until the transaction ends, and what it has already. */
export type LockedDocumentHistory = {
  row: DocumentRow;
  /** The oldest stored revision. */
  oldestRevision: number;
  revisionCount: number;
  commentCount: number;
};

type Tx = Transaction<DocumentTables>;
type Deps = { store: Store<DocumentTables>; log: ContentLog; files: NamedFiles; index: DocumentIndex | undefined };

export class DocumentHistoryArchive {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A stored revision; `undefined` if it was deleted. */
  async revision(tenantId: string, id: string, revision: number): Promise<ArchivedRevision | undefined> {
    const row = await new ContentStore(this.#deps.store.db).revision(tenantId, id, revision);
    if (row === undefined) return undefined;
    const { size: _size, ...info } = presentRevision(row);
    return { ...info, text: row.text, nodes: row.nodes_json };
  }

  /** Those of these comments that are still there, in the same order. */
  async comments(tenantId: string, id: string, ids: readonly string[]): Promise<ArchivedComment[]> {
    const rows = await new CommentStore(this.#deps.store.db).findMany(tenantId, id, ids);
    const found = new Map(rows.map((row) => [row.id, row]));
    return ids.flatMap((one) => found.get(one) ?? []).map(toArchived);
  }

  /** Locks a document to add to it; `undefined` if it was deleted. */
  async lock(tx: Tx, tenantId: string, id: string): Promise<LockedDocumentHistory | undefined> {
    await lockDocument(tx, tenantId, id);
    const row = await new DocumentStore(tx.db).find(tenantId, id);
    if (row === undefined || row.deleted_at !== null) return undefined;
    const { oldest, count } = await new ContentStore(tx.db).revisionStats(tenantId, id);
    const commentCount = await new CommentStore(tx.db).count(tenantId, id);
    return { row, oldestRevision: oldest ?? row.revision + 1, revisionCount: count, commentCount };
  }

  /** Adds revisions, each older than all stored ones, so that no number conflicts with a later revision. */
  async addRevisions(
    tx: Tx,
    { row, oldestRevision }: LockedDocumentHistory,
    revisions: readonly ArchivedRevision[],
  ): Promise<void> {
    if (revisions.length === 0) return;
    if (revisions.some(({ revision }) => revision >= oldestRevision)) {
      throw new RangeError("not older than the stored revisions");
    }
    const rows = revisions.map(({ revision, text, nodes, ...origin }) =>
      revisionOf({ ...row, revision }, { text, nodes: row.kind === "rich" ? nodes : null }, origin)
    );
    await tx.insertMany("document_revision", rows);
  }

  /**
   * Adds comments with free ids, and publishes them. Resolves to them: without a parent if that is not a comment of the document,
   * and without an anchor if that is not a position in a text.
   */
  async addComments(
    tx: Tx,
    { row }: LockedDocumentHistory,
    comments: readonly ArchivedComment[],
    mayShow: MayShow,
  ): Promise<Comment[]> {
    if (comments.length === 0) return [];
    const { tenant_id: tenantId, id } = row;
    const parentIds = comments.flatMap(({ parentId }) => parentId ?? []);
    const known = new Map(
      (await new CommentStore(tx.db).findMany(tenantId, id, [...new Set(parentIds)])).map((one) => [one.id, one]),
    );
    const rows: CommentRow[] = [];
    for (const comment of comments) {
      const parent = known.get(comment.parentId ?? "");
      const added = rowOf(row, comment, parent?.parent_id === null ? parent : undefined);
      known.set(added.id, added);
      rows.push(added);
    }
    await tx.insertMany("document_comment", rows);
    const named = new Set(rows.flatMap(({ text }) => [...namedFiles(text)]));
    await attachNamedFiles(tx, this.#deps.files, row, named, mayShow);
    await this.#deps.index?.put(...await commentEntries(tx.db, tenantId, rows));
    const { doc } = await this.#deps.log.open(tenantId, id, { db: tx.db });
    const content = anchoredTextOf(doc, row);
    const presented = rows.map((one) => presentComment(one, content));
    for (const comment of presented) await publishCommentEvent(tx, row, "created", comment);
    return presented;
  }
}

function toArchived(row: CommentRow): ArchivedComment {
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
function rowOf(document: DocumentRow, comment: ArchivedComment, parent: CommentRow | undefined): CommentRow {
  const { anchor } = comment;
  const start = anchor === null || parent !== undefined ? undefined : normalizeAnchor(anchor.start, document.kind);
  const end = anchor === null || parent !== undefined ? undefined : normalizeAnchor(anchor.end, document.kind);
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
