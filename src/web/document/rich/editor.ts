// The live editor of rich documents: ProseMirror on a shared XML fragment.
import { yCursorPlugin, ySyncPlugin, yUndoPlugin } from "@tiptap/y-tiptap";
import type { Node } from "prosemirror-model";
import { EditorState, TextSelection } from "prosemirror-state";
import { tableEditing } from "prosemirror-tables";
import { type DecorationAttrs, EditorView, type NodeView } from "prosemirror-view";
import type { Transaction, XmlFragment } from "yjs";
import { colorOf } from "../../core/format.ts";
import { type Awareness, connect, type Editor, type EditorStatus, type OutlineEntry } from "../connection.ts";
import { findUnknown, hasInlineImages } from "./check.ts";
import { keysOf } from "./keys.ts";
import { dropPictures, pastePictures, Picture } from "./pictures.ts";
import { createSchema, isSafeLink } from "./schema.ts";

type Options = {
  id: string;
  /** The name of the fragment. */
  fragment: string;
  parent: HTMLElement;
  onStatus: (status: EditorStatus) => void;
  /** Called after every change of the document or the selection. */
  onUpdate: (view: EditorView) => void;
  openLink: () => void;
};

/** Opens a document; what its schema does not know is never touched: then there is no editor. */
export function openRichEditor(
  { id, fragment: name, parent, onStatus, onUpdate, openLink }: Options,
): Editor {
  let view: EditorView | undefined;
  let isEditable = false;
  const connection = connect({
    id,
    onStatus,
    onEditable: (is) => {
      isEditable = is;
      if (view === undefined) return;
      view.setProps({ editable: () => isEditable });
      onUpdate(view);
    },
    onSynced: ({ document, awareness, setUnknown }) => {
      const fragment = document.getXmlFragment(name);
      const schema = createSchema(hasInlineImages(fragment));
      const close = (): boolean => {
        const unknown = findUnknown(fragment, schema);
        if (unknown === undefined) return false;
        setUnknown(unknown);
        view?.destroy();
        view = undefined;
        return true;
      };
      if (close()) return;
      // Before the binding sees changes of others, as it deletes what it cannot show.
      document.on("beforeObserverCalls", ({ local }: Transaction) => !local && view !== undefined && close());
      const state = EditorState.create({
        schema,
        plugins: [...shared(fragment, awareness), ...keysOf(schema, openLink), tableEditing()],
      });
      view = new EditorView(parent, {
        state,
        editable: () => isEditable,
        attributes: {
          "aria-label": "Text of the document",
          "aria-multiline": "true",
          role: "textbox",
          spellcheck: "true",
        },
        nodeViews: {
          taskItem: (node, view, position) => new TaskItem(node, view, position),
          image: (node) => new Picture(node),
        },
        dispatchTransaction(this: EditorView, transaction) {
          // Where others have their cursor is drawn by a timer, which outlives the editor.
          if (this.isDestroyed) return;
          this.updateState(this.state.apply(transaction));
          onUpdate(this);
        },
        handleClick: (view, position, event) => openAt(view, position, event),
        handleDOMEvents: { paste: (view, event) => pastePictures(view, event) || pasteText(view, event) },
        handleDrop: (view, event) => dropPictures(view, event),
      });
      onUpdate(view);
    },
  });
  const textTo = (end: number): string => view?.state.doc.textBetween(0, end, "\n") ?? "";
  return {
    text: () => textTo(view?.state.doc.content.size ?? 0),
    selection() {
      const { from, to } = view?.state.selection ?? { from: 0, to: 0 };
      return { from: textTo(from).length, to: textTo(to).length };
    },
    outline() {
      const found: OutlineEntry[] = [];
      view?.state.doc.descendants((node, at) => {
        if (node.type.name === "heading") found.push({ level: node.attrs["level"], title: node.textContent, at });
        return !node.isTextblock;
      });
      return found;
    },
    goTo(at) {
      if (view === undefined) return;
      const { doc, tr } = view.state;
      view.dispatch(tr.setSelection(TextSelection.near(doc.resolve(Math.min(at + 1, doc.content.size)))));
      (view.nodeDOM(at) as HTMLElement | null)?.scrollIntoView({ block: "start" });
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

function shared(fragment: XmlFragment, awareness: Awareness) {
  const cursorBuilder = ({ name }: { name: string }): HTMLElement => {
    const caret = document.createElement("span");
    caret.className = `remote-caret ${colorOf(name)}`;
    const label = document.createElement("span");
    label.textContent = name;
    caret.append(label);
    return caret;
  };
  const selectionBuilder = ({ name }: { name: string }): DecorationAttrs => ({
    class: `remote-selection ${colorOf(name)}`,
  });
  return [ySyncPlugin(fragment), yCursorPlugin(awareness, { cursorBuilder, selectionBuilder }), yUndoPlugin()];
}

/** Links are followed with the key that browsers use for new tabs; where nothing can be edited, the browser follows them. */
function openAt(view: EditorView, position: number, { ctrlKey, metaKey }: MouseEvent): boolean {
  const { href } = view.state.doc.resolve(position).marks().find(({ type }) => type.name === "link")?.attrs ?? {};
  if (!(ctrlKey || metaKey) || !isSafeLink(href)) return false;
  open(href, "_blank", "noopener,noreferrer");
  return true;
}

/** Browsers without a sanitizer paste the text only. */
function pasteText(view: EditorView, event: ClipboardEvent): boolean {
  if ("setHTML" in Element.prototype || event.clipboardData === null) return false;
  event.preventDefault();
  return view.pasteText(event.clipboardData.getData("text/plain"), event);
}

/** A task with its check box. */
class TaskItem implements NodeView {
  readonly dom = document.createElement("li");
  readonly contentDOM = document.createElement("div");
  readonly #box = document.createElement("input");

  constructor(node: Node, view: EditorView, position: () => number | undefined) {
    this.dom.dataset["type"] = "taskItem";
    this.#box.type = "checkbox";
    this.#box.contentEditable = "false";
    this.dom.append(this.#box, this.contentDOM);
    this.#box.addEventListener("change", () => {
      const at = position();
      // The node says what it is, also if it may not be changed.
      const { checked } = this.#box;
      if (at === undefined || !view.editable) this.#box.checked = !checked;
      else view.dispatch(view.state.tr.setNodeAttribute(at, "checked", checked));
    });
    this.update(node);
  }

  update(node: Node): boolean {
    if (node.type.name !== "taskItem") return false;
    this.#box.checked = node.attrs["checked"] === true;
    this.#box.setAttribute("aria-label", node.firstChild?.textContent ?? "");
    this.dom.dataset["checked"] = String(this.#box.checked);
    return true;
  }

  stopEvent({ target }: Event): boolean {
    return target === this.#box;
  }

  ignoreMutation(mutation: { target: unknown; type: string }): boolean {
    return mutation.type !== "selection" && !this.contentDOM.contains(mutation.target as HTMLElement);
  }
}
