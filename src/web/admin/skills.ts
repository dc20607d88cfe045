// Skills: instructions that agents read when they need them. An administrator approves each version.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { markdown } from "../message/markdown.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";
import { useList } from "../part/list.ts";

type Summary = { name: string; description: string; digest: string; state: string; enabled: boolean };

const PATH = "v1/collaboration/skills";

export function Skills(): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Summary[] }>(PATH)).items);
  return html`
    <p class="row spread"><span class="dim">Instructions that agents read when they need them.</span>
      <button type="button" class="primary" onClick=${() => openImport(read)}>Import</button></p>
    <${Placeholder} items=${items} read=${read} text="No skills." />
    <ul class="rows">${(items ?? []).map(({ name, description, digest, state, enabled }) =>
      html`<li key=${name}><div><b dir="auto">${name}</b><small class="dim" dir="auto">${description}</small></div>
        <span class="tag">${enabled ? state : "disabled"}</span>
        <button type="button" onClick=${() => openDialog(() => html`<${SkillText} name=${name} />`)}>Show</button>
        ${
        state === "pending"
          ? html`<button type="button" class="primary" onClick=${
            act(() => post(`${PATH}/${name}/approve`, { digest }))
          }>Approve</button>`
          : null
      }
        <button type="button" onClick=${act(() => call("PATCH", `${PATH}/${name}`, { enabled: !enabled }))}>${
        enabled ? "Disable" : "Enable"
      }</button>
        <button type="button" class="danger-text" onClick=${() =>
        confirmThen(`Remove ${name}?`, "Agents that have it lose it.", "Remove", async () => {
          await call("DELETE", `${PATH}/${name}`);
          read();
        })}>Remove</button></li>`
    )}</ul>
  `;
}

function SkillText({ name }: { name: string }): VNode {
  const [body, setBody] = useState("");
  useEffect(() => void attempt(async () => setBody((await get<{ body: string }>(`${PATH}/${name}`)).body)), [name]);
  return html`
    <div class="wide-dialog">
      <${Heading} title=${name} onClose=${closeDialog} />
      <div class="text scroll" dir="auto">${markdown(body)}</div>
    </div>
  `;
}

function openImport(onImported: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Import a skill" action="Import"
        onSubmit=${async (fields: FormData) => {
          await post(PATH, { files: [{ path: "SKILL.md", content: String(fields.get("text")) }] });
          onImported();
        }}><label>SKILL.md <textarea name="text" rows="12" required autofocus placeholder=${"---\nname: minutes\ndescription: Write minutes of a meeting\n---\n\n…"}></textarea></label><//>
    `
  );
}
