// Markdown to nodes and back, in the names of TipTap. The packages are loaded on first use. Markdown has no color or underline, and
// in tables no blocks: these are lost in Markdown, and HTML in Markdown is read as code.
import type { List, ListItem, Nodes, Parents, PhrasingContent, RootContent, TableRow } from "mdast";
import { Fault } from "@/core/fault.ts";
import { TEXT_MAX_BYTES } from "../limits.ts";
import { mergeTexts, plainTextOf, type RichMark, type RichNode } from "./node.ts";
import { safeUrl } from "./url.ts";

/** Marks by their place in the output, from the outside in. */
const MARKS = ["link", "bold", "italic", "strike", "code"] as const;
/** Expanded references must not make the output many times larger than the source. */
const URLS_MAX_CHARS = 4 * TEXT_MAX_BYTES;

type Packages = Awaited<ReturnType<typeof loadPackages>>;
let loading: Promise<Packages> | undefined;

async function loadPackages() {
  const [{ fromMarkdown }, { toMarkdown }, table, strike, task, tableSyntax, strikeSyntax, taskSyntax] = await Promise
    .all([
      import("mdast-util-from-markdown"),
      import("mdast-util-to-markdown"),
      import("mdast-util-gfm-table"),
      import("mdast-util-gfm-strikethrough"),
      import("mdast-util-gfm-task-list-item"),
      import("micromark-extension-gfm-table"),
      import("micromark-extension-gfm-strikethrough"),
      import("micromark-extension-gfm-task-list-item"),
    ]);
  return {
    parse: (markdown: string) =>
      fromMarkdown(markdown, {
        extensions: [
          tableSyntax.gfmTable(),
          strikeSyntax.gfmStrikethrough({ singleTilde: false }),
          taskSyntax.gfmTaskListItem(),
        ],
        mdastExtensions: [
          table.gfmTableFromMarkdown(),
          strike.gfmStrikethroughFromMarkdown(),
          task.gfmTaskListItemFromMarkdown(),
        ],
      }),
    print: (tree: Nodes) =>
      toMarkdown(tree, {
        bullet: "-",
        listItemIndent: "one",
        rule: "-",
        extensions: [
          table.gfmTableToMarkdown({ tablePipeAlign: false }),
          strike.gfmStrikethroughToMarkdown(),
          task.gfmTaskListItemToMarkdown(),
        ],
      }),
  };
}

/** Nodes of Markdown. */
export async function fromMarkdown(markdown: string): Promise<RichNode[]> {
  const { parse } = await (loading ??= loadPackages());
  const root = parse(markdown);
  return new MarkdownReader(root.children).blocks(root.children);
}

/** Markdown of nodes that have the names of TipTap. */
export async function toMarkdown(nodes: readonly RichNode[]): Promise<string> {
  const { print } = await (loading ??= loadPackages());
  return print({ type: "root", children: nodes.flatMap(toBlock) });
}

class MarkdownReader {
  readonly #urls = new Map<string, { url: string; title?: string | null | undefined }>();
  #chars = 0;

