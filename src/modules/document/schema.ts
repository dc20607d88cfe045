// Documents, their content, revisions and comments as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { Metadata, RoomId } from "@/modules/room/mod.ts";
import { TEXT_MAX_BYTES } from "./bounds.ts";

export { LINES_MAX, TEXT_MAX_BYTES } from "./bounds.ts";
export const DOCUMENT_STATES = ["active", "archived"] as const;
export const REVISION_KINDS = ["created", "written", "live", "restored"] as const;
export const ACCESS_ROLES = ["reader", "editor", "owner"] as const;
const SORTS = ["-updatedAt", "updatedAt", "title", "-createdAt", "createdAt"] as const;
export type DocumentSort = (typeof SORTS)[number];

export const TITLE_MAX = 200;
/** A text of that size as JSON, every second byte escaped. */
export const BODY_MAX_BYTES = 2 * TEXT_MAX_BYTES + 64 * 1024;
export const COMMENT_MAX = 4000;
export const COMMENTS_MAX = 2000;
export const QUOTE_MAX = 1000;
/** A text that has grown beyond this is not repeated with each comment on it. */
export const ANCHORED_MAX = 4000;
export const EDITS_MAX = 100;
/** Places that the edits of one call may change. */
export const PLACES_MAX = 5000;
export const REVISIONS_MAX = 200;
export const REVISION_DAYS = 90;
/** Who edited is told of that many at most. */
export const AUTHORS_MAX = 100;
export const DEPTH_MAX = 20;
/** Documents that are deleted or moved to another room together, in one transaction for which others wait. */
export const BRANCH_MAX = 2000;
export const READERS_MAX = 200;
/** Bytes of the CRDT, which remembers what was deleted: snapshot and updates. */
export const STATE_MAX_BYTES = 16 * 1024 * 1024;
/** Pieces that a text is written and deleted in; each takes a few hundred bytes wherever the document is open. */
export const PARTS_MAX = 100_000;
export const FRAME_MAX_BYTES = 64 * 1024;
export const UPDATE_MAX_BYTES = 512 * 1024;
export const EDITORS_MAX = 100;
/** Of those on one socket, so that no socket takes all the places there are. */
export const VIEWS_MAX = 8;

export const DocumentId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");
export const CommentId = DocumentId;
const Title = z.string().trim().min(1).max(TITLE_MAX);
/** Its bytes are counted where it is used: what is too long is 413, as a body would be. */
const Text = z.string();
const Time = z.iso.datetime();
const Revision = z.int().min(1);
const Version = z.int().min(1).optional()
  .describe("Refuse unless this is the current version (HTTP: If-Match)");

export const Document = z.object({
  id: DocumentId,
  roomId: RoomId.nullable().describe("null: private, for those it is shared with"),
  parentId: DocumentId.nullable(),
  title: z.string(),
  state: z.enum(DOCUMENT_STATES),
  locked: z.boolean().describe("Only moderators of the room, or owners of a private document, change its content"),
  revision: z.int().describe("Grows with every change of the content, live edits included"),
  generation: z.string().describe(
    "Changes only if the CRDT is built anew; a copy of another generation must be dropped",
  ),
  metadata: z.record(z.string(), Json),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  editedBy: PrincipalId.describe("Who changed the content last"),
  editedAt: Time,
  deletedAt: Time.nullable(),
}).meta({ id: "Document" });
export type Document = z.output<typeof Document>;

const placing = {
  roomId: RoomId.optional().describe("Absent: a private document of the caller"),
  parentId: DocumentId.nullable().default(null),
  metadata: Metadata.default({}),
};

export const DocumentCreate = z.strictObject({
  title: Title,
  text: Text.default("").describe("Markdown"),
  ...placing,
});
export type DocumentCreate = z.output<typeof DocumentCreate>;

export const DocumentImport = z.strictObject({
  markdown: Text,
  title: Title.optional().describe("Default: the first heading, else the first line"),
  ...placing,
});
export type DocumentImport = z.output<typeof DocumentImport>;

export const DocumentList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Default: every room the caller sees, and private documents"),
  parentId: z.string().max(64).optional().describe("Children of this document; `root`: those without a parent"),
  q: z.string().trim().min(1).max(100).optional().describe("Part of the title"),
  state: z.enum([...DOCUMENT_STATES, "deleted"]).default("active"),
  sort: z.enum(SORTS).default("-updatedAt"),
});
export type DocumentList = z.output<typeof DocumentList>;

