// Earlier texts of a document.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../core/api.ts";
import { fullTimeOf, sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt, notify, useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Revision = { revision: number; kind: string; principalIds: string[]; size: number; at: string };

export function RevisionsPane({ path, onClose }: { path: string; onClose: () => void }): VNode {
  const load = async (): Promise<Revision[]> =>
    (await get<{ items: Revision[] }>(`${path}/revisions`, { limit: 100 })).items;
  const { items, read } = useList(load, [path]);
  return html`
    <aside class="pane" aria-label="Revisions">
      <${Heading} title="Revisions" onClose=${onClose} />
      <${Placeholder} items=${items} read=${read} text="No revisions yet." />
      <ul class="rows scroll">${(items ?? []).map(({ revision, kind, principalIds, size, at }) =>
        html`<li key=${revision}><div><b>${fullTimeOf(at)}</b><small class="dim">${kind} by ${
          principalIds.map(nameOf).join(", ")
        }, ${sizeOf(size)}</small></div>
        <button type="button" onClick=${() =>
          openDialog(() => html`<${RevisionText} path=${path} revision=${revision} />`)}>Show</button></li>`
      )}</ul>
    </aside>
  `;
}

function RevisionText({ path, revision }: { path: string; revision: number }): VNode {
  const [text, setText] = useState<string>();
  const read = useLatest(() => get<{ text: string }>(`${path}/revisions/${revision}`), ({ text }) => setText(text));
  useEffect(read, [revision]);
  const restore = (): void =>
    void attempt(async () => {
      await post(`${path}/revisions/${revision}/restore`);
      closeDialog();
      notify("Restored as a new revision");
    });
  return html`
    <div class="wide-dialog">
      <${Heading} title=${`Revision ${revision}`} onClose=${closeDialog}><button type="button" onClick=${restore}>Restore</button><//>
      ${text === undefined
        ? html`<${Placeholder} read=${read} />`
        : html`<pre class="revision" dir="auto" tabindex="0">${text}</pre>`}
    </div>
  `;
}
