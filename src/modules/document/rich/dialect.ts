// Names that editors give to the same nodes and marks. Markdown and HTML are converted through the names of TipTap; content written from
// them gets the names of the editor that the document is for.
import { mergeTexts, type RichMark, type RichNode } from "./node.ts";

export const DIALECTS = ["tiptap", "blocknote", "prosemirror"] as const;
export type Dialect = (typeof DIALECTS)[number];

// Maps, because editors choose any names, such as those that every object inherits.

/** Fragments by their usual editors. */
const BY_FRAGMENT: ReadonlyMap<string, Dialect> = new Map(Object.entries({
  "document-store": "blocknote",
  blocknote: "blocknote",
  prosemirror: "prosemirror",
}));
/** TipTap's names, by the lower-case names of others without underscores. */
const NODE_NAMES: ReadonlyMap<string, string> = new Map(
  [
    ...["paragraph", "heading", "blockquote", "bulletList", "orderedList", "listItem", "taskList", "taskItem"],
    ...["codeBlock", "horizontalRule", "hardBreak", "image", "table", "tableRow", "tableCell", "tableHeader"],
  ].map((name) => [name.toLowerCase(), name]),
);
const MARK_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({ strong: "bold", em: "italic", strikethrough: "strike" }),
);
/** Blocks of BlockNote that are items of lists, each in a container. */
const LIST_OF_ITEM: ReadonlyMap<string, string> = new Map(Object.entries({
  bulletListItem: "bulletList",
  numberedListItem: "orderedList",
  checkListItem: "taskList",
  toggleListItem: "bulletList",
}));
const ITEM_OF_LIST: ReadonlyMap<string, string> = new Map(Object.entries({
  bulletList: "bulletListItem",
  orderedList: "numberedListItem",
  taskList: "checkListItem",
}));
/** The names of prosemirror-markdown and prosemirror-tables; what these lack is written as text. */
const BASIC_NODES: ReadonlyMap<string, string> = new Map(Object.entries({
  bulletList: "bullet_list",
  orderedList: "ordered_list",
  taskList: "bullet_list",
  listItem: "list_item",
  taskItem: "list_item",
  codeBlock: "code_block",
  horizontalRule: "horizontal_rule",
  hardBreak: "hard_break",
  tableRow: "table_row",
  tableCell: "table_cell",
  tableHeader: "table_header",
}));
const BASIC_MARKS: ReadonlyMap<string, string> = new Map(
  Object.entries({ bold: "strong", italic: "em", code: "code", link: "link" }),
);

/** The dialect of a document, by its content, or else by its fragment. */
export function dialectOf(nodes: readonly RichNode[], fragment: string | null): Dialect {
  if (nodes.some(({ type }) => type === "blockGroup")) return "blocknote";
  if (nodes.some(({ type }) => type.includes("_"))) return "prosemirror";
  return BY_FRAGMENT.get(fragment ?? "") ?? "tiptap";
}

/** The blocks of a document that edits count: BlockNote has them in a group. */
export function blocksOf(nodes: readonly RichNode[]): readonly RichNode[] {
  const [first, ...others] = nodes;
  return first?.type === "blockGroup" && others.length === 0 ? first.content ?? [] : nodes;
}

/** A document with other blocks, in the group of the former ones if there is one. */
export function withBlocks(nodes: readonly RichNode[], blocks: readonly RichNode[], dialect: Dialect): RichNode[] {
  const [first, ...others] = nodes;
  if (dialect !== "blocknote" || others.length > 0) return [...blocks];
  return [{ ...first ?? { type: "blockGroup" }, content: [...blocks] }];
}

/** Nodes of any dialect with the names and the structure of TipTap. */
export function fromDialect(nodes: readonly RichNode[]): RichNode[] {
  const blocks: RichNode[] = [];
  for (const node of nodes.flatMap(fromNode)) {
    const list = LIST_OF_ITEM.get(node.type);
    if (list === undefined) {
      blocks.push(node);
      continue;
    }
    const isTask = list === "taskList";
    const { checked = false, start } = node.attrs ?? {};
    const item: RichNode = { type: isTask ? "taskItem" : "listItem", content: node.content ?? [] };
    if (isTask) item.attrs = { checked };
    const last = blocks.at(-1);
    if (last?.type === list && last.attrs?.from === "items") last.content?.push(item);
    else {blocks.push({
        type: list,
        attrs: { from: "items", ...start === undefined ? {} : { start } },
        content: [item],
      });}
  }
  return blocks;
}

