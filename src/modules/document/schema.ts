// Schemas of documents, their content, revisions and comments, and of their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { Json, JsonObject } from "@/core/json.ts";
import { nameSchema } from "@/core/text/name.ts";
import { pageInput } from "@/core/page.ts";
import { changesSchema, OmittedFields, shortenedSchema, snapshotSchema } from "@/core/event/event_data.ts";
import { BaseVersion } from "@/core/patch.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { Mentions } from "@/modules/message/mod.ts";
import { Metadata, RoomId } from "@/modules/room/mod.ts";
import { ANCHORED_MAX, COMMENT_MAX, QUOTE_MAX, TITLE_MAX } from "./limits.ts";

export * from "./limits.ts";
export const DOCUMENT_STATES = ["active", "archived"] as const;
const DocumentState = z.enum(DOCUMENT_STATES).meta({ id: "DocumentState" });
export const DOCUMENT_KINDS = ["text", "rich"] as const;
const DocumentKind = z.enum(DOCUMENT_KINDS).meta({ id: "DocumentKind" });
export const REVISION_KINDS = ["created", "written", "live", "restored"] as const;
export const RevisionKind = z.enum(REVISION_KINDS).meta({ id: "DocumentRevisionKind" });
export const ACCESS_ROLES = ["reader", "editor", "owner"] as const;
const AccessRole = z.enum(ACCESS_ROLES).meta({ id: "DocumentRole" });
const SORTS = ["-updatedAt", "updatedAt", "title", "-createdAt", "createdAt"] as const;
export type DocumentSort = (typeof SORTS)[number];

export const DocumentId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
export const CommentId = DocumentId;
export const FragmentName = z.string().regex(
  /^[A-Za-z0-9_.:-]{1,100}$/,
  "expected 1 to 100 characters of A-Z a-z 0-9 _ . : -",
)
  .refine((name) => name !== "__proto__", "reserved");
const Title = nameSchema(TITLE_MAX).describe("Title of the document");
/** Unbounded here: the services count its bytes and respond with 413, as for a body. */
export const Text = z.string();
/** Its nodes are checked by `parseDocument`. */
export const RichDocument = JsonObject.meta({ id: "ProseMirrorDocument" });
/** What content can be read as. */
export const CONTENT_FORMATS = ["markdown", "json", "html", "text", "prosemirror", "yjs"] as const;
export const Time = z.iso.datetime();
export const Revision = z.int().min(1);

export const Document = z.object({
  id: DocumentId,
  roomId: RoomId.nullable().describe("null: a private document"),
  parentId: DocumentId.nullable().describe("Parent document; null at the top level"),
  title: z.string().describe("Title of the document"),
  kind: DocumentKind.describe(
    "text: Markdown in a Y.Text, for CodeMirror and other text editors; rich: nodes in an XML fragment, for TipTap, " +
      "BlockNote and other editors of ProseMirror",
  ),
  fragment: z.string().nullable().describe(
    "XML fragment of a rich document that editors bind to; null until its first content names it, and for text",
  ),
  state: DocumentState,
  locked: z.boolean().describe(
    "Whether only moderators of the room, or owners of a private document, may change the content",
  ),
  revision: z.int().describe("Increases with every change of the content, including live edits"),
  generation: z.string().describe(
    "Changes only if the CRDT is rebuilt; copies of another generation must be discarded",
  ),
  metadata: z.record(z.string(), Json),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  editedBy: PrincipalId.describe("Principal that last changed the content"),
  editedAt: Time,
  deletedAt: Time.nullable(),
}).meta({ id: "Document" });
export type Document = z.output<typeof Document>;

const placing = {
  roomId: RoomId.optional().describe("Room of the document. Default: a private document of the caller"),
  parentId: DocumentId.nullable().default(null).describe("Parent document; null for none"),
  metadata: Metadata.default({}),
};

const kindInput = {
  kind: DocumentKind.default("text").describe("text: for text editors; rich: for TipTap, BlockNote and the like"),
  fragment: FragmentName.optional().describe(
    "XML fragment of a rich document, as its editors name it: `default` in TipTap, `document-store` in BlockNote. " +
      "Default: that of the first content. It also decides which names Markdown gets as nodes: those of BlockNote for " +
      "`document-store`, of prosemirror-markdown for `prosemirror`, otherwise of TipTap",
  ),
};

