// What the team uses: storage, and models of AI in the last thirty days.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get } from "../core/api.ts";
import { count, numberOf, sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { roomName, rooms } from "../room/rooms.ts";

type Share = { bytes: number; limit: number | null };
type Shares = { stored: Share; writtenToday: Share };
type Calls = {
  key: string | null;
  hidden: boolean;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  costMicros: number;
};

const GROUPS = { agent: "agent", model: "model", principal: "person", room: "room", day: "day" };
type Group = keyof typeof GROUPS;

export function Usage(): VNode {
  const { items, read } = useList(async () => {
    const { tenant } = await get<{ tenant: Shares | null }>("v1/collaboration/usage");
    return tenant === null ? [] : [["Stored files", tenant.stored], ["Written today", tenant.writtenToday]] as const;
  });
  return html`
    <section>
      <h2>Storage</h2>
      <${Placeholder} items=${items} read=${read} text="Nothing is stored." />
      <ul class="rows">${items?.map(([label, { bytes, limit }]) =>
        html`
          <li key=${label}>
            <div><b>${label}</b><small class="dim">${sizeOf(bytes)}${limit === null
              ? ", without a limit"
              : ` of ${sizeOf(limit)}`}</small></div>
          </li>
        `
      )}</ul>
    </section>
    <${Models} />
  `;
}

function Models(): VNode {
  const [group, setGroup] = useState<Group>("agent");
  const load = async (): Promise<readonly Calls[]> => {
    return (await get<{ items: Calls[] }>("v1/collaboration/ai/usage", { of: "tenant", groupBy: group })).items;
  };
  const { items, read } = useList(load, [group]);
  return html`
    <section>
      <h2>Models</h2>
      <p class="row spread"><span class="dim">Calls of models in the last thirty days.</span>
        <select class="inline" aria-label="By" value=${group} onChange=${(event: Event) =>
          setGroup((event.target as HTMLSelectElement).value as Group)}>${Object.entries(GROUPS).map(([value, label]) =>
            html`<option key=${value} value=${value}>by ${label}</option>`
          )}</select></p>
      <${Placeholder} items=${items} read=${read} text="No model was called." />
      <ul class="rows">${items?.map((one) =>
        html`
          <li key=${one.key ?? `${one.hidden}`}>
            <div><b dir="auto">${nameIn(group, one)}</b><small class="dim">${[
              count(one.calls, "call"),
              `${numberOf(one.inputTokens)} tokens in`,
              `${numberOf(one.outputTokens)} out`,
              ...one.costMicros === 0 ? [] : [`cost ${numberOf(one.costMicros / 1e6)}`],
            ].join(", ")}</small></div>
          </li>
        `
      )}</ul>
    </section>
  `;
}

function nameIn(group: Group, { key, hidden }: Calls): string {
  if (key === null) return hidden ? "rooms that you do not see" : `no ${GROUPS[group]}`;
  if (group === "agent" || group === "principal") return nameOf(key);
  const room = group === "room" ? rooms.value.get(key) : undefined;
  return room === undefined ? key : roomName(room);
}
