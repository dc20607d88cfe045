// What is made of Markdown on its way out: HTML that is safe to open, and the list of blocks. The parser loads on first use.
import { Fault } from "@/core/fault.ts";
import { type Block, LINES_MAX } from "./schema.ts";

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

type Parser = InstanceType<typeof import("markdown-it").default>;

let loading: Promise<{ whole: Parser; blocks: Parser }> | undefined;

// Raw HTML in the source is shown as text, and links take no scheme that runs code: what goes out holds only tags that
// the renderer itself writes.
function parsers(markdown: string): Promise<{ whole: Parser; blocks: Parser }> {
  let lines = 1;
  for (let at = markdown.indexOf("\n"); at >= 0; at = markdown.indexOf("\n", at + 1)) lines++;
  if (lines > LINES_MAX) {
    const detail = `A document of more than ${LINES_MAX} lines is read and exported as Markdown only`;
    throw new Fault("payload_too_large", detail);
  }
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
  const body = (await parsers(markdown)).whole.render(markdown);
  return `<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>${
    escapeHtml(title)
  }</title>\n</head>\n<body>\n${body}</body>\n</html>\n`;
}

/** The top-level blocks, with the source of each. */
export async function blocksOf(markdown: string): Promise<Block[]> {
  const lines = markdown.split("\n");
  return (await parsers(markdown)).blocks.parse(markdown, {}).flatMap((token): Block[] => {
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
