// The audit log: who did what administers the tenant, and whether the log is as it was written.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get } from "../core/api.ts";
import { count, fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Page } from "../core/resources.ts";
import { hrefOf, route } from "../core/route.ts";
import { closeDialog, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { download } from "../part/download.ts";
import { useFound } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { readableId } from "../room/names.ts";

type Entry = {
  id: string;
  seq: number;
  at: string;
  actorId: string;
  onBehalfOf: string | null;
  ip: string | null;
  operation: string;
  via: string;
  resourceId: string | null;
  changes: Record<string, string | null>;
};
type Verification = {
  valid: boolean;
  entryCount: number;
  erasedCount: number;
  head: string;
  problem: { seq: number; reason: "changed" | "missing" } | null;
};

const PATH = "v1/collaboration/audit";

export function Audit(): VNode {
  const [operation, setOperation] = useState("");
  const actorId = route.value.query.get("by") ?? undefined;
  const { page, read, more } = useFound<Page<Entry>>(
    `${operation} ${actorId ?? ""}`.trim(),
    (cursor) => get(PATH, { limit: 100, ...operation === "" ? {} : { operation }, actorId, cursor }),
  );
  return html`
    <p class="row spread"><span class="dim">${actorId === undefined
      ? "What was done that administers your team."
      : html`What <bdi>${nameOf(actorId)}</bdi> did. <a href="#/admin/audit">Show all</a>`}</span>
      <span class="row"><button type="button" onClick=${openVerify}>Verify</button>
        <button type="button" onClick=${() =>
          void attempt(() => download(`${PATH}/export`, "audit.ndjson"))}>Download</button></span></p>
    <input type="search" placeholder="Find by operation, such as principal or token.create" aria-label="Operation"
      value=${operation}
      onInput=${(event: InputEvent) => setOperation((event.target as HTMLInputElement).value.trim())} />
    <${Placeholder} items=${page?.items} read=${read} text="Nothing of this kind was done." />
    <ul class="rows">${(page?.items ?? []).map((entry) =>
      html`
        <li key=${entry.id}>
          <div><b title=${entry.resourceId}>${entry.operation} <bdi>${readableId(entry.resourceId ?? "")}</bdi></b>
          <small class="dim">${fullTimeOf(entry.at)}, <a href=${hrefOf(["admin", "audit"], {
            by: entry.actorId,
          })}><bdi>${nameOf(entry.actorId)}</bdi></a>${detailsOf(entry)}</small></div>
          <small class="dim">${entry.seq}</small>
        </li>
      `
    )}</ul>
    ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
  `;
}

function detailsOf({ onBehalfOf, via, ip, changes }: Entry): string {
  const fields = Object.entries(changes).map(([name, value]) => value === null ? name : `${name} ${readableId(value)}`);
  const parts = [
    ...onBehalfOf === null ? [] : [`agent of ${nameOf(onBehalfOf)}`],
    `by ${via}${ip === null ? "" : ` from ${ip}`}`,
    ...fields,
  ];
  return parts.map((part) => `, ${part}`).join("");
}

function openVerify(): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Verify the audit log" action="Verify" onSubmit=${async (fields: FormData) => {
        const head = String(fields.get("head")).trim();
        showVerified(await get(`${PATH}/verification`, head === "" ? {} : { head }));
      }}>
        <p>Entries are signed one after the other, so that none can be changed or removed unnoticed. The gateway logs the
          head of this chain each hour.</p>
        <label>A head that was noted, if there is one <input name="head" autocomplete="off" /></label>
        <//>
    `
  );
}

function showVerified({ valid, entryCount, erasedCount, head, problem }: Verification): void {
  openDialog(() =>
    html`
      <div class="fields">
        <${Heading} title=${valid ? "The log is intact" : "The log is not intact"} onClose=${closeDialog} />
        <p>${count(entryCount, "entry is", "entries are")} as written.${erasedCount === 0
          ? ""
          : ` ${erasedCount} of them name a person who was erased since.`}</p>
        ${problem === null
          ? null
          : html`<p class="danger-text" role="alert">Entry ${problem.seq} ${
            problem.reason === "changed" ? "was changed." : "is missing."
          }</p>`}
        <label>Head of the chain, to be noted <input readonly value=${head} /></label>
      </div>
    `
  );
}
