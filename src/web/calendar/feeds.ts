// Feeds: secret addresses under which calendar programs show events.
import type { VNode } from "preact";
import { addressOf, call, get, post } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import type { Room } from "../core/resources.ts";
import { closeDialog, confirmThen, Heading, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { showOnce } from "../part/shown_once.ts";
import { roomName } from "../room/rooms.ts";

type Feed = { id: string; name: string; createdAt: string };

const PATH = "v1/collaboration/calendar/feeds";

export function openFeeds(room: Room | undefined): void {
  openDialog(() => html`<${Feeds} room=${room} />`);
}

function Feeds({ room }: { room: Room | undefined }): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Feed[] }>(PATH)).items);
  const create = async (): Promise<void> => {
    const named = room === undefined ? {} : { roomId: room.id, name: roomName(room) };
    const { path } = await post<{ path: string }>(PATH, named);
    showOnce("Address of the feed", "Anyone who has it sees these events. Add it to a calendar program.", {
      label: "Address",
      value: addressOf(path),
    });
  };
  return html`
    <div class="wide-dialog">
      <${Heading} title="Feeds"
        onClose=${closeDialog}><button type="button" class="primary" onClick=${act(
          create,
        )}>New feed</button><//>
      <p class="dim">A feed shows ${room === undefined
        ? "all your events"
        : "the events of this room"} in another calendar program, which reads it again at times.</p>
      <${Placeholder} items=${items} read=${read} text="You have no feeds." />
      <ul class="rows">${(items ?? []).map(({ id, name, createdAt }) =>
        html`
          <li key=${id}><div><b dir="auto">${name}</b><small class="dim">created ${fullTimeOf(createdAt)}</small></div>
            <button type="button" class="danger-text" aria-label=${`Revoke the feed ${name}`} onClick=${() =>
              confirmThen(
                "Revoke this feed?",
                "Calendar programs that read it show its events no longer.",
                "Revoke",
                () => call("DELETE", `${PATH}/${id}`),
              )}>Revoke</button></li>
        `
      )}</ul>
    </div>
  `;
}