function fromNode(node: RichNode): RichNode[] {
  const { type, attrs = {}, content = [], text, marks = [] } = node;
  if (text !== undefined) {
    return [marks.length === 0 ? node : { ...node, marks: marks.map((mark) => ({ ...mark, type: markNameOf(mark) })) }];
  }
  if (type === "blockGroup") return fromDialect(content);
  if (type === "blockContainer") {
    const [block, ...nested] = content.map((child) =>
      child.type === "blockGroup" ? fromDialect([child]) : fromNode(child)
    );
    const [first] = block ?? [];
    if (first !== undefined && LIST_OF_ITEM.has(first.type)) {
      return [{ ...first, content: [...first.content ?? [], ...nested.flat()] }];
    }
    return [...block ?? [], ...nested.flat()];
  }
  if (LIST_OF_ITEM.has(type)) return [{ ...node, content: [{ type: "paragraph", content: fromDialect(content) }] }];
  if (type === "quote") {
    return [{ type: "blockquote", content: [{ type: "paragraph", content: fromDialect(content) }] }];
  }
  if (type === "divider") return [{ type: "horizontalRule" }];
  if (type === "tableParagraph") return [{ type: "paragraph", content: fromDialect(content) }];
  const name = NODE_NAMES.get(type.toLowerCase().replaceAll("_", "")) ?? type;
  const renamed: RichNode = { type: name, attrs: { ...attrs } };
  if (content.length > 0) renamed.content = fromDialect(content);
  if (name === "codeBlock" && attrs.language === undefined && attrs.params !== undefined) {
    renamed.attrs = { ...attrs, language: attrs.params };
  }
  if (name === "image" && attrs.src === undefined && attrs.url !== undefined) {
    renamed.attrs = { src: attrs.url, alt: attrs.caption ?? attrs.name ?? "" };
  }
  if (name === "orderedList" && attrs.order !== undefined) renamed.attrs = { start: attrs.order };
  return [renamed];
}

function markNameOf({ type }: RichMark): string {
  return MARK_NAMES.get(type) ?? type;
}

/** Nodes with the names of TipTap in the names of another dialect. */
export function toDialect(nodes: readonly RichNode[], dialect: Dialect): RichNode[] {
  if (dialect === "tiptap") return [...nodes];
  if (dialect === "prosemirror") return nodes.map(toBasic);
  return [{ type: "blockGroup", content: toContainers(nodes) }];
}

function toBasic({ type, attrs, content, text, marks = [] }: RichNode): RichNode {
  if (text !== undefined) {
    const known = marks.flatMap((mark) => {
      const name = BASIC_MARKS.get(mark.type);
      return name === undefined ? [] : [{ ...mark, type: name }];
    });
    return known.length === 0 ? { type, text } : { type, text, marks: known };
  }
  const node: RichNode = { type: BASIC_NODES.get(type) ?? type };
  if (type === "taskItem") {
    const [first, ...others] = content ?? [];
    const box: RichNode = { type: "text", text: attrs?.checked === true ? "[x] " : "[ ] " };
    content = [{ ...first, type: "paragraph", content: [box, ...first?.content ?? []] }, ...others];
  }
  if (content !== undefined) node.content = mergeTexts(content.map(toBasic));
  if (type === "codeBlock") node.attrs = { params: attrs?.language ?? "" };
  else if (type === "orderedList" && attrs?.start !== undefined) node.attrs = { order: attrs.start };
  else if (attrs !== undefined && type !== "taskItem") node.attrs = attrs;
  return node;
}

/** Blocks of BlockNote, each in a container. Its writer gives them ids. */
function toContainers(nodes: readonly RichNode[]): RichNode[] {
  const contain = (block: RichNode, nested: RichNode[] = []): RichNode => ({
    type: "blockContainer",
    content: nested.length === 0 ? [block] : [block, { type: "blockGroup", content: nested }],
  });
  return nodes.flatMap((node): RichNode[] => {
    const { type, attrs, content = [] } = node;
    const item = ITEM_OF_LIST.get(type);
    if (item !== undefined) {
      return content.map((one, at) => {
        const [first, ...others] = one.content ?? [];
        const isText = first === undefined || first.type === "paragraph";
        const block: RichNode = { type: item, content: isText ? toInline(first?.content ?? []) : [] };
        if (type === "taskList") block.attrs = { checked: one.attrs?.checked === true };
        else if (at === 0 && attrs?.start !== undefined) block.attrs = { start: attrs.start };
        return contain(block, toContainers(isText || first === undefined ? others : [first, ...others]));
      });
    }
    if (type === "blockquote") {
      return content.map((one) =>
        one.type === "paragraph" ? contain({ type: "quote", content: toInline(one.content ?? []) }) : one
      ).flatMap((one) => one.type === "blockContainer" ? [one] : toContainers([one]));
    }
    if (type === "horizontalRule") return [contain({ type: "divider" })];
    if (type === "image") return [contain({ type, attrs: { url: attrs?.src ?? "", caption: attrs?.alt ?? "" } })];
    if (type === "table") return [contain({ type, content: content.map(toTableRow) })];
    return [contain({ ...node, content: toInline(content) })];
  });
}

function toTableRow(row: RichNode): RichNode {
  const cells = row.content ?? [];
  return {
    type: "tableRow",
    content: cells.map((cell) => {
      const inline = (cell.content ?? []).flatMap((block) => block.content ?? []);
      return { ...cell, content: [{ type: "tableParagraph", content: toInline(inline) }] };
    }),
  };
}

/** BlockNote has no images within text. */
function toInline(nodes: readonly RichNode[]): RichNode[] {
  return mergeTexts(
    nodes.map((node): RichNode =>
      node.type === "image" ? { type: "text", text: String(node.attrs?.alt || node.attrs?.src || "") } : node
    ),
  );
}
