// The audit log: who did what administers the tenant.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Page } from "../core/resources.ts";
import { useFound } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Entry = {
  id: string;
  at: string;
  actorId: string;
  onBehalfOf: string | null;
  operation: string;
  via: string;
  resourceId: string | null;
  changes: Record<string, string | null>;
};

export function Audit(): VNode {
  const [operation, setOperation] = useState("");
  const { page, read, more } = useFound<Page<Entry>>(
    operation,
    (cursor) => get("v1/collaboration/audit", { limit: 100, ...operation === "" ? {} : { operation }, cursor }),
  );
  return html`
    <input type="search" placeholder="Find by operation, such as principal or token.create" aria-label="Operation"
      value=${operation}
      onInput=${(event: InputEvent) => setOperation((event.target as HTMLInputElement).value.trim())} />
    <${Placeholder} items=${page?.items} read=${read} text="Nothing of this kind was done." />
    <ul class="rows">${(page?.items ?? []).map((entry) =>
      html`
        <li key=${entry.id}>
          <div><b>${entry.operation}${entry.resourceId === null ? "" : ` ${entry.resourceId}`}</b>
          <small class="dim">${fullTimeOf(entry.at)}, <bdi>${nameOf(entry.actorId)}</bdi>${detailsOf(
            entry,
          )}</small></div>
        </li>
      `
    )}</ul>
    ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
  `;
}

function detailsOf({ onBehalfOf, via, changes }: Entry): string {
  const fields = Object.entries(changes).map(([name, value]) => value === null ? name : `${name} ${value}`);
  const parts = [...onBehalfOf === null ? [] : [`agent of ${nameOf(onBehalfOf)}`], `by ${via}`, ...fields];
  return parts.map((part) => `, ${part}`).join("");
}
