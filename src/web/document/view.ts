// One document: the live editor, comments, revisions, and what can be done with it.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, get, post } from "../core/api.ts";
import { classes, html } from "../core/html.ts";
import { onEvent, useLive } from "../core/live.ts";
import { attempt, notify, useLatest } from "../core/notice.ts";
import { go } from "../core/route.ts";
import type { Room } from "../core/resources.ts";
import { isAdmin, myId } from "../core/session.ts";
import { markdown } from "../message/markdown.ts";
import { confirmThen, openDialog, usePaneFocus } from "../part/dialog.ts";
import { download } from "../part/download.ts";
import { Icon } from "../part/icon.ts";
import { Menu, type MenuItem } from "../part/menu.ts";
import { PlaceHead, Placeholder, usePlaceTitle } from "../part/place.ts";
import { SavedField } from "../part/saved_field.ts";
import { canModerate, canWriteIn, roomName, rooms } from "../room/rooms.ts";
import { CommentsPane } from "./comments.ts";
import type { Document } from "./documents.ts";
import type { Editor, EditorStatus } from "./connection.ts";
import { EditorFrame } from "./frame.ts";
import { OutlinePane } from "./outline.ts";
import { pictureOf } from "./pictures.ts";
import { RevisionsPane } from "./revisions.ts";
import { Sharing } from "./sharing.ts";

type Pane = "comments" | "revisions" | "outline" | undefined;
/** Where a pane covers the text. */
const NARROW = "(max-width: 960px)";

const INITIAL: EditorStatus = { isSaved: false, isConnected: false, names: [], failure: "", unknown: "" };

export function DocumentView({ id }: { id: string }): VNode {
  const [document, setDocument] = useState<Document>();
  const [isMissing, setMissing] = useState(false);
  const [status, setStatus] = useState(INITIAL);
  const [pane, setPane] = useState<Pane>();
  const [preview, setPreview] = useState<string>();
  const editor = useRef<Editor | undefined>(undefined);
  const path = `v1/collaboration/documents/${encodeURIComponent(id)}`;
  const read = useLatest(() =>
    get<Document>(path).catch((error) => {
      setMissing(!(error instanceof ApiError && error.isTemporary));
      throw error;
    }), setDocument);
  useLive(read, ({ type, data }) => type === "document.updated" && data.documentId === id, [id]);
  useEffect(() =>
    onEvent(({ type, data }) => {
      if (type === "document.deleted" && data.documentId === id) go(["documents"]);
    }), [id]);
  usePaneFocus(pane, (button) => button.focus());
  const isUnknown = status.unknown !== "";
  useEffect(() => {
    if (isUnknown) void attempt(async () => setPreview(await readText(path)));
  }, [isUnknown, document?.revision]);
  if (document === undefined) {
    return html`
      <${PlaceHead} title="Document" />
      ${isMissing ? html`<p class="empty">This document is not available.</p>` : html`<${Placeholder} read=${read} />`}
    `;
  }

  const room = rooms.value.get(document.roomId ?? "");
  const rename = (title: string): Promise<boolean> =>
    attempt(async () =>
      setDocument(await call<Document>("PATCH", path, { title: title.trim(), version: document.version }))
    );
  const showPreview = (): Promise<boolean> =>
    attempt(async () => setPreview(preview === undefined ? editor.current?.text() ?? await readText(path) : undefined));
  const open = (at: number): void => {
    setPreview(undefined);
    if (matchMedia(NARROW).matches) setPane(undefined);
    // Once the text is shown.
    requestAnimationFrame(() => editor.current?.goTo(at));
  };
  return html`
    <${DocumentHead} document=${document} room=${room} onRename=${rename}>
      <${Status} status=${status} />
      ${document.kind === "rich" ? null : html`
        <button type="button" class="plain" aria-pressed=${preview !== undefined}
          onClick=${showPreview}>Preview</button>
      `}
      <button type="button" class="plain" aria-label="Comments" title="Comments" aria-pressed=${pane ===
        "comments"} onClick=${() =>
        setPane(
          pane === "comments" ? undefined : "comments",
        )}><${Icon} name="chat" /><span class="narrow-hidden">Comments</span></button>
      <${Menu} label="Document menu" items=${menuOf(document, room, path, setPane)} />
    <//>
    <div class=${classes("columns", pane !== undefined && "has-pane")}>
      <section class="chat document" aria-label="Document">
        ${status.failure === "" ? null : html`<p class="banner problem" role="alert">${status.failure}</p>`}
        ${isUnknown
          ? html`
            <p
              class="banner">This document contains what this editor does not know (${status
                .unknown}). So it is shown here, and edited in the editor that it was written in.</p>
          `
          : document.locked
          ? html`<p class="banner">This document is locked.</p>`
          : null}
        ${preview === undefined ? null : html`
          <div class="preview">
            <div class="text" dir="auto">${markdown(preview, undefined, pictureOf)}</div>
          </div>
        `}
        <div class=${classes("editor-frame", (preview !== undefined || isUnknown) && "hidden")}>
          <${EditorFrame} id=${id} kind=${document.kind} fragment=${document.fragment} isReadOnly=${document
            .locked} editor=${editor} onStatus=${setStatus} />
        </div>
      </section>
      ${pane === "comments"
        ? html`<${CommentsPane} id=${id} isEditable=${canWriteIn(room)} editor=${editor} onClose=${() =>
          setPane(undefined)} />`
        : null}
      ${pane === "outline"
        ? html`<${OutlinePane} entries=${editor.current?.outline() ?? []} onOpen=${open} onClose=${() =>
          setPane(undefined)} />`
        : null}
      ${pane === "revisions" ? html`<${RevisionsPane} path=${path} onClose=${() => setPane(undefined)} />` : null}
    </div>
  `;
}

