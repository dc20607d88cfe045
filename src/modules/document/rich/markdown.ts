// Markdown of nodes that have the names of TipTap. The packages are loaded on first use. Markdown has no color or underline, and in
// tables no blocks: these are lost.
import type { ListItem, Nodes, PhrasingContent, RootContent, TableRow } from "mdast";
import { mergeTexts, plainTextOf, type RichMark, type RichNode } from "./node.ts";
import { safeUrl } from "./url.ts";

/** Marks that Markdown has, from the outside in where two cover the same texts. */
const MARKS = ["link", "bold", "italic", "strike", "code"] as const;

let loading: Promise<(tree: Nodes) => string> | undefined;

async function loadPrinter(): Promise<(tree: Nodes) => string> {
  const [{ toMarkdown }, table, strike, task] = await Promise.all([
    import("mdast-util-to-markdown"),
    import("mdast-util-gfm-table"),
    import("mdast-util-gfm-strikethrough"),
    import("mdast-util-gfm-task-list-item"),
  ]);
  const extensions = [
    table.gfmTableToMarkdown({ tablePipeAlign: false }),
    strike.gfmStrikethroughToMarkdown(),
    task.gfmTaskListItemToMarkdown(),
  ];
  return (tree) => toMarkdown(tree, { bullet: "-", listItemIndent: "one", rule: "-", extensions });
}

/** Markdown of nodes that have the names of TipTap. */
export async function toMarkdown(nodes: readonly RichNode[]): Promise<string> {
  const print = await (loading ??= loadPrinter());
  return print({ type: "root", children: nodes.flatMap(toBlock) });
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
    // Not spread: a text may have more lines than a call may have arguments.
    if (mark === undefined) { for (const leaf of group.flatMap(toLeaf)) children.push(leaf); }
    else if (mark.type === "code") children.push({ type: "inlineCode", value: plainTextOf(group) });
    else {
      const inner = toInline(group.map((node) => ({ ...node, marks: withoutMark(node, mark.type) })));
      if (mark.type === "link") {
        const url = safeUrl(String(mark.attrs?.href ?? ""));
        if (url !== undefined) children.push({ type: "link", url, children: inner } as PhrasingContent);
        else for (const one of inner) children.push(one);
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
