// Validates the content of an archived document: a CRDT from elsewhere.
import type { Steps } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import { classifyUpdate, encode, openDocument, updateFault } from "../content/crdt.ts";
import { openSnapshot } from "../content/merge_cost.ts";
import { type Representation, representationOf, type Shape } from "../content/representation.ts";
import { STATE_MAX_BYTES } from "../limits.ts";
import { checkShape } from "../rich/update_shape.ts";

/** A content that was validated. */
export type ArchivedContent = Representation & { snapshot: Uint8Array };

/** The content in a CRDT, if it is complete, has the shape of its kind of document, and is not too large. */
export function* inspectContent(update: Uint8Array, shape: Shape): Steps<ArchivedContent | "corrupt" | "too_large"> {
  if (update.length > STATE_MAX_BYTES) return "too_large";
  if (updateFault(update, shape.kind) !== undefined) return "corrupt";
  yield;
  const doc = openSnapshot(update);
  if (doc === undefined) return "too_large";
  yield;
  if (classifyUpdate(doc, update) !== "duplicate") return "corrupt";
  yield;
  if (shape.kind === "rich" && !hasShape(update, shape.fragment)) return "corrupt";
  yield;
  const content = representationOf(doc, shape);
  if (content.isTooLarge) return "too_large";
  yield;
  return { ...content, snapshot: encode(doc) };
}

/** Whether an update has nothing but nodes and data in their places. */
function hasShape(update: Uint8Array, fragment: string | null): boolean {
  try {
    checkShape(openDocument([]), update, fragment);
    return true;
  } catch (thrown) {
    if (thrown instanceof Fault) return false;
    throw thrown;
  }
}
