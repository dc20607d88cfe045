// Renders Markdown as safe HTML and as a list of blocks. The parser is loaded on first use.
import { escapeHtml } from "@/core/text/text.ts";
import { Fault } from "@/core/fault.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { LINES_MAX, TEXT_MAX_BYTES } from "./limits.ts";
import type { Block } from "./content/schema.ts";

const BLOCK_TYPES: Readonly<Record<string, string>> = {
  heading_open: "heading",
  paragraph_open: "paragraph",
  bullet_list_open: "list",
  ordered_list_open: "list",
  blockquote_open: "quote",
  fence: "code",
  code_block: "code",
  table_open: "table",
  hr: "rule",
  html_block: "paragraph",
};
const TITLE_MAX_CHARS = 200;
/** URLs and titles in HTML. Without references they are at most three times the text, with percent encoding. */
const ATTRIBUTES_MAX_CHARS = 4 * TEXT_MAX_BYTES;

type Parser = InstanceType<typeof import("markdown-it").default>;
type Tokens = ReturnType<Parser["parse"]>;

let loading: Promise<{ whole: Parser; blocks: Parser }> | undefined;

// Raw HTML in the source is rendered as text, and links have no scheme that runs code: the output contains only tags that the
// renderer writes itself.
function parsers(): Promise<{ whole: Parser; blocks: Parser }> {
  loading ??= import("markdown-it").then(({ default: Markdown }) => {
    const [whole, blocks] = [new Markdown({ html: false }), new Markdown({ html: false })];
    // Blocks are returned as source, so their content need not be parsed.
    blocks.core.ruler.disable("inline");
    return { whole, blocks };
  });
  return loading;
}

/** A whole HTML page. */
export async function toHtml(title: string, markdown: string): Promise<string> {
  splitLines(markdown);
  const { whole } = await parsers();
  const environment = {};
  const tokens = whole.parse(markdown, environment);
  assertAttributes(tokens);
  return htmlPage(title, whole.renderer.render(tokens, whole.options, environment));
}

export function htmlPage(title: string, body: string): string {
  return `<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>${
    escapeHtml(title)
  }</title>\n</head>\n<body>\n${body}</body>\n</html>\n`;
}

/** The top-level blocks, with the source of each. */
export async function parseBlocks(markdown: string): Promise<Block[]> {
  const lines = splitLines(markdown);
  return (await parsers()).blocks.parse(markdown, {}).flatMap((token): Block[] => {
    const type = token.level === 0 ? BLOCK_TYPES[token.type] : undefined;
    if (type === undefined || token.map === null) return [];
    const [firstLine, lastLine] = token.map;
    return [{
      type,
      level: type === "heading" ? Number(token.tag.slice(1)) : null,
      language: type === "code" ? token.info.trim().split(/\s/)[0] || null : null,
      markdown: lines.slice(firstLine, lastLine).join("\n").trimEnd(),
      firstLine,
      lastLine,
    }];
  });
}

/** The lines as the parser counts them; throws for too many. */
export function splitLines(markdown: string): string[] {
  const lines = normalizeMarkdown(markdown).split("\n");
  if (lines.length <= LINES_MAX) return lines;
  throw new Fault("payload_too_large", `A document with more than ${LINES_MAX} lines is available as Markdown only`);
}

/** Throws if expanded references would make the output many times larger than the source. */
function assertAttributes(tokens: Tokens): void {
  let chars = 0;
  for (const token of tokens) {
    for (const { attrs } of token.children ?? []) {
      for (const [, value] of attrs ?? []) chars += String(value).length;
    }
  }
  if (chars > ATTRIBUTES_MAX_CHARS) {
    throw new Fault("payload_too_large", "A document with this many long references is available as Markdown only");
  }
}

/** The title of imported Markdown: its first heading, or else its first line with a letter or digit. */
export function extractTitle(markdown: string): string | undefined {
  const heading = /^ {0,3}#{1,6}[ \t]+(.+)/m.exec(markdown)?.[1] ?? "";
  const line = stripClosingHashes(heading) || markdown.split("\n").find((text) => /[\p{L}\p{N}]/u.test(text));
  const title = sanitizeName(line ?? "");
  return title === "" ? undefined : [...title].slice(0, TITLE_MAX_CHARS / 2).join("");
}

/** Removes the closing hashes of a heading. A regular expression would backtrack at each of them. */
function stripClosingHashes(heading: string): string {
  let end = heading.length;
  while (end > 0 && " \t#".includes(heading.charAt(end - 1))) end--;
  return heading.slice(0, end);
}

/** Removes the byte order mark and normalizes line endings. */
export function normalizeMarkdown(markdown: string): string {
  return markdown.replace(/^\uFEFF/, "").replaceAll(/\r\n?/g, "\n");
}
