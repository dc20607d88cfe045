// Operations of documents, their content, revisions, readers and comments.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import type { CommentService } from "./comment/service.ts";
import type { ContentService } from "./content/service.ts";
import type { ContentWriter } from "./content/writer.ts";
import type { DocumentUpdater } from "./updater.ts";
import { DOCUMENT_PATH as PATH } from "./routes.ts";
import { RICH_JSON_DEPTH_MAX, RICH_JSON_VALUES_MAX } from "./rich/node.ts";
import {
  AccessPut,
  AccessRef,
  BODY_MAX_BYTES,
  ChangedComment,
  Comment,
  CommentCreate,
  CommentList,
  CommentRef,
  CommentUpdate,
  Document,
  DocumentAccessEntry,
  DocumentCreate,
  DocumentId,
  DocumentImport,
  DocumentList,
  DocumentUpdate,
} from "./schema.ts";
import {
  Content,
  ContentChange,
  ContentPatch,
  ContentPut,
  ContentRead,
  RevisionInfo,
  RevisionList,
  RevisionRef,
  RevisionText,
} from "./content/schema.ts";
import type { DocumentService } from "./service.ts";

const ROOM = exampleId("room");
const DOC = exampleId("doc");
const CMT = exampleId("cmt");
/** Nodes nest deeper than other input, and are more values. */
const contentBody = {
  bodyMaxBytes: BODY_MAX_BYTES,
  bodyDepthMax: RICH_JSON_DEPTH_MAX,
  bodyValuesMax: RICH_JSON_VALUES_MAX,
} as const;
const byId = z.strictObject({ id: DocumentId });
const read = { scope: "document.read", room: "observer" } as const;
const write = { scope: "document.write", room: "member" } as const;

/** Operations of documents and their readers. */
export function documentOperations(documents: DocumentService, updater: DocumentUpdater): Operation[] {
  return [
    defineOperation({
      name: "document.create",
      summary: "Create a document, in a room or private",
      access: write,
      http: { method: "POST", path: PATH, status: 201, ...contentBody, hasLocation: true },
      input: DocumentCreate,
      output: Document,
      faults: ["not_found", "room_archived", "limit_reached", "payload_too_large"],
      example: { roomId: ROOM, title: "Runbook", text: "# Runbook\n\n1. Breathe.\n" },
      async run(context, input) {
        const document = await documents.create(context, input);
        return new Outcome(document, { location: `${PATH}/${document.id}` });
      },
    }),
    defineOperation({
      name: "document.import",
      summary: "Create a document from a Markdown file",
      access: write,
      http: { method: "POST", path: `${PATH}/import`, status: 201, ...contentBody, hasLocation: true },
      input: DocumentImport,
      output: Document,
      faults: ["not_found", "room_archived", "limit_reached", "payload_too_large"],
      example: { roomId: ROOM, markdown: "# Minutes\r\n\r\nAll agreed.\r\n" },
      async run(context, input) {
        const document = await documents.import(context, input);
        return new Outcome(document, { location: `${PATH}/${document.id}` });
      },
    }),
    defineOperation({
      name: "document.list",
      summary: "List documents, without their content",
      access: read,
      http: { method: "GET", path: PATH, status: 200 },
      input: DocumentList,
      output: pageSchema(Document),
      faults: ["not_found", "invalid_cursor"],
      example: { roomId: ROOM },
      ownData: {
        inputs: () => [{ state: "active" }, { state: "archived" }],
        isOwn: ({ createdBy }, principalId) => createdBy === principalId,
        readBy: "document.content",
      },
      run: (context, input) => documents.list(context, input),
    }),
    defineOperation({
      name: "document.read",
      summary: "Get a document, without its content",
      access: read,
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: byId,
      output: Document,
      faults: ["not_found"],
      example: { id: DOC },
      run: (context, { id }) => documents.read(context, id),
    }),
    defineOperation({
      name: "document.update",
      summary: "Update a document: rename, move, lock, archive or activate it",
      description: "Locking requires a moderator of the room, or an owner of a private document.",
      access: write,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: DocumentUpdate,
      output: Document,
      faults: ["not_found", "room_archived", "version_mismatch", "cycle", "conflict", "limit_reached"],
      example: { id: DOC, title: "Runbook, second edition" },
      run: (context, input) => updater.update(context, input),
    }),
    defineOperation({
      name: "document.delete",
      summary: "Delete a document and all documents under it; restorable for 30 days",
      access: write,
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      audited: true,
      input: byId,
      output: z.void(),
      faults: ["not_found", "room_archived", "limit_reached"],
      example: { id: DOC },
      run: (context, { id }) => documents.delete(context, id),
    }),
    defineOperation({
      name: "document.restore",
      summary: "Restore a document deleted within the last 30 days",
      access: write,
      http: { method: "POST", path: `${PATH}/:id/restore`, status: 200 },
      input: byId,
      output: Document,
      faults: ["not_found", "room_archived", "conflict", "gone"],
      example: { id: DOC },
      run: (context, { id }) => documents.restore(context, id),
    }),
    defineOperation({
      name: "document.readers",
      summary: "List the principals a private document is shared with",
      access: read,
      http: { method: "GET", path: `${PATH}/:id/access`, status: 200 },
      input: byId,
      output: z.object({ items: z.array(DocumentAccessEntry) }).meta({ id: "DocumentReaders" }),
      faults: ["not_found", "conflict"],
      example: { id: DOC },
      run: (context, { id }) => updater.readers(context, id),
    }),
    defineOperation({
      name: "document.share",
      summary: "Share a private document, or change the role of a reader",
      access: { ...write, room: "moderator" },
      http: { method: "PUT", path: `${PATH}/:id/access/:principalId`, status: 200 },
      audited: true,
      input: AccessPut,
      output: DocumentAccessEntry,
      faults: ["not_found", "conflict", "limit_reached"],
      example: { id: DOC, principalId: "bob", role: "editor" },
      run: (context, input) => updater.share(context, input),
    }),
    defineOperation({
      name: "document.unshare",
      summary: "Stop sharing a private document with a principal, or leave it",
      access: { ...write, room: "moderator" },
      http: { method: "DELETE", path: `${PATH}/:id/access/:principalId`, status: 204 },
      audited: true,
      input: AccessRef,
      output: z.void(),
      faults: ["not_found", "conflict"],
      example: { id: DOC, principalId: "bob" },
      run: (context, input) => updater.unshare(context, input),
    }),
  ];
}

