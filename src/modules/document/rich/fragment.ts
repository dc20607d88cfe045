// Reads the XML fragment of a rich document: as nodes, and as plain text with the place of each character.
import * as Y from "yjs";
import { RICH_DEPTH_MAX, TEXT_MAX_BYTES } from "../limits.ts";
import { mergeTexts, NodeCounter, type RichMark, type RichNode, richTooLarge } from "./node.ts";

/** Editors add a hash to the name of a mark that may be on a text several times. */
const HASHED_MARK = /^(.*)--[a-zA-Z0-9+/=]{8}$/s;
/** Attributes that are read as the text of a node without any, such as a mention or an image. */
const LABELS = ["label", "alt"];
const LABEL_MAX_CHARS = 200;

/** Consecutive characters with the same formatting; `marks` by the names that they have in Yjs. */
export type TextRun = { text: string; marks: ReadonlyMap<string, unknown> };

/** The children of the fragment as nodes; throws `payload_too_large` for more than a document may have. */
export function readFragment(fragment: Y.XmlFragment): RichNode[] {
  return new FragmentReader().children(fragment, 1);
}

/** Reads one type of a fragment. */
export function readType(type: Y.XmlElement | Y.XmlText): RichNode | RichNode[] {
  const reader = new FragmentReader();
  return type instanceof Y.XmlText ? reader.texts(type) : reader.element(type, 1);
}

class FragmentReader {
  readonly #counter = new NodeCounter();
  #chars = 0;

  children(parent: Y.XmlFragment, depth: number): RichNode[] {
    if (depth > 2 * RICH_DEPTH_MAX) throw richTooLarge();
    const nodes: RichNode[] = [];
    for (const child of childrenOf(parent)) {
      if (child instanceof Y.XmlText) nodes.push(...this.texts(child));
      else nodes.push(this.element(child, depth));
    }
    return mergeTexts(nodes);
  }

  element(element: Y.XmlElement, depth: number): RichNode {
    this.#counter.add(1);
    const node: RichNode = { type: element.nodeName };
    const attrs = attributesOf(element);
    const names = Object.keys(attrs);
    if (names.length > 0) {
      this.#countChars(JSON.stringify(attrs).length);
      node.attrs = attrs;
    }
    const content = this.children(element, depth + 1);
    if (content.length > 0) node.content = content;
    return node;
  }

  texts(text: Y.XmlText): RichNode[] {
    const nodes: RichNode[] = [];
    for (const run of readRuns(text, (marks) => this.#counter.add(1 + marks))) {
      this.#countChars(run.text.length);
      const node: RichNode = { type: "text", text: run.text };
      const marks = [...run.marks].map(([name, value]): RichMark => markOf(name, value));
      if (marks.length > 0) {
        this.#countChars(JSON.stringify(marks).length);
        node.marks = marks;
      }
      nodes.push(node);
    }
    return mergeTexts(nodes);
  }

  /** A few bytes of a mark may be repeated in every text. */
  #countChars(count: number): void {
    this.#chars += count;
    if (this.#chars > TEXT_MAX_BYTES) throw richTooLarge();
  }
}

/** The elements and texts in a fragment or an element. */
export function childrenOf(parent: Y.XmlFragment): (Y.XmlElement | Y.XmlText)[] {
  const children: (Y.XmlElement | Y.XmlText)[] = [];
  for (let item = parent._start; item !== null; item = item.right) {
    if (item.deleted || !(item.content instanceof Y.ContentType)) continue;
    const { type } = item.content;
    if (type instanceof Y.XmlElement || type instanceof Y.XmlText) children.push(type);
  }
  return children;
}

/** Attributes that are set; Yjs stores null for some that are not. */
export function attributesOf(element: Y.XmlElement): Record<string, unknown> {
  const attributes = element.getAttributes() as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(attributes).filter(([name, value]) => value !== null && value !== undefined && name !== "ychange"),
  );
}

