// Pictures in rich documents: files of the gateway are shown through links, and uploaded when they are pasted or dropped.
// Those of other hosts would see who reads; so only their description and address are shown.
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
import { upload, withQuery } from "../core/api.ts";
import { attempt, dismiss, notify, notifyUntilDismissed } from "../core/notice.ts";
import { fileLink, forgetFileLink } from "../message/file_links.ts";
import { PICTURE_TYPES } from "../message/files.ts";

const FILE = /\/v1\/collaboration\/files\/(file_[0-9A-Za-z]{32})(?:\/content)?$/;
/** The gateway attaches a file to its document with the next save; until then, others may not read it. */
const LINK_TRIES = 6;
const LINK_AGAIN_MS = 1500;

/** A picture, or the text of one that is elsewhere. */
export class Picture implements NodeView {
  readonly dom: HTMLElement;
  readonly #attrs: Node["attrs"];
  #end = (): void => {};
  #timer: ReturnType<typeof setTimeout> | undefined;

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
    this.#end = effect(() => {
      const link = fileLink(id);
      if (link === undefined || image.src !== "") return;
      image.src = link;
      this.dom.className = "illustration";
      this.dom.replaceChildren(image);
    });
    const again = (tries: number): void => {
      this.#timer = setTimeout(() => {
        if (image.src !== "" || tries === 0) return;
        forgetFileLink(id);
        again(tries - 1);
      }, LINK_AGAIN_MS);
    };
    again(LINK_TRIES);
  }

  update({ attrs, type }: Node): boolean {
    return type.name === "image" && attrs["src"] === this.#attrs["src"] && attrs["alt"] === this.#attrs["alt"];
  }

  ignoreMutation(): boolean {
    return true;
  }

  destroy(): void {
    this.#end();
    clearTimeout(this.#timer);
  }
}

/** Takes pictures that are pasted alone: with a text beside them they are pictures of that text. */
export function pastePictures(view: EditorView, event: ClipboardEvent): boolean {
  const { clipboardData } = event;
  if (clipboardData === null || clipboardData.files.length === 0 || clipboardData.getData("text/plain") !== "") {
    return false;
  }
  event.preventDefault();
  return addPictures(view, clipboardData.files, view.state.selection.from);
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
  void (async () => {
    for (const file of files) {
      if (!PICTURE_TYPES.includes(file.type)) {
        notify(`${file.name} is not a picture that browsers can show`, true);
        continue;
      }
      const notice = notifyUntilDismissed(`Uploading ${file.name}…`);
      await attempt(async () => {
        const path = withQuery("v1/collaboration/files", { name: file.name });
        const { id } = await upload<{ id: string }>(path, file, () => {}, new AbortController().signal);
        if (view.isDestroyed) return;
        const position = relativePositionToAbsolutePosition(doc, type, place, binding.mapping);
        insertPicture(view, id, file.name, position ?? view.state.selection.from);
      });
      dismiss(notice);
    }
  })();
  return true;
}

function insertPicture(view: EditorView, id: string, alt: string, at: number): void {
  const { image, paragraph } = view.state.schema.nodes;
  if (image === undefined || paragraph === undefined) return;
  const { tr } = view.state;
  const position = Math.min(at, tr.doc.content.size);
  tr.replaceRangeWith(position, position, image.create({ src: `/v1/collaboration/files/${id}/content`, alt }));
  // There must be a line to write on after it.
  if (tr.doc.lastChild?.type === image) tr.insert(tr.doc.content.size, paragraph.create());
  const end = tr.mapping.map(position);
  view.dispatch(
    tr.setSelection(Selection.near(tr.doc.resolve(Math.min(end, tr.doc.content.size)), 1)).scrollIntoView(),
  );
}

/** The file of this gateway that an address names. */
function fileOf(src: unknown): string | undefined {
  if (typeof src !== "string" || !URL.canParse(src, document.baseURI)) return undefined;
  const { origin, pathname } = new URL(src, document.baseURI);
  return origin === location.origin ? FILE.exec(pathname)?.[1] : undefined;
}
