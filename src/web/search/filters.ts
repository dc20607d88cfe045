// What a search is narrowed to: a room, a person, a kind, and days.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { usePrincipals } from "../room/create.ts";
import { roomList, roomName } from "../room/rooms.ts";

/** As in the address of the page; days are local ones. */
export type Filters = { room?: string; sender?: string; type?: string; since?: string; until?: string };
export const FILTER_NAMES = ["room", "sender", "type", "since", "until"] as const satisfies readonly (keyof Filters)[];

export const TYPES = {
  message: "Messages",
  document: "Documents",
  comment: "Comments",
  task: "Tasks",
  event: "Events",
} as const;
const PEOPLE_ID = "search-people";

export function FilterBar({ filters, onChange }: {
  filters: Filters;
  onChange: (change: { [name in keyof Filters]: string | undefined }) => void;
}): VNode {
  const byName = roomList.value.toSorted((a, b) => roomName(a).localeCompare(roomName(b)));
  const set = (name: keyof Filters) => (event: Event) =>
    onChange({ [name]: (event.target as HTMLInputElement).value || undefined });
  // On a narrow screen they would be where results are expected.
  const [isOpen] = useState(() => Object.keys(filters).length > 0 || matchMedia("(min-width: 721px)").matches);
  return html`
    <details class="filter-bar" open=${isOpen}>
      <summary>Filters</summary>
      <div class="filters" role="group" aria-label="Filters">
        <label>Room <select value=${filters.room ?? ""} onChange=${set("room")}>
        <option value="">All rooms</option>
        ${byName.map((room) => html`<option key=${room.id} value=${room.id}>${roomName(room)}</option>`)}
      </select></label>
        <${Sender} id=${filters.sender} onPick=${(sender: string | undefined) => onChange({ sender })} />
        <label>Kind <select value=${filters.type ?? ""} onChange=${set("type")}>
        <option value="">Everything</option>
        ${Object.entries(TYPES).map(([type, label]) => html`<option key=${type} value=${type}>${label}</option>`)}
      </select></label>
        <label>From <input type="date" value=${filters.since ?? ""} max=${filters.until} onChange=${set(
          "since",
        )} /></label>
        <label>To <input type="date" value=${filters.until ?? ""} min=${filters.since} onChange=${set(
          "until",
        )} /></label>
      </div>
    </details>
  `;
}

/** Names are proposed as they are typed; only what somebody wrote is found then. */
function Sender({ id, onPick }: { id: string | undefined; onPick: (id: string | undefined) => void }): VNode {
  const [, setQ, people] = usePrincipals();
  const [text, setText] = useState<string>();
  const options = people.map(({ id, displayName, handle }) => ({
    id,
    label: handle === null ? displayName : `${displayName} (@${handle})`,
  }));
  function onInput({ target }: InputEvent): void {
    const { value } = target as HTMLInputElement;
    const found = options.find(({ label }) => label === value);
    setText(found === undefined ? value : undefined);
    if (found === undefined) setQ(value);
    if (found !== undefined || value === "") onPick(found?.id);
  }
  return html`
    <label>Written by <input list=${PEOPLE_ID} placeholder="Anybody" autocomplete="off" dir="auto" onInput=${onInput}
      value=${text ?? (id === undefined ? "" : nameOf(id))} /></label>
    <datalist id=${PEOPLE_ID}>${options.map((one) =>
      html`<option key=${one.id} value=${one.label}></option>`
    )}</datalist>
  `;
}
