// Markdown to nodes, in the names of TipTap. The parser is that of text documents, whose cost and nesting are bounded. HTML in
// Markdown is read as code.
import { Fault } from "@/core/fault.ts";
import { TEXT_MAX_BYTES } from "../limits.ts";
import { mergeTexts, type RichMark, type RichNode } from "./node.ts";
import { safeUrl } from "./url.ts";

type Parser = InstanceType<typeof import("markdown-it").default>;
type Token = ReturnType<Parser["parse"]>[number];

/** Expanded references must not make the output many times larger than the source. */
const URLS_MAX_CHARS = 4 * TEXT_MAX_BYTES;
const BLOCKS: Readonly<Record<string, string>> = {
  paragraph_open: "paragraph",
  heading_open: "heading",
  blockquote_open: "blockquote",
  bullet_list_open: "bulletList",
  ordered_list_open: "orderedList",
  list_item_open: "listItem",
  table_open: "table",
  tr_open: "tableRow",
  th_open: "tableHeader",
  td_open: "tableCell",
};
const MARKS: Readonly<Record<string, string>> = { strong: "bold", em: "italic", s: "strike" };
const TASK = /^\[([ xX])\] /;

let loading: Promise<Parser> | undefined;

function loadParser(): Promise<Parser> {
  return loading ??= import("markdown-it").then(({ default: Markdown }) => {
    const parser = new Markdown({ html: true });
    // An escaped bracket does not begin a task.
    parser.core.ruler.disable("text_join");
    parser.normalizeLink = (url) => url;
    parser.normalizeLinkText = (text) => text;
    return parser;
  });
}

export async function fromMarkdown(markdown: string): Promise<RichNode[]> {
  const parser = await loadParser();
  return new MarkdownReader(parser.utils.unescapeAll).blocks(parser.parse(markdown, {}));
}

class MarkdownReader {
  readonly #unescape: (text: string) => string;
  #urlChars = 0;

  constructor(unescape: (text: string) => string) {
    this.#unescape = unescape;
  }

  blocks(tokens: readonly Token[]): RichNode[] {
    const root: RichNode[] = [];
    const open: RichNode[] = [];
    const add = (...nodes: RichNode[]): void => {
      const parent = open.at(-1);
      if (parent === undefined) root.push(...nodes);
      else (parent.content ??= []).push(...nodes);
    };
    for (const token of tokens) {
      const type = BLOCKS[token.type];
      if (type !== undefined) open.push(openBlock(type, token));
      else if (token.type === "inline") this.#addInline(open.at(-1), this.#inline(token.children ?? []));
      else if (token.type === "fence" || token.type === "code_block") {
        add(codeBlock(token.content, this.#unescape(token.info)));
      } else if (token.type === "html_block") add(codeBlock(token.content, "html"));
      else if (token.type === "hr") add({ type: "horizontalRule" });
      else if (token.nesting === -1 && BLOCKS[token.type.replace("_close", "_open")] !== undefined) {
        const node = open.pop();
        if (node !== undefined) add(...closeBlock(node));
      }
    }
    return root;
  }

  /** Cells contain paragraphs; the others are texts themselves. */
  #addInline(parent: RichNode | undefined, content: RichNode[]): void {
    if (parent === undefined || content.length === 0) return;
    const isCell = parent.type === "tableHeader" || parent.type === "tableCell";
    parent.content = isCell ? [{ type: "paragraph", content }] : content;
  }

  #inline(tokens: readonly Token[]): RichNode[] {
    const nodes: RichNode[] = [];
    /** Marks that are open, and null for links that are not safe. */
    const marks: (RichMark | null)[] = [];
    const add = (text: string, ...more: RichMark[]): void => {
      const all = [...marks.filter((mark) => mark !== null), ...more];
      // Emphasis in emphasis is one mark.
      const own = all.filter(({ type }, at) => all.findIndex((other) => other.type === type) === at);
      nodes.push(own.length === 0 ? { type: "text", text } : { type: "text", text, marks: own });
    };
    for (const token of tokens) {
      const mark = MARKS[token.tag];
      if (token.type === "code_inline") add(token.content, { type: "code" });
      else if (token.type === "softbreak") add(" ");
      else if (token.type === "hardbreak") nodes.push({ type: "hardBreak" });
      else if (token.type === "image") {
        const src = this.#url(token.attrGet("src"));
        const alt = (token.children ?? []).map(({ content }) => content).join("");
        if (src === undefined) add(alt);
        else nodes.push({ type: "image", attrs: alt === "" ? { src } : { src, alt } });
      } else if (token.type === "link_open") {
        const href = this.#url(token.attrGet("href"));
        marks.push(href === undefined ? null : { type: "link", attrs: { href } });
      } else if (mark !== undefined && token.nesting === 1) marks.push({ type: mark });
      else if (token.nesting === -1) marks.pop();
      else add(token.content.replaceAll("\n", " "));
    }
    return mergeTexts(nodes);
  }

