// Pictures in the editor of rich documents.
import {
  absolutePositionToRelativePosition,
  relativePositionToAbsolutePosition,
  ySyncPluginKey,
} from "@tiptap/y-tiptap";
import { effect } from "@preact/signals";
import { Fragment, type Node, Slice } from "prosemirror-model";
import { Selection } from "prosemirror-state";
import { dropPoint } from "prosemirror-transform";
import type { EditorView, NodeView } from "prosemirror-view";
import { fileLink } from "../../message/file_links.ts";
import { fileOf, pastedFiles, requestLink, sourceOf, uploadPictures } from "../pictures.ts";

/** A picture, or the text of one that is elsewhere. */
export class Picture implements NodeView {
  readonly dom: HTMLElement;
  readonly #attrs: Node["attrs"];
  #end = (): void => {};

  constructor({ attrs, isInline }: Node) {
    this.#attrs = attrs;
    const { src, alt } = attrs;
    this.dom = document.createElement(isInline ? "span" : "p");
    this.dom.className = "picture";
    this.dom.title = String(alt || src || "");
    this.dom.textContent = String(alt || src || "Picture");
    const id = fileOf(src);
    if (id !== undefined) this.#show(id, String(alt ?? ""));
  }

  #show(id: string, alt: string): void {
    const image = document.createElement("img");
    image.alt = alt;
    image.draggable = false;
    const endShow = effect(() => {
      const link = fileLink(id);
      if (link === undefined || image.src !== "") return;
      image.src = link;
      this.dom.className = "illustration";
      this.dom.replaceChildren(image);
    });
    const endRequest = requestLink(id);
    this.#end = () => {
      endShow();
      endRequest();
    };
  }

  update({ attrs, type }: Node): boolean {
    return type.name === "image" && attrs["src"] === this.#attrs["src"] && attrs["alt"] === this.#attrs["alt"];
  }

  ignoreMutation(): boolean {
    return true;
  }

  destroy(): void {
    this.#end();
  }
}

export function pastePictures(view: EditorView, event: ClipboardEvent): boolean {
  const files = pastedFiles(event);
  if (files.length === 0) return false;
  event.preventDefault();
  return addPictures(view, files, view.state.selection.from);
}

export function dropPictures(view: EditorView, event: DragEvent): boolean {
  const files = event.dataTransfer?.files;
  if (files === undefined || files.length === 0) return false;
  event.preventDefault();
  const { doc, schema, selection } = view.state;
  const at = view.posAtCoords({ left: event.clientX, top: event.clientY })?.pos ?? selection.from;
  const picture = new Slice(Fragment.from(schema.nodes["image"]?.create()), 0, 0);
  // Between blocks, not within a word.
  return addPictures(view, files, dropPoint(doc, at, picture) ?? at);
}

/** Uploads pictures, and inserts each where that place is by then. */
export function addPictures(view: EditorView, files: Iterable<File>, at: number): boolean {
  if (!view.editable) return false;
  const { type, doc, binding } = ySyncPluginKey.getState(view.state);
  const place = absolutePositionToRelativePosition(at, type, binding.mapping);
  void uploadPictures(files, (id, name) => {
    if (view.isDestroyed) return;
    const position = relativePositionToAbsolutePosition(doc, type, place, binding.mapping);
    insertPicture(view, id, name, position ?? view.state.selection.from);
  });
  return true;
}

function insertPicture(view: EditorView, id: string, alt: string, at: number): void {
  const { image, paragraph } = view.state.schema.nodes;
  if (image === undefined || paragraph === undefined) return;
  const { tr, selection } = view.state;
  const place = tr.doc.resolve(Math.min(at, tr.doc.content.size));
  const { parent, parentOffset } = place;
  const isWithinLine = parent.isTextblock && parentOffset > 0 && parentOffset < parent.content.size;
  // A line stays whole: the picture is below it.
  const position = isWithinLine && image.isBlock ? place.after() : place.pos;
  tr.replaceRangeWith(position, position, image.create({ src: sourceOf(id), alt }));
  // There must be a line to write on after it.
  if (tr.doc.lastChild?.type === image) tr.insert(tr.doc.content.size, paragraph.create());
  // The cursor of who writes elsewhere meanwhile stays there.
  if (selection.from === position) {
    const end = Math.min(tr.mapping.map(position), tr.doc.content.size);
    tr.setSelection(Selection.near(tr.doc.resolve(end), 1)).scrollIntoView();
  }
  view.dispatch(tr);
}
