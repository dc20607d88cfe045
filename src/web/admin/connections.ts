// What agents of the team use: providers of models, and MCP servers, whose tools they call.
import type { VNode } from "preact";
import { call, get, post } from "../core/api.ts";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import { notify } from "../core/notice.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Model = { id: string } & Record<string, unknown>;
type Provider = { id: string; kind: string; baseUrl: string; hasKey: boolean; models: Model[]; version: number };
type Server = {
  id: string;
  url: string;
  headerNames: string[];
  tools: string[];
  needsApproval: boolean;
  version: number;
};

const PROVIDERS = "v1/collaboration/ai/providers";
const SERVERS = "v1/collaboration/mcp/servers";
/** Protocols of providers, and an address of each. */
const KINDS: readonly (readonly [kind: string, label: string, address: string])[] = [
  ["openai", "OpenAI, or compatible with it", "https://api.openai.com/v1"],
  ["anthropic", "Anthropic", "https://api.anthropic.com/v1"],
  ["google", "Google", "https://generativelanguage.googleapis.com/v1beta"],
];

export function Connections(): VNode {
  return html`
    <${Providers} />
    <${Servers} />
  `;
}

function Providers(): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Provider[] }>(PROVIDERS)).items);
  return html`
    <p class="row spread"><span class="dim">Providers of models for the agents of your team, with keys of your own.</span>
      <button type="button" class="primary" onClick=${() => openProvider(undefined, read)}>New provider</button></p>
    <${Placeholder} items=${items} read=${read} text="Agents use what the operator of the gateway has configured." />
    <ul class="rows">${(items ?? []).map((one) =>
      html`
        <li key=${one.id}>
          <div><b>${one.id}</b><small class="dim">${one.baseUrl}, ${one.models.map(({ id }) => id)
            .join(", ")}${one.hasKey ? "" : ", no key"}</small></div>
          <button type="button" onClick=${act(() => testProvider(one))}>Test</button>
          <button type="button" onClick=${() => openProvider(one, read)}>Edit</button>
          <${Delete} path=${`${PROVIDERS}/${one.id}`} name=${one.id} onDone=${read}
            text="Its key is deleted. Agents with its models no longer respond." />
        </li>
      `
    )}</ul>
  `;
}

function Servers(): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Server[] }>(SERVERS)).items);
  return html`
    <p class="row spread"><span class="dim">MCP servers, whose tools agents may have.</span>
      <button type="button" class="primary" onClick=${() => openServer(undefined, read)}>New server</button></p>
    <${Placeholder} items=${items} read=${read} text="No servers." />
    <ul class="rows">${(items ?? []).map((one) =>
      html`
        <li key=${one.id}>
          <div><b>${one.id}</b><small class="dim">${one.url}, ${one.tools.length === 0
            ? "all tools"
            : one.tools.join(", ")}${one.needsApproval ? ", after an approval" : ""}</small></div>
          <button type="button" onClick=${act(() => testServer(one))}>Test</button>
          <button type="button" onClick=${() => openServer(one, read)}>Edit</button>
          <${Delete} path=${`${SERVERS}/${one.id}`} name=${one.id} onDone=${read}
            text="Agents can no longer use its tools." />
        </li>
      `
    )}</ul>
  `;
}

function Delete({ path, name, text, onDone }: { path: string; name: string; text: string; onDone: () => void }): VNode {
  return html`
    <button type="button" class="danger-text" onClick=${() =>
      confirmThen(`Delete ${name}?`, text, "Delete", async () => {
        await call("DELETE", path);
        onDone();
      })}>Delete</button>
  `;
}

async function testProvider({ id }: Provider): Promise<void> {
  const { ok, model, detail, durationMs } = await post<
    { ok: boolean; model: string; detail: string | null; durationMs: number }
  >(`${PROVIDERS}/${id}/test`);
  notify(ok ? `${model} has responded after ${durationMs} ms` : `${model}: ${detail}`, !ok);
}

async function testServer({ id }: Server): Promise<void> {
  const { ok, code, tools } = await post<{ ok: boolean; code: string | null; tools: unknown[] }>(
    `${SERVERS}/${id}/test`,
  );
  notify(ok ? `${id} has ${count(tools.length, "tool")}` : `${id}: ${code?.replaceAll("_", " ")}`, !ok);
}

