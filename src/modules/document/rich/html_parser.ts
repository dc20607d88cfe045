// HTML to nodes, in the names of TipTap. What is not listed here loses its tags and keeps its text; scripts and styles lose both.
// The parser is loaded on first use, and calls back for each tag: nothing recurses, however deep the tags nest.
import { Fault } from "@/core/fault.ts";
import { mergeTexts, type RichMark, type RichNode } from "./node.ts";
import { safeUrl } from "./url.ts";

const TAGS_MAX = 1000;
/** Blocks that contain blocks; deeper ones lose their tags. */
const DEPTH_MAX = 20;
const CONTAINERS: ReadonlyMap<string, string> = new Map(Object.entries({
  blockquote: "blockquote",
  ul: "bulletList",
  ol: "orderedList",
  li: "listItem",
  table: "table",
  tr: "tableRow",
  td: "tableCell",
  th: "tableHeader",
}));
const TEXT_BLOCKS: ReadonlyMap<string, string> = new Map(Object.entries({ p: "paragraph", pre: "codeBlock" }));
const HEADING = /^h([1-6])$/;
/** Tags that end a paragraph and are nothing themselves. */
const BREAKS = new Set(["div", "section", "article", "header", "footer", "main", "aside", "figure", "dl", "dt", "dd"]);
const MARKS: ReadonlyMap<string, string> = new Map(Object.entries({
  b: "bold",
  strong: "bold",
  i: "italic",
  em: "italic",
  s: "strike",
  del: "strike",
  strike: "strike",
  u: "underline",
  code: "code",
  sub: "subscript",
  sup: "superscript",
  mark: "highlight",
}));
const WITHOUT_TEXT = new Set(["script", "style", "template", "noscript", "iframe", "object", "svg", "math", "title"]);
/** In which containers a container may be; others are put in one. */
const PARENTS: ReadonlyMap<string, readonly string[]> = new Map(Object.entries({
  listItem: ["bulletList", "orderedList"],
  tableRow: ["table"],
  tableCell: ["tableRow"],
  tableHeader: ["tableRow"],
}));
const STRUCTURAL = new Set(["bulletList", "orderedList", "table", "tableRow"]);

/** Throws `payload_too_large` for tags that nest deeper than any editor writes them, which the parser would search again and again. */
export async function fromHtml(html: string): Promise<RichNode[]> {
  const { Parser } = await import("htmlparser2");
  const builder = new NodeBuilder();
  let depth = 0;
  const parser = new Parser({
    onopentag: (name, attributes) => {
      if (++depth > TAGS_MAX) {
        throw new Fault("payload_too_large", `HTML tags can be nested at most ${TAGS_MAX} levels deep`);
      }
      builder.open(name, attributes);
    },
    ontext: (text) => builder.text(text),
    onclosetag: (name) => {
      depth--;
      builder.close(name);
    },
  });
  parser.end(html);
  return builder.finish();
}

class NodeBuilder {
  readonly #root: RichNode = { type: "doc", content: [] };
  /** Open containers, with the tags that close them. */
  readonly #open: { tag: string; node: RichNode }[] = [];
  readonly #marks: { tag: string; mark: RichMark }[] = [];
  /** The block that texts are added to. */
  #block: { tag: string; node: RichNode } | undefined;
  #hiddenTag: string | undefined;
  #hiddenDepth = 0;