/** Runs of a text with equal formatting; `onRun` is called before each is built, with the number of its marks. */
export function readRuns(text: Y.XmlText, onRun: (marks: number) => void = () => {}): TextRun[] {
  const runs: TextRun[] = [];
  const marks = new Map<string, unknown>();
  let pending = "";
  const flush = (): void => {
    if (pending === "") return;
    onRun(marks.size);
    runs.push({ text: pending.toWellFormed(), marks: new Map(marks) });
    pending = "";
  };
  for (let item = text._start; item !== null; item = item.right) {
    if (item.deleted) continue;
    const { content } = item;
    if (content instanceof Y.ContentString) pending += content.str;
    else if (content instanceof Y.ContentFormat && content.key !== "ychange") {
      flush();
      if (content.value === null) marks.delete(content.key);
      else marks.set(content.key, content.value);
    }
  }
  flush();
  return runs;
}

/** The characters of a text, without formatting. */
function charactersOf(text: Y.XmlText): string {
  let characters = "";
  for (let item = text._start; item !== null; item = item.right) {
    if (!item.deleted && item.content instanceof Y.ContentString) characters += item.content.str;
  }
  return characters.toWellFormed();
}

/** The name of a mark, by its name in Yjs. */
export function markName(name: string): string {
  return HASHED_MARK.exec(name)?.[1] ?? name;
}

function markOf(name: string, value: unknown): RichMark {
  const isSet = typeof value === "object" && value !== null && Object.keys(value).length > 0;
  return isSet ? { type: markName(name), attrs: value as RichMark["attrs"] & object } : { type: markName(name) };
}

type Segment = { type: Y.XmlText; start: number; length: number };

/** The plain text of a fragment, one block in each line, and where its characters are in Yjs. */
export class FragmentText {
  readonly text: string;
  readonly segments: readonly Segment[];
  readonly #byType: ReadonlyMap<unknown, Segment>;

  constructor(fragment: Y.XmlFragment) {
    const segments: Segment[] = [];
    let text = "";
    let hasBlock = false;
    const visit = (parent: Y.XmlFragment): void => {
      const children = childrenOf(parent);
      // With a text among them, elements are inline.
      const isBlock = children.some((child) => child instanceof Y.XmlText);
      if (isBlock) {
        if (hasBlock) text += "\n";
        hasBlock = true;
      }
      for (const child of children) {
        if (child instanceof Y.XmlText) {
          const start = text.length;
          text += charactersOf(child);
          segments.push({ type: child, start, length: text.length - start });
        } else if (isBlock && child._start === null) text += labelOf(child);
        else visit(child);
      }
    };
    visit(fragment);
    this.text = text;
    this.segments = segments;
    this.#byType = new Map(segments.map((segment) => [segment.type, segment]));
  }

  /** A relative position as base64, which moves with the neighbor on `side`; `undefined` if there is no text. */
  encodeAnchor(index: number, side: "next" | "previous"): string | undefined {
    const segment = side === "next"
      ? this.segments.find(({ start, length }) => index < start + length) ?? this.segments.at(-1)
      : this.segments.findLast(({ start, length }) => length > 0 && index > start) ?? this.segments[0];
    if (segment === undefined) return undefined;
    const at = Math.min(Math.max(index - segment.start, 0), segment.length);
    const position = Y.createRelativePositionFromTypeIndex(segment.type, at, side === "next" ? 0 : -1);
    return Y.encodeRelativePosition(position).toBase64();
  }

  /** The current index of a position; `undefined` if its text was deleted. */
  indexOf(position: { type: unknown; index: number }): number | undefined {
    const segment = this.#byType.get(position.type);
    return segment === undefined ? undefined : segment.start + Math.min(position.index, segment.length);
  }
}

function labelOf(element: Y.XmlElement): string {
  if (element.nodeName.toLowerCase().replace("_", "") === "hardbreak") return "\n";
  const attributes = attributesOf(element);
  const label = LABELS.map((name) => attributes[name]).find((value) => typeof value === "string");
  return typeof label === "string" ? label.slice(0, LABEL_MAX_CHARS).toWellFormed() : "";
}