/** A field of a form, and those that are a list of words. */
const textIn = (fields: FormData, name: string): string => String(fields.get(name) ?? "").trim();
const wordsIn = (fields: FormData, name: string): string[] =>
  textIn(fields, name).split(/[\s,]+/).filter((one) => one !== "");

function openProvider(provider: Provider | undefined, onSaved: () => void): void {
  const save = async (fields: FormData): Promise<void> => {
    const key = textIn(fields, "key");
    // A model that is known keeps its prices.
    const modelOf = (id: string): Model =>
      provider?.models.find((one) => one.id === id) ?? { id, contextTokens: Number(fields.get("context")) };
    await call("PUT", `${PROVIDERS}/${provider?.id ?? textIn(fields, "id")}`, {
      kind: fields.get("kind"),
      baseUrl: textIn(fields, "baseUrl"),
      models: wordsIn(fields, "models").map(modelOf),
      ...key === "" ? {} : { apiKey: key },
      ...provider === undefined ? {} : { version: provider.version },
    });
    onSaved();
  };
  openDialog(() =>
    html`
      <${DialogForm} title=${provider?.id ?? "New provider"} action="Save" onSubmit=${save}>
        ${provider === undefined
          ? html`<label>Id <input name="id" required maxlength="40" pattern="[a-z0-9][a-z0-9\\-]*" autofocus
            placeholder="openai" /></label>`
          : null}
        <label>Protocol <select name="kind" value=${provider?.kind ?? "openai"}>${KINDS.map(([kind, label]) =>
          html`<option key=${kind} value=${kind}>${label}</option>`
        )}</select></label>
        <label>Address <input name="baseUrl" type="url" required list="provider-addresses" defaultValue=${provider
          ?.baseUrl ?? ""} placeholder="https://api.openai.com/v1" /></label>
        <datalist id="provider-addresses">${KINDS.map(([kind, , address]) =>
          html`<option key=${kind} value=${address}></option>`
        )}</datalist>
        <label>Key <input name="key" type="password" autocomplete="off" placeholder=${provider?.hasKey
          ? "as it is"
          : ""} /></label>
        <label>Models, the default first <input name="models" required defaultValue=${provider?.models.map(({ id }) =>
          id
        ).join(" ") ?? ""} placeholder="gpt-5 gpt-5-mini" /></label>
        <label>Context of new ones, in tokens <input name="context" type="number" min="256"
          max="10000000" required defaultValue="32000" /></label>
        <//>
    `
  );
}

function openServer(server: Server | undefined, onSaved: () => void): void {
  const save = async (fields: FormData): Promise<void> => {
    const authorization = textIn(fields, "authorization");
    await call("PUT", `${SERVERS}/${server?.id ?? textIn(fields, "id")}`, {
      url: textIn(fields, "url"),
      tools: wordsIn(fields, "tools"),
      needsApproval: fields.get("needsApproval") !== null,
      ...authorization === "" ? {} : { headers: { Authorization: authorization } },
      ...server === undefined ? {} : { version: server.version },
    });
    onSaved();
  };
  openDialog(() =>
    html`
      <${DialogForm} title=${server?.id ?? "New MCP server"} action="Save" onSubmit=${save}>
        ${server === undefined
          ? html`<label>Id, with which names of its tools begin <input name="id" required minlength="2" maxlength="20"
            pattern="[a-z][a-z_]*[a-z]" autofocus placeholder="wiki" /></label>`
          : null}
        <label>Address <input name="url" type="url" required defaultValue=${server?.url ?? ""}
          placeholder="https://wiki.example.com/mcp" /></label>
        <label>Authorization header <input name="authorization" type="password" autocomplete="off"
          placeholder=${(server?.headerNames.length ?? 0) > 0 ? "as it is" : "Bearer …"} /></label>
        <label>Tools <input name="tools" defaultValue=${server?.tools.join(" ") ?? ""} placeholder="all" /></label>
        <label class="check"><input type="checkbox" name="needsApproval" defaultChecked=${server?.needsApproval ??
          true} /> Each call is approved in the room</label>
        <//>
    `
  );
}
