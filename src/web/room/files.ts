// Files of a room, the newest first.
import type { VNode } from "preact";
import { get } from "../core/api.ts";
import { shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { nameOf } from "../core/people.ts";
import type { MessageFile, Page, Room } from "../core/resources.ts";
import { Files } from "../message/files.ts";
import { leavePane } from "../message/row.ts";
import { Heading } from "../part/dialog.ts";
import { usePages } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type StoredFile = MessageFile & { uploaderId: string; createdAt: string };

const SHOWN = 30;

export default function FilesPane({ room }: { room: Room }): VNode {
  const { page, read, more } = usePages<Page<StoredFile>>((cursor) =>
    get("v1/collaboration/files", { roomId: room.id, limit: SHOWN, cursor })
  );
  useLive(
    read,
    ({ type, data }, channel) =>
      channel === `room:${room.id}` &&
      (type === "message.deleted" || type === "message.created" && data.message.files.length > 0),
    [room.id],
  );
  return html`
    <aside class="pane" aria-label="Files">
      <${Heading} title="Files" onClose=${() => leavePane(room.id)} />
      <${Placeholder} items=${page?.items} read=${read}
        text="No files yet. Attach one to a message, or drop it in the conversation." />
      <ul class="cards scroll">${(page?.items ?? []).map((file) =>
        html`
          <li key=${file.id}>
            <small class="dim"><b dir="auto">${nameOf(file.uploaderId)}</b> ${shortTimeOf(file.createdAt)}</small>
            <${Files} files=${[file]} />
          </li>
        `
      )}
      ${more === undefined
        ? null
        : html`<li><button type="button" class="link" onClick=${more}>Show more</button></li>`}</ul>
    </aside>
  `;
}