/** Operations of content and revisions. */
export function contentOperations(contents: ContentService, writer: ContentWriter): Operation[] {
  return [
    defineOperation({
      name: "document.content",
      summary: "Get the content of a document as Markdown, HTML, text, nodes, blocks, or a Yjs update",
      description: "Nodes are those of rich documents, as ProseMirror JSON. Markdown and HTML of these have what all " +
        "editors know; a node or mark that they do not know keeps its text.",
      access: read,
      http: { method: "GET", path: `${PATH}/:id/content`, status: 200 },
      input: ContentRead,
      output: Content,
      faults: ["not_found", "payload_too_large"],
      example: { id: DOC, format: "markdown" },
      run: (context, input) => contents.read(context, input),
    }),
    defineOperation({
      name: "document.write",
      summary: "Replace the whole content, based on a revision",
      description:
        "Requires If-Match or `revision`. Live editors receive the difference between the old and the new text, " +
        "so cursors and comments in unchanged text stay in place.",
      access: write,
      http: {
        method: "PUT",
        path: `${PATH}/:id/content`,
        status: 200,
        ifMatch: "revision",
        ...contentBody,
      },
      input: ContentPut,
      output: ContentChange,
      faults: [
        "not_found",
        "room_archived",
        "conflict",
        "limit_reached",
        "version_mismatch",
        "precondition_required",
        "payload_too_large",
      ],
      example: { id: DOC, text: "# Runbook\n\n1. Breathe.\n2. Look.\n", revision: 1 },
      run: (context, input) => writer.put(context, input),
    }),
    defineOperation({
      name: "document.edit",
      summary: "Apply edits to the content; all of them or none",
      description:
        "Each edit quotes the text it changes. With `onStale: rebase`, edits are applied to the current text if " +
        "the quotes still match. In a rich document, a quote lies within one block; the blocks of `append`, `prepend` and " +
        "the edits of blocks are Markdown or nodes. Edits of blocks count them, so they need the current revision.",
      access: write,
      http: { method: "PATCH", path: `${PATH}/:id/content`, status: 200, ...contentBody },
      input: ContentPatch,
      output: ContentChange,
      faults: [
        "not_found",
        "room_archived",
        "conflict",
        "stale_revision",
        "limit_reached",
        "edit_not_matched",
        "edit_ambiguous",
        "payload_too_large",
      ],
      example: { id: DOC, baseRevision: 1, edits: [{ op: "replace", find: "Breathe", with: "Breathe slowly" }] },
      run: (context, input) => writer.patch(context, input),
    }),
    defineOperation({
      name: "document.revisions",
      summary: "List stored revisions, newest first",
      description:
        "One revision per write and per session of live editing; the last 200 revisions are stored for up to 90 " +
        "days.",
      access: read,
      http: { method: "GET", path: `${PATH}/:id/revisions`, status: 200 },
      input: RevisionList,
      output: pageSchema(RevisionInfo),
      faults: ["not_found", "invalid_cursor"],
      example: { id: DOC },
      run: (context, input) => contents.revisions(context, input),
    }),
    defineOperation({
      name: "document.revision",
      summary: "Get the content of a stored revision",
      access: read,
      http: { method: "GET", path: `${PATH}/:id/revisions/:revision`, status: 200 },
      input: RevisionRef,
      output: RevisionText,
      faults: ["not_found"],
      example: { id: DOC, revision: 1 },
      run: (context, input) => contents.revision(context, input),
    }),
    defineOperation({
      name: "document.revert",
      summary: "Restore the content of a stored revision as a new revision",
      access: write,
      http: { method: "POST", path: `${PATH}/:id/revisions/:revision/restore`, status: 201, hasLocation: true },
      input: RevisionRef,
      output: ContentChange,
      faults: ["not_found", "room_archived", "conflict", "limit_reached"],
      example: { id: DOC, revision: 1 },
      async run(context, input) {
        const change = await writer.restore(context, input);
        return new Outcome(change, { location: `${PATH}/${input.id}/revisions/${change.revision}` });
      },
    }),
  ];
}

