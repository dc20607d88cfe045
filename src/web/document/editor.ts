// The live editor: CodeMirror on a shared text, over the Hocuspocus protocol.
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { defineLanguageFacet, HighlightStyle, Language, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { HocuspocusProvider } from "@hocuspocus/provider";
import { tags } from "@lezer/highlight";
import { GFM, parser } from "@lezer/markdown";
import { addressOf } from "../core/api.ts";
import { nameOf } from "../core/people.ts";
import { myId, token } from "../core/session.ts";
import { bindText } from "./binding.ts";

export type EditorStatus = { isSaved: boolean; isConnected: boolean; names: readonly string[]; failure: string };
export type Editor = { text(): string; selection(): string; close(): void };

const STATUS_MS = 150;
const markdown = new Language(defineLanguageFacet(), parser.configure(GFM), [], "markdown");
const style = HighlightStyle.define([
  { tag: tags.heading, class: "md-heading" },
  { tag: tags.strong, class: "md-strong" },
  { tag: tags.emphasis, class: "md-emphasis" },
  { tag: tags.monospace, class: "md-code" },
  { tag: tags.link, class: "md-link" },
  { tag: tags.url, class: "md-link" },
  { tag: tags.quote, class: "md-quote" },
  { tag: tags.processingInstruction, class: "md-mark" },
]);

/** Opens a document in `parent`; `onStatus` is called when its state changes. */
export function openEditor(
  { id, parent, isReadOnly, onStatus }: {
    id: string;
    parent: HTMLElement;
    isReadOnly: boolean;
    onStatus: (status: EditorStatus) => void;
  },
): Editor {
  let failure = "";
  const editable = new Compartment();
  const provider = new HocuspocusProvider({
    url: addressOf("v1/collaboration/documents/sync").replace(/^http/, "ws"),
    name: id,
    token: () => token.value,
    onAuthenticationFailed: ({ reason }) => {
      failure = reason;
      setEditable(false);
    },
    onStateless: ({ payload }) => {
      const { type, detail } = JSON.parse(payload);
      if (type === "document.refused") failure = detail;
    },
    onAuthenticated: ({ scope }) => setEditable(scope === "read-write"),
  });
  provider.setAwarenessField("user", { name: nameOf(myId()), color: "#3b5bcc", colorLight: "#3b5bcc33" });
  const text = provider.document.getText("content");
  let view: EditorView | undefined;
  provider.on("synced", () => {
    if (view !== undefined || provider.awareness === null) return;
    const { extensions, undo } = bindText(text, provider.awareness as never);
    view = new EditorView({
      parent,
      state: EditorState.create({
        doc: text.toString(),
        extensions: [
          EditorState.lineSeparator.of("\n"),
          extensions,
          keymap.of([...defaultKeymap, indentWithTab]),
          drawSelection(),
          EditorView.lineWrapping,
          markdown,
          syntaxHighlighting(style),
          placeholder("Write in Markdown…"),
          EditorView.contentAttributes.of({ "aria-label": "Text of the document", spellcheck: "true" }),
          editable.of(editability(!isReadOnly)),
        ],
      }),
    });
    undo.clear();
  });
  const timer = setInterval(report, STATUS_MS);
  let last = "";

  function report(): void {
    const states = [...provider.awareness?.getStates().values() ?? []];
    const names = states.map(({ user }) => String(user?.name ?? "")).filter((name) => name !== "");
    const status = {
      isSaved: provider.isSynced && !provider.hasUnsyncedChanges,
      isConnected: provider.configuration.websocketProvider.status === "connected",
      names: [...new Set(names)],
      failure,
    };
    if (JSON.stringify(status) === last) return;
    last = JSON.stringify(status);
    onStatus(status);
  }

  function setEditable(isEditable: boolean): void {
    view?.dispatch({ effects: editable.reconfigure(editability(isEditable && !isReadOnly)) });
  }

  return {
    text: () => text.toString(),
    selection: () =>
      view === undefined ? "" : view.state.sliceDoc(view.state.selection.main.from, view.state.selection.main.to),
    close() {
      clearInterval(timer);
      view?.destroy();
      provider.destroy();
    },
  };
}

function editability(isEditable: boolean) {
  return [EditorView.editable.of(isEditable), EditorState.readOnly.of(!isEditable)];
}
