// Contents in NDJSON archives: the record of a file or a document is followed by records with its bytes, in chunks.
import { CorruptContent } from "@/core/archive/section.ts";
import type { FileAttachments, FileService, FileWriter } from "@/modules/file/mod.ts";
import type { JsonValue } from "./json_reader.ts";

/** The services of other modules that read and write contents. */
export type ModuleArchives = { files: FileService; writer: FileWriter; attachments: FileAttachments };

/** Bytes of a piece, a multiple of three: its base64 is four thirds of them. */
const CHUNK_BYTES = 192 * 1024;

/** The lines of a content, one at a time. */
export async function* contentRecords(
  of: string,
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<unknown> {
  for await (const chunk of content) {
    for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
      yield { type: "content", of, data: chunk.subarray(at, at + CHUNK_BYTES).toBase64() };
    }
  }
}

/** Records with a lookahead of one. */
export class RecordCursor {
  readonly #records: AsyncIterator<JsonValue>;
  #peeked: IteratorResult<JsonValue> | undefined;

  constructor(lines: AsyncIterable<JsonValue>) {
    this.#records = lines[Symbol.asyncIterator]();
  }

  /** Reads the next line; `undefined` at the end. */
  async next(): Promise<JsonValue | undefined> {
    const line = await this.#peek();
    this.#peeked = undefined;
    return line;
  }

  /** The content whose pieces follow. Pieces that are not read here are skipped by the next reader. */
  async *content(of: string): AsyncGenerator<Uint8Array> {
    for (
      let data = contentDataOf(await this.#peek(), of);
      data !== undefined;
      data = contentDataOf(await this.#peek(), of)
    ) {
      this.#peeked = undefined;
      yield decodeContent(data);
    }
  }

  /** Called at the end, also after a failure: closes the source of the records. */
  async close(): Promise<void> {
    await this.#records.return?.();
  }

  async #peek(): Promise<JsonValue | undefined> {
    this.#peeked ??= await this.#records.next();
    return this.#peeked.done === true ? undefined : this.#peeked.value;
  }
}

function contentDataOf(line: JsonValue | undefined, of: string): string | undefined {
  const { value } = line ?? {};
  const isPiece = typeof value === "object" && value !== null && "type" in value && value.type === "content" &&
    "of" in value && value.of === of && "data" in value && typeof value.data === "string";
  return isPiece ? String(value.data) : undefined;
}

function decodeContent(data: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(data);
  } catch {
    throw new CorruptContent("expected base64");
  }
}
