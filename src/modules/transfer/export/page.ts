// The copy of a person's data as one page to read in a browser: without scripts, and with nothing from elsewhere.
import { Buffer } from "node:buffer";
import { createYielder } from "@/core/caller.ts";
import { escapeHtml } from "@/core/text/text.ts";
import { JsonItemParser } from "../format/json_items.ts";

type Item = Readonly<Record<string, unknown>>;
/** What text of the copy can hide in it: it is no attribute, and no markup. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
const STYLE = "body{font:1rem/1.5 sans-serif;max-width:60rem;margin:auto;padding:1rem}" +
  "article{border-top:1px solid #8888;padding:.5rem 0}dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}" +
  "dt{color:#666}dd{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}img{max-width:100%}";
/** Pictures that a browser shows without running anything in them. */
const PICTURES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The page of these lines, part by part, charged to who asks for it. */
export function toPage(lines: AsyncIterable<Uint8Array<ArrayBuffer>>): ReadableStream<Uint8Array<ArrayBuffer>> {
  const yieldIfDue = createYielder();
  return ReadableStream.from(render(lines, yieldIfDue));
}

async function* render(
  lines: AsyncIterable<Uint8Array<ArrayBuffer>>,
  yieldIfDue: () => Promise<boolean>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  const parser = new JsonItemParser();
  const page = new Page();
  yield encoder.encode(page.begin());
  for await (const chunk of lines) {
    for (const item of parser.read({ layout: "lines", chunk })) {
      // A line that is too long says so in its place.
      yield encoder.encode(page.add(typeof item === "string" ? JSON.parse(item) : { type: "omitted", ...item }));
      await yieldIfDue();
    }
  }
  yield encoder.encode(page.end());
}

class Page {
  #type: string | undefined;
  /** The file whose content may follow, and bytes of it that wait for others to be encoded with. */
  #file: { id: string; start: string; end: string; rest: Uint8Array } | undefined;

  begin(): string {
    return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<meta http-equiv="Content-Security-Policy" content="${POLICY}"><title>Copy of your data</title>` +
      `<style>${STYLE}</style><h1>Copy of your data</h1>`;
  }

  add(record: Item): string {
    const { type, ...fields } = record;
    if (type === "content") return this.#content(fields);
    const before = this.#endFile();
    if (type === "export" || type === "end") return `${before}${listOf(fields)}`;
    const heading = type === this.#type ? "" : `<h2>${escapeHtml(String(type).replaceAll("_", " "))}</h2>`;
    this.#type = String(type);
    if (type === "file") this.#file = fileOf(fields);
    return `${before}${heading}<article>${listOf(fields)}`;
  }

  end(): string {
    return `${this.#endFile()}</html>\n`;
  }

  /** Base64 of pieces can be joined where each has a multiple of three bytes. */
  #content({ of, data }: Item): string {
    const file = this.#file;
    if (file === undefined || file.id !== of) return "";
    const bytes = Buffer.concat([file.rest, Buffer.from(String(data), "base64")]);
    const whole = bytes.length - bytes.length % 3;
    const { start } = file;
    Object.assign(file, { start: "", rest: bytes.subarray(whole) });
    return start + bytes.toString("base64", 0, whole);
  }

  #endFile(): string {
    const file = this.#file;
    this.#file = undefined;
    return file === undefined || file.start !== "" ? "" : `${Buffer.from(file.rest).toString("base64")}${file.end}`;
  }
}

function fileOf({ id, name, contentType }: Item): { id: string; start: string; end: string; rest: Uint8Array } {
  const label = escapeHtml(String(name));
  const file = { id: String(id), rest: new Uint8Array() };
  return PICTURES.has(String(contentType))
    ? { ...file, start: `<img alt="${label}" src="data:${contentType};base64,`, end: `">` }
    : {
      ...file,
      start: `<a download="${label}" href="data:application/octet-stream;base64,`,
      end: `">Save ${label}</a>`,
    };
}

function listOf(fields: Item): string {
  const rows = Object.entries(fields).filter(([, value]) => !isEmpty(value));
  return `<dl>${rows.map(([name, value]) => `<dt>${escapeHtml(name)}<dd dir="auto">${valueOf(value)}`).join("")}</dl>`;
}

function valueOf(value: unknown): string {
  if (Array.isArray(value)) return `<ul>${value.map((item) => `<li dir="auto">${valueOf(item)}`).join("")}</ul>`;
  return typeof value === "object" && value !== null ? listOf(value as Item) : escapeHtml(String(value));
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
