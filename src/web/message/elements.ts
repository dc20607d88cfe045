// Buttons, selects, links and forms below a message. What is chosen is sent to the agent or service that wrote it.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { createId, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import type { Element, FormField, Message } from "../core/resources.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { showResponse } from "./commands.ts";

type Result = Parameters<typeof showResponse>[0];

export default function Elements({ message, isAllowed }: { message: Message; isAllowed: boolean }): VNode {
  return html`<div class="elements">${
    (message.elements ?? []).map((element) =>
      html`<${Control} key=${element.id} message=${message} element=${element} isAllowed=${isAllowed} />`
    )
  }</div>`;
}

function Control({ message, element, isAllowed }: { message: Message; element: Element; isAllowed: boolean }): VNode {
  const [isBusy, setBusy] = useState(false);
  const invoke = async (body: Record<string, unknown>): Promise<void> => {
    setBusy(true);
    await attempt(async () => {
      const path = `v1/messages/${message.id}/elements/${encodeURIComponent(element.id)}/action`;
      showResponse(await post<Result>(path, { ...body, clientMessageId: createId() }));
    });
    setBusy(false);
  };
  const isDisabled = !isAllowed || isBusy;
  if (element.kind === "link") {
    return html`<a class="button" href=${
      /^https?:/.test(element.url) ? element.url : "#"
    } target="_blank" rel="noopener noreferrer">${element.label}</a>`;
  }
  if (element.kind === "button") {
    const { label, style, value, confirm } = element;
    const run = (): Promise<void> => invoke(value === undefined ? {} : { value });
    return html`
      <button type="button" class=${style === "default" ? "" : style} disabled=${isDisabled}
        onClick=${() => confirm === undefined ? void run() : confirmThen(label, confirm, label, run)}>${label}</button>
    `;
  }
  if (element.kind === "select") {
    return html`<select aria-label=${element.label} disabled=${isDisabled} value="" onChange=${(event: Event) =>
      void invoke({ value: (event.target as HTMLSelectElement).value })}>
      <option value="" disabled>${element.label}</option>${
      element.options.map(({ value, label }) => html`<option key=${value} value=${value}>${label}</option>`)
    }</select>`;
  }
  const { label, fields, submit } = element;
  return html`<button type="button" disabled=${isDisabled} onClick=${() =>
    openDialog(() =>
      html`<${DialogForm} title=${label} action=${submit} onSubmit=${(data: FormData) =>
        invoke({ values: valuesOf(fields, data) })}>
        ${fields.map((field) => html`<${Field} key=${field.name} field=${field} />`)}<//>`
    )}>${label}</button>`;
}

export function Field({ field }: { field: FormField }): VNode {
  const { name, label, required } = field;
  if (field.kind === "boolean") {
    return html`<label class="check"><input type="checkbox" name=${name} /> ${label}</label>`;
  }
  if (field.kind === "number") {
    return html`<label>${label} <input type="number" name=${name} required=${required} min=${field.min} max=${field.max} step="any" /></label>`;
  }
  if (field.kind === "select") {
    return html`<label>${label} <select name=${name} required=${required} multiple=${field.multiple}>
      ${field.multiple ? null : html`<option value=""></option>`}${
      field.options.map((one) => html`<option key=${one.value} value=${one.value}>${one.label}</option>`)
    }</select></label>`;
  }
  return field.multiline
    ? html`<label>${label} <textarea name=${name} required=${required} maxlength=${field.maxLength} rows="4"></textarea></label>`
    : html`<label>${label} <input name=${name} required=${required} maxlength=${field.maxLength} /></label>`;
}

/** Values of a form as the API takes them; empty ones are left out. */
export function valuesOf(fields: readonly FormField[], data: FormData): Record<string, unknown> {
  return Object.fromEntries(fields.flatMap((field): [string, unknown][] => {
    const { name, kind } = field;
    if (kind === "boolean") return [[name, data.get(name) !== null]];
    if (kind === "select" && field.multiple) return [[name, data.getAll(name)]];
    const text = String(data.get(name) ?? "");
    if (text === "") return [];
    return [[name, kind === "number" ? Number(text) : text]];
  }));
}
