// The frame of a page that is no room: a head, and a body that scrolls.
import type { ComponentChildren, VNode } from "preact";
import { html } from "../core/html.ts";
import { Icon } from "./icon.ts";

export function PlaceHead({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return html`
    <header class="page-head">
      <a class="back" href="#/" aria-label="All rooms"><${Icon} name="back" /></a>
      <div class="title"><h1><span>${title}</span></h1></div>
      ${children}
    </header>
  `;
}

/** What is shown while something is read, and when there is nothing. */
export function Placeholder({ items, text }: { items: readonly unknown[] | undefined; text: string }): VNode | null {
  if (items === undefined) return html`<p class="empty">Loading…</p>`;
  return items.length === 0 ? html`<p class="empty">${text}</p>` : null;
}
