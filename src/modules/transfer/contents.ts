// Contents in archives of lines: after the line that tells of a file or a document come its bytes, in pieces.
import type { CalendarCarrier } from "@/modules/calendar/mod.ts";
import type { DocumentCarrier } from "@/modules/document/mod.ts";
import type { FileLinks, FileService, FileWriter } from "@/modules/file/mod.ts";
import type { MeetingCarrier } from "@/modules/meeting/mod.ts";
import type { TaskCarrier } from "@/modules/task/mod.ts";
import type { Line } from "./lines.ts";

/** Where contents come from, and where they go. */
export type Contents = {
  carrier: DocumentCarrier;
  tasks: TaskCarrier;
  calendar: CalendarCarrier;
  meetings: MeetingCarrier;
  files: FileService;
  writer: FileWriter;
  links: FileLinks;
};

/** Bytes of a piece, a multiple of three: its base64 is four thirds of them. */
const PIECE_BYTES = 192 * 1024;

/** What the archive has of a content is not what it says of it. */
export class Damaged extends Error {
  override readonly name = "Damaged";
}

/** The lines of a content, one at a time. */
export async function* pieces(
  of: string,
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<unknown> {
  for await (const chunk of content) {
    for (let at = 0; at < chunk.length; at += PIECE_BYTES) {
      yield { type: "content", of, data: chunk.subarray(at, at + PIECE_BYTES).toBase64() };
    }
  }
}

/** Lines that can be looked at before they are taken. */
export class Lines {
  readonly #lines: AsyncIterator<Line>;
  #peeked: IteratorResult<Line> | undefined;

  constructor(lines: AsyncIterable<Line>) {
    this.#lines = lines[Symbol.asyncIterator]();
  }

  /** The next line, taken; `undefined` at the end. */
  async next(): Promise<Line | undefined> {
    const line = await this.#peek();
    this.#peeked = undefined;
    return line;
  }

  /** The content whose pieces come next. What is not read of it is left for who reads on. */
  async *content(of: string): AsyncGenerator<Uint8Array> {
    for (let data = pieceOf(await this.#peek(), of); data !== undefined; data = pieceOf(await this.#peek(), of)) {
      this.#peeked = undefined;
      yield bytesOf(data);
    }
  }

  /** To be called at the end, whatever it was: lets go of where the lines come from. */
  async close(): Promise<void> {
    await this.#lines.return?.();
  }

  async #peek(): Promise<Line | undefined> {
    this.#peeked ??= await this.#lines.next();
    return this.#peeked.done === true ? undefined : this.#peeked.value;
  }
}

function pieceOf(line: Line | undefined, of: string): string | undefined {
  const { value } = line ?? {};
  const isPiece = typeof value === "object" && value !== null && "type" in value && value.type === "content" &&
    "of" in value && value.of === of && "data" in value && typeof value.data === "string";
  return isPiece ? String(value.data) : undefined;
}

function bytesOf(data: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(data);
  } catch {
    throw new Damaged("A piece of the content is no base64");
  }
}