/** Content in one of several formats. */
export const contentInput = {
  html: Text.optional().describe("Instead of `text`, for rich documents: HTML, without its scripts and styles"),
  prosemirror: RichDocument.optional().describe(
    "Instead of `text`, for rich documents: ProseMirror JSON of any schema",
  ),
};

export const DocumentCreate = z.strictObject({
  title: Title,
  ...kindInput,
  text: Text.optional().describe("Content as Markdown. Default: empty"),
  ...contentInput,
  ...placing,
});
export type DocumentCreate = z.output<typeof DocumentCreate>;

export const DocumentImport = z.strictObject({
  markdown: Text.describe("Markdown text"),
  title: Title.optional().describe("Default: the first heading, or else the first line"),
  ...kindInput,
  ...placing,
});
export type DocumentImport = z.output<typeof DocumentImport>;

export const DocumentList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Default: all rooms visible to the caller, and private documents"),
  parentId: z.string().max(64).optional().describe(
    "Only children of this document; `root`: documents without a parent",
  ),
  q: z.string().trim().min(1).max(100).optional().describe("Part of the title"),
  kind: DocumentKind.optional().describe("Only documents of this kind"),
  state: z.enum([...DOCUMENT_STATES, "deleted"]).default("active"),
  sort: z.enum(SORTS).default("-updatedAt"),
});
export type DocumentList = z.output<typeof DocumentList>;

export const DocumentUpdate = z.strictObject({
  id: DocumentId,
  title: Title.optional(),
  parentId: DocumentId.nullable().optional().describe("New parent document; null for none"),
  roomId: RoomId.optional().describe("Room to move the document and all documents under it to"),
  locked: z.boolean().optional().describe(
    "Whether only moderators of the room, or owners of a private document, may change the content",
  ),
  state: DocumentState.optional(),
  metadata: Metadata.optional(),
  version: BaseVersion,
});
export type DocumentUpdate = z.output<typeof DocumentUpdate>;

export const Anchor = z.strictObject({
  text: z.string().min(1).max(QUOTE_MAX).describe("Commented text, exactly as in the document"),
  prefix: z.string().max(200).optional().describe("Text right before it; needed if it occurs more than once"),
  suffix: z.string().max(200).optional().describe("Text right after it"),
}).meta({ id: "DocumentAnchor" });
export type Anchor = z.output<typeof Anchor>;

export const Comment = z.object({
  id: CommentId,
  documentId: DocumentId,
  parentId: CommentId.nullable().describe("Comment that this one replies to"),
  authorId: PrincipalId.describe("Principal that wrote the comment"),
  text: z.string().describe("Text of the comment"),
  anchor: z.object({
    quote: z.string().describe("Commented text at the time of the comment"),
    text: z.string().nullable().describe(
      `Commented text now; null if it was deleted or is longer than ${ANCHORED_MAX} characters, in which case ` +
        "the positions locate it",
    ),
    start: z.int().nullable().describe("Current start of the commented text, in UTF-16 code units"),
    end: z.int().nullable().describe("Current end of the commented text, in UTF-16 code units"),
  }).nullable().describe("Commented text; null for a comment on the whole document"),
  resolved: z.boolean().describe("Whether the comment is resolved"),
  resolvedBy: PrincipalId.nullable().describe("Principal that resolved it; null if it is not resolved"),
  resolvedAt: Time.nullable().describe("When it was resolved; null if it is not resolved"),
  version: z.int(),
  createdAt: Time,
  updatedAt: Time,
}).meta({ id: "DocumentComment" });
export type Comment = z.output<typeof Comment>;

const CommentMentions = Mentions.pick({ groups: true, ignored: true }).meta({ id: "DocumentCommentMentions" });
export type CommentMentions = z.output<typeof CommentMentions>;

