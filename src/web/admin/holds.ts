// Legal holds: what is under one is not deleted for good.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { listAll, post } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Person } from "../core/resources.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { roomList, roomName, rooms } from "../room/rooms.ts";

type Hold = {
  id: string;
  roomId: string | null;
  principalId: string | null;
  reason: string;
  createdBy: string;
  createdAt: string;
  releasedBy: string | null;
  releasedAt: string | null;
};

const PATH = "v1/collaboration/holds";
const ROOMS_ID = "rooms-to-hold";

export function Holds(): VNode {
  const [isReleased, setReleased] = useState(false);
  const { items, read } = useList(() => listAll<Hold>(PATH, { released: isReleased }), [isReleased]);
  return html`
    <p class="row spread"><span class="dim">What is under a hold is neither deleted by age nor erased. A hold on a person is
      set in <a href="#/admin/people">People</a>.</span>
      <span class="row"><select class="inline" aria-label="State" value=${isReleased ? "released" : ""} onChange=${(
        event: Event,
      ) =>
        setReleased(
          (event.target as HTMLSelectElement).value !== "",
        )}><option value="">in force</option><option value="released">released</option></select>
        <button type="button" class="primary" onClick=${() => openHold(undefined, read)}>New hold</button></span></p>
    <${Placeholder} items=${items} read=${read} text=${isReleased ? "No hold was released." : "No hold is in force."} />
    <ul class="rows">${(items ?? []).map((hold) => html`<${Row} key=${hold.id} hold=${hold} onChange=${read} />`)}</ul>
  `;
}

function Row({ hold, onChange }: { hold: Hold; onChange: () => void }): VNode {
  const { id, reason, createdBy, createdAt, releasedBy, releasedAt } = hold;
  const name = subjectOf(hold);
  const end = releasedBy === null || releasedAt === null
    ? ""
    : `, released by ${nameOf(releasedBy)}, ${fullTimeOf(releasedAt)}`;
  return html`
    <li><div><b dir="auto">${name}</b><small class="dim"><span dir="auto">${reason}</span>, by ${nameOf(
      createdBy,
    )}, ${fullTimeOf(createdAt)}${end}</small></div>
      ${releasedAt === null
        ? html`<button type="button" onClick=${() =>
          confirmThen(
            `Release the hold on ${name}?`,
            "What should have been deleted by age meanwhile is deleted within a day, unless another hold is on it.",
            "Release",
            async () => {
              await post(`${PATH}/${id}/release`);
              onChange();
            },
          )}>Release</button>`
        : null}</li>
  `;
}

function subjectOf({ roomId, principalId }: Hold): string {
  if (principalId !== null) return nameOf(principalId);
  if (roomId === null) return "The whole team";
  const room = rooms.value.get(roomId);
  return room === undefined ? roomId : roomName(room);
}

/** A hold on a person; without one, on a room or the team. */
export function openHold(person: Person | undefined, onCreated: () => void): void {
  const create = async (fields: FormData): Promise<void> => {
    const roomId = String(fields.get("roomId") ?? "").trim();
    const subject = person !== undefined ? { principalId: person.id } : roomId === "" ? {} : { roomId };
    await post(PATH, { ...subject, reason: String(fields.get("reason")).trim() });
    onCreated();
  };
  openDialog(() =>
    html`
      <${DialogForm} title=${person === undefined ? "New hold" : `Hold on ${person.displayName}`} action="Create"
        onSubmit=${create}>
        ${person === undefined
          ? html`
            <label>Id of a room, or nothing for the whole team <input name="roomId" list=${ROOMS_ID} autofocus
                        autocomplete="off" /></label>
            <datalist id=${ROOMS_ID}>${roomList.value.map((room) =>
              html`<option key=${room.id} value=${room.id}>${roomName(room)}</option>`
            )}</datalist>
          `
          : html`<p>It is also on the rooms where this person is a member or has written.</p>`}
        <label>Reason, such as the number of the case <input name="reason" required maxlength="500"
          autofocus=${person !== undefined} /></label>
        <p class="dim">Until it is released, nothing under it is deleted by age, messages and files cannot be deleted, and
          people cannot be erased.</p>
        <//>
    `
  );
}
