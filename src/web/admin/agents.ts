// Agents and what they may do.
import type { VNode } from "preact";
import { call, get, listAll, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { Avatar } from "../part/avatar.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { Budgets } from "./budgets.ts";

type Agent = {
  id: string;
  handle: string | null;
  displayName: string;
  ownerId: string | null;
  model: string | null;
  instructions: string | null;
  tools: string[];
  askFirst: string[];
  maxSteps: number;
  paused: boolean;
  version: number;
};

const PATH = "v1/collaboration/agents";
const MODELS = "v1/collaboration/ai/models";
const MODELS_ID = "model-names";

export function Agents(): VNode {
  const { items, read, act } = useList(() => listAll<Agent>(PATH));
  return html`
    <p
      class="row spread"><span class="dim">An agent responds in rooms when it is mentioned, with at most the rights of its owner.</span>
      <button type="button" class="primary" onClick=${() => openForm(undefined, read)}>New agent</button></p>
    <${Placeholder} items=${items} read=${read} text="No agents yet." />
    <ul class="rows">${(items ?? []).map((agent) =>
      html`
        <li
          key=${agent.id}><${Avatar} id=${agent.id} /><div><b dir="auto">${agent.displayName}</b><small class="dim">${[
            agent.handle === null ? agent.id : `@${agent.handle}`,
            agent.model ?? "default model",
            agent.ownerId === null ? "" : `of ${nameOf(agent.ownerId)}`,
          ].filter((one) => one !== "").join(", ")}</small></div>
                ${agent.paused ? html`<span class="tag">paused</span>` : null}
                <button type="button" onClick=${() => openForm(agent, read)}>Edit</button>
                <button type="button" onClick=${act(() =>
                  call("PATCH", `${PATH}/${agent.id}`, { paused: !agent.paused })
                )}>${agent.paused ? "Resume" : "Pause"}</button>
                <button type="button" class="danger-text" onClick=${() =>
                  confirmThen(`Delete ${agent.displayName}?`, "What it has written stays.", "Delete", async () => {
                    await call("DELETE", `${PATH}/${agent.id}`);
                    read();
                  })}>Delete</button></li>
      `
    )}</ul>
    ${items && html`<${Budgets} agents=${items} />`}
  `;
}

/** Those that can be called; another one may be added later. */
function ModelNames(): VNode {
  const { items } = useList(async () => (await get<{ items: { id: string; kind: string }[] }>(MODELS)).items);
  const names = items?.filter(({ kind }) => kind === "chat").map(({ id }) => id) ?? [];
  return html`<datalist id=${MODELS_ID}>${names.map((id) => html`<option key=${id} value=${id}></option>`)}</datalist>`;
}

function openForm(agent: Agent | undefined, onSaved: () => void): void {
  const words = (value: unknown): string[] => String(value ?? "").split(/[\s,]+/).filter((one) => one !== "");
  openDialog(() =>
    html`
      <${DialogForm} title=${agent === undefined ? "New agent" : "Edit agent"} action="Save" onSubmit=${async (
        fields: FormData,
      ) => {
        const text = (name: string): string => String(fields.get(name) ?? "").trim();
        const body = {
          displayName: text("displayName"),
          ...text("handle") === "" ? {} : { handle: text("handle") },
          model: text("model") === "" ? null : text("model"),
          instructions: text("instructions"),
          tools: words(fields.get("tools")),
          askFirst: words(fields.get("askFirst")),
        };
        if (agent === undefined) await post(PATH, body);
        else await call("PATCH", `${PATH}/${agent.id}`, { ...body, version: agent.version });
        onSaved();
      }}>
        <label>Name <input name="displayName" required maxlength="100" autofocus defaultValue=${agent?.displayName ??
          ""} /></label>
        <label>Handle <input name="handle" maxlength="64" pattern="[a-z0-9._\\-]+" defaultValue=${agent?.handle ??
          ""} placeholder="helper" /></label>
        <label>Model <input name="model" list=${MODELS_ID} defaultValue=${agent?.model ??
          ""} placeholder="the default of the gateway" /></label>
        <${ModelNames} />
        <label>Instructions <textarea name="instructions" rows="5" defaultValue=${agent?.instructions ??
          ""}></textarea></label>
        <label>Operations it may call <input name="tools" defaultValue=${agent?.tools.join(" ") ??
          ""} placeholder="message.list search.query task.create" /></label>
        <label>Those it asks for first <input name="askFirst" defaultValue=${agent?.askFirst.join(" ") ??
          ""} placeholder="task.create" /></label>
        <//>
    `
  );
}
