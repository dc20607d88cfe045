// What was deleted and can be restored.
import type { VNode } from "preact";
import { post } from "../core/api.ts";
import { fullDayOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { closeDialog, Heading, openDialog } from "./dialog.ts";
import { useList } from "./list.ts";
import { Placeholder } from "./place.ts";

type Deleted = { id: string; name: string; deletedAt: string | null };
type Props = { title: string; path: string; load: () => Promise<readonly Deleted[]> };

/** `path` is that of the collection; what is restored is shown by its event. */
export function openTrash(props: Props): void {
  openDialog(() => html`<${Trash} ...${props} />`);
}

function Trash({ title, path, load }: Props): VNode {
  const { items, read, act } = useList(load);
  return html`
    <div class="wide-dialog">
      <${Heading} title=${title} onClose=${closeDialog} />
      <p class="dim">What was deleted can be restored for 30 days.</p>
      <${Placeholder} items=${items} read=${read} text="Nothing was deleted." />
      <ul class="rows">${(items ?? []).map(({ id, name, deletedAt }) =>
        html`
          <li key=${id}><div><b dir="auto">${name}</b>${deletedAt === null
            ? null
            : html`<small class="dim">deleted ${fullDayOf(new Date(deletedAt))}</small>`}</div>
            <button type="button" aria-label=${`Restore ${name}`} onClick=${act(() =>
              post(`${path}/${id}/restore`)
            )}>Restore</button></li>
        `
      )}</ul>
    </div>
  `;
}
