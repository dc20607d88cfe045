// Lines of a stream: split as they come, none longer than allowed, each with its number.
import { Buffer } from "node:buffer";
import { findUnsafeText, isDeeperThan } from "@/core/text.ts";
import type { Report } from "./report.ts";
import { LINE_MAX_BYTES } from "./schema.ts";

const NEWLINE = 10;
const DEPTH_MAX = 32;

/** After so many lines who reads them has a look around. */
const LINES_PER_LOOK = 5000;

export type Line = { number: number; value: unknown; bytes: number };

/** JSON as it was read; `raw` is what of it may hold something unsafe. */
type Parsed = { value: unknown; raw: string };

/**
 * The JSON values of a stream of lines. What is no JSON, or unsafe, goes into the report and is left out. `look` is called now
 * and then, whatever is in the lines.
 */
export async function* readLines(
  content: AsyncIterable<Uint8Array>,
  report: Report,
  look: () => Promise<void>,
  countBytes = true,
): AsyncGenerator<Line> {
  let number = 0;
  for await (const bytes of split(content, report, countBytes)) {
    if (++number % LINES_PER_LOOK === 0) await look();
    const where = `line ${number}`;
    if (bytes === undefined) {
      report.skip("line_too_long", `${where}: more than ${LINE_MAX_BYTES} bytes`);
      continue;
    }
    const parsed = parseJson(bytes, where, report);
    if (parsed === undefined || !isSafe(parsed, where, report)) continue;
    yield { number, value: parsed.value, bytes: bytes.length };
  }
}

/** JSON in UTF-8; `undefined`, and a note in the report, when it is not. */
export function parseJson(bytes: Uint8Array, where: string, report: Report): Parsed | undefined {
  try {
    const raw = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (raw.trim() === "") return undefined;
    if (isDeeperThan(raw, DEPTH_MAX)) throw new SyntaxError("nested too deep");
    return { value: JSON.parse(raw), raw };
  } catch {
    report.skip("invalid_json", where);
    return undefined;
  }
}

/** Whether it holds nothing that no store takes; a note in the report when it does. */
export function isSafe({ value, raw }: Parsed, where: string, report: Report): boolean {
  const unsafe = findUnsafeText(raw, value);
  if (unsafe !== undefined) report.skip("invalid_text", `${where}: ${unsafe}`);
  return unsafe === undefined;
}

/** `undefined` stands for a line that is too long. */
async function* split(
  content: AsyncIterable<Uint8Array>,
  report: Report,
  countBytes: boolean,
): AsyncGenerator<Uint8Array | undefined> {
  let parts: Uint8Array[] = [];
  let size = 0;
  function take(): Uint8Array | undefined {
    const line = size > LINE_MAX_BYTES ? undefined : Buffer.concat(parts);
    parts = [];
    size = 0;
    return line;
  }
  for await (const chunk of content) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      size += end - start;
      if (size <= LINE_MAX_BYTES) parts.push(chunk.subarray(start, end));
      start = end + 1;
      yield take();
    }
    size += chunk.length - start;
    // Of a line that is too long only its length is kept.
    if (size <= LINE_MAX_BYTES) parts.push(chunk.subarray(start));
    else parts = [];
    if (countBytes) report.done += chunk.length;
  }
  if (size > 0) yield take();
}
