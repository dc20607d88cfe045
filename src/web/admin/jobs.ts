// Background jobs: what waits, what runs, and what failed permanently.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, listAll, post } from "../core/api.ts";
import { count, fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { confirmThen } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Job = {
  id: string;
  kind: string;
  state: "waiting" | "running" | "dead";
  runAt: string;
  attemptCount: number;
  lastError: string | null;
};

const PATH = "v1/collaboration/jobs";

export function Jobs(): VNode {
  const [state, setState] = useState("dead");
  const { items, read, act } = useList(() => listAll<Job>(PATH, state === "" ? {} : { state }, 500), [state]);
  return html`
    <p class="row"><select class="inline" aria-label="State" value=${state} onChange=${(event: Event) =>
      setState((event.target as HTMLSelectElement).value)}>
      <option value="dead">failed permanently</option><option value="waiting">waiting</option><option value="running">running</option><option value="">all</option></select>
      <button type="button" onClick=${read}>Refresh</button></p>
    <${Placeholder} items=${items} read=${read}
      text=${state === "dead" ? "Nothing has failed permanently." : "No jobs."} />
    <ul class="rows">${(items ?? []).map(({ id, kind, state: current, runAt, attemptCount, lastError }) =>
      html`
        <li
          key=${id}><div><b>${kind}</b><small class="dim">${current}, ${fullTimeOf(runAt)}, ${count(
            attemptCount,
            "attempt",
          )}${lastError === null ? "" : `, ${lastError}`}</small></div>
                ${current === "dead"
                  ? html`
                    <button type="button" onClick=${act(() => post(`${PATH}/${id}/retry`))}>Retry</button>
                    <button type="button" class="danger-text" onClick=${() =>
                      confirmThen("Discard this job?", `${kind} will never be done.`, "Discard", async () => {
                        await call("DELETE", `${PATH}/${id}`);
                        read();
                      })}>Discard</button>
                  `
                  : null}</li>
      `
    )}</ul>
  `;
}