  constructor(children: readonly RootContent[]) {
    const open: (readonly Nodes[])[] = [children];
    for (let last = open.pop(); last !== undefined; last = open.pop()) {
      for (const node of last) {
        if (node.type === "definition" && !this.#urls.has(node.identifier)) this.#urls.set(node.identifier, node);
        if ("children" in node) open.push(node.children);
      }
    }
  }

  blocks(children: Parents["children"]): RichNode[] {
    return children.flatMap((node): RichNode[] => {
      switch (node.type) {
        case "paragraph":
          return this.#paragraph(node.children);
        case "heading":
          return [withContent({ type: "heading", attrs: { level: node.depth } }, this.#inline(node.children))];
        case "blockquote":
          return [withContent({ type: "blockquote" }, this.#nonEmpty(node.children))];
        case "list":
          return this.#list(node);
        case "code":
          return [{ ...codeBlock(node.value), ...node.lang ? { attrs: { language: node.lang } } : {} }];
        case "thematicBreak":
          return [{ type: "horizontalRule" }];
        case "table":
          return [{ type: "table", content: node.children.map((row, at) => this.#row(row, at === 0)) }];
        case "html":
          return [{ ...codeBlock(node.value), attrs: { language: "html" } }];
        case "definition":
          return [];
        default:
          return "children" in node ? this.blocks(node.children) : [];
      }
    });
  }

  /** An image by itself is a block, as most editors have it. */
  #paragraph(children: readonly PhrasingContent[]): RichNode[] {
    const inline = this.#inline(children);
    const [only] = inline;
    if (inline.length === 1 && only?.type === "image") return [only];
    return [withContent({ type: "paragraph" }, inline)];
  }

  #nonEmpty(children: Parents["children"]): RichNode[] {
    const blocks = this.blocks(children);
    return blocks.length === 0 ? [{ type: "paragraph" }] : blocks;
  }

  /** Items with and without boxes are in lists of their own. */
  #list({ ordered, start, children }: List): RichNode[] {
    const lists: RichNode[] = [];
    for (const item of children) {
      const isTask = typeof item.checked === "boolean";
      const type = isTask ? "taskList" : ordered ? "orderedList" : "bulletList";
      let last = lists.at(-1);
      if (last?.type !== type) {
        last = { type, content: [] };
        if (type === "orderedList" && typeof start === "number" && start !== 1) last.attrs = { start };
        lists.push(last);
      }
      last.content?.push(this.#item(item, isTask));
    }
    return lists;
  }

  #item({ checked, children }: ListItem, isTask: boolean): RichNode {
    const content = this.#nonEmpty(children);
    // Editors expect a paragraph first.
    if (content[0]?.type !== "paragraph") content.unshift({ type: "paragraph" });
    return isTask ? { type: "taskItem", attrs: { checked }, content } : { type: "listItem", content };
  }

  #row({ children }: TableRow, isHeader: boolean): RichNode {
    return {
      type: "tableRow",
      content: children.map((cell) => ({
        type: isHeader ? "tableHeader" : "tableCell",
        content: [withContent({ type: "paragraph" }, this.#inline(cell.children))],
      })),
    };
  }

  #inline(children: readonly PhrasingContent[], marks: readonly RichMark[] = []): RichNode[] {
    const text = (value: string, ...more: RichMark[]): RichNode[] => {
      if (value === "") return [];
      const all = [...marks, ...more];
      return [all.length === 0 ? { type: "text", text: value } : { type: "text", text: value, marks: all }];
    };
    const within = (node: { children: readonly PhrasingContent[] }, mark: RichMark): RichNode[] =>
      this.#inline(node.children, marks.some(({ type }) => type === mark.type) ? marks : [...marks, mark]);
    return mergeTexts(children.flatMap((node): RichNode[] => {
      switch (node.type) {
        case "text":
          return text(node.value.replaceAll("\n", " "));
        case "inlineCode":
          return text(node.value, { type: "code" });
        case "html":
          return text(node.value.replaceAll("\n", " "));
        case "strong":
          return within(node, { type: "bold" });
        case "emphasis":
          return within(node, { type: "italic" });
        case "delete":
          return within(node, { type: "strike" });
        case "break":
          return [{ type: "hardBreak" }];
        case "link":
        case "linkReference": {
          const href = this.#url(node);
          return href === undefined
            ? this.#inline(node.children, marks)
            : within(node, { type: "link", attrs: { href } });
        }
        case "image":
        case "imageReference": {
          const src = this.#url(node);
          if (src === undefined) return text(node.alt ?? "");
          return [{ type: "image", attrs: { src, ...node.alt ? { alt: node.alt } : {} } }];
        }
        default:
          return [];
      }
    }));
  }

  #url(node: { url: string } | { identifier: string }): string | undefined {
    const url = "url" in node ? node.url : this.#urls.get(node.identifier)?.url ?? "";
    this.#chars += url.length;
    if (this.#chars > URLS_MAX_CHARS) {
      throw new Fault("payload_too_large", "Markdown with this many long references cannot be converted");
    }
    return safeUrl(url);
  }
}

function codeBlock(text: string): RichNode {
  return withContent({ type: "codeBlock" }, text === "" ? [] : [{ type: "text", text }]);
}

function withContent(node: RichNode, content: RichNode[]): RichNode {
  return content.length === 0 ? node : { ...node, content };
}

function toBlock(node: RichNode): RootContent[] {
  const { type, attrs = {}, content = [] } = node;
  switch (type) {
    case "text":
    case "hardBreak":
    case "image":
      return [{ type: "paragraph", children: toInline([node]) }];
    case "heading":
      return [{ type: "heading", depth: levelOf(attrs.level), children: toInline(content) }];
    case "blockquote":
      return [{ type: "blockquote", children: content.flatMap(toBlock) as never[] }]; // any blocks
    case "bulletList":
    case "orderedList":
    case "taskList": {
      const isOrdered = type === "orderedList";
      const start = isOrdered && typeof attrs.start === "number" ? attrs.start : isOrdered ? 1 : null;
      return [{ type: "list", ordered: isOrdered, start, spread: false, children: content.map(toItem) }];
    }
    case "codeBlock":
      return [{ type: "code", lang: languageOf(attrs.language), value: plainTextOf(content) }];
    case "horizontalRule":
      return [{ type: "thematicBreak" }];
    case "table":
      return [{ type: "table", children: content.map(toRow) }];
    default:
      if (content.length === 0) {
        const label = labelOf(node);
        return label === "" ? [] : [{ type: "paragraph", children: [{ type: "text", value: label }] }];
      }
      return isInline(content) ? [{ type: "paragraph", children: toInline(content) }] : content.flatMap(toBlock);
  }
}

function toItem({ type, attrs = {}, content = [] }: RichNode): ListItem {
  const blocks = (isInline(content) ? [{ type: "paragraph", content }] : content).flatMap(toBlock);
  const checked = type === "taskItem" ? attrs.checked === true : null;
  return { type: "listItem", spread: false, checked, children: blocks as never[] }; // any blocks
}

function toRow({ content = [] }: RichNode): TableRow {
  return {
    type: "tableRow",
    children: content.map(({ content: blocks = [] }) => {
      const lines = (isInline(blocks) ? [{ type: "paragraph", content: blocks }] : blocks).map((block) =>
        block.content !== undefined && isInline(block.content)
          ? block.content
          : [{ type: "text", text: plainTextOf([block]) }]
      );
      // A cell is one line.
      const inline = lines.flatMap((line, at) => at === 0 ? line : [{ type: "text", text: " " }, ...line]);
      const children = toInline(
        mergeTexts(inline.map((node) => node.type === "hardBreak" ? { type: "text", text: " " } : node)),
      );
      return { type: "tableCell", children };
    }),
  };
}

/** Texts in nested marks: the outer one of two is that which covers more of them. */
function toInline(nodes: readonly RichNode[]): PhrasingContent[] {
  const children: PhrasingContent[] = [];
  for (let at = 0; at < nodes.length;) {
    const { mark, length } = longestMark(nodes, at);
    const group = nodes.slice(at, at + length);
    if (mark === undefined) children.push(...group.flatMap(toLeaf));
    else if (mark.type === "code") children.push({ type: "inlineCode", value: plainTextOf(group) });
    else {
      const inner = toInline(group.map((node) => ({ ...node, marks: withoutMark(node, mark.type) })));
      if (mark.type === "link") {
        const url = safeUrl(String(mark.attrs?.href ?? ""));
        children.push(...url === undefined ? inner : [{ type: "link", url, children: inner } as PhrasingContent]);
      } else {
        const type = mark.type === "bold" ? "strong" : mark.type === "italic" ? "emphasis" : "delete";
        children.push({ type, children: inner });
      }
    }
    at += length;
  }
  return children;
}

/** The mark of a node that most of the following nodes have as well. Code contains no other marks. */
function longestMark(nodes: readonly RichNode[], at: number): { mark: RichMark | undefined; length: number } {
  let longest: { mark: RichMark | undefined; length: number } = { mark: undefined, length: 1 };
  for (const name of MARKS) {
    const mark = findMark(nodes[at], name);
    if (mark === undefined || (name === "code" && longest.mark !== undefined)) continue;
    let length = 1;
    for (
      let other = findMark(nodes[at + length], name);
      other !== undefined;
      other = findMark(nodes[at + length], name)
    ) {
      const isOnlyCode = name !== "code" ||
        MARKS.every((one) => one === "code" || findMark(nodes[at + length], one) === undefined);
      if (other.attrs?.href !== mark.attrs?.href || !isOnlyCode) break;
      length++;
    }
    if (longest.mark === undefined || length > longest.length) longest = { mark, length };
  }
  return longest;
}

function findMark(node: RichNode | undefined, name: string): RichMark | undefined {
  return node?.marks?.find(({ type }) => type === name);
}

function withoutMark({ marks = [] }: RichNode, name: string): RichMark[] {
  return marks.filter(({ type }) => type !== name);
}

function toLeaf(node: RichNode): PhrasingContent[] {
  if (node.type === "hardBreak") return [{ type: "break" }];
  if (node.type === "image") {
    const { src = "", alt = "" } = node.attrs ?? {};
    return [{ type: "image", url: safeUrl(String(src)) ?? "", alt: String(alt) }];
  }
  const value = node.text ?? (plainTextOf(node.content ?? []) || labelOf(node));
  const lines = value.split("\n").flatMap((
    line,
  ): PhrasingContent[] => [{ type: "break" }, { type: "text", value: line }]);
  return lines.slice(1).filter((line) => line.type === "break" || (line.type === "text" && line.value !== ""));
}

function isInline(nodes: readonly RichNode[]): boolean {
  return nodes.some(({ type }) => type === "text" || type === "hardBreak");
}

/** What is written for a node without text, such as a mention. */
export function labelOf({ attrs = {} }: RichNode): string {
  const label = [attrs.label, attrs.alt, attrs.name, attrs.url].find((value) => typeof value === "string");
  return typeof label === "string" ? label : "";
}

export function levelOf(level: unknown): 1 | 2 | 3 | 4 | 5 | 6 {
  return level === 2 || level === 3 || level === 4 || level === 5 || level === 6 ? level : 1;
}

/** A language as a word, as Markdown and class names need it. */
export function languageOf(language: unknown): string | null {
  if (typeof language !== "string") return null;
  return language.slice(0, 40).split(/[\s`"]/)[0] || null;
}
