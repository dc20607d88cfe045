// HTML of nodes that have the names of TipTap. Only the tags and attributes below are written, whatever a document contains.
import { escapeHtml } from "@/core/text/text.ts";
import { labelOf, languageOf, levelOf } from "./markdown.ts";
import { plainTextOf, type RichMark, type RichNode } from "./node.ts";
import { safeUrl } from "./url.ts";

const BLOCK_TAGS: ReadonlyMap<string, string> = new Map(Object.entries({
  paragraph: "p",
  blockquote: "blockquote",
  bulletList: "ul",
  listItem: "li",
  tableRow: "tr",
}));
const MARK_TAGS: ReadonlyMap<string, string> = new Map(Object.entries({
  bold: "strong",
  italic: "em",
  strike: "s",
  underline: "u",
  code: "code",
  subscript: "sub",
  superscript: "sup",
  highlight: "mark",
}));

export function toHtml(nodes: readonly RichNode[]): string {
  return nodes.map(toElement).join("");
}

function toElement(node: RichNode): string {
  const { type, attrs = {}, content = [] } = node;
  if (node.text !== undefined) return (node.marks ?? []).reduce(wrapInMark, escapeHtml(node.text));
  const tag = BLOCK_TAGS.get(type);
  if (tag !== undefined) return `<${tag}>${toHtml(content)}</${tag}>`;
  switch (type) {
    case "heading":
      return `<h${levelOf(attrs.level)}>${toHtml(content)}</h${levelOf(attrs.level)}>`;
    case "orderedList": {
      const isOther = Number.isInteger(attrs.start) && attrs.start !== 1;
      return `<ol${isOther ? ` start="${attrs.start}"` : ""}>${toHtml(content)}</ol>`;
    }
    case "taskList":
      return `<ul data-type="taskList">${toHtml(content)}</ul>`;
    case "taskItem": {
      const isChecked = attrs.checked === true;
      const box = `<input type="checkbox" disabled${isChecked ? " checked" : ""}>`;
      return `<li data-type="taskItem" data-checked="${isChecked}">${box}${toHtml(content)}</li>`;
    }
    case "codeBlock": {
      const language = languageOf(attrs.language);
      const name = language === null ? "" : ` class="language-${escapeHtml(language)}"`;
      return `<pre><code${name}>${escapeHtml(plainTextOf(content))}</code></pre>`;
    }
    case "horizontalRule":
      return "<hr>";
    case "hardBreak":
      return "<br>";
    case "image": {
      const src = safeUrl(String(attrs.src ?? ""));
      const alt = escapeHtml(String(attrs.alt ?? ""));
      return src === undefined || src === "" ? alt : `<img src="${escapeHtml(src)}" alt="${alt}">`;
    }
    case "table":
      return `<table><tbody>${toHtml(content)}</tbody></table>`;
    case "tableCell":
    case "tableHeader": {
      const name = type === "tableCell" ? "td" : "th";
      return `<${name}${span("colspan", attrs.colspan)}${span("rowspan", attrs.rowspan)}>${toHtml(content)}</${name}>`;
    }
    default: {
      // What is unknown here keeps its text.
      const isInline = content.some((child) => child.text !== undefined);
      if (content.length === 0) return escapeHtml(labelOf(node));
      return isInline ? `<p>${toHtml(content)}</p>` : `<div>${toHtml(content)}</div>`;
    }
  }
}

function wrapInMark(html: string, { type, attrs = {} }: RichMark): string {
  const tag = MARK_TAGS.get(type);
  if (tag !== undefined) return `<${tag}>${html}</${tag}>`;
  if (type !== "link") return html;
  const href = safeUrl(String(attrs.href ?? ""));
  return href === undefined ? html : `<a href="${escapeHtml(href)}" rel="noopener noreferrer">${html}</a>`;
}

function span(name: string, value: unknown): string {
  return typeof value === "number" && Number.isInteger(value) && value > 1 && value <= 1000
    ? ` ${name}="${value}"`
    : "";
}
