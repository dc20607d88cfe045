// Why an import or an export ends before its time.
import type { Failure } from "./schema.ts";

/** The archive as a whole cannot be imported. */
export class ArchiveFault extends Error {
  override readonly name = "ArchiveFault";
  readonly failure: Failure;

  constructor(code: Failure["code"], detail: string) {
    super(detail);
    this.failure = { code, detail: clip(detail) };
  }
}

/** The import was cancelled, or is somebody else's now. */
export class Cancelled extends Error {
  override readonly name = "Cancelled";
}

/** Names from archives are shown short, and without what a store refuses. */
export function clip(text: string): string {
  return text.slice(0, 200).toWellFormed().replaceAll("\0", "�");
}