function DocumentHead({ document, room, onRename, children }: {
  document: Document;
  room: Room | undefined;
  onRename: (title: string) => Promise<boolean>;
  children: ComponentChildren;
}): VNode {
  usePlaceTitle(document.title);
  const back = room === undefined ? "#/documents" : `#/rooms/${room.id}/documents`;
  return html`
    <header class="page-head">
      <h1 class="hidden-text">${document.title}</h1>
      <a class="back always" href=${back} aria-label="All documents"><${Icon} name="back" /></a>
      <div class="title"><${SavedField} className="title-input" label="Title" isRequired maxlength=${255} value=${document
        .title} isReadOnly=${!canWriteIn(room)} onSave=${onRename} /></div>
      <small class="dim narrow-hidden">${document.roomId === null
        ? "Private"
        : room === undefined
        ? ""
        : roomName(room)}</small>
      ${children}
    </header>
  `;
}

function Status({ status }: { status: EditorStatus }): VNode {
  const { isSaved, isConnected, names, failure } = status;
  const text = failure !== ""
    ? "Not saved"
    : !isConnected && names.length === 0
    ? "Opening…"
    : !isConnected
    ? "Offline"
    : isSaved
    ? "Saved"
    : "Saving…";
  return html`
    <span class=${classes("dim", failure !== "" && "danger-text")} role="status">${text}</span>
    ${names.length > 1 ? html`<span class="tag" title=${names.join(", ")}>${names.length} here</span>` : null}
  `;
}

async function readText(path: string): Promise<string> {
  return (await get<{ text: string }>(`${path}/content`, { format: "markdown" })).text;
}

/** As far as the caller may. */
function menuOf(document: Document, room: Room | undefined, path: string, show: (pane: Pane) => void): MenuItem[] {
  const { id, roomId, locked, title } = document;
  const change = (fields: Record<string, unknown>) => (): void => void attempt(() => call("PATCH", path, fields));
  const items: MenuItem[] = [
    { label: "Outline", icon: "hash", onSelect: () => show("outline") },
    { label: "Revisions", icon: "clock", onSelect: () => show("revisions") },
  ];
  if (roomId === null) {
    items.push({ label: "Share", icon: "people", onSelect: () => openDialog(() => html`<${Sharing} path=${path} />`) });
  }
  items.push({
    label: "Download as Markdown",
    icon: "down",
    onSelect: () =>
      void attempt(() => download(`v1/collaboration/documents/${id}/export?format=markdown`, `${title}.md`)),
  });
  if (!canWriteIn(room)) return items;
  items.push({
    label: "New page inside",
    icon: "add",
    onSelect: () =>
      void attempt(async () => {
        const child = await post<Document>("v1/collaboration/documents", {
          title: "Untitled",
          parentId: id,
          ...roomId === null ? {} : { roomId },
        });
        go(["documents", child.id]);
      }),
  });
  const isModerator = room === undefined || canModerate(room) || isAdmin();
  if (isModerator) {
    items.push({ label: locked ? "Unlock" : "Lock", icon: "lock", onSelect: change({ locked: !locked }) });
  }
  if (isModerator || document.createdBy === myId() && !locked) {
    items.push({
      label: "Delete",
      icon: "trash",
      isDanger: true,
      onSelect: () =>
        confirmThen("Delete this document?", title, "Delete", async () => {
          await call("DELETE", path);
          notify("Deleted");
          go(["documents"]);
        }),
    });
  }
  return items;
}
