// A principal's picture: its file, or its initials; with a dot while it is online.
import type { VNode } from "preact";
import { classes, html } from "../core/html.ts";
import { colorOf, initialsOf } from "../core/format.ts";
import { online, personOf } from "../core/people.ts";
import { fileLink } from "../message/file_links.ts";
import { Icon } from "./icon.ts";

export function Avatar({ id, isSmall = false, hasPresence = false }: {
  id: string;
  isSmall?: boolean;
  hasPresence?: boolean;
}): VNode {
  const person = personOf(id);
  const picture = person?.avatarFileId ?? null;
  const source = picture === null ? undefined : fileLink(picture, 64);
  const isOnline = hasPresence && online.value.has(id);
  return html`
    <span class=${classes("avatar", isSmall && "small", source === undefined && colorOf(id))} aria-hidden="true">
      ${source !== undefined
        ? html`<img src=${source} alt="" />`
        : person !== undefined && person.kind !== "human"
        ? html`<${Icon} name="bot" />`
        : initialsOf(person?.displayName ?? id)}
      ${isOnline ? html`<i class="presence"></i>` : null}
    </span>
  `;
}
