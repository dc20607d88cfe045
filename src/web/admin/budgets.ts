// What agents may use of models in an hour, a day or a month: the team, one agent, or one room.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { capitalized, numberOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { readableId } from "../room/names.ts";
import { roomList, roomName } from "../room/rooms.ts";

type Scope = "tenant" | "room" | "agent" | "principal";
type Amount = { tokens: number; costMicros: number };
type Budget = {
  scope: Scope;
  subjectId: string | null;
  period: string;
  tokens: number | null;
  costMicros: number | null;
  used: Amount;
};
type Named = { id: string; displayName: string };

const PATH = "v1/collaboration/ai/budgets";
const MICROS = 1e6;

export function Budgets({ agents }: { agents: readonly Named[] }): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Budget[] }>(PATH)).items);
  return html`
    <section>
      <h2>Budgets</h2>
      <p class="row spread"><span class="dim">Runs of agents stop once a budget is used up, until its period ends.</span>
        <button type="button" onClick=${() => openForm(agents, read)}>New budget</button></p>
      <${Placeholder} items=${items} read=${read} text="No budgets." />
      <ul class="rows">${items?.map((one) => {
        const { scope, subjectId, period } = one;
        const name = subjectOf(one);
        return html`
          <li key=${`${scope} ${subjectId} ${period}`}>
            <div><b dir="auto">${name}</b><small class="dim">${amountsOf(one).join(
              " and ",
            )} in this ${period}</small></div>
            <button type="button" aria-label=${`Remove the budget of ${name}`} onClick=${act(() =>
              call("PUT", PATH, { scope, subjectId, period })
            )}>Remove</button>
          </li>
        `;
      })}</ul>
    </section>
  `;
}

function subjectOf({ scope, subjectId }: Budget): string {
  if (subjectId === null) return "The team";
  return scope === "room" ? readableId(subjectId) : nameOf(subjectId);
}

function amountsOf({ tokens, costMicros, used }: Budget): string[] {
  return [
    ...tokens === null ? [] : [`${numberOf(used.tokens)} of ${numberOf(tokens)} tokens`],
    ...costMicros === null
      ? []
      : [`a cost of ${numberOf(used.costMicros / MICROS)} of ${numberOf(costMicros / MICROS)}`],
  ];
}

function openForm(agents: readonly Named[], onSaved: () => void): void {
  const amount = (value: FormDataEntryValue | null, factor: number): number | null =>
    value === null || value === "" ? null : Math.round(Number(value) * factor);
  openDialog(() =>
    html`
      <${DialogForm} title="New budget" action="Save" onSubmit=${async (fields: FormData) => {
        const [tokens, costMicros] = [amount(fields.get("tokens"), 1), amount(fields.get("cost"), MICROS)];
        if (tokens === null && costMicros === null) throw new Error("Enter tokens, or a cost");
        const [scope = "", subjectId = ""] = String(fields.get("subject")).split(" ");
        await call("PUT", PATH, {
          scope,
          subjectId: subjectId === "" ? null : subjectId,
          period: fields.get("period"),
          tokens,
          costMicros,
        });
        onSaved();
      }}>
        <${Subject} agents=${agents} />
        <label>In each <select name="period">${["hour", "day", "month"].map((one) =>
          html`<option key=${one} selected=${one === "month"}>${one}</option>`
        )}</select></label>
        <div class="pair"><label>Tokens <input name="tokens" type="number" min="0" /></label>
          <label>Cost <input name="cost" type="number" min="0" step="any" /></label></div>
        <//>
    `
  );
}

/** What has no agents or no rooms is not offered: without one, the budget would be the team's. */
function Subject({ agents }: { agents: readonly Named[] }): VNode {
  const [scope, setScope] = useState<Scope>("tenant");
  const rooms = roomList.value.map((room) => ({ id: room.id, displayName: roomName(room) }));
  const named = scope === "room" ? rooms : scope === "agent" ? agents : [];
  return html`
    <div class="pair">
      <label>Limits <select value=${scope} onChange=${(event: Event) =>
        setScope((event.target as HTMLSelectElement).value as Scope)}>
        <option value="tenant">the team</option>
        ${agents.length > 0 && html`<option value="agent">an agent</option>`}
        ${rooms.length > 0 && html`<option value="room">a room</option>`}</select></label>
      ${named.length === 0
        ? html`<input type="hidden" name="subject" value="tenant" />`
        : html`<label>${capitalized(scope)} <select name="subject">${
          named.map(({ id, displayName }) => html`<option key=${id} value=${`${scope} ${id}`}>${displayName}</option>`)
        }</select></label>`}
    </div>
  `;
}
