// Operations of documents, their content, revisions, readers and comments.
import { z } from "@zod/zod";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import { pageOf } from "@/core/page.ts";
import type { CommentService } from "./comment/service.ts";
import type { ContentService } from "./content/service.ts";
import type { DocumentEditor } from "./editor.ts";
import { DOCUMENT_PATH as PATH } from "./routes.ts";
import {
  AccessPut,
  AccessRef,
  BODY_MAX_BYTES,
  Comment,
  CommentCreate,
  CommentList,
  CommentRef,
  CommentUpdate,
  Content,
  ContentChange,
  ContentPatch,
  ContentPut,
  ContentRead,
  Document,
  DocumentAccess,
  DocumentCreate,
  DocumentId,
  DocumentImport,
  DocumentList,
  DocumentUpdate,
  RevisionInfo,
  RevisionList,
  RevisionRef,
  RevisionText,
} from "./schema.ts";
import type { DocumentService } from "./service.ts";

const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const DOC = "doc_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const CMT = "cmt_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const byId = z.strictObject({ id: DocumentId });
const read = { scope: "document.read", room: "observer" } as const;
const write = { scope: "document.write", room: "member" } as const;

/** Documents themselves. */
export function documentOperations(documents: DocumentService, editor: DocumentEditor): Operation[] {
  return [
    defineOperation({
      name: "document.create",
      summary: "Make a document, in a room or private",
      access: write,
      http: { method: "POST", path: PATH, status: 201, bodyMaxBytes: BODY_MAX_BYTES },
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
      summary: "Make a document of a Markdown file",
      access: write,
      http: { method: "POST", path: `${PATH}/import`, status: 201, bodyMaxBytes: BODY_MAX_BYTES },
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
      output: pageOf(Document),
      faults: ["not_found", "invalid_cursor"],
      example: { roomId: ROOM },
      run: (context, input) => documents.list(context, input),
    }),
    defineOperation({
      name: "document.read",
      summary: "Read a document without its content",
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
      summary: "Rename, move, lock, archive or activate a document",
      description: "Locking is for moderators of the room, or owners of a private document.",
      access: write,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: DocumentUpdate,
      output: Document,
      faults: ["not_found", "room_archived", "version_mismatch", "cycle", "conflict", "limit_reached"],
      example: { id: DOC, title: "Runbook, second edition" },
      run: (context, input) => editor.update(context, input),
    }),
    defineOperation({
      name: "document.delete",
      summary: "Delete a document with everything under it; it can be restored for 30 days",
      access: write,
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: byId,
      output: z.void(),
      faults: ["not_found", "room_archived", "limit_reached"],
      example: { id: DOC },
      run: (context, { id }) => documents.delete(context, id),
    }),
    defineOperation({
      name: "document.restore",
      summary: "Bring a deleted document back within 30 days",
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
      summary: "List who may read a private document",
      access: read,
      http: { method: "GET", path: `${PATH}/:id/access`, status: 200 },
      input: byId,
      output: z.object({ items: z.array(DocumentAccess) }),
      faults: ["not_found", "conflict"],
      example: { id: DOC },
      run: (context, { id }) => editor.readers(context, id),
    }),
    defineOperation({
      name: "document.share",
      summary: "Share a private document with somebody, or change their role",
      access: { ...write, room: "moderator" },
      http: { method: "PUT", path: `${PATH}/:id/access/:principalId`, status: 200 },
      input: AccessPut,
      output: DocumentAccess,
      faults: ["not_found", "conflict", "limit_reached"],
      example: { id: DOC, principalId: "bob", role: "editor" },
      run: (context, input) => editor.share(context, input),
    }),
    defineOperation({
      name: "document.unshare",
      summary: "Stop sharing a private document with somebody, or leave it",
      access: { ...write, room: "moderator" },
      http: { method: "DELETE", path: `${PATH}/:id/access/:principalId`, status: 204 },
      input: AccessRef,
      output: z.void(),
      faults: ["not_found", "conflict"],
      example: { id: DOC, principalId: "bob" },
      run: (context, input) => editor.unshare(context, input),
    }),
  ];
}

