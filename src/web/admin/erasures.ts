// Erasures of people: what is due, and what was done.
import type { VNode } from "preact";
import { listAll, post } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { type Erasure, ERASURES, MODES } from "../people/erase.ts";

export function Erasures(): VNode {
  const { items, read, act } = useList(() => listAll<Erasure>(ERASURES));
  return html`
    <p class="row spread"><span class="dim">People are erased from the menu of each in <a
      href="#/admin/people">People</a>.</span><button type="button" onClick=${read}>Refresh</button></p>
    <${Placeholder} items=${items} read=${read} text="No person was erased." />
    <ul class="rows">${(items ?? []).map((erasure) =>
      html`<${Row} key=${erasure.id} erasure=${erasure} act=${act} />`
    )}</ul>
  `;
}

function Row({ erasure, act }: { erasure: Erasure; act: (work: () => Promise<unknown>) => () => void }): VNode {
  const { id, principalId, mode, dryRun, state, counts, requestedBy, dueAt, createdAt } = erasure;
  const details = [
    dryRun ? "only counted" : MODES[mode],
    `asked for by ${nameOf(requestedBy)}, ${fullTimeOf(createdAt)}`,
    ...dryRun || state !== "waiting" ? [] : [`begins ${fullTimeOf(dueAt)}`],
  ];
  return html`
    <li>
      <div><b dir="auto">${nameOf(principalId)}</b><small class="dim">${details.join(", ")}</small></div>
      <span class="tag">${state}</span>
      ${counts.length === 0
        ? null
        : html`<button type="button" onClick=${() => openCounts(erasure)}>${dryRun ? "Counted" : "Changes"}</button>`}
      ${dryRun || state !== "waiting"
        ? null
        : html`<button type="button" onClick=${act(() => post(`${ERASURES}/${id}/cancel`))}>Cancel</button>`}
    </li>
  `;
}

function openCounts({ dryRun, counts }: Erasure): void {
  openDialog(() =>
    html`
      <div class="wide-dialog">
        <${Heading} title=${dryRun ? "What an erasure would change" : "What was changed"} onClose=${closeDialog} />
        <ul class="rows">${counts.map(({ table, changed, deleted }) =>
          html`
            <li key=${table}><div>${table.replaceAll("_", " ")}</div>
              <span class="dim">${changed} changed, ${deleted} deleted</span></li>
          `
        )}</ul>
      </div>
    `
  );
}
