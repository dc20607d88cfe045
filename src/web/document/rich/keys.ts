// Keys of the rich editor, and Markdown that is formatted while it is typed.
import { redo, undo } from "@tiptap/y-tiptap";
import { baseKeymap, chainCommands } from "prosemirror-commands";
import {
  InputRule,
  inputRules,
  textblockTypeInputRule,
  undoInputRule,
  wrappingInputRule,
} from "prosemirror-inputrules";
import { keymap } from "prosemirror-keymap";
import type { MarkType, NodeType, Schema } from "prosemirror-model";
import { liftListItem, sinkListItem, splitListItem } from "prosemirror-schema-list";
import { type Command, type Plugin, TextSelection } from "prosemirror-state";
import { goToNextCell } from "prosemirror-tables";
import {
  enclosing,
  insertBreak,
  nextCell,
  replaceList,
  toggle,
  toggleBlock,
  toggleList,
  toggleQuote,
} from "./commands.ts";

/** `openLink` asks for the address of a link. */
export function keysOf(schema: Schema, openLink: () => void): Plugin[] {
  const node = (name: string) => schema.nodes[name] as NodeType;
  const [listItem, taskItem] = [node("listItem"), node("taskItem")];
  const keys: Record<string, Command> = {
    "Mod-z": (state) => undo(state) ?? true,
    "Mod-y": (state) => redo(state) ?? true,
    "Mod-Shift-z": (state) => redo(state) ?? true,
    "Mod-b": toggle(schema, "bold"),
    "Mod-i": toggle(schema, "italic"),
    "Mod-u": toggle(schema, "underline"),
    "Mod-e": toggle(schema, "code"),
    "Mod-Shift-s": toggle(schema, "strike"),
    "Mod-k": () => {
      openLink();
      return true;
    },
    "Mod-Alt-0": toggleBlock(node("paragraph")),
    "Mod-Alt-c": toggleBlock(node("codeBlock")),
    "Mod-Shift-7": toggleList(node("orderedList"), listItem),
    "Mod-Shift-8": toggleList(node("bulletList"), listItem),
    "Mod-Shift-9": toggleList(node("taskList"), taskItem),
    "Mod-Shift-b": toggleQuote(node("blockquote")),
    "Shift-Enter": insertBreak(node("hardBreak")),
    "Mod-Enter": insertBreak(node("hardBreak")),
    Enter: chainCommands(splitListItem(listItem), splitListItem(taskItem, { checked: false })),
    Tab: chainCommands(nextCell(), sinkListItem(listItem), sinkListItem(taskItem)),
    "Shift-Tab": chainCommands(goToNextCell(-1), liftListItem(listItem), liftListItem(taskItem)),
    Backspace: undoInputRule,
  };
  for (const level of [1, 2, 3]) keys[`Mod-Alt-${level}`] = toggleBlock(node("heading"), { level });
  return [rulesOf(schema), keymap(keys), keymap(baseKeymap)];
}

function rulesOf({ nodes, marks }: Schema): Plugin {
  const node = (name: string) => nodes[name] as NodeType;
  const mark = (name: string) => marks[name] as MarkType;
  return inputRules({
    rules: [
      textblockTypeInputRule(/^(#{1,3}) $/, node("heading"), ([, marks = ""]) => ({ level: marks.length })),
      textblockTypeInputRule(/^```$/, node("codeBlock")),
      wrappingInputRule(/^> $/, node("blockquote")),
      wrappingInputRule(/^[-*+] $/, node("bulletList")),
      wrappingInputRule(/^(\d{1,6})\. $/, node("orderedList"), ([, start = "1"]) => ({ start: Number(start) })),
      new InputRule(/^\[( |x)\] $/, (state, [, box], start, end) => {
        const tr = state.tr.delete(start, end);
        const [list, item] = [node("taskList"), node("taskItem")];
        const $from = tr.doc.resolve(start);
        const range = $from.blockRange();
        if (range?.parent.type === node("doc")) {
          return tr.wrap(range, [{ type: list }, { type: item, attrs: { checked: box === "x" } }]);
        }
        const found = enclosing({ selection: { $from } }, ({ type }) => type === node("bulletList"));
        if (found === undefined) return null;
        replaceList(tr, found, list, item);
        return tr.setSelection(TextSelection.create(tr.doc, start));
      }),
      new InputRule(/^---$/, (state, _match, start) => {
        const { $from } = state.selection;
        if ($from.parent.type !== node("paragraph") || $from.node(-1).type !== node("doc")) return null;
        return state.tr.delete(start, $from.pos).insert(start - 1, node("horizontalRule").create());
      }),
      markRule(/(?:^|[^*])(\*\*([^*\s][^*]{0,200})\*)\*$/, mark("bold")),
      markRule(/(?:^|[^`])(`([^`]{1,200}))`$/, mark("code")),
      markRule(/(?:^|[^~])(~~([^~\s][^~]{0,200})~)~$/, mark("strike")),
      markRule(/(?:^|[\s(])(_([^_\s][^_]{0,200}))_$/, mark("italic")),
    ],
  });
}

/** Marks a text between signs: the first group ends before the last sign, the second one is the text. */
function markRule(expression: RegExp, type: MarkType): InputRule {
  return new InputRule(expression, (state, [, typed = "", text = ""], _start, end) => {
    const from = end - typed.length;
    const opening = typed.indexOf(text);
    if (!state.doc.resolve(from).parent.type.allowsMarkType(type)) return null;
    return state.tr.delete(from + opening + text.length, end).delete(from, from + opening)
      .addMark(from, from + text.length, type.create()).removeStoredMark(type);
  });
}