  #url(value: string | number | null): string | undefined {
    const url = value === null ? null : String(value);
    this.#urlChars += url?.length ?? 0;
    if (this.#urlChars > URLS_MAX_CHARS) {
      throw new Fault("payload_too_large", "Markdown with this many long references cannot be converted");
    }
    return url === null ? undefined : safeUrl(url);
  }
}

function openBlock(type: string, token: Token): RichNode {
  if (type === "heading") return { type, attrs: { level: Number(token.tag.slice(1)) } };
  const start = Number(token.attrGet("start") ?? 1);
  return type === "orderedList" && start !== 1 ? { type, attrs: { start } } : { type };
}

/** What a block becomes when it is complete. */
function closeBlock(node: RichNode): RichNode[] {
  const { type, content = [] } = node;
  const [only] = content;
  // An image by itself is a block, as most editors have it.
  if (type === "paragraph" && content.length === 1 && only?.type === "image") return [only];
  if (type === "bulletList" || type === "orderedList") return splitTasks(node);
  // Editors expect a paragraph first in an item, and one at least in the others.
  const isEmpty = content.length === 0 && ["blockquote", "tableHeader", "tableCell"].includes(type);
  if (isEmpty || (type === "listItem" && only?.type !== "paragraph")) {
    return [{ ...node, content: [{ type: "paragraph" }, ...content] }];
  }
  return [node];
}

/** Items with and without boxes are in lists of their own. */
function splitTasks(list: RichNode): RichNode[] {
  const lists: RichNode[] = [];
  for (const item of list.content ?? []) {
    const task = toTask(item);
    const type = task === undefined ? list.type : "taskList";
    let last = lists.at(-1);
    if (last?.type !== type) lists.push(last = task === undefined ? { ...list, content: [] } : { type, content: [] });
    last.content?.push(task ?? item);
  }
  return lists;
}

function toTask({ content: [first, ...others] = [] }: RichNode): RichNode | undefined {
  const [text, ...rest] = first?.content ?? [];
  const box = text?.marks === undefined ? TASK.exec(text?.text ?? "") : null;
  if (first === undefined || text?.text === undefined || box === null) return undefined;
  const inline = mergeTexts([{ ...text, text: text.text.slice(box[0].length) }, ...rest]);
  const paragraph: RichNode = inline.length === 0 ? { type: "paragraph" } : { ...first, content: inline };
  return { type: "taskItem", attrs: { checked: box[1] !== " " }, content: [paragraph, ...others] };
}

function codeBlock(source: string, info: string): RichNode {
  const text = source.endsWith("\n") ? source.slice(0, -1) : source;
  const language = info.trim().split(" ")[0] ?? "";
  return {
    type: "codeBlock",
    ...language === "" ? {} : { attrs: { language } },
    ...text === "" ? {} : { content: [{ type: "text", text }] },
  };
}
