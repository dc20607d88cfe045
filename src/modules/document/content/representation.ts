// What a document reads as, by its kind: its text, the nodes of a rich one, and positions in the text that follow edits.
import type * as Y from "yjs";
import { Fault } from "@/core/fault.ts";
import { truncateText } from "@/core/text/text.ts";
import { TEXT_MAX_BYTES } from "../limits.ts";
import { FragmentText, readFragment } from "../rich/fragment.ts";
import type { RichNode } from "../rich/node.ts";
import type { DocumentRow } from "../tables.ts";
import { encodeAnchor, resolveAnchor, textOf as markdownOf } from "./crdt.ts";
import { bytesOf } from "./text_edits.ts";

export type Shape = Pick<DocumentRow, "kind" | "fragment">;

/** The fragment of rich documents whose creator and editors have not named one; TipTap's. */
export const DEFAULT_FRAGMENT = "default";

/** What is stored of a document with each revision. */
export type Representation = {
  /** Markdown, or the plain text of a rich document. */
  text: string;
  /** Nodes of a rich document as JSON; null if they are too many. */
  nodes: string | null;
  /** Size of what counts toward the limit. */
  bytes: number;
  isTooLarge: boolean;
};

export function representationOf(doc: Y.Doc, shape: Shape): Representation {
  if (shape.kind === "text") {
    const text = markdownOf(doc);
    const bytes = bytesOf(text);
    return { text, nodes: null, bytes, isTooLarge: bytes > TEXT_MAX_BYTES };
  }
  // Bytes of UTF-8, at most three for a unit.
  const text = truncateText(new FragmentText(fragmentOf(doc, shape)).text, TEXT_MAX_BYTES / 3);
  try {
    const nodes = JSON.stringify(nodesOf(doc, shape));
    const bytes = bytesOf(nodes);
    const isTooLarge = bytes > TEXT_MAX_BYTES;
    return { text, nodes: isTooLarge ? null : nodes, bytes, isTooLarge };
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    return { text, nodes: null, bytes: TEXT_MAX_BYTES, isTooLarge: true };
  }
}

/** The nodes of a rich document; throws `payload_too_large` for too many. */
export function nodesOf(doc: Y.Doc, shape: Shape): RichNode[] {
  return readFragment(fragmentOf(doc, shape));
}

export function fragmentOf(doc: Y.Doc, { fragment }: Shape): Y.XmlFragment {
  return doc.getXmlFragment(fragment ?? DEFAULT_FRAGMENT);
}

/** The text that comments are anchored in. */
export type AnchoredText = {
  text: string;
  /** A position as base64, which moves with the neighbor on `side`; null if there is no text. */
  encode(index: number, side: "next" | "previous"): string | null;
  /** The current index of a position; `undefined` if it cannot be resolved. */
  resolve(anchor: string): number | undefined;
};

export function anchoredTextOf(doc: Y.Doc, shape: Shape): AnchoredText {
  if (shape.kind === "text") {
    return {
      text: markdownOf(doc),
      encode: (index, side) => encodeAnchor(doc, index, side),
      resolve: (anchor) => resolveAnchor(doc, anchor)?.index,
    };
  }
  const content = new FragmentText(fragmentOf(doc, shape));
  return {
    text: content.text,
    encode: (index, side) => content.encodeAnchor(index, side) ?? null,
    resolve: (anchor) => {
      const position = resolveAnchor(doc, anchor);
      return position === undefined ? undefined : content.indexOf(position);
    },
  };
}
