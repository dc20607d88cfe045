// Quill bound to a text document: its formatting is stored beside the text.
/// <reference lib="dom" />
import Quill from "npm:quill@2.0.3";
import QuillCursors from "npm:quill-cursors@4.3.0";
import { QuillBinding } from "npm:y-quill@1.0.0";
import { mount, offer, provider, synced, user } from "./connection.ts";

await synced();
provider.setAwarenessField("user", user);
Quill.register("modules/cursors", QuillCursors);
const quill = new Quill(mount, { modules: { history: { userOnly: true }, cursors: true } });
new QuillBinding(provider.document.getText("content"), quill, provider.awareness ?? undefined);

const commands: Record<string, (argument: unknown) => void> = {
  bold: (word) => {
    const at = quill.getText().indexOf(String(word));
    quill.formatText(at, String(word).length, "bold", true, "user");
  },
  tasks: () => void quill.format("list", "unchecked", "user"),
  image: () => void quill.insertEmbed(0, "image", "data:image/gif;base64,R0lGODlhAQABAAAAACw=", "user"),
  focusEnd: () => quill.setSelection(quill.getLength() - 1, 0),
  focusBlock: (word) => {
    const text = quill.getText();
    quill.setSelection(text.indexOf("\n", text.indexOf(String(word))), 0);
  },
};

offer({ read: () => quill.getContents().ops, run: (command, argument) => commands[command]?.(argument) });