export const DocumentUpdate = z.strictObject({
  id: DocumentId,
  title: Title.optional(),
  parentId: DocumentId.nullable().optional().describe("null: no parent"),
  roomId: RoomId.optional().describe("Moves the document and everything under it to another room"),
  locked: z.boolean().optional(),
  state: z.enum(DOCUMENT_STATES).optional(),
  metadata: Metadata.optional(),
  version: Version,
});
export type DocumentUpdate = z.output<typeof DocumentUpdate>;

const content = {
  documentId: DocumentId,
  revision: z.int(),
  version: z.int().describe("The revision again; it makes the ETag that If-Match wants"),
  generation: z.string(),
};

export const Block = z.object({
  type: z.string().describe("heading, paragraph, list, quote, code, table, rule …"),
  level: z.int().nullable().describe("Of a heading"),
  language: z.string().nullable().describe("Of code"),
  markdown: z.string(),
  firstLine: z.int().describe("Counted from 0"),
  lastLine: z.int().describe("The line after its last"),
}).meta({ id: "DocumentBlock" });
export type Block = z.output<typeof Block>;

export const Content = z.discriminatedUnion("format", [
  z.object({ ...content, format: z.literal("markdown"), text: z.string() }).meta({ id: "DocumentMarkdown" }),
  z.object({ ...content, format: z.literal("json"), blocks: z.array(Block) }).meta({ id: "DocumentBlocks" }),
  z.object({ ...content, format: z.literal("yjs"), update: z.string().describe("A Yjs update (v1), base64") })
    .meta({ id: "DocumentYjs" }),
]).meta({ id: "DocumentContent" });
export type Content = z.output<typeof Content>;

export const ContentRead = z.strictObject({
  id: DocumentId,
  format: z.enum(["markdown", "json", "yjs"]).default("markdown"),
  revision: Revision.optional().describe("One that is kept; not for yjs, which only has the present"),
});
export type ContentRead = z.output<typeof ContentRead>;

export const ContentPut = z.strictObject({
  id: DocumentId,
  text: Text.describe("The whole new text; what did not change is left alone"),
  revision: Revision.optional().describe("Required: the revision this is based on (HTTP: If-Match)"),
});
export type ContentPut = z.output<typeof ContentPut>;

const Find = z.string().min(1).max(TEXT_MAX_BYTES);
const Occurrence = z.enum(["only", "first", "all"]).default("only").describe("only: refuse when it is there twice");

export const Edit = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("replace"), find: Find, with: Text, occurrence: Occurrence }),
  z.strictObject({ op: z.literal("insert_after"), find: Find, text: Text, occurrence: Occurrence }),
  z.strictObject({ op: z.literal("append"), text: Text }),
  z.strictObject({ op: z.literal("prepend"), text: Text }),
]).meta({ id: "DocumentEdit" });
export type Edit = z.output<typeof Edit>;

export const ContentPatch = z.strictObject({
  id: DocumentId,
  baseRevision: Revision.describe("The revision the edits were made for"),
  edits: z.array(Edit).min(1).max(EDITS_MAX).describe("Applied in order, all or none"),
  onStale: z.enum(["reject", "rebase"]).default("reject")
    .describe("When the document moved on: refuse, or apply the edits to what it is now"),
});
export type ContentPatch = z.output<typeof ContentPatch>;

export const ContentChange = z.object({
  revision: z.int(),
  version: z.int().describe("The revision again; it makes the ETag"),
  generation: z.string(),
  applied: z.int().describe("Edits made to the text"),
}).meta({ id: "DocumentContentChange" });
export type ContentChange = z.output<typeof ContentChange>;

export const RevisionInfo = z.object({
  revision: z.int(),
  kind: z.enum(REVISION_KINDS).describe("live: a stretch of co-editing"),
  principalIds: z.array(PrincipalId).describe("Who edited"),
  bytes: z.int(),
  startedAt: Time,
  at: Time,
}).meta({ id: "DocumentRevision" });
export type RevisionInfo = z.output<typeof RevisionInfo>;

/** How a content came to be, apart from its number and size. */
export type Origin = Omit<RevisionInfo, "revision" | "bytes">;

export const RevisionText = RevisionInfo.extend({ text: z.string() }).meta({ id: "DocumentRevisionText" });
export type RevisionText = z.output<typeof RevisionText>;

