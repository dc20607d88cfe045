// Which part of a document its editor would destroy: the binding deletes elements that the schema cannot represent.
import type { Attrs, MarkType, Node, NodeType, Schema } from "prosemirror-model";
import * as Y from "yjs";

/** A mark that may be on a text several times has a hash after its name. */
const HASH = /--[a-zA-Z0-9+/=]{8}$/;
const TEXT_BLOCKS: readonly string[] = ["paragraph", "heading"];

/** Thrown with the name of what is not known. */
class Unknown extends Error {}

/** What a fragment contains that the schema lacks: the name of a node, mark or attribute; `undefined` if all can be edited. */
export function findUnknown(fragment: Y.XmlFragment, schema: Schema): string | undefined {
  try {
    const blocks = nodesIn(fragment, schema);
    // An empty document gets its first paragraph from the editor.
    if (blocks.length > 0) schema.topNodeType.createChecked(null, blocks);
    return undefined;
  } catch (error) {
    return error instanceof Unknown ? error.message : "structure";
  }
}

/** Whether a fragment has pictures within texts. */
export function hasInlineImages(parent: Y.XmlFragment): boolean {
  const isText = parent instanceof Y.XmlElement && TEXT_BLOCKS.includes(parent.nodeName);
  return parent.toArray().some((child) =>
    child instanceof Y.XmlElement && (isText && child.nodeName === "image" || hasInlineImages(child))
  );
}

function nodesIn(parent: Y.XmlFragment, schema: Schema): Node[] {
  return parent.toArray().flatMap((child) => {
    if (child instanceof Y.XmlText) return textsIn(child, schema);
    if (!(child instanceof Y.XmlElement)) throw new Unknown("embedded content");
    const node = nodeOf(child, schema);
    return node === undefined ? [] : [node];
  });
}

/** `undefined` if nothing is lost when the binding deletes it, such as a list from which all items were moved at once. */
function nodeOf(element: Y.XmlElement, schema: Schema): Node | undefined {
  const type = schema.nodes[element.nodeName];
  if (type === undefined) throw new Unknown(element.nodeName);
  const attributes = element.getAttributes() as Attrs;
  requireAttributes(element.nodeName, attributes, type);
  const content = nodesIn(element, schema);
  try {
    return type.createChecked(attributes, content);
  } catch {
    // The structure is not that of the schema.
    if (content.length === 0) return undefined;
    throw new Unknown(`structure of ${element.nodeName}`);
  }
}

function textsIn(text: Y.XmlText, schema: Schema): Node[] {
  return (text.toDelta() as { insert: unknown; attributes?: Attrs }[]).map(({ insert, attributes = {} }) => {
    if (typeof insert !== "string") throw new Unknown("embedded content");
    const marks = Object.entries(attributes).map(([key, value]) => {
      const name = key.replace(HASH, "");
      const type = schema.marks[name];
      if (type === undefined) throw new Unknown(name);
      requireAttributes(name, value === true ? {} : value as Attrs, type);
      return type.create(value as Attrs);
    });
    return schema.text(insert, marks);
  });
}

function requireAttributes(name: string, attributes: Attrs, { spec }: NodeType | MarkType): void {
  for (const [key, value] of Object.entries(attributes)) {
    const isSet = value !== null && value !== undefined && key !== "ychange";
    if (isSet && !Object.hasOwn(spec.attrs ?? {}, key)) throw new Unknown(`${key} of ${name}`);
  }
}
