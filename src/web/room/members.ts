// Members of a room beside the conversation: roles, invitations and removal.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, get, listAll, post, withQuery } from "../core/api.ts";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, notify, useLatest } from "../core/notice.ts";
import { nameOf, online, readMembers } from "../core/people.ts";
import type { Group, Member, Page, Room, RoomRole } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { markdown } from "../message/markdown.ts";
import { leavePane } from "../message/row.ts";
import { openGrants } from "../agent/grants.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, confirmThen, Heading, openDialog } from "../part/dialog.ts";
import { useFound } from "../part/list.ts";
import { Menu, type MenuItem } from "../part/menu.ts";
import { Placeholder } from "../part/place.ts";
import { usePrincipals } from "./create.ts";
import { canModerate } from "./rooms.ts";

const byName = new Intl.Collator();

type Ban = { principalId: string };

/** More members than this can be found by name. */
const FILTER_FROM = 10;
const GROUPS_SHOWN = 5;
/** How many are listed; others are found by their name. */
const SHOWN_MAX = 200;

export default function MembersPane({ room }: { room: Room }): VNode {
  const [members, setMembers] = useState<readonly Member[]>();
  const [bans, setBans] = useState<readonly Ban[]>([]);
  const [q, setQ] = useState("");
  const mayChange = canModerate(room) && room.kind !== "direct";
  const read = useLatest(
    () => Promise.all([readMembers(room.id), mayChange ? listAll<Ban>(`v1/rooms/${room.id}/bans`) : []]),
    ([members, bans]) => {
      setMembers(members);
      setBans(bans);
    },
  );
  useLive(
    read,
    ({ type }, channel) => /^member\.(?:joined|left|updated)$/.test(type) && channel === `room:${room.id}`,
    [room.id, mayChange],
  );
  const isFound = (name: string): boolean => name.toLowerCase().includes(q.trim().toLowerCase());
  const found = members?.filter(({ displayName }) => isFound(displayName)).toSorted((a, b) =>
    Number(online.value.has(b.principalId)) - Number(online.value.has(a.principalId)) ||
    byName.compare(a.displayName, b.displayName)
  );
  const lift = (id: string): void =>
    void attempt(async () => {
      await call("DELETE", `v1/rooms/${room.id}/bans/${encodeURIComponent(id)}`);
      read();
    });
  return html`
    <aside class="pane" aria-label="Members">
      <${Heading} title="Members" onClose=${() => leavePane(room.id)}>
        ${mayChange
          ? html`<button type="button" onClick=${() =>
            openDialog(() => html`<${Inviter} room=${room} members=${members} />`)}>Add</button>`
          : null}
      <//>
      <${About} room=${room} />
      ${(members ?? []).length + bans.length > FILTER_FROM
        ? html`
          <input type="search" placeholder="Find by name" aria-label="Find members" value=${q}
            onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
        `
        : null}
      <${Placeholder} items=${found} read=${read} text="No member has this name." />
      <ul class="rows scroll">${found?.slice(0, SHOWN_MAX).map((member) =>
        html`<${Row} key=${member.principalId} room=${room} member=${member} mayChange=${mayChange} />`
      )}
      ${found !== undefined && found.length > SHOWN_MAX
        ? html`<li class="dim">${found.length - SHOWN_MAX} more. Find them by their name.</li>`
        : null}
      ${bans.filter(({ principalId }) => isFound(nameOf(principalId))).map(({ principalId: id }) =>
        html`<li key=${`ban ${id}`}><span class="person-link"><${Avatar} id=${id} isSmall />
        <span dir="auto">${nameOf(id)}</span></span><span class="tag danger-text">banned</span>
        <button type="button" aria-label=${`Lift the ban of ${nameOf(id)}`} onClick=${() =>
          lift(id)}>Lift</button></li>`
      )}</ul>
    </aside>
  `;
}

/** What the room is for. */
function About({ room: { topic, description } }: { room: Room }): VNode | null {
  const text = [topic, description].filter((one) => (one ?? "") !== "").join("\n\n");
  return text === "" ? null : html`<div class="about text" dir="auto">${markdown(text)}</div>`;
}

function Row({ room, member, mayChange }: { room: Room; member: Member; mayChange: boolean }): VNode {
  const { principalId, displayName, kind, role } = member;
  const items = [
    ...kind === "agent"
      ? [{ label: "Decisions about it", icon: "bot" as const, onSelect: () => openGrants(room, member) }]
      : [],
    ...mayChange && principalId !== myId() ? menuOf(room, member) : [],
  ];
  return html`
    <li>
      <a class="person-link" href=${`#/people/${
        encodeURIComponent(principalId)
      }`}><${Avatar} id=${principalId} isSmall hasPresence /><span dir="auto">${displayName}</span></a>
      ${kind === "human" ? null : html`<span class="tag">${kind}</span>`}
      ${role === "member" ? null : html`<span class="tag">${role}</span>`}
      ${items.length === 0 ? null : html`<${Menu} label=${`Menu of ${displayName}`} items=${items} />`}
    </li>
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
    {
      label: "Ban from room",
      icon: "lock",
      isDanger: true,
      onSelect: () =>
        confirmThen(
          `Ban ${displayName}?`,
          "They leave the room, and neither join nor are added again until the ban is lifted.",
          "Ban",
          () => call("DELETE", withQuery(path, { ban: true })),
        ),
    },
  ];
}

function Inviter({ room, members = [] }: { room: Room; members?: readonly Member[] }): VNode {
  const [q, setQ, items, note] = usePrincipals();
  const [added, setAdded] = useState<readonly string[]>([]);
  const here = new Set(members.map(({ principalId }) => principalId));
  const add = (id: string): void =>
    void attempt(async () => {
      await call("PUT", `v1/rooms/${room.id}/members/${encodeURIComponent(id)}`, {});
      setAdded([...added, id]);
    });
  const { page: groups } = useFound<Page<Group>>(
    q,
    () => get("v1/collaboration/groups", { limit: GROUPS_SHOWN, ...q === "" ? {} : { q } }),
  );
  const addGroup = ({ id: groupId, name }: Group): void =>
    void attempt(async () => {
      const result = await post<{ addedCount: number }>(`v1/rooms/${room.id}/members`, { groupId });
      setAdded([...added, groupId]);
      notify(`${count(result.addedCount, "member")} of ${name} added.`);
    });
  return html`
    <div>
      <${Heading} title="Add members" onClose=${closeDialog} />
      <input type="search" placeholder="Name" aria-label="Name" autofocus value=${q}
        onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <ul class="rows">${(groups?.items ?? []).map((group) =>
        html`
          <li key=${group.id}><div><b dir="auto">${group.name}</b><small class="dim">Group${group.memberCount === null
            ? ""
            : ` of ${count(group.memberCount, "member")}`}</small></div>
            <button type="button" disabled=${added.includes(group.id)} onClick=${() =>
              addGroup(group)}>${added.includes(group.id) ? "Added" : "Add all"}</button></li>
        `
      )}${items.filter(({ id, disabled }) => id !== myId() && !disabled).map(({ id, displayName }) =>
        html`
          <li
            key=${id}><span class="person-link"><${Avatar} id=${id} isSmall /><span dir="auto">${displayName}</span></span>
                  ${here.has(id)
                    ? html`<span class="tag">member</span>`
                    : html`<button type="button" disabled=${added.includes(id)} onClick=${() => add(id)}>${
                      added.includes(id) ? "Added" : "Add"
                    }</button>`}</li>
        `
      )}</ul>
      ${note}
    </div>
  `;
}