export const RevisionList = z.strictObject({ ...pageInput, id: DocumentId });
export type RevisionList = z.output<typeof RevisionList>;
export const RevisionRef = z.strictObject({ id: DocumentId, revision: z.coerce.number().int().min(1) });
export type RevisionRef = z.output<typeof RevisionRef>;

export const Anchor = z.strictObject({
  text: z.string().min(1).max(QUOTE_MAX).describe("The commented text, as it stands in the document"),
  prefix: z.string().max(200).optional().describe("What comes right before it, where it is there more than once"),
  suffix: z.string().max(200).optional().describe("What comes right after it"),
}).meta({ id: "DocumentAnchor" });
export type Anchor = z.output<typeof Anchor>;

export const Comment = z.object({
  id: CommentId,
  documentId: DocumentId,
  parentId: CommentId.nullable().describe("The comment this one replies to"),
  authorId: PrincipalId,
  text: z.string(),
  anchor: z.object({
    quote: z.string().describe("The text when the comment was made"),
    text: z.string().nullable().describe(
      `What has become of it; null: deleted, or longer than ${ANCHORED_MAX}, and then the places say where it is`,
    ),
    start: z.int().nullable().describe("Where it is now, in UTF-16 units"),
    end: z.int().nullable(),
  }).nullable(),
  resolved: z.boolean(),
  resolvedBy: PrincipalId.nullable(),
  resolvedAt: Time.nullable(),
  version: z.int(),
  createdAt: Time,
  updatedAt: Time,
}).meta({ id: "DocumentComment" });
export type Comment = z.output<typeof Comment>;

export const CommentList = z.strictObject({
  ...pageInput,
  id: DocumentId,
  resolved: z.boolean().optional().describe("Default: both"),
});
export type CommentList = z.output<typeof CommentList>;

export const CommentCreate = z.strictObject({
  id: DocumentId,
  text: z.string().trim().min(1).max(COMMENT_MAX),
  anchor: Anchor.optional().describe("Absent: about the whole document"),
  parentId: CommentId.optional().describe("Reply to this comment; replies have no anchor of their own"),
});
export type CommentCreate = z.output<typeof CommentCreate>;

export const CommentUpdate = z.strictObject({
  id: DocumentId,
  commentId: CommentId,
  text: z.string().trim().min(1).max(COMMENT_MAX).optional(),
  resolved: z.boolean().optional().describe("Of a comment that is no reply"),
  version: Version,
});
export type CommentUpdate = z.output<typeof CommentUpdate>;

export const CommentRef = z.strictObject({ id: DocumentId, commentId: CommentId });
export type CommentRef = z.output<typeof CommentRef>;

export const DocumentAccess = z.object({ principalId: PrincipalId, role: z.enum(ACCESS_ROLES) })
  .meta({ id: "DocumentAccess" });
export type DocumentAccess = z.output<typeof DocumentAccess>;

export const AccessPut = z.strictObject({ id: DocumentId, principalId: PrincipalRef, role: z.enum(ACCESS_ROLES) });
export type AccessPut = z.output<typeof AccessPut>;
export const AccessRef = z.strictObject({ id: DocumentId, principalId: PrincipalRef });
export type AccessRef = z.output<typeof AccessRef>;

const streams: EventType["streams"] = ["room", "principal"];

/** Durable events of documents: on the stream of their room, or of everybody who may read a private one. */
export const DOCUMENT_EVENTS: readonly EventType[] = [
  { type: "document.created", summary: "A document was made", data: z.object({ document: Document }), streams },
  {
    type: "document.updated",
    summary: "A document changed; live edits are told together, seconds later",
    data: z.object({
      document: Document,
      changed: z.array(z.string()).describe("Fields that changed; `content` for the text"),
      principalIds: z.array(PrincipalId).describe("Who did it"),
    }),
    streams,
  },
  {
    type: "document.deleted",
    summary: "A document was deleted, moved to another room, or is no longer shared",
    data: z.object({
      documentId: DocumentId,
      roomId: RoomId.nullable(),
      reason: z.enum(["deleted", "moved", "unshared"]).describe("deleted: it can be restored for 30 days"),
    }),
    streams,
  },
  {
    type: "document.commented",
    summary: "A comment was made, changed, resolved or deleted",
    data: z.object({
      documentId: DocumentId,
      action: z.enum(["created", "updated", "resolved", "reopened", "deleted"]),
      comment: Comment,
    }),
    streams,
  },
];
