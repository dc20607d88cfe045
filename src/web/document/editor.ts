// The live editor of text documents: CodeMirror on a shared text.
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { defineLanguageFacet, HighlightStyle, Language, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type BlockParser, GFM, parser } from "@lezer/markdown";
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import * as Y from "yjs";
import { html } from "../core/html.ts";
import { bindText } from "./binding.ts";
import { connect, type Editor, type EditorStatus } from "./connection.ts";
import { type FrameProps, useEditor } from "./frame.ts";
import { headingsOf } from "./outline.ts";
import { PICTURE_TYPES } from "../message/files.ts";
import { pastedFiles, sourceOf, uploadPictures } from "./pictures.ts";

/** Nobody formats in so many levels, and each takes some of the stack: deeper, a line is plain text. */
const DEPTH_MAX = 30;
const deepLine: BlockParser = {
  name: "DeepLine",
  before: "IndentedCode",
  parse(context, line) {
    if (context.depth < DEPTH_MAX) return false;
    const from = context.lineStart + line.pos;
    context.addElement(context.elt("Paragraph", from, context.lineStart + line.text.length));
    context.nextLine();
    return true;
  },
};
const syntax = parser.configure([GFM, { parseBlock: [deepLine] }]);
const markdown = new Language(defineLanguageFacet(), syntax, [], "markdown");
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

export function TextFrame(props: FrameProps): VNode {
  const { id, onStatus } = props;
  const parent = useRef<HTMLDivElement>(null);
  useEditor(props, () => openEditor({ id, onStatus, parent: parent.current as HTMLDivElement }), [id]);
  return html`<div class="editor" ref=${parent}></div>`;
}

/** Opens a document in `parent`; `onStatus` is called when its state changes. */
function openEditor(
  { id, parent, onStatus }: {
    id: string;
    parent: HTMLElement;
    onStatus: (status: EditorStatus) => void;
  },
): Editor {
  const editable = new Compartment();
  let isEditable = false;
  let view: EditorView | undefined;
  const connection = connect({
    id,
    onStatus,
    onEditable: (is) => {
      isEditable = is;
      view?.dispatch({ effects: editable.reconfigure(editability(is)) });
    },
    onSynced: ({ document, awareness }) => {
      const { extensions, undo } = bindText(document.getText("content"), awareness as never);
      view = new EditorView({
        parent,
        state: EditorState.create({
          doc: text.toString(),
          extensions: [
            EditorState.lineSeparator.of("\n"),
            extensions,
            pictures(text),
            keymap.of([...defaultKeymap, indentWithTab]),
            drawSelection(),
            EditorView.lineWrapping,
            markdown,
            syntaxHighlighting(style),
            placeholder("Write in Markdown…"),
            EditorView.contentAttributes.of({ "aria-label": "Text of the document", spellcheck: "true" }),
            editable.of(editability(isEditable)),
          ],
        }),
      });
      undo.clear();
    },
  });
  const text = connection.document.getText("content");
  return {
    text: () => text.toString(),
    selection: () => view?.state.selection.main ?? { from: 0, to: 0 },
    outline: () => headingsOf(text.toString()),
    goTo(at) {
      if (view === undefined) return;
      const anchor = Math.min(at, view.state.doc.length);
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "start" }) });
      view.focus();
    },
    setReadOnly: connection.setReadOnly,
    close() {
      view?.destroy();
      view = undefined;
      connection.close();
    },
  };
}

/** Pictures that are pasted or dropped are uploaded, and named where that place is by then. */
function pictures(text: Y.Text): Extension {
  const add = (view: EditorView, files: readonly File[], at: number): boolean => {
    const pictures = files.filter(({ type }) => PICTURE_TYPES.includes(type));
    if (pictures.length === 0 || view.state.readOnly) return false;
    const place = Y.createRelativePositionFromTypeIndex(text, at);
    void uploadPictures(pictures, (id, name) => {
      if (!view.dom.isConnected) return;
      const found = text.doc === null ? null : Y.createAbsolutePositionFromRelativePosition(place, text.doc);
      const from = found?.index ?? view.state.selection.main.head;
      view.dispatch({ changes: { from, insert: `![${name.replaceAll(/[[\]\\]/g, "\\$&")}](${sourceOf(id)})` } });
    });
    return true;
  };
  return EditorView.domEventHandlers({
    paste: (event, view) => add(view, pastedFiles(event), view.state.selection.main.from),
    // Without this the page takes no files.
    dragover: ({ dataTransfer }) => dataTransfer?.types.includes("Files") === true,
    drop: (event, view) =>
      add(view, [...event.dataTransfer?.files ?? []], view.posAtCoords({ x: event.clientX, y: event.clientY }, false)),
  });
}

function editability(isEditable: boolean) {
  return [EditorView.editable.of(isEditable), EditorState.readOnly.of(!isEditable)];
}
