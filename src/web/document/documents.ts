// Documents in lists: those of a room, or all of the caller's.
import { type Signal, signal } from "@preact/signals";
import { listAll, post } from "../core/api.ts";
import { onEvent } from "../core/live.ts";

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
};

const PATH = "v1/collaboration/documents";
const READ_AGAIN_MS = 300;

/** The documents of a room, or all; read again when one of them changes. */
export function openDocuments(roomId: string | undefined): {
  documents: Signal<readonly Document[] | undefined>;
  read(): Promise<void>;
  close(): void;
} {
  const documents = signal<readonly Document[] | undefined>(undefined);
  let timer: ReturnType<typeof setTimeout> | undefined;
  async function read(): Promise<void> {
    documents.value = await listAll<Document>(PATH, { state: "active", ...roomId === undefined ? {} : { roomId } });
  }
  const close = onEvent(({ type }) => {
    if (!/^document\.(?:created|updated|deleted)$/.test(type)) return;
    clearTimeout(timer);
    // The list stays as it was until the next change.
    timer = setTimeout(() => void read().catch(() => undefined), READ_AGAIN_MS);
  });
  return { documents, read, close };
}

export function createDocument(
  fields: { title: string; kind?: string; roomId?: string; parentId?: string },
): Promise<Document> {
  return post<Document>(PATH, fields);
}
