// The records of documents in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { Counter, listOf } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { JsonObject } from "@/core/json.ts";
import { hasMoreValuesThan, isDeeperThan, isLongerThan } from "@/core/text/text.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { parseNodes, RICH_JSON_DEPTH_MAX, RICH_JSON_VALUES_MAX } from "../rich/node.ts";
import {
  ACCESS_ROLES,
  AUTHORS_MAX,
  COMMENT_MAX,
  CommentId,
  DOCUMENT_KINDS,
  DOCUMENT_STATES,
  DocumentId,
  FragmentName,
  QUOTE_MAX,
  REVISION_KINDS,
  TEXT_MAX_BYTES,
} from "../schema.ts";

/** Whether a text is the JSON of nodes, within the limits of a document. */
function isNodes(json: string): boolean {
  const isTooLarge = isLongerThan(json, TEXT_MAX_BYTES) || isDeeperThan(json, RICH_JSON_DEPTH_MAX) ||
    hasMoreValuesThan(json, RICH_JSON_VALUES_MAX);
  if (isTooLarge) return false;
  try {
    parseNodes(JSON.parse(json), "");
    return true;
  } catch {
    // Neither JSON nor nodes.
    return false;
  }
}

const origin = {
  kind: z.enum(REVISION_KINDS),
  principalIds: z.array(PrincipalId).max(AUTHORS_MAX),
  startedAt: TimeInput,
  at: TimeInput,
};
export const DocumentRecord = z.object({
  id: DocumentId,
  roomId: RoomId.nullable(),
  parentId: DocumentId.nullable(),
  title: z.string(),
  // Archives of earlier versions have text documents only.
  kind: z.enum(DOCUMENT_KINDS).default("text"),
  fragment: FragmentName.nullable().default(null),
  state: z.enum(DOCUMENT_STATES),
  locked: z.boolean(),
  revision: Counter.min(1),
  metadata: JsonObject,
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: TimeInput,
  updatedAt: TimeInput,
  editedBy: PrincipalId,
  editedAt: TimeInput,
  readers: listOf(z.object({ principalId: PrincipalId, role: z.enum(ACCESS_ROLES) })),
  origin: z.object(origin).optional(),
});
export const RevisionRecord = z.object({
  documentId: DocumentId,
  revision: Counter.min(1),
  ...origin,
  text: z.string().refine((text) => !isLongerThan(text, TEXT_MAX_BYTES), `More than ${TEXT_MAX_BYTES} bytes`),
  nodes: z.string().refine(isNodes, "expected the nodes of a rich document as JSON").nullable().default(null),
});
const EncodedAnchor = z.string().max(100);
export const CommentRecord = z.object({
  documentId: DocumentId,
  id: CommentId,
  parentId: CommentId.nullable(),
  authorId: PrincipalId,
  text: z.string().min(1).max(COMMENT_MAX),
  anchor: z.object({ quote: z.string().min(1).max(QUOTE_MAX), start: EncodedAnchor, end: EncodedAnchor }).nullable(),
  resolvedBy: PrincipalId.nullable(),
  resolvedAt: TimeInput.nullable(),
  version: Counter.min(1),
  createdAt: TimeInput,
  updatedAt: TimeInput,
}).refine(
  ({ resolvedBy, resolvedAt }) => (resolvedBy === null) === (resolvedAt === null),
  "resolvedBy and resolvedAt must be set together",
);
