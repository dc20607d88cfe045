// Any operation by form, from `/openapi.json`: what has no page of its own yet can be done here.
import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { call, get, type Method, withQuery } from "../core/api.ts";
import { html } from "../core/html.ts";
import { messageOf } from "../core/notice.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Parameter = {
  name: string;
  in: "path" | "query";
  required?: boolean;
  description?: string;
  schema?: Record<string, unknown>;
  $ref?: string;
};
type Described = {
  operationId: string;
  summary: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { example?: unknown }> };
};
type Operation = Described & { method: Method; path: string };

export function Operations(): VNode {
  const { items: all, read } = useList(readOperations);
  const [q, setQ] = useState("");
  const [chosen, setChosen] = useState("");
  const found = useMemo(() => {
    const words = q.toLowerCase().split(/\s+/);
    return (all ?? []).filter(({ operationId, summary }) =>
      words.every((word) => `${operationId} ${summary}`.toLowerCase().includes(word))
    );
  }, [all, q]);
  const operation = all?.find(({ operationId }) => operationId === chosen);
  return html`
    <div class="operations">
      <div><input type="search" placeholder="Find an operation" aria-label="Find an operation" value=${q}
          onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
        <ul class="operation-list">${found.map(({ operationId, summary }) =>
          html`
            <li
              key=${operationId}><button type="button" class="plain wide" aria-pressed=${operationId ===
                chosen} onClick=${() =>
                setChosen(
                  operationId,
                )}><span><code>${operationId}</code><small class="dim">${summary}</small></span></button></li>
          `
        )}</ul></div>
      ${all === undefined
        ? html`<${Placeholder} read=${read} />`
        : operation === undefined
        ? html`<p class="empty">Choose an operation.</p>`
        : html`<${Form} key=${operation.operationId} operation=${operation} />`}
    </div>
  `;
}

function Form({ operation }: { operation: Operation }): VNode {
  const { method, path, summary, description, requestBody } = operation;
  const [result, setResult] = useState("");
  const [isBusy, setBusy] = useState(false);
  const parameters = (operation.parameters ?? []).filter((one) =>
    one.$ref === undefined && (one.in === "path" || one.in === "query")
  );
  const example = requestBody?.content["application/json"]?.example;
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    try {
      const value = await call<unknown>(method, addressFor(path, parameters, fields), bodyFrom(fields));
      setResult(value === undefined ? "Done." : typeof value === "string" ? value : JSON.stringify(value, null, 2));
    } catch (error) {
      setResult(messageOf(error));
    }
    setBusy(false);
  }
  return html`
    <form class="fields operation" onSubmit=${(event: SubmitEvent) => void submit(event)}>
      <h2>${summary}</h2>
      <p class="dim"><code>${method} ${path}</code></p>
      ${description === undefined ? null : html`<p class="dim">${description}</p>`}
      ${parameters.map(({ name, required, description: text }) =>
        html`<label key=${name}>${name}${required ? "" : " (optional)"}
        <input name=${name} required=${required === true} title=${text ?? ""} placeholder=${text ?? ""} /></label>`
      )}
      ${requestBody === undefined
        ? null
        : html`<label>Body <textarea name="body:json" rows="8" class="code" spellcheck="false" defaultValue=${
          example === undefined ? "{}" : JSON.stringify(example, null, 2)
        }></textarea></label>`}
      <footer><button class="primary" disabled=${isBusy}>Call</button></footer>
      ${result === "" ? null : html`<pre class="revision" tabindex="0" role="status">${result}</pre>`}
    </form>
  `;
}

async function readOperations(): Promise<Operation[]> {
  const { paths } = await get<{ paths: Record<string, Record<string, Described>> }>("openapi.json");
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).filter(([, one]) => one.operationId !== undefined)
      .map(([method, one]) => ({ ...one, path, method: method.toUpperCase() as Method }))
  ).toSorted((a, b) => a.operationId.localeCompare(b.operationId));
}

function addressFor(path: string, parameters: readonly Parameter[], fields: FormData): string {
  let address = path.slice(1);
  const query: Record<string, string[]> = {};
  for (const { name, in: place } of parameters) {
    const value = String(fields.get(name) ?? "").trim();
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== "") query[name] = value.split(",");
  }
  return withQuery(address, query);
}

function bodyFrom(fields: FormData): unknown {
  const text = fields.get("body:json");
  return text === null ? undefined : JSON.parse(String(text));
}
