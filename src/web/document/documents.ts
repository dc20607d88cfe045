// Documents in lists: those of a room, or all of the caller's.
import { listAll, post } from "../core/api.ts";

export type Document = {
  id: string;
  roomId: string | null;
  parentId: string | null;
  title: string;
  kind: "text" | "rich";
  fragment: string | null;
  state: "active" | "archived";
  locked: boolean;
  revision: number;
  version: number;
  createdBy: string;
  editedBy: string;
  editedAt: string;
  deletedAt: string | null;
};

export const DOCUMENTS = "v1/collaboration/documents";

/** The documents of a room, or all. */
export function readDocuments(
  roomId: string | undefined,
  state: "active" | "deleted" = "active",
): Promise<Document[]> {
  return listAll<Document>(DOCUMENTS, { state, roomId });
}

export function createDocument(
  fields: { title: string; kind?: string; roomId?: string; parentId?: string },
): Promise<Document> {
  return post<Document>(DOCUMENTS, fields);
}
