// The values of a JSON file, apart: what reads a file chunk by chunk, in a worker where it is large. Whatever is in the file, no
// value passes that is too long, too deep or too many in one, or that no store takes. It imports little: a worker starts for each
// large import, and loads all of it.
import { Buffer } from "node:buffer";
import { findUnsafeText, hasMoreValuesThan, isDeeperThan, JSON_DEPTH_MAX } from "@/core/text/text.ts";

/** The longest line is that of a document: its text, with every byte escaped. */
export const LINE_MAX_BYTES = 8 * 1024 ** 2;
/** Values, objects and arrays in a line, which cost more than its bytes; most are in the reactions of a message. */
const LINE_VALUES_MAX = 200_000;

/** How values follow each other: one in each line, or all of them in one array. */
export type Layout = "lines" | "array";
/** A value's JSON, empty for an empty line; or why it is left out. */
export type ParsedItem = string | { code: string; detail: string };

/** A chunk of a file, or its end; the first after an end begins another file. */
export type ParseRequest = { layout: Layout; chunk: Uint8Array<ArrayBuffer> | null };

const [NEWLINE, QUOTE, BACKSLASH, COMMA] = [0x0a, 0x22, 0x5c, 0x2c];
const [ARRAY, ARRAY_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d, NEWLINE]);
const BYTE_ORDER_MARK: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf]);

/** Reads files, one after the other. */
export class JsonItemParser {
  #file: LineItems | ArrayItems | undefined;

  /** The values that end in this chunk. */
  read({ layout, chunk }: ParseRequest): ParsedItem[] {
    const file = this.#file ??= layout === "lines" ? new LineItems() : new ArrayItems();
    if (chunk !== null) return file.read(chunk);
    this.#file = undefined;
    return file.end();
  }
}

/** Bytes of a value that has not ended; of one that is too long only its length. */
class PartialItem {
  #parts: Uint8Array[] = [];
  size = 0;

  add(bytes: Uint8Array): void {
    this.size += bytes.length;
    if (this.size > LINE_MAX_BYTES) this.#parts = [];
    else if (bytes.length > 0) this.#parts.push(bytes);
  }

  /** The value, whole. */
  take(): ParsedItem {
    const { size } = this;
    const parts = this.#parts;
    this.#parts = [];
    this.size = 0;
    if (size > LINE_MAX_BYTES) return { code: "line_too_long", detail: `more than ${LINE_MAX_BYTES} bytes` };
    return validateItem(Buffer.concat(parts));
  }
}

class LineItems {
  readonly #line = new PartialItem();

  read(chunk: Uint8Array): ParsedItem[] {
    const items: ParsedItem[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      this.#line.add(chunk.subarray(start, end));
      items.push(this.#line.take());
      start = end + 1;
    }
    this.#line.add(chunk.subarray(start));
    return items;
  }

  end(): ParsedItem[] {
    return this.#line.size > 0 ? [this.#line.take()] : [];
  }
}

/** What is wrong outside of the items of an array ends the file. */
class ArrayItems {
  readonly #item = new PartialItem();
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #state: "before" | "within" | "behind" | "broken" = "before";
  #hasItems = false;

  read(chunk: Uint8Array): ParsedItem[] {
    const items: ParsedItem[] = [];
    let start = 0;
    const take = (end: number): void => {
      this.#item.add(chunk.subarray(start, end));
      start = end + 1;
      items.push(this.#item.take());
    };
    for (let at = 0; at < chunk.length && this.#state !== "broken"; at++) {
      const byte = chunk[at] ?? 0;
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) this.#isInString = false;
      } else if (this.#state !== "within") {
        if (BLANKS.has(byte) || (this.#state === "before" && BYTE_ORDER_MARK.has(byte))) continue;
        if (this.#state === "before" && byte === ARRAY) this.#state = "within";
        else items.push(this.#breakAt(this.#state));
        start = at + 1;
      } else if (byte === QUOTE) this.#isInString = true;
      else if (byte === ARRAY || byte === OBJECT) this.#depth++;
      else if (byte === COMMA && this.#depth === 0) {
        take(at);
        this.#hasItems = true;
      } else if (byte === ARRAY_END || byte === OBJECT_END) {
        if (--this.#depth >= 0) continue;
        this.#state = "behind";
        take(at);
        // An array may have nothing between its brackets.
        if (items.at(-1) === "" && !this.#hasItems) items.pop();
      }
    }
    if (this.#state === "within") this.#item.add(chunk.subarray(start));
    return items.map((item) => item === "" ? emptyItem() : item);
  }

  end(): ParsedItem[] {
    return this.#state === "behind" || this.#state === "broken" ? [] : [invalid("the array is not closed")];
  }

  #breakAt(state: "before" | "behind"): ParsedItem {
    this.#state = "broken";
    if (state === "before") return { code: "invalid_record", detail: "expected an array" };
    return invalid("data after the array");
  }
}

function emptyItem(): ParsedItem {
  return invalid("empty item");
}

function invalid(detail: string): ParsedItem {
  return { code: "invalid_json", detail };
}

/** The text of a value, after all that can be wrong with it. */
function validateItem(bytes: Uint8Array): ParsedItem {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return invalid("not UTF-8");
  }
  if (text.trim() === "") return "";
  if (isDeeperThan(text, JSON_DEPTH_MAX)) return invalid(`nested deeper than ${JSON_DEPTH_MAX}`);
  if (hasMoreValuesThan(text, LINE_VALUES_MAX)) {
    return { code: "too_many_values", detail: `more than ${LINE_VALUES_MAX}` };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return invalid("not JSON");
  }
  const unsafe = findUnsafeText(text, value);
  return unsafe === undefined ? text : { code: "invalid_text", detail: unsafe };
}