export const ChangedComment = Comment.extend({
  mentions: CommentMentions.optional().describe(
    "What became of the groups that the text names, and of names that are not mentioned. Absent if there are none",
  ),
}).meta({ id: "ChangedDocumentComment" });
export type ChangedComment = z.output<typeof ChangedComment>;

/** A comment as search finds it: without its anchor, which takes the text of its document. */
export const FoundComment = Comment.omit({ anchor: true }).extend({
  roomId: RoomId.nullable().describe("Room of the document; null if it is private"),
  documentTitle: z.string().describe("Title of the document"),
}).meta({ id: "FoundComment" });
export type FoundComment = z.output<typeof FoundComment>;

export const CommentList = z.strictObject({
  ...pageInput,
  id: DocumentId,
  resolved: z.boolean().optional().describe("Only resolved or unresolved comments. Default: both"),
});
export type CommentList = z.output<typeof CommentList>;

export const CommentCreate = z.strictObject({
  id: DocumentId,
  text: z.string().trim().min(1).max(COMMENT_MAX).describe(
    "Text of the comment; readers of the document that it names as `@handle` or `@id` are notified",
  ),
  anchor: Anchor.optional().describe("Text to comment on. Default: the whole document"),
  parentId: CommentId.optional().describe("Comment to reply to; replies have no anchor of their own"),
});
export type CommentCreate = z.output<typeof CommentCreate>;

export const CommentUpdate = z.strictObject({
  id: DocumentId,
  commentId: CommentId.describe("Id of the comment"),
  text: z.string().trim().min(1).max(COMMENT_MAX).optional().describe("New text of the comment"),
  resolved: z.boolean().optional().describe("Only for comments that are not replies"),
  version: BaseVersion,
});
export type CommentUpdate = z.output<typeof CommentUpdate>;

export const CommentRef = z.strictObject({ id: DocumentId, commentId: CommentId.describe("Id of the comment") });
export type CommentRef = z.output<typeof CommentRef>;

export const DocumentAccessEntry = z.object({ principalId: PrincipalId, role: AccessRole })
  .meta({ id: "DocumentAccess" });
export type DocumentAccessEntry = z.output<typeof DocumentAccessEntry>;

export const AccessPut = z.strictObject({ id: DocumentId, principalId: PrincipalRef, role: AccessRole });
export type AccessPut = z.output<typeof AccessPut>;
export const AccessRef = z.strictObject({ id: DocumentId, principalId: PrincipalRef });
export type AccessRef = z.output<typeof AccessRef>;

/** Fields that may be long, and are shortened in events. */
export const LONG_FIELDS = ["metadata"] as const satisfies (keyof Document)[];
export const LONG_COMMENT_FIELDS = ["text", "anchor"] as const satisfies (keyof Comment)[];
const streams: EventType["streams"] = ["room", "principal"];

/** Durable events of documents, on the room stream, or on those of the readers of a private document. */
export const DOCUMENT_EVENTS: readonly EventType[] = eventTypes("document.read", [
  {
    type: "document.created",
    summary: "A document was created",
    data: snapshotSchema("document", Document, LONG_FIELDS),
    streams,
  },
  {
    type: "document.updated",
    summary: "A document was changed. Live edits are batched for a few seconds. After a restore, read the document. " +
      "For `content` (the text) and `access`, only the name of the field is sent",
    data: changesSchema(Document).extend({
      documentId: DocumentId,
      roomId: RoomId.nullable(),
      principalIds: z.array(PrincipalId).describe("Principal that changed it"),
    }),
    streams,
  },
  {
    type: "document.deleted",
    summary: "A document was deleted, moved to another room, or is no longer shared",
    data: z.object({
      documentId: DocumentId,
      roomId: RoomId.nullable(),
      reason: z.enum(["deleted", "moved", "unshared"]).describe("deleted: restorable for 30 days"),
    }),
    streams,
  },
  {
    type: "document.commented",
    summary: "A comment was created, changed, resolved or deleted",
    data: z.object({
      documentId: DocumentId,
      action: z.enum(["created", "updated", "resolved", "reopened", "deleted"]),
      comment: shortenedSchema(Comment, LONG_COMMENT_FIELDS),
      omitted: OmittedFields,
    }),
    streams,
  },
]);
