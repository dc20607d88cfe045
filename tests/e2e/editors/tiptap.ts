// TipTap with its collaboration extensions, as its documentation has them.
/// <reference lib="dom" />
import { Editor } from "npm:@tiptap/core@3.34.0";
import Collaboration from "npm:@tiptap/extension-collaboration@3.34.0";
import CollaborationCaret from "npm:@tiptap/extension-collaboration-caret@3.31.3";
import { TaskItem, TaskList } from "npm:@tiptap/extension-list@3.34.0";
import { TableKit } from "npm:@tiptap/extension-table@3.32.2";
import StarterKit from "npm:@tiptap/starter-kit@3.34.0";
import { mount, offer, provider, user } from "./connection.ts";

const editor = new Editor({
  element: mount,
  extensions: [
    StarterKit.configure({ undoRedo: false }),
    TableKit,
    TaskList,
    TaskItem.configure({ nested: true }),
    Collaboration.configure({ document: provider.document }),
    CollaborationCaret.configure({ provider, user }),
    // The types of the packages are those of copies of one version.
  ] as never[],
});

const commands: Record<string, (argument: unknown) => void> = {
  table: () => editor.chain().focus("end").insertTable({ rows: 2, cols: 2 }).run(),
  tasks: () => editor.chain().focus().toggleTaskList().run(),
  bold: (word) => editor.chain().setTextSelection(rangeOf(String(word))).toggleMark("bold").run(),
  focusEnd: () => editor.commands.focus("end"),
  focusBlock: (word) => {
    const end = editor.state.doc.resolve(rangeOf(String(word)).from).end();
    editor.chain().setTextSelection(end).focus().run();
  },
};

/** Where a word is in the document. */
function rangeOf(word: string): { from: number; to: number } {
  let from = 0;
  editor.state.doc.descendants((node, at) => {
    const index = node.text?.indexOf(word) ?? -1;
    if (index >= 0) from ||= at + index;
  });
  return { from, to: from + word.length };
}

offer({ read: () => editor.getJSON(), run: (command, argument) => commands[command]?.(argument) });
