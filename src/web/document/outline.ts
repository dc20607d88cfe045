// The headings of a document, to move in it.
import type { VNode } from "preact";
import { html } from "../core/html.ts";
import { Heading } from "../part/dialog.ts";
import type { OutlineEntry } from "./connection.ts";

const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)/;
const FENCE = /^ {0,3}(?:```|~~~)/;
const INDENT_PX = 14;

/** Headings of a Markdown text, but for what looks like one in code. */
export function headingsOf(text: string): OutlineEntry[] {
  const found: OutlineEntry[] = [];
  let at = 0;
  let isCode = false;
  for (const line of text.split("\n")) {
    if (FENCE.test(line)) isCode = !isCode;
    const [, signs, title] = HEADING.exec(line) ?? [];
    if (!isCode && signs !== undefined && title !== undefined) found.push({ level: signs.length, title, at });
    at += line.length + 1;
  }
  return found;
}

export function OutlinePane({ entries, onOpen, onClose }: {
  entries: readonly OutlineEntry[];
  onOpen: (at: number) => void;
  onClose: () => void;
}): VNode {
  return html`
    <aside class="pane" aria-label="Outline">
      <${Heading} title="Outline" onClose=${onClose} />
      ${entries.length === 0 ? html`<p class="empty">This document has no headings.</p>` : null}
      <ul class="rows scroll">${entries.map(({ level, title, at }) =>
        html`
          <li key=${at} style=${{ paddingInlineStart: `${(level - 1) * INDENT_PX}px` }}><button type="button"
            class="plain wide" onClick=${() => onOpen(at)}><span class="clip" dir="auto">${title}</span></button></li>
        `
      )}</ul>
    </aside>
  `;
}
