// A dialog with secrets that the gateway shows only now.
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { copyText } from "../core/clipboard.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { closeDialog, Heading, openDialog } from "./dialog.ts";

type Secret = { label: string; value: string };

export function showOnce(title: string, warning: string, ...secrets: readonly Secret[]): void {
  openDialog(() =>
    html`
      <div class="fields">
        <${Heading} title=${title} onClose=${closeDialog} />
        <p class="dim">This is shown only now. ${warning}</p>
        ${secrets.map((one, at) => html`<${Field} key=${one.label} ...${one} isFirst=${at === 0} />`)}
      </div>
    `
  );
}

/** Selected when it has the focus, and where the browser does not let the page copy. */
function Field({ label, value, isFirst }: Secret & { isFirst: boolean }): VNode {
  const box = useRef<HTMLInputElement>(null);
  const copy = async (): Promise<void> => {
    if (await attempt(() => copyText(value, "Copied"))) return;
    box.current?.focus();
    box.current?.select();
  };
  return html`
    <div>
      <span class="dim">${label}</span>
      <div class="secret"><input ref=${box} readonly value=${value} aria-label=${label} autofocus=${isFirst}
          onFocus=${() => box.current?.select()} />
        <button type="button" class="primary" aria-label=${`Copy: ${label}`} onClick=${() =>
          void copy()}>Copy</button></div>
    </div>
  `;
}
