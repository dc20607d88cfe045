// The nodes and marks of rich documents, by the names and attributes of TipTap, which other editors of a document may use.
import { type DOMOutputSpec, type MarkSpec, type NodeSpec, Schema } from "prosemirror-model";

const SAFE_LINK = /^(?:https?:|mailto:)/i;
const CELL_ATTRIBUTES = {
  colspan: { default: 1 },
  rowspan: { default: 1 },
  colwidth: { default: null },
  align: { default: null },
};

/** Pictures are blocks in TipTap, and part of texts in other editors; a schema has them as either. */
export function createSchema(hasInlineImages: boolean): Schema {
  return new Schema({
    nodes: { ...BLOCKS, ...LISTS, ...TABLES, image: image(hasInlineImages), ...INLINES },
    marks: MARKS,
  });
}

/** Whether a link may be followed. */
export function isSafeLink(href: unknown): href is string {
  return typeof href === "string" && SAFE_LINK.test(href);
}

const BLOCKS: Record<string, NodeSpec> = {
  doc: { content: "block+" },
  paragraph: { group: "block", content: "inline*", parseDOM: [{ tag: "p" }], toDOM: () => ["p", { dir: "auto" }, 0] },
  heading: {
    group: "block",
    content: "inline*",
    defining: true,
    attrs: { level: { default: 1 } },
    parseDOM: [1, 2, 3, 4, 5, 6].map((level) => ({ tag: `h${level}`, attrs: { level } })),
    toDOM: ({ attrs }) => [`h${levelOf(attrs["level"])}`, { dir: "auto" }, 0],
  },
  blockquote: {
    group: "block",
    content: "block+",
    defining: true,
    parseDOM: [{ tag: "blockquote" }],
    toDOM: () => ["blockquote", 0],
  },
  codeBlock: {
    group: "block",
    content: "text*",
    marks: "",
    code: true,
    defining: true,
    attrs: { language: { default: null } },
    parseDOM: [{ tag: "pre", preserveWhitespace: "full" }],
    toDOM: () => ["pre", { spellcheck: "false" }, ["code", 0]],
  },
  horizontalRule: { group: "block", parseDOM: [{ tag: "hr" }], toDOM: () => ["hr"] },
};

const LISTS: Record<string, NodeSpec> = {
  bulletList: {
    group: "block list",
    content: "listItem+",
    parseDOM: [{ tag: "ul" }],
    toDOM: () => ["ul", 0],
  },
  orderedList: {
    group: "block list",
    content: "listItem+",
    attrs: { start: { default: 1 }, type: { default: null } },
    parseDOM: [{
      tag: "ol",
      getAttrs: (list) => ({ start: list.hasAttribute("start") ? +(list as HTMLOListElement).start : 1 }),
    }],
    toDOM: ({ attrs }) => ["ol", { start: String(attrs["start"]) }, 0],
  },
  listItem: { content: "paragraph block*", defining: true, parseDOM: [{ tag: "li" }], toDOM: () => ["li", 0] },
  taskList: {
    group: "block list",
    content: "taskItem+",
    parseDOM: [{ tag: 'ul[data-type="taskList"]', priority: 60 }],
    toDOM: () => ["ul", { "data-type": "taskList" }, 0],
  },
  taskItem: {
    content: "paragraph block*",
    defining: true,
    attrs: { checked: { default: false } },
    parseDOM: [{
      tag: 'li[data-type="taskItem"]',
      priority: 60,
      getAttrs: (item) => ({ checked: item.dataset["checked"] === "true" }),
    }],
    toDOM: ({ attrs }) => ["li", { "data-type": "taskItem", "data-checked": String(attrs["checked"]) }, 0],
  },
};

const TABLES: Record<string, NodeSpec> = {
  table: {
    group: "block",
    content: "tableRow+",
    tableRole: "table",
    isolating: true,
    parseDOM: [{ tag: "table" }],
    toDOM: () => ["table", ["tbody", 0]],
  },
  tableRow: {
    content: "(tableCell | tableHeader)*",
    tableRole: "row",
    parseDOM: [{ tag: "tr" }],
    toDOM: () => ["tr", 0],
  },
  tableCell: cell("td", "cell"),
  tableHeader: cell("th", "header_cell"),
};

const INLINES: Record<string, NodeSpec> = {
  text: { group: "inline" },
  hardBreak: {
    group: "inline",
    inline: true,
    selectable: false,
    linebreakReplacement: true,
    parseDOM: [{ tag: "br" }],
    toDOM: () => ["br"],
  },
};

/** In the order in which they enclose each other. */
const MARKS: Record<string, MarkSpec> = {
  link: {
    inclusive: false,
    attrs: {
      href: { default: null },
      target: { default: null },
      rel: { default: null },
      class: { default: null },
      title: { default: null },
    },
    parseDOM: [{
      tag: "a[href]",
      getAttrs: (link) => isSafeLink(link.getAttribute("href")) ? { href: link.getAttribute("href") } : false,
    }],
    toDOM: ({ attrs: { href } }) =>
      isSafeLink(href) ? ["a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, 0] : ["span", 0],
  },
  bold: { parseDOM: [{ tag: "strong" }, { tag: "b" }], toDOM: () => ["strong", 0] },
  italic: { parseDOM: [{ tag: "em" }, { tag: "i" }], toDOM: () => ["em", 0] },
  underline: { parseDOM: [{ tag: "u" }], toDOM: () => ["u", 0] },
  strike: { parseDOM: [{ tag: "s" }, { tag: "del" }], toDOM: () => ["s", 0] },
  code: { code: true, parseDOM: [{ tag: "code" }], toDOM: () => ["code", { spellcheck: "false" }, 0] },
};

/** The editor shows pictures itself; this is what is copied. */
function image(isInline: boolean): NodeSpec {
  return {
    inline: isInline,
    group: isInline ? "inline" : "block",
    draggable: true,
    attrs: {
      src: { default: null },
      alt: { default: null },
      title: { default: null },
      width: { default: null },
      height: { default: null },
    },
    parseDOM: [{
      tag: "img[src]",
      getAttrs: (picture) => ({ src: picture.getAttribute("src"), alt: picture.getAttribute("alt") }),
    }, {
      tag: "[data-picture]",
      priority: 60,
      getAttrs: ({ dataset }) => ({ src: dataset["picture"], alt: dataset["alt"] ?? null }),
    }],
    toDOM: ({ attrs: { src, alt } }) => {
      const name = isInline ? "span" : "p";
      const attributes = {
        class: "picture",
        title: String(src ?? ""),
        "data-picture": String(src ?? ""),
        "data-alt": alt,
      };
      return [name, attributes, String(alt || src || "Picture")];
    },
  };
}

function cell(tag: "td" | "th", tableRole: string): NodeSpec {
  return {
    content: "block+",
    tableRole,
    isolating: true,
    attrs: CELL_ATTRIBUTES,
    parseDOM: [{
      tag,
      getAttrs: (element) => {
        const { colSpan, rowSpan } = element as HTMLTableCellElement;
        return { colspan: colSpan, rowspan: rowSpan };
      },
    }],
    toDOM: ({ attrs: { colspan, rowspan } }): DOMOutputSpec => [
      tag,
      { colspan: String(colspan), rowspan: String(rowspan) },
      0,
    ],
  };
}

function levelOf(level: unknown): number {
  return Math.min(Math.max(Math.trunc(Number(level)) || 1, 1), 6);
}
