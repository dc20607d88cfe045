// What agents know of a room: facts that its members add, accept and let them forget.
import type { VNode } from "preact";
import { call, listAll, post } from "../core/api.ts";
import { dateOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Room } from "../core/resources.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { LineForm } from "../part/line_form.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { canWrite } from "./rooms.ts";

type Fact = { id: string; text: string | null; status: "proposed" | "active"; createdBy: string; createdAt: string };

const PATH = "v1/collaboration/memory/items";
const FACTS_MAX = 200;
const TEXT_MAX = 4000;

export function openRoomMemory(room: Room): void {
  openDialog(() => html`<${Facts} room=${room} />`);
}

function Facts({ room }: { room: Room }): VNode {
  const scope = { scopeType: "room", scopeId: room.id };
  const { items, read, act } = useList(() =>
    listAll<Fact>(PATH, { ...scope, status: ["proposed", "active"] }, FACTS_MAX)
  );
  // What waits for a person comes first.
  const sorted = items?.toSorted((a, b) => Number(b.status === "proposed") - Number(a.status === "proposed"));
  const add = async (text: string): Promise<void> => {
    await post(PATH, { scope: { type: "room", id: room.id }, text });
    read();
  };
  return html`
    <div class="wide-dialog fields">
      <${Heading} title="What agents know" onClose=${closeDialog} />
      <p class="dim">Agents in this room recall these facts. What they propose is recalled once a member accepts it.</p>
      ${canWrite(room)
        ? html`<${LineForm} draft=${`fact ${room.id}`} label="Add a fact" maxlength=${TEXT_MAX} onSend=${add} />`
        : null}
      <${Placeholder} items=${items} read=${read} text="No facts yet." />
      <ul class="rows">${sorted?.map(({ id, text, status, createdBy, createdAt }) =>
        html`
          <li
            key=${id}><div><span dir="auto">${text}</span><small class="dim">${status === "proposed"
              ? "Proposed"
              : "Added"} by <bdi>${nameOf(createdBy)}</bdi>, ${dateOf(createdAt)}</small></div>
            ${canWrite(room)
              ? html`
                ${status === "proposed"
                  ? html`<button type="button" class="primary" aria-label=${`Accept: ${text}`} onClick=${
                    act(() => call("PATCH", `${PATH}/${id}`, { status: "active" }))
                  }>Accept</button>`
                  : null}
                <button type="button" aria-label=${`Forget: ${text}`} onClick=${act(() =>
                  call("DELETE", `${PATH}/${id}`)
                )}>Forget</button>
              `
              : null}</li>
        `
      )}</ul>
    </div>
  `;
}
