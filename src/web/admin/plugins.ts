// Plugins: what they may do, and whether they run.
import type { VNode } from "preact";
import { call, get, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import type { FormField } from "../core/resources.ts";
import { Field, valuesOf } from "../message/elements.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";
import { showOnce } from "../part/shown_once.ts";
import { useList } from "../part/list.ts";

type Plugin = {
  id: string;
  principalId: string;
  manifest: { name: string; description?: string; version: string; scopes: string[]; configSchema: FormField[] };
  state: "disabled" | "enabled" | "paused";
  grantedScopes: string[];
  missingScopes: string[];
  version: number;
};

const PATH = "v1/collaboration/plugins";

export function Plugins(): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Plugin[] }>(PATH)).items);
  return html`
    <p class="row spread"><span class="dim">Programs of others that add commands, buttons and filters to rooms.</span>
      <button type="button" class="primary" onClick=${() => openInstall(read)}>Install</button></p>
    <${Placeholder} items=${items} read=${read} text="No plugins are installed." />
    <ul class="rows">${(items ?? []).map((plugin) =>
      html`<${Entry} key=${plugin.id} plugin=${plugin} act=${act} onChange=${read} />`
    )}</ul>
  `;
}

function Entry({ plugin, act, onChange }: {
  plugin: Plugin;
  act: (work: () => Promise<unknown>) => () => void;
  onChange: () => void;
}): VNode {
  const { id, manifest, state, missingScopes } = plugin;
  const remove = async (): Promise<void> => {
    await call("DELETE", `${PATH}/${id}`);
    onChange();
  };
  return html`
    <li><div><b dir="auto">${manifest.name}</b><small class="dim">${manifest.version}, ${manifest.scopes.join(
      ", ",
    )}</small></div>
      <span class="tag">${state}</span>
      ${missingScopes.length === 0
        ? null
        : html`<button type="button" class="primary" onClick=${() =>
          confirmThen(`Grant scopes to ${manifest.name}?`, missingScopes.join(", "), "Grant", async () => {
            await post(`${PATH}/${id}/grant`, { scopes: manifest.scopes });
            onChange();
          })}>Grant</button>`}
      ${manifest.configSchema.length === 0
        ? null
        : html`<button type="button" onClick=${() => openConfig(plugin, onChange)}>Configure</button>`}
      ${state === "enabled"
        ? html`<button type="button" onClick=${act(() => post(`${PATH}/${id}/disable`))}>Disable</button>`
        : html`<button type="button" disabled=${missingScopes.length > 0} onClick=${
          act(() => post(`${PATH}/${id}/enable`))
        }>Enable</button>`}
      <button type="button" class="danger-text" onClick=${() =>
        confirmThen(
          `Uninstall ${manifest.name}?`,
          "Its tokens are revoked. What it has written stays.",
          "Uninstall",
          remove,
        )}>Uninstall</button></li>
  `;
}

function openConfig({ id, manifest, version }: Plugin, onChange: () => void): void {
  const { configSchema: fields } = manifest;
  openDialog(() =>
    html`<${DialogForm} title=${manifest.name} action="Save" onSubmit=${async (data: FormData) => {
      await call("PATCH", `${PATH}/${id}`, { config: valuesOf(fields, data), version });
      onChange();
    }}>${fields.map((field) => html`<${Field} key=${field.name} field=${field} />`)}<//>`
  );
}

function openInstall(onInstalled: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Install a plugin" action="Install"
        onSubmit=${async (fields: FormData) => {
          const manifest = JSON.parse(String(fields.get("manifest")));
          const { token, secret } = await post<{ token: string; secret: string | null }>(PATH, { manifest });
          onInstalled();
          showOnce(
            "Give these to the plugin",
            "It is disabled until you grant its scopes and enable it.",
            { label: "Token", value: token },
            ...secret === null ? [] : [{ label: "Secret that signs calls", value: secret }],
          );
        }}><label>Manifest, as JSON <textarea name="manifest" rows="12" required autofocus spellcheck="false"></textarea></label><//>
    `
  );
}
