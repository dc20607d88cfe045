// Files that a text names, by an address or in a node: they stay, and its readers may read them, as long as what has the text.
import type { FileAttachments, NamedFile } from "./attachments.ts";

const FILE_ID = /file_[0-9A-Za-z]{32}/g;
/** Most that are looked for in one text. */
const FILES_MAX = 200;

/** What a module needs whose texts name files. */
export type NamedFiles = Pick<FileAttachments, "attachNamed" | "detach">;
/** Naming a file is no right to show it: whether who named it has that. */
export type MayShow = (file: NamedFile) => boolean;

export function uploadedBy(principalId: string | undefined): MayShow {
  return (file) => file.uploader_id === principalId;
}

/** Ids of the files that a text names. */
export function namedFiles(text: string | null): Set<string> {
  return new Set((text ?? "").matchAll(FILE_ID).map(([id]) => id).take(FILES_MAX));
}
