// The page of the browser test, bundled when it runs: CodeMirror bound to a document, with the cursors of others.
/// <reference lib="dom" />
import { markdown } from "npm:@codemirror/lang-markdown@6.5.0";
import { basicSetup, EditorView } from "npm:codemirror@6.0.2";
import { HocuspocusProvider } from "npm:@hocuspocus/provider@4.8.0";
import { yCollab } from "npm:y-codemirror.next@0.3.6";

const { url = "", id = "", token = "", name = "", color = "" } = Object.fromEntries(
  new URLSearchParams(location.hash.slice(1)),
);
const provider = new HocuspocusProvider({ url, name: id, token });
provider.setAwarenessField("user", { name, color, colorLight: `${color}33` });

const heading = document.createElement("h1");
heading.textContent = name;
document.body.append(heading);
const state = document.createElement("p");
document.body.append(state);
setInterval(() => {
  const isSaved = provider.isSynced && !provider.hasUnsyncedChanges;
  state.textContent = `${isSaved ? "saved" : "saving"}, ${provider.awareness?.getStates().size} here`;
}, 20);

provider.on("synced", () => {
  if (document.querySelector(".cm-editor") !== null) return;
  const text = provider.document.getText("content");
  new EditorView({
    doc: text.toString(),
    extensions: [basicSetup, markdown(), EditorView.lineWrapping, yCollab(text, provider.awareness)],
    parent: document.body,
  });
});
