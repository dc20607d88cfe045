// Documents in archives: how they are exported, and what imports them.
import type { ArchiveSection, ExportContext } from "@/core/archive/section.ts";
import { inChunks, paginate } from "@/core/page.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { CommentStore } from "../comment/store.ts";
import type { ContentLog } from "../content/log.ts";
import { documentFileOwner } from "../files.ts";
import type { DocumentIndex } from "../searchable.ts";
import { commentFields } from "../presenter.ts";
import type { CommentRow, DocumentTables } from "../tables.ts";
import { type ArchivedDocument, DocumentArchive } from "./document.ts";
import { importedComment } from "./history_import.ts";
import { DocumentImporter, importedDocument } from "./import.ts";

const BATCH = 500;

type Deps = { store: Store<DocumentTables>; log: ContentLog; files: NamedFiles; index: DocumentIndex | undefined };

export function documentArchive(deps: Deps): ArchiveSection<Transaction<DocumentTables>> {
  const archive = new DocumentArchive(deps);
  return {
    description: {
      exported: "documents, with their text in Markdown, then their stored revisions if requested (newest first) and " +
        "comments (replies after the comment they reply to), anchored in the Yjs state; in the export of a tenant also " +
        "private documents with their readers",
      imported: "Existing documents are not changed, but get missing comments and older revisions.",
    },
    counts: {
      documents: "Documents",
      revisions: "Stored revisions of documents, in addition to the current text",
      comments: "Comments on documents, including replies",
    },
    skipCodes: {
      unknown_document: "each_run",
      document_corrupt: "each_run",
      document_too_large: "each_run",
      too_many_revisions: "each_run",
      too_many_comments: "each_run",
      too_many_readers: "once",
      parent_missing: "once",
      anchor_invalid: "once",
    },
    exportRoom: (context, roomId) => exportDocuments(archive, context, roomId),
    exportPersonal: (context) => exportDocuments(archive, context, null),
    exportOwn: (tenantId, principalId) => exportOwnComments(deps.store, tenantId, principalId),
    createImporter: (context) => new DocumentImporter(context, archive),
  };
}

/** Comments of a person, without the text that they are on, which others may have written. */
async function* exportOwnComments(
  { db }: Store<DocumentTables>,
  tenantId: string,
  principalId: string,
): AsyncGenerator<Record<string, unknown>[]> {
  const read = (last?: CommentRow) => new CommentStore(db).writtenBy(tenantId, principalId, last?.id ?? "", BATCH);
  for await (const rows of paginate(BATCH, read)) yield rows.map((row) => ({ type: "comment", ...commentFields(row) }));
}

/** Documents of a room, or private ones (null), each after its parent. */
async function* exportDocuments(
  archive: DocumentArchive,
  context: ExportContext,
  roomId: string | null,
): AsyncGenerator<unknown[]> {
  const { tenantId } = context;
  for (const id of await archive.ids(tenantId, roomId)) {
    const archived = await archive.read(tenantId, id);
    if (archived === undefined || archived.document.roomId !== roomId) continue;
    const { document, readers, text, update, origin } = archived;
    const readerIds = readers.map(({ principalId }) => principalId);
    yield await context.principalRecords([document.createdBy, document.editedBy, ...readerIds, ...origin.principalIds]);
    context.count("documents", 1);
    context.recordExported([importedDocument(roomId, id)]);
    // An imported document begins a generation of its own.
    const { generation: _generation, deletedAt: _deletedAt, ...rest } = document;
    yield* context.fileRecords(documentFileOwner(id));
    yield [{ type: "document", ...rest, readers, origin, text }];
    for await (const record of context.contentRecords(id, [update])) yield [record];
    yield* exportHistory(archive, context, archived);
  }
}

/** Earlier revisions of a document, newest first, and its comments, each after the one it replies to. */
async function* exportHistory(
  { history }: DocumentArchive,
  context: ExportContext,
  { document: { id }, revisions, commentIds }: ArchivedDocument,
): AsyncGenerator<unknown[]> {
  const { tenantId } = context;
  for (const number of context.withRevisions ? revisions : []) {
    const revision = await history.revision(tenantId, id, number);
    if (revision === undefined) continue;
    yield await context.principalRecords(revision.principalIds);
    context.count("revisions", 1);
    yield [{ type: "revision", documentId: id, ...revision }];
  }
  for (const ids of inChunks(commentIds, BATCH)) {
    const comments = await history.comments(tenantId, id, ids);
    yield await context.principalRecords(
      comments.flatMap(({ authorId, resolvedBy }) => resolvedBy === null ? [authorId] : [authorId, resolvedBy]),
    );
    context.count("comments", comments.length);
    context.recordExported(comments.map((comment) => importedComment(id, comment.id)));
    yield comments.map((comment) => ({ type: "comment", documentId: id, ...comment }));
  }
}
