// What becomes of the tables when a person is erased.
import { type PrincipalErasure, WORK_OF_ROOM, WRITTEN } from "@/core/erasure.ts";
import type { CommentService } from "./comment/service.ts";
import type { DocumentService } from "./service.ts";

/** Documents are work of their rooms, or of those who read them; comments are deleted as by their authors. */
export const documentErasure = (
  documents: Pick<DocumentService, "purgeUnshared">,
  comments: Pick<CommentService, "deleteMany">,
): PrincipalErasure => ({
  document: {
    key: ["id"],
    reads: ["room_id"],
    removal: {
      of: "created_by",
      isContent: true,
      applies: ({ room_id }) => room_id === null,
      run: ({ tenantId, principalId }, rows) =>
        documents.purgeUnshared(tenantId, principalId, rows.map(({ id }) => String(id))),
    },
    renames: ["created_by", "edited_by"],
    json: ["metadata_json"],
    keeps: { title: WORK_OF_ROOM },
  },
  document_access: { key: ["document_id", "principal_id"], deletes: ["principal_id"] },
  document_comment: {
    key: ["id"],
    renames: ["author_id", "resolved_by"],
    removal: {
      of: "author_id",
      isContent: true,
      run: ({ tenantId }, rows) => comments.deleteMany(tenantId, rows.map(({ id }) => String(id))),
    },
    keeps: { text: WRITTEN, quote: "a part of the document" },
  },
  document_revision: {
    key: ["document_id", "revision"],
    ids: ["principal_ids_json"],
    keeps: { text: WORK_OF_ROOM, nodes_json: WORK_OF_ROOM },
  },
  document_state: { key: ["document_id"], keeps: { text: WORK_OF_ROOM, snapshot: WORK_OF_ROOM } },
  document_update: { key: ["document_id", "revision"], renames: ["principal_id"], keeps: { data: WORK_OF_ROOM } },
});
