// CodeMirror with the cursors of others.
/// <reference lib="dom" />
import { markdown } from "npm:@codemirror/lang-markdown@6.5.0";
import { basicSetup, EditorView } from "npm:codemirror@6.0.2";
import { yCollab, yUndoManagerKeymap } from "npm:y-codemirror.next@0.3.6";
import { keymap } from "npm:@codemirror/view@6.43.15";
import { mount, offer, provider, synced, user } from "./connection.ts";

await synced();
provider.setAwarenessField("user", { ...user, colorLight: `${user.color}33` });
const text = provider.document.getText("content");
const editor = new EditorView({
  doc: text.toString(),
  extensions: [
    keymap.of(yUndoManagerKeymap),
    basicSetup,
    markdown(),
    EditorView.lineWrapping,
    yCollab(text, provider.awareness),
  ],
  parent: mount,
});

const commands: Record<string, (argument: unknown) => void> = {
  bold: (word) => {
    const from = editor.state.doc.toString().indexOf(String(word));
    editor.dispatch({ changes: [{ from, insert: "**" }, { from: from + String(word).length, insert: "**" }] });
  },
  table: () =>
    editor.dispatch({ changes: { from: editor.state.doc.length, insert: "| a | b |\n| - | - |\n| 1 | 2 |\n" } }),
  tasks: () => editor.dispatch(editor.state.replaceSelection("- [ ] ")),
  focusEnd: () => select(editor.state.doc.length),
  focusBlock: (word) => select(editor.state.doc.lineAt(editor.state.doc.toString().indexOf(String(word))).to),
};

function select(at: number): void {
  editor.dispatch({ selection: { anchor: at } });
  editor.focus();
}

offer({
  read: () => editor.state.doc.toString(),
  run: (command, argument) => commands[command]?.(argument),
});
