// What the toolbar and the keys of the rich editor do.
import { exitCode, lift, setBlockType, toggleMark, wrapIn } from "prosemirror-commands";
import type { Node, NodeType, ResolvedPos, Schema } from "prosemirror-model";
import { liftListItem, wrapInList } from "prosemirror-schema-list";
import { type Command, type EditorState, TextSelection, type Transaction } from "prosemirror-state";
import { addRowAfter, goToNextCell, isInTable } from "prosemirror-tables";

/** The command of a list: wraps blocks, unwraps them, or makes a list of another kind. */
export function toggleList(list: NodeType, item: NodeType): Command {
  return (state, dispatch) => {
    const found = enclosing(state, ({ type }) => type.isInGroup("list"));
    if (found === undefined) return wrapInList(list)(state, dispatch);
    if (found.node.type === list) return liftListItem(item)(state, dispatch);
    if (dispatch === undefined) return true;
    const { anchor, head } = state.selection;
    const tr = replaceList(state.tr, found, list, item);
    dispatch(tr.setSelection(TextSelection.create(tr.doc, anchor, head)));
    return true;
  };
}

/** The same items in a list of another kind. */
export function replaceList(
  tr: Transaction,
  { node, at }: { node: Node; at: number },
  list: NodeType,
  item: NodeType,
): Transaction {
  const items = node.children.map((one) => item.create(null, one.content));
  return tr.replaceWith(at, at + node.nodeSize, list.create(null, items));
}

/** Makes the block a heading, or of the kind it is not; a paragraph if it is that already. */
export function toggleBlock(type: NodeType, attrs: Record<string, unknown> = {}): Command {
  return (state, dispatch) => {
    const paragraph = state.schema.nodes["paragraph"];
    if (paragraph !== undefined && isBlock(state, type, attrs)) return setBlockType(paragraph)(state, dispatch);
    return setBlockType(type, attrs)(state, dispatch);
  };
}

export function toggleQuote(quote: NodeType): Command {
  return (state, dispatch) => {
    const isQuoted = enclosing(state, ({ type }) => type === quote) !== undefined;
    return isQuoted ? lift(state, dispatch) : wrapIn(quote)(state, dispatch);
  };
}

export function insertTable({ nodes }: Schema): Command {
  return (state, dispatch) => {
    const { table, tableRow, tableHeader, tableCell } = nodes;
    if (table === undefined || tableRow === undefined) return false;
    if (enclosing(state, ({ type }) => type === table) !== undefined) return false;
    const row = (type: NodeType | undefined) =>
      tableRow.create(null, [0, 1, 2].map(() => type?.createAndFill() as Node));
    const added = table.create(null, [row(tableHeader), row(tableCell), row(tableCell)]);
    const at = state.selection.from;
    const tr = state.tr.replaceSelectionWith(added);
    const start = tr.mapping.map(at, -1);
    dispatch?.(tr.setSelection(TextSelection.near(tr.doc.resolve(start), 1)).scrollIntoView());
    return true;
  };
}

/** The next cell; after the last one, the first of a new row. */
export function nextCell(): Command {
  return (state, dispatch, view) => {
    if (goToNextCell(1)(state, dispatch)) return true;
    if (!isInTable(state)) return false;
    addRowAfter(state, dispatch);
    return view === undefined || goToNextCell(1)(view.state, dispatch);
  };
}

export function insertRule(rule: NodeType): Command {
  return (state, dispatch) => {
    dispatch?.(state.tr.replaceSelectionWith(rule.create()).scrollIntoView());
    return true;
  };
}

export function insertBreak(hardBreak: NodeType): Command {
  return (state, dispatch) => {
    if (exitCode(state, dispatch)) return true;
    dispatch?.(state.tr.replaceSelectionWith(hardBreak.create()).scrollIntoView());
    return true;
  };
}

/** Links the selection, or inserts `text` with the link; without an address the link is removed. */
export function setLink(href: string, text: string): Command {
  return (state, dispatch) => {
    const link = state.schema.marks["link"];
    if (link === undefined || dispatch === undefined) return link !== undefined;
    const range = linkAt(state) ?? { from: state.selection.from, to: state.selection.to };
    const tr = state.tr;
    if (range.from === range.to && href !== "") tr.insertText(text, range.from);
    const to = range.from === range.to ? range.from + text.length : range.to;
    tr.removeMark(range.from, to, link);
    if (href !== "") tr.addMark(range.from, to, link.create({ href }));
    dispatch(tr.removeStoredMark(link));
    return true;
  };
}

/** The link that the cursor is in. */
export function linkAt(state: EditorState): { from: number; to: number; href: string } | undefined {
  const { $from, empty } = state.selection;
  const link = state.schema.marks["link"];
  if (!empty || link === undefined) return undefined;
  const mark = link.isInSet($from.marks());
  if (mark === undefined) return undefined;
  const start = $from.start();
  const ranges: { from: number; to: number }[] = [];
  $from.parent.forEach((node, offset) => {
    if (!mark.isInSet(node.marks)) return;
    const [from, to] = [start + offset, start + offset + node.nodeSize];
    const last = ranges.at(-1);
    if (last?.to === from) last.to = to;
    else ranges.push({ from, to });
  });
  const range = ranges.find(({ from, to }) => from <= $from.pos && $from.pos <= to);
  return range === undefined ? undefined : { ...range, href: String(mark.attrs["href"] ?? "") };
}

export function isMarked(state: EditorState, name: string): boolean {
  const type = state.schema.marks[name];
  const { from, to, $from, empty } = state.selection;
  if (type === undefined) return false;
  return empty
    ? type.isInSet(state.storedMarks ?? $from.marks()) !== undefined
    : state.doc.rangeHasMark(from, to, type);
}

export function isBlock(state: EditorState, type: NodeType | undefined, attrs: Record<string, unknown> = {}): boolean {
  const { parent } = state.selection.$from;
  return parent.type === type && Object.entries(attrs).every(([name, value]) => parent.attrs[name] === value);
}

/** The innermost node around the selection for which this holds. */
export function enclosing(
  { selection: { $from } }: { selection: { $from: ResolvedPos } },
  matches: (node: Node) => boolean,
): { node: Node; at: number } | undefined {
  for (let depth = $from.depth; depth > 0; depth--) {
    if (matches($from.node(depth))) return { node: $from.node(depth), at: $from.before(depth) };
  }
  return undefined;
}

export function toggle(schema: Schema, name: string): Command {
  const type = schema.marks[name];
  return type === undefined ? () => false : toggleMark(type);
}
