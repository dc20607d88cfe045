// The records of documents in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { Counter, listOf, Time } from "@/core/archive_fields.ts";
import { JsonObject } from "@/core/json.ts";
import { isLongerThan } from "@/core/text.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import {
  ACCESS_ROLES,
  AUTHORS_MAX,
  COMMENT_MAX,
  CommentId,
  DOCUMENT_STATES,
  DocumentId,
  QUOTE_MAX,
  REVISION_KINDS,
  TEXT_MAX_BYTES,
} from "./schema.ts";

const origin = {
  kind: z.enum(REVISION_KINDS),
  principalIds: z.array(PrincipalId).max(AUTHORS_MAX),
  startedAt: Time,
  at: Time,
};
export const DocumentRecord = z.object({
  id: DocumentId,
  roomId: RoomId.nullable(),
  parentId: DocumentId.nullable(),
  title: z.string(),
  state: z.enum(DOCUMENT_STATES),
  locked: z.boolean(),
  revision: Counter.min(1),
  metadata: JsonObject,
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  editedBy: PrincipalId,
  editedAt: Time,
  readers: listOf(z.object({ principalId: PrincipalId, role: z.enum(ACCESS_ROLES) })),
  origin: z.object(origin).optional(),
});
export const RevisionRecord = z.object({
  documentId: DocumentId,
  revision: Counter.min(1),
  ...origin,
  text: z.string().refine((text) => !isLongerThan(text, TEXT_MAX_BYTES), `More than ${TEXT_MAX_BYTES} bytes`),
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
  resolvedAt: Time.nullable(),
  version: Counter.min(1),
  createdAt: Time,
  updatedAt: Time,
}).refine(
  ({ resolvedBy, resolvedAt }) => (resolvedBy === null) === (resolvedAt === null),
  "resolvedBy and resolvedAt must be set together",
);
