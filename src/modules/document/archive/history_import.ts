// Imports revisions and comments of the documents of an archive in batches: those that are missing, so that a document that was
// imported without them, or whose import was interrupted, is completed.
import type { z } from "@zod/zod";
import { type ImportContext, type ImportedPart, PENDING_MAX_UNITS } from "@/core/archive/section.ts";
import { allocatePartId, candidateIds, type OriginalRef } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import { idsOfOtherTenants, readColumnById } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import { COMMENTS_MAX, REVISIONS_MAX } from "../schema.ts";
import type { DocumentTables } from "../tables.ts";
import type { ArchivedComment, DocumentHistoryArchive, LockedDocumentHistory } from "./history.ts";
import type { CommentRecord, RevisionRecord } from "./records.ts";

const BATCH = 100;

type Tx = Transaction<DocumentTables>;
type PendingRevision = { where: string; record: z.output<typeof RevisionRecord> };
type PendingComment = { where: string; record: z.output<typeof CommentRecord> };
type NewComment = { pending: PendingComment; comment: ArchivedComment };

/** A comment in the history of imports. */
export function importedComment(documentId: string, id: string): ImportedPart {
  return { container: documentId, name: id };
}

export class DocumentHistoryImporter {
  readonly #context: ImportContext<Tx>;
  readonly #history: DocumentHistoryArchive;
  #documentId = "";
  #revisions: PendingRevision[] = [];
  #comments: PendingComment[] = [];
  #units = 0;

  constructor(context: ImportContext<Tx>, history: DocumentHistoryArchive) {
    this.#context = context;
    this.#history = history;
  }

  /** An earlier revision of a document, newest first. */
  async addRevision(documentId: string, record: z.output<typeof RevisionRecord>, where: string): Promise<void> {
    await this.#switchTo(documentId);
    this.#revisions.push({ where, record });
    await this.#flushIfFull(record);
  }

  /** A comment on a document, after the comment it replies to. */
  async addComment(documentId: string, record: z.output<typeof CommentRecord>, where: string): Promise<void> {
    await this.#switchTo(documentId);
    this.#comments.push({ where, record });
    await this.#flushIfFull(record);
  }

  async flush(): Promise<void> {
    const [revisions, comments] = [this.#revisions, this.#comments];
    this.#revisions = [];
    this.#comments = [];
    this.#units = 0;
    if (revisions.length + comments.length === 0) return;
    await this.#context.write(async (tx) => {
      const locked = await this.#history.lock(tx, this.#context.tenantId, this.#documentId);
      if (locked === undefined) return;
      await this.#importRevisions(tx, locked, revisions);
      await this.#importComments(tx, locked, comments);
    });
    // Other readers and writers run between batches.
    await nextSlice();
  }

  async #switchTo(documentId: string): Promise<void> {
    if (documentId !== this.#documentId) await this.flush();
    this.#documentId = documentId;
  }

  async #flushIfFull({ text, nodes }: { text: string; nodes?: string | null }): Promise<void> {
    this.#units += text.length + (nodes?.length ?? 0);
    const isFull = this.#revisions.length + this.#comments.length >= BATCH || this.#units >= PENDING_MAX_UNITS;
    if (isFull) await this.flush();
  }

  /**
   * Imports those before the oldest stored revision. From there on the document has its own: it may have changed differently, so
   * that equal numbers need not be equal revisions.
   */
  async #importRevisions(tx: Tx, locked: LockedDocumentHistory, revisions: readonly PendingRevision[]): Promise<void> {
    const { report } = this.#context;
    const fresh: PendingRevision["record"][] = [];
    let { oldestRevision } = locked;
    for (const { where, record } of revisions) {
      if (record.revision >= oldestRevision) continue;
      if (locked.revisionCount + fresh.length >= REVISIONS_MAX) {
        report.skip("too_many_revisions", where);
        continue;
      }
      oldestRevision = record.revision;
      fresh.push(record);
    }
    await this.#context.createPlaceholders(tx, fresh.flatMap(({ principalIds }) => principalIds));
    await this.#history.addRevisions(tx, locked, fresh.map(({ documentId: _documentId, ...revision }) => revision));
    report.count("revisions", fresh.length);
  }

  async #importComments(tx: Tx, locked: LockedDocumentHistory, comments: readonly PendingComment[]): Promise<void> {
    const { report } = this.#context;
    const history = this.#context.history(tx);
    const partOf = (id: string): ImportedPart => importedComment(locked.row.id, id);
    const absent = await this.#missing(tx, locked, comments);
    const missing = await history.filterNew(
      absent,
      ({ pending: { record } }) => candidateIds(this.#refOf(record, record.id)).map(partOf),
    );
    const fresh = missing.slice(0, Math.max(0, COMMENTS_MAX - locked.commentCount));
    for (const { pending } of missing.slice(fresh.length)) report.skip("too_many_comments", pending.where);
    const names = fresh.flatMap(({ pending: { record: { authorId, resolvedBy } } }) => [authorId, resolvedBy]);
    await this.#context.createPlaceholders(tx, names.filter((name) => name !== null));
    const added = await this.#history.addComments(
      tx,
      locked,
      fresh.map(({ comment }) => comment),
      ({ id }) => this.#context.hasFile(id),
    );
    await history.record(fresh.map(({ comment }) => partOf(comment.id)));
    for (const [at, { pending: { where, record } }] of fresh.entries()) {
      const isReply = added[at]?.parentId !== null;
      if (record.parentId !== null && !isReply) report.skip("parent_missing", `${where}: comment`);
      if (record.anchor !== null && !isReply && added[at]?.anchor === null) report.skip("anchor_invalid", where);
    }
    report.count("comments", added.length);
  }

  /** Comments that do not exist, each with a free id, and that of its parent. */
  async #missing(tx: Tx, { row }: LockedDocumentHistory, comments: readonly PendingComment[]): Promise<NewComment[]> {
    const { tenantId } = this.#context;
    const refs = comments.flatMap(({ record }) =>
      [record.id, record.parentId].flatMap((id) => id === null ? [] : [this.#refOf(record, id)])
    );
    const ids = [...new Set(refs.flatMap(candidateIds))];
    const documents = await readColumnById(tx.db, "document_comment", "document_id", tenantId, ids);
    const taken = await idsOfOtherTenants(
      tx.db,
      "document_comment",
      tenantId,
      comments.flatMap(({ record }) => candidateIds(this.#refOf(record, record.id))),
    );
    const missing: NewComment[] = [];
    for (const pending of comments) {
      const { record } = pending;
      const { documentId: _documentId, parentId: sourceParentId, ...rest } = record;
      const parentIds = sourceParentId === null ? [] : candidateIds(this.#refOf(record, sourceParentId));
      const parentId = parentIds.find((one) => documents.get(one) === row.id) ?? null;
      const id = allocatePartId(this.#refOf(record, record.id), row.id, documents, taken);
      if (id !== undefined) missing.push({ pending, comment: { ...rest, id, parentId } });
    }
    return missing;
  }

  /** No comment is on two documents, whatever ids an archive has. */
  #refOf({ documentId }: PendingComment["record"], id: string): OriginalRef {
    return this.#context.refOf("cmt", id, documentId);
  }
}
