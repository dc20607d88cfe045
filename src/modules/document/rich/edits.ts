// Applies edits to the nodes of a rich document: of text within one block, which keeps its formatting, and of whole blocks.
import type { Steps } from "@/core/caller.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { findOccurrences, indexOf } from "../content/text_edits.ts";
import type { Edit } from "../content/schema.ts";
import { PLACES_MAX } from "../limits.ts";
import { blocksOf, type Dialect, withBlocks } from "./dialect.ts";
import { mergeTexts, plainTextOf, type RichMark, type RichNode, unitsOf } from "./node.ts";

type TextEdit = Edit & { op: "replace" | "insert_after" };
/** An edit with the blocks that its Markdown or JSON was parsed to. */
export type PreparedEdit = { edit: Edit; blocks: readonly RichNode[] };
/** Replaces `remove` characters of a unit at `at`. */
type UnitSplice = { at: number; remove: number; insert: string };

export function isBlockEdit({ op }: Edit): boolean {
  return op === "replace_block" || op === "insert_block" || op === "delete_block";
}

/** The nodes after all edits; throws a fault with the index of the edit that fails. */
export function* applyRichEdits(
  nodes: readonly RichNode[],
  edits: readonly PreparedEdit[],
  dialect: Dialect,
): Steps<RichNode[]> {
  let edited = [...nodes];
  const places = { left: PLACES_MAX };
  for (const [index, { edit, blocks }] of edits.entries()) {
    edited = edit.op === "replace" || edit.op === "insert_after"
      ? editText(edited, edit, index, places)
      : editBlocks(edited, edit, blocks, index, dialect);
    yield;
  }
  return edited;
}

function editBlocks(
  nodes: RichNode[],
  edit: Exclude<Edit, TextEdit>,
  added: readonly RichNode[],
  index: number,
  dialect: Dialect,
): RichNode[] {
  const blocks = [...blocksOf(nodes)];
  const isEmpty = blocks.length === 1 && isBlank(blocks[0]);
  if (isEmpty && (edit.op === "append" || edit.op === "prepend")) blocks.pop();
  if (edit.op === "append") {
    // Editors keep an empty paragraph at the end, to type in.
    const end = isBlank(blocks.at(-1)) ? blocks.length - 1 : blocks.length;
    blocks.splice(end, 0, ...added);
  } else if (edit.op === "prepend") blocks.unshift(...added);
  else {
    const count = edit.op === "insert_block" ? blocks.length + 1 : blocks.length;
    if (edit.at >= count) {
      throw Fault.forField(`/edits/${index}/at`, "edit_not_matched", "no such block", "edit_not_matched");
    }
    blocks.splice(edit.at, edit.op === "insert_block" ? 0 : 1, ...added);
  }
  return withBlocks(nodes, blocks, dialect);
}

/** Whether a block is an empty paragraph, in a container or not. */
function isBlank(block: RichNode | undefined): boolean {
  if (block?.type === "blockContainer") return block.content?.length === 1 && isBlank(block.content[0]);
  return block?.type === "paragraph" && block.content === undefined;
}

function editText(nodes: RichNode[], edit: TextEdit, index: number, places: { left: number }): RichNode[] {
  const { find, occurrence } = edit;
  const fault = (code: "edit_not_matched" | "edit_ambiguous", detail: string): Fault =>
    Fault.forField(`/edits/${index}/find`, code, detail, code);
  const insert = edit.op === "replace" ? edit.with : edit.text;
  let matched = 0;
  const edited = mapTexts(nodes, false, (texts, isCode) => {
    const text = plainTextOf(texts);
    if (occurrence === "first" && matched > 0) return texts;
    const matches = findOccurrences(text, find, occurrence);
    if (matches.length === 0) return texts;
    const isRepeated = matched > 0 || indexOf(text, find, (matches[0] ?? 0) + 1) >= 0;
    if (occurrence === "only" && isRepeated) {
      throw fault(
        "edit_ambiguous",
        "The text occurs more than once in the document; quote more of it, or set occurrence",
      );
    }
    if (insert.includes("\n") && !isCode) {
      const pointer = `/edits/${index}/${edit.op === "replace" ? "with" : "text"}`;
      throw invalidField(pointer, "line breaks are possible in blocks of code only; use replace_block");
    }
    matched += matches.length;
    places.left -= matches.length;
    if (places.left < 0) throw new Fault("limit_reached", `Edits may change at most ${PLACES_MAX} places in total`);
    return spliceTexts(
      texts,
      matches.map((at) =>
        edit.op === "replace" ? { at, remove: find.length, insert } : { at: at + find.length, remove: 0, insert }
      ),
    );
  });
  if (matched === 0) {
    throw fault("edit_not_matched", "Text not found in the document; it must be within one block, without formatting");
  }
  return edited;
}

/** Nodes with all adjacent texts changed by `change`. */
function mapTexts(
  nodes: readonly RichNode[],
  isCode: boolean,
  change: (texts: readonly RichNode[], isCode: boolean) => readonly RichNode[],
): RichNode[] {
  return unitsOf(nodes).flatMap((unit): readonly RichNode[] => {
    if (!("type" in unit)) return change(unit, isCode);
    if (unit.content === undefined) return [unit];
    const isCodeBlock = unit.type.toLowerCase().replace("_", "") === "codeblock";
    const { content: before, ...rest } = unit;
    const content = mapTexts(before, isCodeBlock, change);
    return [content.length === 0 ? rest : { ...rest, content }];
  });
}

/** Texts after splices, which are in order. What is inserted has the marks of what it replaces or follows. */
function spliceTexts(texts: readonly RichNode[], splices: readonly UnitSplice[]): RichNode[] {
  const result: RichNode[] = [];
  let start = 0;
  let next = 0;
  for (const node of texts) {
    const text = node.text ?? "";
    const end = start + text.length;
    let at = start;
    const keep = (to: number): void => {
      if (to > at) result.push({ ...node, text: text.slice(at - start, to - start) });
      at = Math.max(at, to);
    };
    for (let splice = splices[next]; splice !== undefined; splice = splices[next]) {
      const { at: from, remove, insert } = splice;
      // An insertion belongs to the text before it.
      const isHere = remove > 0 ? from < end : from <= end;
      if (!isHere) break;
      if (from >= start) {
        keep(from);
        result.push(withMarks(insert, node.marks, remove === 0));
      }
      at = Math.max(at, Math.min(from + remove, end));
      if (from + remove > end) break;
      next++;
    }
    keep(end);
    start = end;
  }
  return mergeTexts(result);
}

/** A text after a link does not belong to it. */
function withMarks(text: string, marks: readonly RichMark[] = [], isInserted: boolean): RichNode {
  const own = isInserted ? marks.filter(({ type }) => type !== "link") : marks;
  return own.length === 0 ? { type: "text", text } : { type: "text", text, marks: [...own] };
}
