// Members of a room beside the conversation: roles, invitations and removal.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, listAll } from "../core/api.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { online } from "../core/people.ts";
import type { Member, Room, RoomRole } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { leavePane } from "../message/row.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, confirmThen, Heading, openDialog } from "../part/dialog.ts";
import { Menu, type MenuItem } from "../part/menu.ts";
import { Placeholder } from "../part/place.ts";
import { usePrincipals } from "./create.ts";
import { canModerate } from "./rooms.ts";

export default function MembersPane({ room }: { room: Room }): VNode {
  const [members, setMembers] = useState<readonly Member[]>();
  const path = `v1/rooms/${room.id}/members`;
  const read = useLatest(() => listAll<Member>(path), setMembers);
  useLive(
    read,
    ({ type }, channel) => /^member\.(?:joined|left|updated)$/.test(type) && channel === `room:${room.id}`,
    [room.id],
  );
  const sorted = (members ?? []).toSorted((a, b) =>
    Number(online.value.has(b.principalId)) - Number(online.value.has(a.principalId)) ||
    a.displayName.localeCompare(b.displayName)
  );
  return html`
    <aside class="pane" aria-label="Members">
      <${Heading} title="Members" onClose=${() => leavePane(room.id)}>
        ${canModerate(room) && room.kind !== "direct"
          ? html`<button type="button" onClick=${() =>
            openDialog(() => html`<${Inviter} room=${room} />`)}>Add</button>`
          : null}
      <//>
      <${Placeholder} items=${members} read=${read} />
      <ul class="rows scroll">${sorted.map((member) =>
        html`<li key=${member.principalId}>
        <a class="person-link" href=${`#/people/${
          encodeURIComponent(member.principalId)
        }`}><${Avatar} id=${member.principalId} isSmall hasPresence />
          <span dir="auto">${member.displayName}</span></a>
        ${member.kind === "human" ? null : html`<span class="tag">${member.kind}</span>`}
        ${member.role === "member" ? null : html`<span class="tag">${member.role}</span>`}
        ${
          member.principalId === myId() || !canModerate(room) || room.kind === "direct"
            ? null
            : html`<${Menu} label=${`Menu of ${member.displayName}`} items=${menuOf(room, member)} />`
        }
      </li>`
      )}</ul>
    </aside>
  `;
}

function menuOf(room: Room, { principalId, displayName, role }: Member): MenuItem[] {
  const path = `v1/rooms/${room.id}/members/${encodeURIComponent(principalId)}`;
  const roles: RoomRole[] = room.myRole === "owner"
    ? ["owner", "moderator", "member", "observer"]
    : ["member", "observer"];
  return [
    ...roles.filter((one) => one !== role).map((one): MenuItem => ({
      label: `Make ${one}`,
      icon: "user",
      onSelect: () => void attempt(() => call("PUT", path, { role: one })),
    })),
    {
      label: "Remove from room",
      icon: "exit",
      isDanger: true,
      onSelect: () =>
        confirmThen(`Remove ${displayName}?`, "They can be added again later.", "Remove", () => call("DELETE", path)),
    },
  ];
}

function Inviter({ room }: { room: Room }): VNode {
  const [q, setQ, items, note] = usePrincipals();
  const [added, setAdded] = useState<readonly string[]>([]);
  const add = (id: string): void =>
    void attempt(async () => {
      await call("PUT", `v1/rooms/${room.id}/members/${encodeURIComponent(id)}`, {});
      setAdded([...added, id]);
    });
  return html`
    <div>
      <${Heading} title="Add members" onClose=${closeDialog} />
      <input type="search" placeholder="Name" aria-label="Name" autofocus value=${q}
        onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <ul class="rows">${items.filter(({ id, disabled }) => id !== myId() && !disabled).map(({ id, displayName }) =>
        html`
          <li
            key=${id}><span class="person-link"><${Avatar} id=${id} isSmall /><span dir="auto">${displayName}</span></span>
                  <button type="button" disabled=${added.includes(id)} onClick=${() => add(id)}>${added.includes(id)
                    ? "Added"
                    : "Add"}</button></li>
        `
      )}</ul>
      ${note}
    </div>
  `;
}