/** Content and revisions. */
export function contentOperations(contents: ContentService): Operation[] {
  return [
    defineOperation({
      name: "document.content",
      summary: "Read a document's content as Markdown, as blocks, or as a Yjs update",
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
      summary: "Replace the whole text, on the revision it is based on",
      description:
        "Needs If-Match, or `revision`. Editors that have the document open see the change; what is the same " +
        "before and after stays untouched, so cursors and comments keep their places.",
      access: write,
      http: {
        method: "PUT",
        path: `${PATH}/:id/content`,
        status: 200,
        ifMatch: "revision",
        bodyMaxBytes: BODY_MAX_BYTES,
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
      run: (context, input) => contents.put(context, input),
    }),
    defineOperation({
      name: "document.edit",
      summary: "Edit the text in places, all edits or none",
      description:
        "Each edit names the text it is about. With `onStale: rebase` edits are made to the text as it is now, " +
        "where they still fit.",
      access: write,
      http: { method: "PATCH", path: `${PATH}/:id/content`, status: 200, bodyMaxBytes: BODY_MAX_BYTES },
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
      run: (context, input) => contents.patch(context, input),
    }),
    defineOperation({
      name: "document.revisions",
      summary: "List kept revisions, newest first",
      description: "One for each write, and one for each stretch of live editing; 200 of them, for 90 days.",
      access: read,
      http: { method: "GET", path: `${PATH}/:id/revisions`, status: 200 },
      input: RevisionList,
      output: pageOf(RevisionInfo),
      faults: ["not_found", "invalid_cursor"],
      example: { id: DOC },
      run: (context, input) => contents.revisions(context, input),
    }),
    defineOperation({
      name: "document.revision",
      summary: "Read the text of a kept revision",
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
      summary: "Bring the text of a kept revision back, as a new revision",
      access: write,
      http: { method: "POST", path: `${PATH}/:id/revisions/:revision/restore`, status: 201 },
      input: RevisionRef,
      output: ContentChange,
      faults: ["not_found", "room_archived", "conflict", "limit_reached"],
      example: { id: DOC, revision: 1 },
      run: (context, input) => contents.restore(context, input),
    }),
  ];
}

/** Comments. */
export function commentOperations(comments: CommentService): Operation[] {
  const path = `${PATH}/:id/comments`;
  return [
    defineOperation({
      name: "comment.list",
      summary: "List the comments of a document, oldest first, with where they are now",
      access: read,
      http: { method: "GET", path, status: 200 },
      input: CommentList,
      output: pageOf(Comment),
      faults: ["not_found", "invalid_cursor"],
      example: { id: DOC, resolved: false },
      run: (context, input) => comments.list(context, input),
    }),
    defineOperation({
      name: "comment.create",
      summary: "Comment on a document, on a place in its text, or on a comment",
      access: write,
      http: { method: "POST", path, status: 201 },
      input: CommentCreate,
      output: Comment,
      faults: ["not_found", "room_archived", "conflict", "anchor_not_found", "limit_reached"],
      example: { id: DOC, text: "How long?", anchor: { text: "Breathe" } },
      run: (context, input) => comments.create(context, input),
    }),
    defineOperation({
      name: "comment.update",
      summary: "Change what a comment says, resolve it or open it again",
      access: write,
      http: { method: "PATCH", path: `${path}/:commentId`, status: 200, ifMatch: "version" },
      input: CommentUpdate,
      output: Comment,
      faults: ["not_found", "room_archived", "conflict", "version_mismatch"],
      example: { id: DOC, commentId: CMT, resolved: true },
      run: (context, input) => comments.update(context, input),
    }),
    defineOperation({
      name: "comment.delete",
      summary: "Delete a comment with its replies",
      access: write,
      http: { method: "DELETE", path: `${path}/:commentId`, status: 204 },
      input: CommentRef,
      output: z.void(),
      faults: ["not_found", "room_archived", "conflict"],
      example: { id: DOC, commentId: CMT },
      run: (context, input) => comments.delete(context, input),
    }),
  ];
}
