// The frame of a page that is no room: a head, and a body that scrolls.
import type { ComponentChildren, VNode } from "preact";
import { useEffect } from "preact/hooks";
import { signal } from "@preact/signals";
import { html } from "../core/html.ts";
import type { Read } from "../core/notice.ts";
import { Icon } from "./icon.ts";

/** What the open place says it is called. */
export const placeTitle = signal("");

/** Names the tab of the browser, and its history, after what is open. */
export function usePlaceTitle(title: string): void {
  useEffect(() => {
    placeTitle.value = title;
    return () => void (placeTitle.value = "");
  }, [title]);
}

export function PlaceHead({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  usePlaceTitle(title);
  return html`
    <header class="page-head">
      <a class="back" href="#/" aria-label="All rooms"><${Icon} name="back" /></a>
      <div class="title"><h1><span>${title}</span></h1></div>
      ${children}
    </header>
  `;
}

/** What is shown while something is read, if that has failed, and when there is nothing. */
export function Placeholder(
  { items, read, text }: { items?: readonly unknown[] | undefined; read: Read; text?: string },
): VNode | null {
  if (items !== undefined) return items.length === 0 ? html`<p class="empty">${text}</p>` : null;
  return html`<p class="empty">${
    read.hasFailed.value
      ? html`This could not be read. <button type="button" onClick=${read}>Try again</button>`
      : "Loading…"
  }</p>`;
}
