// Schemas of content, edits of it, and revisions.
import { z } from "@zod/zod";
import { JsonObject } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { EDITS_MAX, TEXT_MAX_BYTES } from "../limits.ts";
import {
  CONTENT_FORMATS,
  contentInput,
  DocumentId,
  Revision,
  RevisionKind,
  RichDocument,
  Text,
  Time,
} from "../schema.ts";

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
  z.object({ ...content, format: z.literal("html"), html: z.string().describe("The whole content, without scripts") })
    .meta({ id: "DocumentHtml" }),
  z.object({ ...content, format: z.literal("text"), text: z.string().describe("Plain text; one block in each line") })
    .meta({ id: "DocumentText" }),
  z.object({
    ...content,
    format: z.literal("prosemirror"),
    prosemirror: RichDocument.describe("Nodes of a rich document"),
  })
    .meta({ id: "DocumentNodes" }),
  z.object({ ...content, format: z.literal("yjs"), update: z.string().describe("Yjs update (v1), base64") })
    .meta({ id: "DocumentYjs" }),
]).meta({ id: "DocumentContent" });
export type Content = z.output<typeof Content>;

export const ContentRead = z.strictObject({
  id: DocumentId,
  format: z.enum(CONTENT_FORMATS).default("markdown").describe(
    "json: blocks of Markdown; text: plain text, in which comments are anchored; prosemirror: nodes of a rich document",
  ),
  revision: Revision.optional().describe(
    "A stored revision. Default: the current one; the only one available with format `yjs`",
  ),
});
export type ContentRead = z.output<typeof ContentRead>;

export const ContentPut = z.strictObject({
  id: DocumentId,
  text: Text.optional().describe("New content as Markdown; unchanged parts are preserved"),
  ...contentInput,
  revision: Revision.optional().describe("Required: revision the change is based on (HTTP: If-Match)"),
});
export type ContentPut = z.output<typeof ContentPut>;

const Find = z.string().min(1).max(TEXT_MAX_BYTES).describe("Text to find, exactly as in the document");
const Occurrence = z.enum(["only", "first", "all"]).meta({ id: "EditOccurrence" }).default("only").describe(
  "Which occurrence to edit; only: fail if there are several",
);

const BlockIndex = z.int().min(0).describe("Top-level block, counted from 0");
const blockInput = {
  text: Text.optional().describe("Markdown of one or more blocks"),
  nodes: z.array(JsonObject).max(1000).optional().describe("Instead of `text`: blocks in ProseMirror JSON"),
};

export const Edit = z.discriminatedUnion("op", [
  z.strictObject({
    op: z.literal("replace").describe("Kind of edit"),
    find: Find,
    with: Text.describe("Replacement text; within a block of a rich document, without formatting"),
    occurrence: Occurrence,
  })
    .meta({ id: "DocumentEditReplace" }),
  z.strictObject({
    op: z.literal("insert_after").describe("Kind of edit"),
    find: Find,
    text: Text.describe("Markdown to insert after it; in a rich document text without formatting"),
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
  z.strictObject({
    op: z.literal("replace_block").describe("Kind of edit, of a rich document"),
    at: BlockIndex,
    ...blockInput,
  }).meta({ id: "DocumentEditReplaceBlock" }),
  z.strictObject({
    op: z.literal("insert_block").describe("Kind of edit, of a rich document"),
    at: BlockIndex.describe("Block to insert before, counted from 0; the number of blocks: after the last one"),
    ...blockInput,
  }).meta({ id: "DocumentEditInsertBlock" }),
  z.strictObject({
    op: z.literal("delete_block").describe("Kind of edit, of a rich document"),
    at: BlockIndex,
  }).meta({ id: "DocumentEditDeleteBlock" }),
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
  size: z.int().describe("Size of the text in bytes"),
  startedAt: Time,
  at: Time,
}).meta({ id: "DocumentRevision" });
export type RevisionInfo = z.output<typeof RevisionInfo>;

/** Metadata of a revision without its number and size. */
export type Origin = Omit<RevisionInfo, "revision" | "size">;

export const RevisionText = RevisionInfo.extend({
  text: z.string().describe("Text of the revision; plain text of a rich document"),
  prosemirror: RichDocument.nullable().describe("Nodes of a rich document; null for text"),
}).meta({
  id: "DocumentRevisionText",
});
export type RevisionText = z.output<typeof RevisionText>;

export const RevisionList = z.strictObject({ ...pageInput, id: DocumentId });
export type RevisionList = z.output<typeof RevisionList>;
export const RevisionRef = z.strictObject({ id: DocumentId, revision: z.coerce.number().int().min(1) });
export type RevisionRef = z.output<typeof RevisionRef>;