  open(tag: string, attributes: Readonly<Record<string, string>>): void {
    if (this.#hiddenTag !== undefined) {
      if (tag === this.#hiddenTag) this.#hiddenDepth++;
      return;
    }
    if (WITHOUT_TEXT.has(tag)) {
      this.#hiddenTag = tag;
      this.#hiddenDepth = 1;
      return;
    }
    const isInCode = this.#block?.node.type === "codeBlock";
    if (isInCode) return this.#openInCode(tag, attributes);
    const container = CONTAINERS.get(tag);
    const textBlock = TEXT_BLOCKS.get(tag);
    const level = HEADING.exec(tag)?.[1];
    if (container !== undefined) this.#openContainer(tag, container, attributes);
    else if (level !== undefined) this.#openBlock(tag, { type: "heading", attrs: { level: Number(level) } });
    else if (textBlock !== undefined) this.#openBlock(tag, { type: textBlock });
    else if (BREAKS.has(tag)) this.#closeBlock();
    else if (tag === "hr") this.#addBlock({ type: "horizontalRule" });
    else if (tag === "br") this.#addInline({ type: "hardBreak" });
    else if (tag === "img") this.#addImage(attributes);
    else if (tag === "input" && attributes.type === "checkbox") this.#markAsTask("checked" in attributes);
    else this.#openMark(tag, attributes);
  }

  text(text: string): void {
    if (this.#hiddenTag !== undefined || text === "") return;
    if (this.#block?.node.type === "codeBlock") return this.#addInline({ type: "text", text });
    const content = this.#block?.node.content ?? [];
    const last = content.at(-1);
    let collapsed = collapseBlanks(text);
    if (last === undefined || last.type === "hardBreak" || last.text?.endsWith(" ")) collapsed = collapsed.trimStart();
    if (collapsed === "") return;
    const marks = this.#marks.map(({ mark }) => mark);
    this.#addInline(marks.length === 0 ? { type: "text", text: collapsed } : { type: "text", text: collapsed, marks });
  }

  close(tag: string): void {
    if (this.#hiddenTag !== undefined) {
      if (tag === this.#hiddenTag && --this.#hiddenDepth === 0) this.#hiddenTag = undefined;
      return;
    }
    if (this.#block?.tag === tag || BREAKS.has(tag)) return this.#closeBlock();
    const mark = this.#marks.findLastIndex((one) => one.tag === tag);
    if (mark >= 0) {
      this.#marks.splice(mark, 1);
      return;
    }
    const at = this.#open.findLastIndex((one) => one.tag === tag);
    if (at < 0) return;
    this.#closeBlock();
    while (this.#open.length > at) this.#closeContainer();
  }

  finish(): RichNode[] {
    this.#closeBlock();
    while (this.#open.length > 0) this.#closeContainer();
    return this.#root.content ?? [];
  }

  get #parent(): RichNode {
    return this.#open.at(-1)?.node ?? this.#root;
  }

  #openContainer(tag: string, type: string, attributes: Readonly<Record<string, string>>): void {
    this.#closeBlock();
    if (this.#open.length >= DEPTH_MAX) return;
    const parents = PARENTS.get(type);
    if (parents !== undefined && !parents.includes(this.#parent.type)) {
      // A row without a table, or an item without a list.
      if (type === "listItem") this.#push("", { type: "bulletList", content: [] });
      else return;
    }
    const node: RichNode = { type, content: [] };
    if (tag === "ol" && Number.isSafeInteger(Number(attributes.start ?? 1)) && Number(attributes.start ?? 1) !== 1) {
      node.attrs = { start: Number(attributes.start) };
    }
    if (tag === "li" && attributes["data-checked"] !== undefined) {
      node.attrs = { checked: attributes["data-checked"] === "true" };
    }
    for (const name of tag === "td" || tag === "th" ? ["colspan", "rowspan"] : []) {
      const span = Number(attributes[name]);
      if (Number.isInteger(span) && span > 1 && span <= 1000) node.attrs = { ...node.attrs, [name]: span };
    }
    this.#push(tag, node);
  }

  #push(tag: string, node: RichNode): void {
    // Between the items of a list, or the cells of a row, nothing else may be.
    if (STRUCTURAL.has(this.#parent.type) && PARENTS.get(node.type)?.includes(this.#parent.type) !== true) {
      const item = this.#parent.type === "tableRow"
        ? "tableCell"
        : this.#parent.type === "table"
        ? undefined
        : "listItem";
      if (item !== undefined) this.#push("", { type: item, content: [] });
    }
    this.#parent.content?.push(node);
    this.#open.push({ tag, node });
  }

  #closeContainer(): void {
    const node = this.#open.pop()?.node;
    if (node === undefined) return;
    const content = node.content ?? [];
    const needsBlock = !STRUCTURAL.has(node.type);
    if (needsBlock && content.length === 0) content.push({ type: "paragraph" });
    if (node.type === "listItem" && content[0]?.type !== "paragraph") content.unshift({ type: "paragraph" });
    if (node.type !== "bulletList") return;
    const isTasks = content.length > 0 && content.every(({ attrs }) => attrs?.checked !== undefined);
    if (isTasks) node.type = "taskList";
    for (const item of content) {
      if (isTasks) item.type = "taskItem";
      else delete item.attrs;
    }
  }

  #openBlock(tag: string, node: RichNode): void {
    this.#closeBlock();
    this.#addBlock(node);
    this.#block = { tag, node };
  }

  #addBlock(node: RichNode): void {
    this.#closeBlock();
    const { type } = this.#parent;
    if (type === "table") return;
    if (STRUCTURAL.has(type)) this.#push("", { type: type === "tableRow" ? "tableCell" : "listItem", content: [] });
    this.#parent.content?.push(node);
  }

  #closeBlock(): void {
    const content = this.#block?.node.content;
    const last = content?.at(-1);
    if (last?.text !== undefined && this.#block?.node.type !== "codeBlock") last.text = last.text.trimEnd();
    if (this.#block !== undefined && content !== undefined) {
      const merged = mergeTexts(content);
      if (merged.length > 0) this.#block.node.content = merged;
      else delete this.#block.node.content;
    }
    this.#block = undefined;
  }

  #addInline(node: RichNode): void {
    if (this.#block === undefined) {
      if (this.#parent.type === "table") return;
      this.#openBlock("", { type: "paragraph" });
    }
    const block = this.#block?.node;
    if (block !== undefined) (block.content ??= []).push(node);
  }

  #openInCode(tag: string, attributes: Readonly<Record<string, string>>): void {
    const language = /^language-(\S+)$/.exec((attributes.class ?? "").slice(0, 100))?.[1];
    if (tag === "code" && language !== undefined && this.#block !== undefined) this.#block.node.attrs = { language };
    else if (tag === "br") this.#addInline({ type: "text", text: "\n" });
  }

  #addImage({ src = "", alt = "" }: Readonly<Record<string, string>>): void {
    const url = safeUrl(src);
    if (url === undefined || url === "") return;
    const image: RichNode = { type: "image", attrs: { src: url, ...alt === "" ? {} : { alt } } };
    if (this.#block === undefined) this.#addBlock(image);
    else this.#addInline(image);
  }

  #markAsTask(checked: boolean): void {
    const item = this.#open.findLast(({ node }) => node.type === "listItem")?.node;
    if (item !== undefined) item.attrs = { checked };
  }

  #openMark(tag: string, attributes: Readonly<Record<string, string>>): void {
    const href = tag === "a" ? safeUrl(attributes.href ?? "") : undefined;
    const type = href === undefined || href === "" ? MARKS.get(tag) : "link";
    if (type === undefined || this.#marks.some(({ mark }) => mark.type === type)) return;
    this.#marks.push({ tag, mark: type === "link" ? { type, attrs: { href } } : { type } });
  }
}

/** Blanks as one space each, without a regular expression, which would start again at each of them. */
function collapseBlanks(text: string): string {
  const words = text.split(/[ \t\r\n\f]/);
  const inner = words.filter((word) => word !== "").join(" ");
  if (inner === "") return " ";
  return `${words[0] === "" ? " " : ""}${inner}${words.at(-1) === "" ? " " : ""}`;
}
