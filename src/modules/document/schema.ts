// Schemas of documents, their content, revisions and comments, and of their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { nameSchema } from "@/core/name.ts";
import { pageInput } from "@/core/page.ts";
import { changesSchema, OmittedFields, shortenedSchema, snapshotSchema } from "@/core/event_data.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { Metadata, RoomId } from "@/modules/room/mod.ts";
import { TEXT_MAX_BYTES } from "./limits.ts";

export { LINES_MAX, TEXT_MAX_BYTES } from "./limits.ts";
export const DOCUMENT_STATES = ["active", "archived"] as const;
const DocumentState = z.enum(DOCUMENT_STATES).meta({ id: "DocumentState" });
export const REVISION_KINDS = ["created", "written", "live", "restored"] as const;
const RevisionKind = z.enum(REVISION_KINDS).meta({ id: "DocumentRevisionKind" });
export const ACCESS_ROLES = ["reader", "editor", "owner"] as const;
export const AccessRole = z.enum(ACCESS_ROLES).meta({ id: "DocumentRole" });
const SORTS = ["-updatedAt", "updatedAt", "title", "-createdAt", "createdAt"] as const;
export type DocumentSort = (typeof SORTS)[number];

export const TITLE_MAX = 200;
/** A text of the maximal size as JSON, with every second byte escaped. */
export const BODY_MAX_BYTES = 2 * TEXT_MAX_BYTES + 64 * 1024;
export const COMMENT_MAX = 4000;
export const COMMENTS_MAX = 2000;
export const QUOTE_MAX = 1000;
/** Commented text beyond this length is not included in the comment. */
export const ANCHORED_MAX = 4000;
export const EDITS_MAX = 100;
/** Occurrences that the edits of one call may change. */
export const PLACES_MAX = 5000;
export const REVISIONS_MAX = 200;
export const REVISION_DAYS = 90;
/** Authors stored with a revision. */
export const AUTHORS_MAX = 100;
export const DEPTH_MAX = 20;
/** Documents deleted or moved to another room in one transaction, for which others wait. */
export const BRANCH_MAX = 2000;
export const READERS_MAX = 200;
/** Bytes of the CRDT, snapshot and updates together, including deleted text. */
export const STATE_MAX_BYTES = 16 * 1024 * 1024;
/** CRDT items of a document; each takes a few hundred bytes on every node that has it open. */
export const ITEMS_MAX = 100_000;
export const FRAME_MAX_BYTES = 64 * 1024;
export const UPDATE_MAX_BYTES = 512 * 1024;
export const EDITORS_MAX = 100;
/** Editors of one document on one socket, so that one socket cannot use up `EDITORS_MAX`. */
export const VIEWS_MAX = 8;

export const DocumentId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
export const CommentId = DocumentId;
const Title = nameSchema(TITLE_MAX).describe("Title of the document");
/** Unbounded here: the services count its bytes and respond with 413, as for a body. */
const Text = z.string();
const Time = z.iso.datetime();
const Revision = z.int().min(1);
const Version = z.int().min(1).optional()
  .describe(
    "Version the change is based on; fails with `version_mismatch` if it is not the current one (HTTP: " +
      "If-Match)",
  );

