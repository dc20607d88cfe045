// Nodes of rich documents: the JSON of ProseMirror, of whatever schema. Names and attributes are the editors' own; size and depth
// are bounded here.
import { Fault, invalidField } from "@/core/fault.ts";
import { canonicalJson } from "@/core/json.ts";
import { ATTRIBUTES_MAX, NAME_MAX_CHARS, RICH_DEPTH_MAX, RICH_NODES_MAX, TEXT_MAX_BYTES } from "../limits.ts";

type Attributes = Record<string, unknown>;
export type RichMark = { type: string; attrs?: Attributes };
export type RichNode = { type: string; attrs?: Attributes; content?: RichNode[]; text?: string; marks?: RichMark[] };
/** A child as Yjs has it: an element, or adjacent texts as one unit. */
export type RichUnit = RichNode | readonly RichNode[];

/** Depth of the JSON of a document: each node is an object in an array, and attributes may nest as well. */
export const RICH_JSON_DEPTH_MAX = 2 * RICH_DEPTH_MAX + 32;
/** Values in the JSON of a document, which has at least five for each node. */
export const RICH_JSON_VALUES_MAX = 8 * RICH_NODES_MAX;

export function richTooLarge(): Fault {
  return new Fault(
    "payload_too_large",
    `A rich document may have at most ${TEXT_MAX_BYTES} bytes as JSON, and ${RICH_NODES_MAX} nodes and marks`,
  );
}

/** Counts nodes and marks; throws beyond the limit. */
export class NodeCounter {
  #count = 0;

  add(count: number): void {
    this.#count += count;
    if (this.#count > RICH_NODES_MAX) throw richTooLarge();
  }
}

/** The content of a document in ProseMirror JSON; throws `validation_failed` with a pointer that starts with `pointer`. */
export function parseDocument(value: unknown, pointer: string): RichNode[] {
  const root = value as Attributes; // a JSON object, as the schema of the operation says
  if (root.type !== "doc") throw invalidField(`${pointer}/type`, 'expected a document, with the type "doc"');
  return parseNodes(root.content ?? [], `${pointer}/content`);
}

/** Nodes in ProseMirror JSON, without what Yjs does not store: attributes that are null, empty texts, marks of other nodes. */
export function parseNodes(value: unknown, pointer: string): RichNode[] {
  const nodes = readNodes(value, pointer, 1, new NodeCounter());
  if (new TextEncoder().encode(JSON.stringify(nodes)).length > TEXT_MAX_BYTES) throw richTooLarge();
  return nodes;
}

function readNodes(value: unknown, pointer: string, depth: number, counter: NodeCounter): RichNode[] {
  if (!Array.isArray(value)) throw invalidField(pointer, "expected an array of nodes");
  if (depth > RICH_DEPTH_MAX) {
    throw new Fault("payload_too_large", `Nodes can be nested at most ${RICH_DEPTH_MAX} levels deep`);
  }
  counter.add(value.length);
  return mergeTexts(value.map((one, at) => readNode(one, `${pointer}/${at}`, depth, counter)));
}

function readNode(value: unknown, pointer: string, depth: number, counter: NodeCounter): RichNode {
  const { type, attrs, content, text, marks } = readObject(value, pointer);
  const node: RichNode = { type: readName(type, `${pointer}/type`) };
  if (node.type === "text") {
    if (typeof text !== "string") throw invalidField(`${pointer}/text`, "expected a text");
    node.text = text;
    if (marks !== undefined) {
      if (!Array.isArray(marks)) throw invalidField(`${pointer}/marks`, "expected an array of marks");
      counter.add(marks.length);
      const read = marks.map((mark, at) => readMark(mark, `${pointer}/marks/${at}`));
      // A text has no mark twice.
      if (read.length > 0) node.marks = [...new Map(read.map((mark) => [canonicalJson(mark), mark])).values()];
    }
    return node;
  }
  const attributes = readAttributes(attrs, `${pointer}/attrs`);
  if (attributes !== undefined) node.attrs = attributes;
  if (content !== undefined) {
    const children = readNodes(content, `${pointer}/content`, depth + 1, counter);
    if (children.length > 0) node.content = children;
  }
  return node;
}

function readMark(value: unknown, pointer: string): RichMark {
  const { type, attrs } = readObject(value, pointer);
  const attributes = readAttributes(attrs, `${pointer}/attrs`);
  const mark: RichMark = { type: readName(type, `${pointer}/type`) };
  return attributes === undefined ? mark : { ...mark, attrs: attributes };
}

function readAttributes(value: unknown, pointer: string): Attributes | undefined {
  if (value === undefined || value === null) return undefined;
  const entries = Object.entries(readObject(value, pointer)).filter(([, one]) => one !== null && one !== undefined);
  if (entries.length > ATTRIBUTES_MAX) throw invalidField(pointer, `expected at most ${ATTRIBUTES_MAX} attributes`);
  for (const [name] of entries) readName(name, pointer);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function readObject(value: unknown, pointer: string): Attributes {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidField(pointer, "expected an object");
  }
  return value as Attributes; // as just checked
}

function readName(value: unknown, pointer: string): string {
  if (typeof value === "string" && value !== "" && value.length <= NAME_MAX_CHARS) return value;
  throw invalidField(pointer, `expected a name of 1 to ${NAME_MAX_CHARS} characters`);
}

/** Joins adjacent texts with the same marks, and leaves out empty ones. */
export function mergeTexts(nodes: readonly RichNode[]): RichNode[] {
  const merged: RichNode[] = [];
  for (const node of nodes) {
    const last = merged.at(-1);
    if (node.type !== "text") merged.push(node);
    else if (node.text === undefined || node.text === "") continue;
    else if (last?.type === "text" && hasEqualMarks(last, node)) last.text += node.text;
    else merged.push({ ...node });
  }
  return merged;
}

function hasEqualMarks(a: RichNode, b: RichNode): boolean {
  return a.marks === b.marks || canonicalJson(a.marks ?? []) === canonicalJson(b.marks ?? []);
}

/** Children as Yjs has them. */
export function unitsOf(nodes: readonly RichNode[]): RichUnit[] {
  const units: RichUnit[] = [];
  let texts: RichNode[] = [];
  for (const node of nodes) {
    if (node.type !== "text") {
      units.push(node);
      texts = [];
    } else {
      if (texts.length === 0) units.push(texts);
      texts.push(node);
    }
  }
  return units;
}

/** The text of nodes, without any structure. */
export function plainTextOf(nodes: readonly RichNode[]): string {
  return nodes.map((node) => node.text ?? plainTextOf(node.content ?? [])).join("");
}
