// A dialog with a secret that the gateway shows only now.
import type { VNode } from "preact";
import { copyText } from "../core/clipboard.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { closeDialog, Heading, openDialog } from "./dialog.ts";

type Shown = { title: string; warning: string; label: string; value: string };

export function showOnce(shown: Shown): void {
  openDialog(() => html`<${ShownOnce} ...${shown} />`);
}

function ShownOnce({ title, warning, label, value }: Shown): VNode {
  return html`
    <div class="fields">
      <${Heading} title=${title} onClose=${closeDialog} />
      <p class="dim">It is shown only now. ${warning}</p>
      <input readonly value=${value} aria-label=${label} onFocus=${(event: FocusEvent) =>
        (event.target as HTMLInputElement).select()} />
      <footer><button type="button" class="primary" onClick=${() =>
        void attempt(() => copyText(value, "Copied"))}>Copy</button></footer>
    </div>
  `;
}