export const Document = z.object({
  id: DocumentId,
  roomId: RoomId.nullable().describe("null: a private document"),
  parentId: DocumentId.nullable().describe("Parent document; null at the top level"),
  title: z.string().describe("Title of the document"),
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

export const DocumentCreate = z.strictObject({
  title: Title,
  text: Text.default("").describe("Markdown"),
  ...placing,
});
export type DocumentCreate = z.output<typeof DocumentCreate>;

export const DocumentImport = z.strictObject({
  markdown: Text.describe("Markdown text"),
  title: Title.optional().describe("Default: the first heading, or else the first line"),
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
  version: Version,
});
export type DocumentUpdate = z.output<typeof DocumentUpdate>;

const content = {
  documentId: DocumentId,
  revision: z.int(),
  version: z.int().describe("The revision; the ETag expected by If-Match is derived from it"),
  generation: z.string(),
};

export const Block = z.object({
  type: z.string().describe("heading, paragraph, list, quote, code, table, rule …"),
  level: z.int().nullable().describe("Level of a heading"),
  language: z.string().nullable().describe("Language of a code block"),
  markdown: z.string().describe("Markdown of the block"),
  firstLine: z.int().describe("First line, counted from 0"),
  lastLine: z.int().describe("Line after the last one"),
}).meta({ id: "DocumentBlock" });
export type Block = z.output<typeof Block>;

export const Content = z.discriminatedUnion("format", [
  z.object({ ...content, format: z.literal("markdown"), text: z.string().describe("The whole text") }).meta({
    id: "DocumentMarkdown",
  }),
  z.object({ ...content, format: z.literal("json"), blocks: z.array(Block).describe("Blocks of the text, in order") })
    .meta({ id: "DocumentBlocks" }),
  z.object({ ...content, format: z.literal("yjs"), update: z.string().describe("Yjs update (v1), base64") })
    .meta({ id: "DocumentYjs" }),
]).meta({ id: "DocumentContent" });
export type Content = z.output<typeof Content>;

export const ContentRead = z.strictObject({
  id: DocumentId,
  format: z.enum(["markdown", "json", "yjs"]).default("markdown"),
  revision: Revision.optional().describe(
    "A stored revision. Default: the current one; the only one available with format `yjs`",
  ),
});
export type ContentRead = z.output<typeof ContentRead>;

export const ContentPut = z.strictObject({
  id: DocumentId,
  text: Text.describe("New text; unchanged parts are preserved"),
  revision: Revision.optional().describe("Required: revision the change is based on (HTTP: If-Match)"),
});
export type ContentPut = z.output<typeof ContentPut>;

const Find = z.string().min(1).max(TEXT_MAX_BYTES).describe("Text to find, exactly as in the document");
const Occurrence = z.enum(["only", "first", "all"]).default("only").describe(
  "Which occurrence to edit; only: fail if there are several",
);

export const Edit = z.discriminatedUnion("op", [
  z.strictObject({
    op: z.literal("replace").describe("Kind of edit"),
    find: Find,
    with: Text.describe("Replacement text"),
    occurrence: Occurrence,
  })
    .meta({ id: "DocumentEditReplace" }),
  z.strictObject({
    op: z.literal("insert_after").describe("Kind of edit"),
    find: Find,
    text: Text.describe("Markdown to insert after it"),
    occurrence: Occurrence,
  })
    .meta({ id: "DocumentEditInsertAfter" }),
  z.strictObject({
    op: z.literal("append").describe("Kind of edit"),
    text: Text.describe("Markdown to append"),
  }).meta({
    id: "DocumentEditAppend",
  }),
  z.strictObject({
    op: z.literal("prepend").describe("Kind of edit"),
    text: Text.describe("Markdown to prepend"),
  }).meta({
    id: "DocumentEditPrepend",
  }),
]).meta({ id: "DocumentEdit" });
export type Edit = z.output<typeof Edit>;

export const ContentPatch = z.strictObject({
  id: DocumentId,
  baseRevision: Revision.describe("Revision the edits are based on"),
  edits: z.array(Edit).min(1).max(EDITS_MAX).describe("Edits, applied in order; all or none"),
  onStale: z.enum(["reject", "rebase"]).default("reject")
    .describe("If the document has a newer revision: fail, or apply the edits to that one"),
});
export type ContentPatch = z.output<typeof ContentPatch>;

export const ContentChange = z.object({
  revision: z.int(),
  version: z.int().describe("The revision; the ETag is derived from it"),
  generation: z.string(),
  applied: z.int().describe("Edits that were applied"),
}).meta({ id: "DocumentContentChange" });
export type ContentChange = z.output<typeof ContentChange>;

export const RevisionInfo = z.object({
  revision: z.int(),
  kind: RevisionKind.describe("live: a session of live editing"),
  principalIds: z.array(PrincipalId).describe("Principals that edited"),
  bytes: z.int().describe("Size of the text in bytes"),
  startedAt: Time,
  at: Time,
}).meta({ id: "DocumentRevision" });
export type RevisionInfo = z.output<typeof RevisionInfo>;

/** Metadata of a revision without its number and size. */
export type Origin = Omit<RevisionInfo, "revision" | "bytes">;

export const RevisionText = RevisionInfo.extend({ text: z.string().describe("Text of the revision") }).meta({
  id: "DocumentRevisionText",
});
export type RevisionText = z.output<typeof RevisionText>;

export const RevisionList = z.strictObject({ ...pageInput, id: DocumentId });
export type RevisionList = z.output<typeof RevisionList>;
export const RevisionRef = z.strictObject({ id: DocumentId, revision: z.coerce.number().int().min(1) });
export type RevisionRef = z.output<typeof RevisionRef>;

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

export const CommentList = z.strictObject({
  ...pageInput,
  id: DocumentId,
  resolved: z.boolean().optional().describe("Only resolved or unresolved comments. Default: both"),
});
export type CommentList = z.output<typeof CommentList>;

export const CommentCreate = z.strictObject({
  id: DocumentId,
  text: z.string().trim().min(1).max(COMMENT_MAX).describe("Text of the comment"),
  anchor: Anchor.optional().describe("Text to comment on. Default: the whole document"),
  parentId: CommentId.optional().describe("Comment to reply to; replies have no anchor of their own"),
});
export type CommentCreate = z.output<typeof CommentCreate>;

export const CommentUpdate = z.strictObject({
  id: DocumentId,
  commentId: CommentId.describe("Id of the comment"),
  text: z.string().trim().min(1).max(COMMENT_MAX).optional().describe("New text of the comment"),
  resolved: z.boolean().optional().describe("Only for comments that are not replies"),
  version: Version,
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
