// Documents: the list, and the one that is open.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post } from "../core/api.ts";
import { shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { go, route } from "../core/route.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { Icon } from "../part/icon.ts";
import type { ViewProps } from "../part/lazy.ts";
import { PlaceHead, Placeholder } from "../part/place.ts";
import { openTrash } from "../part/trash.ts";
import { canWrite, canWriteIn, roomList, roomName, rooms } from "../room/rooms.ts";
import { createDocument, type Document, DOCUMENTS, readDocuments } from "./documents.ts";
import { DocumentView } from "./view.ts";

/** More documents than this are filtered by title. */
const FILTER_FROM = 10;

export default function DocumentsPage({ room }: ViewProps): VNode {
  const id = room === undefined ? route.value.path[1] : undefined;
  if (id !== undefined) return html`<${DocumentView} key=${id} id=${id} />`;
  const list = html`<${List} key=${room?.id} roomId=${room?.id} isEditable=${canWriteIn(room)} />`;
  return room === undefined ? html`<${PlaceHead} title="Documents" />${list}` : list;
}

function List({ roomId, isEditable }: { roomId: string | undefined; isEditable: boolean }): VNode {
  const [all, setAll] = useState<readonly Document[]>();
  const read = useLatest(() => readDocuments(roomId), setAll);
  useLive(read, ({ type }) => /^document\.(?:created|updated|deleted)$/.test(type), [roomId]);
  const known = new Set(all?.map(({ id }) => id));
  const [wanted, setWanted] = useState("");
  const roots = (all ?? []).filter(({ parentId }) => parentId === null || !known.has(parentId));
  const found = (all ?? []).filter(({ title }) => title.toLowerCase().includes(wanted.toLowerCase()));
  return html`
    <div class="body">
      <div class="narrow">
      ${isEditable
        ? html`
          <p
            class="row"><button type="button" class="primary" onClick=${() =>
              openNew(roomId)}><${Icon} name="add" />New document</button>
            <label class="button">Import Markdown<input type="file" accept=".md,.markdown,.txt,text/markdown,text/plain"
              class="hidden-input" onChange=${({ target }: Event) =>
                importFile(target as HTMLInputElement, roomId)} /></label>
            <button type="button" onClick=${() => openDeleted(roomId)}>Deleted</button></p>
        `
        : null}
      <${Placeholder} items=${all} read=${read} text="No documents yet." />
      ${known.size > FILTER_FROM
        ? html`
          <input type="search" placeholder="Find by title" aria-label="Find by title" value=${wanted}
            onInput=${(event: InputEvent) => setWanted((event.target as HTMLInputElement).value)} />
        `
        : null}
      <ul class="rows">${(wanted === "" ? roots : found).map((one) =>
        html`
          <${Branch} key=${one.id} document=${one} all=${wanted === "" ? all ?? [] : []} depth=${0}
            hasRoom=${roomId === undefined} />
        `
      )}</ul>
      </div>
    </div>
  `;
}

function Branch(
  { document, all, depth, hasRoom }: { document: Document; all: readonly Document[]; depth: number; hasRoom: boolean },
): VNode {
  const { id, title, roomId, editedBy, editedAt, locked } = document;
  const room = roomId === null ? undefined : rooms.value.get(roomId);
  return html`
    <li style=${{ paddingInlineStart: `${depth * 22}px` }}>
      <a class="person-link" href=${`#/documents/${id}`}><${Icon} name="document" /><span dir="auto">${title}</span></a>
      ${locked ? html`<span class="tag"><${Icon} name="lock" />locked</span>` : null}
      ${hasRoom
        ? html`<small class="dim">${roomId === null ? "private" : room === undefined ? "" : roomName(room)}</small>`
        : null}
      <small class="dim narrow-hidden">${nameOf(editedBy)}, ${shortTimeOf(editedAt)}</small>
    </li>
    ${all.filter(({ parentId }) => parentId === id).map((child) =>
      html`<${Branch} key=${child.id} document=${child} all=${all} depth=${depth + 1} hasRoom=${hasRoom} />`
    )}
  `;
}

/** Opens a document with the text of a file; its title is the first heading, or else the name of the file. */
function importFile(field: HTMLInputElement, roomId: string | undefined): void {
  const [file] = field.files ?? [];
  field.value = "";
  if (file === undefined) return;
  void attempt(async () => {
    const markdown = await file.text();
    const title = /^#{1,6} /m.test(markdown) ? {} : { title: file.name.replace(/\.\w+$/, "").slice(0, 200) };
    const { id } = await post<Document>(`${DOCUMENTS}/import`, { markdown, ...title, roomId });
    go(["documents", id]);
  });
}

function openDeleted(roomId: string | undefined): void {
  const load = async () =>
    (await readDocuments(roomId, "deleted")).map(({ title, ...document }) => ({ ...document, name: title }));
  openTrash({ title: "Deleted documents", path: DOCUMENTS, load });
}

function openNew(roomId: string | undefined): void {
  openDialog(() =>
    html`
      <${DialogForm} title="New document" action="Create"
        onSubmit=${async (fields: FormData) => {
          const chosen = roomId ?? String(fields.get("roomId"));
          const { id } = await createDocument({
            title: String(fields.get("title")).trim(),
            kind: String(fields.get("kind")),
            ...chosen === "" ? {} : { roomId: chosen },
          });
          go(["documents", id]);
        }}><label>Title <input name="title" required maxlength="255" autofocus /></label>
            <label>Editor <select name="kind"><option value="text">Markdown</option><option value="rich">Formatted text</option></select></label>
            ${roomId === undefined
              ? html`<label>Room <select name="roomId"><option value="">none: only you see it, until you share it</option>${
                roomList.value.filter(canWrite).map((room) =>
                  html`<option key=${room.id} value=${room.id}>${roomName(room)}</option>`
                )
              }</select></label>`
              : null}<//>
    `
  );
}
