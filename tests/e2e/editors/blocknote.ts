// BlockNote without a framework, on Yjs 13, with the fragment of its documentation.
/// <reference lib="dom" />
import { BlockNoteEditor } from "npm:@blocknote/core@0.55.0";
import { withCollaboration } from "npm:@blocknote/core@0.55.0/yjs";
// Optional for BlockNote, which also has one for Yjs 14.
import "npm:y-prosemirror@1.3.7";
import { mount, offer, provider, user } from "./connection.ts";

const { awareness } = provider;
if (awareness === null) throw new TypeError("Expected awareness");
const editor = BlockNoteEditor.create(
  withCollaboration({
    collaboration: { provider: { awareness }, fragment: provider.document.getXmlFragment("document-store"), user },
  }),
);
editor.mount(mount);

const commands: Record<string, (argument: unknown) => void> = {
  table: () => {
    const content = { type: "tableContent" as const, rows: [{ cells: ["a", "b"] }, { cells: ["1", "2"] }] };
    const last = editor.document.at(-1);
    if (last !== undefined) editor.insertBlocks([{ type: "table", content }], last, "before");
  },
  tasks: () => editor.updateBlock(editor.getTextCursorPosition().block, { type: "checkListItem" }),
  bold: (word) => {
    select(String(word));
    editor.toggleStyles({ bold: true });
  },
  focusEnd: () => {
    const last = editor.document.at(-1);
    if (last !== undefined) editor.setTextCursorPosition(last, "end");
    editor.focus();
  },
  focusBlock: (word) => {
    const block = editor.document.find((one) => JSON.stringify(one.content).includes(String(word)));
    if (block === undefined) throw new Error(`no block has ${word}`);
    editor.setTextCursorPosition(block, "end");
    editor.focus();
  },
};

/** Selects a word in the document. */
function select(word: string): void {
  const tiptap = editor._tiptapEditor;
  let from = 0;
  tiptap.state.doc.descendants((node, at) => {
    const index = node.text?.indexOf(word) ?? -1;
    if (index >= 0) from ||= at + index;
  });
  tiptap.commands.setTextSelection({ from, to: from + word.length });
}

offer({
  read: () => editor._tiptapEditor.getJSON(),
  run: (command, argument) => commands[command]?.(argument),
});
