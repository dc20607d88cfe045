// The frame of a page with two lists of cards, of which one is open: what it is called, a tab for each, and what can be read on.
import type { ComponentChildren, VNode } from "preact";
import { classes, html } from "../core/html.ts";
import type { Read } from "../core/notice.ts";
import { PlaceHead, Placeholder } from "./place.ts";

type Tab = readonly [label: string, href: string];
type Props = {
  title: string;
  /** What the tabs are about. */
  label: string;
  tabs: readonly [Tab, Tab];
  openTab: 0 | 1;
  items: readonly unknown[] | undefined;
  read: Read;
  /** Reads on; there is none at the end. */
  more: (() => void) | undefined;
  /** Says that there is nothing. */
  text: string;
  children?: ComponentChildren;
};

export function CardsPage({ title, label, tabs, openTab, items, read, more, text, children }: Props): VNode {
  return html`
    <${PlaceHead} title=${title}>
      <nav class="tabs" aria-label=${label}>${tabs.map(([label, href], at) =>
        html`
          <a key=${label} href=${href} class=${classes(at === openTab && "open")} aria-current=${at === openTab
            ? "page"
            : undefined}>${label}</a>
        `
      )}</nav>
      <//>
      <div class="body">
        <div class="narrow">
      ${more === undefined ? html`<${Placeholder} items=${items} read=${read} text=${text} />` : null}
      ${children}
      ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
        </div>
      </div>
  `;
}
