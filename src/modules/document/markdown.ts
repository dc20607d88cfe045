// What is made of Markdown on its way out: HTML that is safe to open, and the list of blocks. The parser loads on first use.
import { Fault } from "@/core/fault.ts";
import { LINES_MAX, TEXT_MAX_BYTES } from "./bounds.ts";
import type { Block } from "./schema.ts";

const TYPES: Readonly<Record<string, string>> = {
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
/** Addresses and titles in HTML. Those that stand in the text come to three times the text at most, percent signs and all. */
const ATTRIBUTES_MAX_CHARS = 4 * TEXT_MAX_BYTES;

type Parser = InstanceType<typeof import("markdown-it").default>;
type Tokens = ReturnType<Parser["parse"]>;

let loading: Promise<{ whole: Parser; blocks: Parser }> | undefined;

// Raw HTML in the source is shown as text, and links take no scheme that runs code: what goes out holds only tags that
// the renderer itself writes.
function parsers(): Promise<{ whole: Parser; blocks: Parser }> {
  loading ??= import("markdown-it").then(({ default: Markdown }) => {
    const [whole, blocks] = [new Markdown({ html: false }), new Markdown({ html: false })];
    // What is inside of a block is not looked at.
    blocks.core.ruler.disable("inline");
    return { whole, blocks };
  });
  return loading;
}

/** A whole HTML page. */
export async function htmlOf(title: string, markdown: string): Promise<string> {
  linesOf(markdown);
  const { whole } = await parsers();
  const environment = {};
  const tokens = whole.parse(markdown, environment);
  checkAttributes(tokens);
  const body = whole.renderer.render(tokens, whole.options, environment);
  return `<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>${
    escapeHtml(title)
  }</title>\n</head>\n<body>\n${body}</body>\n</html>\n`;
}

/** The top-level blocks, with the source of each. */
export async function blocksOf(markdown: string): Promise<Block[]> {
  const lines = linesOf(markdown);
  return (await parsers()).blocks.parse(markdown, {}).flatMap((token): Block[] => {
    const type = token.level === 0 ? TYPES[token.type] : undefined;
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
export function linesOf(markdown: string): string[] {
  const lines = normalized(markdown).split("\n");
  if (lines.length <= LINES_MAX) return lines;
  throw new Fault(
    "payload_too_large",
    `A document of more than ${LINES_MAX} lines is read and exported as Markdown only`,
  );
}

/** Throws where references, written out at each place that names one, would make much of little. */
function checkAttributes(tokens: Tokens): void {
  let chars = 0;
  for (const token of tokens) {
    for (const { attrs } of token.children ?? []) {
      for (const [, value] of attrs ?? []) chars += String(value).length;
    }
  }
  if (chars > ATTRIBUTES_MAX_CHARS) {
    throw new Fault("payload_too_large", "A document that names long references so often is exported as Markdown only");
  }
}

/** A title for imported Markdown: its first heading, else its first line that says something. */
export function titleOf(markdown: string): string | undefined {
  const heading = /^ {0,3}#{1,6}[ \t]+(.+)$/m.exec(markdown)?.[1] ?? "";
  const line = withoutClosing(heading) || markdown.split("\n").find((text) => /[\p{L}\p{N}]/u.test(text));
  const title = line?.trim();
  return title === undefined || title === "" ? undefined : [...title].slice(0, TITLE_MAX_CHARS / 2).join("");
}

/** A heading without the hashes that may close it; a regular expression would try again from each of them. */
function withoutClosing(heading: string): string {
  let end = heading.length;
  while (end > 0 && " \t#".includes(heading.charAt(end - 1))) end--;
  return heading.slice(0, end);
}

/** Markdown as other programs write it, as we keep it: no byte order mark, and one way to end a line. */
export function normalized(markdown: string): string {
  return markdown.replace(/^\uFEFF/, "").replaceAll(/\r\n?/g, "\n");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