export function commentOperations(comments: CommentService): Operation[] {
  const path = `${PATH}/:id/comments`;
  return [
    defineOperation({
      name: "comment.list",
      summary: "List the comments of a document, oldest first, with their current positions",
      access: read,
      http: { method: "GET", path, status: 200 },
      input: CommentList,
      output: pageSchema(Comment),
      faults: ["not_found", "invalid_cursor"],
      example: { id: DOC, resolved: false },
      run: (context, input) => comments.list(context, input),
    }),
    defineOperation({
      name: "comment.create",
      summary: "Create a comment on a document, on a range of its text, or as a reply",
      access: write,
      http: { method: "POST", path, status: 201 },
      input: CommentCreate,
      output: ChangedComment,
      faults: ["not_found", "room_archived", "conflict", "anchor_not_found", "limit_reached"],
      example: { id: DOC, text: "How long?", anchor: { text: "Breathe" } },
      run: (context, input) => comments.create(context, input),
    }),
    defineOperation({
      name: "comment.update",
      summary: "Update the text of a comment, resolve or reopen it",
      access: write,
      http: { method: "PATCH", path: `${path}/:commentId`, status: 200, ifMatch: "version" },
      input: CommentUpdate,
      output: ChangedComment,
      faults: ["not_found", "room_archived", "conflict", "version_mismatch", "legal_hold"],
      example: { id: DOC, commentId: CMT, resolved: true },
      run: (context, input) => comments.update(context, input),
    }),
    defineOperation({
      name: "comment.delete",
      summary: "Delete a comment and its replies",
      access: write,
      http: { method: "DELETE", path: `${path}/:commentId`, status: 204 },
      input: CommentRef,
      output: z.void(),
      faults: ["not_found", "room_archived", "conflict", "legal_hold"],
      example: { id: DOC, commentId: CMT },
      run: (context, input) => comments.delete(context, input),
    }),
  ];
}
