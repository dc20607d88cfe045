// People, agents and services of the tenant: roles, and who may sign in.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { go } from "../core/route.ts";
import type { Page, Principal } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { Avatar } from "../part/avatar.ts";
import { confirmThen } from "../part/dialog.ts";
import { useFound } from "../part/list.ts";
import { Menu, type MenuItem } from "../part/menu.ts";
import { Placeholder } from "../part/place.ts";
import { openNewToken } from "../people/access.ts";
import { openErase } from "../people/erase.ts";
import { openHold } from "./holds.ts";

const ROLES = ["guest", "member", "auditor", "admin", "owner"];

export function Principals(): VNode {
  const [q, setQ] = useState("");
  const [role, setRole] = useState("");
  const filter = { ...q === "" ? {} : { q }, ...role === "" ? {} : { role } };
  const { page, setPage, read, more } = useFound<Page<Principal>>(
    `${q}${role}`,
    (cursor) => get("v1/collaboration/principals", { limit: 100, ...filter, cursor }),
  );
  const change = (id: string, fields: Record<string, unknown>): Promise<boolean> =>
    attempt(async () => {
      const changed = await call<Principal>("PATCH", `v1/collaboration/principals/${encodeURIComponent(id)}`, fields);
      setPage((shown) => shown && { ...shown, items: shown.items.map((one) => one.id === id ? changed : one) });
    });
  return html`
    <div class="row">
      <input type="search" placeholder="Find by name" aria-label="Find by name" value=${q}
        onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <select class="inline" aria-label="Role" value=${role}
        onChange=${(event: Event) =>
          setRole((event.target as HTMLSelectElement).value)}><option value="">all roles</option>${ROLES.map((one) =>
            html`<option key=${one}>${one}</option>`
          )}</select>
    </div>
    <${Placeholder} items=${page?.items} read=${read} text="There is no such person." />
    <ul class="rows">${(page?.items ?? []).map((one) =>
      html`<${Row} key=${one.id} principal=${one} onChange=${(fields: Record<string, unknown>) =>
        change(one.id, fields)} />`
    )}</ul>
    ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
  `;
}

function Row({ principal, onChange }: {
  principal: Principal;
  onChange: (fields: Record<string, unknown>) => Promise<boolean>;
}): VNode {
  const { id, displayName, handle, kind, role, disabled } = principal;
  const isMe = id === myId();
  return html`
    <li>
      <a class="person-link" href=${`#/people/${
        encodeURIComponent(id)
      }`}><${Avatar} id=${id} isSmall hasPresence /><span
        dir="auto">${displayName} <bdi class="dim">${handle === null ? id : `@${handle}`}</bdi></span></a>
      ${kind === "human" ? null : html`<span class="tag">${kind}</span>`}
      ${disabled ? html`<span class="tag danger-text">disabled</span>` : null}
      <select class="inline" aria-label=${`Role of ${displayName}`} value=${role} disabled=${isMe}
        onChange=${async (event: Event) => {
          const select = event.target as HTMLSelectElement;
          if (!await onChange({ role: select.value })) select.value = role;
        }}>${ROLES.map((one) => html`<option key=${one}>${one}</option>`)}</select>
      ${isMe
        ? null
        : disabled
        ? html`<button type="button" onClick=${() => void onChange({ disabled: false })}>Enable</button>`
        : html`
          <button type="button" class="danger-text" onClick=${() =>
            confirmThen(
              `Disable ${displayName}?`,
              "Their tokens are revoked and their connections closed. You can enable them again.",
              "Disable",
              () => onChange({ disabled: true }),
            )}>Disable</button>
        `}
      <${Menu} label=${`Menu of ${displayName}`} items=${menuOf(principal)} />
    </li>
  `;
}

function menuOf(principal: Principal): MenuItem[] {
  const { id, kind, disabled } = principal;
  const items: MenuItem[] = [
    ...disabled || id === myId()
      ? []
      : [{ label: "New token", icon: "user" as const, onSelect: () => openNewToken(() => undefined, principal) }],
    { label: "What they did", icon: "clock", onSelect: () => go(["admin", "audit"], { by: id }) },
    { label: "Legal hold", icon: "lock", onSelect: () => openHold(principal, () => go(["admin", "holds"])) },
  ];
  if (kind !== "human" || id === myId()) return items;
  return [...items, {
    label: "Erase",
    icon: "trash",
    isDanger: true,
    onSelect: () => openErase(principal, () => go(["admin", "erasures"])),
  }];
}
