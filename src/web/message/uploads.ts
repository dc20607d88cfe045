// Files on their way into a message: each is uploaded at once, and attached when the message is sent.
import type { VNode } from "preact";
import { signal } from "@preact/signals";
import { call, withQuery } from "../core/api.ts";
import { sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { messageOf, notify } from "../core/notice.ts";
import type { MessageFile } from "../core/resources.ts";
import { Icon } from "../part/icon.ts";

type Upload = {
  key: string;
  name: string;
  size: number;
  state: "uploading" | "ready" | "failed";
  failure?: string;
  file?: MessageFile;
};

const FILES_MAX = 10;

/** By room or thread. */
export const uploads = signal<ReadonlyMap<string, readonly Upload[]>>(new Map());

export function upload(target: string, roomId: string, files: readonly File[]): void {
  const free = FILES_MAX - (uploads.value.get(target)?.length ?? 0);
  for (const file of files.slice(0, free)) void uploadOne(target, roomId, file);
  if (files.length > free) notify(`A message can have ${FILES_MAX} files. ${files.length - free} were left out.`, true);
}

async function uploadOne(target: string, roomId: string, file: File): Promise<void> {
  const key = crypto.randomUUID();
  const change = (fields: Partial<Upload>): void =>
    setUploads(target, (all) => all.map((one) => one.key === key ? { ...one, ...fields } : one));
  setUploads(target, (all) => [...all, { key, name: file.name, size: file.size, state: "uploading" }]);
  try {
    const path = withQuery("v1/collaboration/files", { name: file.name, roomId });
    change({ state: "ready", file: await call<MessageFile>("POST", path, file) });
  } catch (error) {
    change({ state: "failed", failure: messageOf(error) });
  }
}

function setUploads(target: string, change: (all: readonly Upload[]) => readonly Upload[]): void {
  uploads.value = new Map(uploads.value).set(target, change(uploads.value.get(target) ?? []));
}

export function Attachments({ target }: { target: string }): VNode | null {
  const all = uploads.value.get(target) ?? [];
  if (all.length === 0) return null;
  const remove = (key: string): void => setUploads(target, (list) => list.filter((one) => one.key !== key));
  return html`
    <div class="attachments">${all.map(({ key, name, size, state, failure }) =>
      html`<span key=${key} class=${state} title=${failure ?? name}>
        <${Icon} name="document" /><b dir="auto">${name}</b>
        <small>${state === "uploading" ? "uploading…" : failure ?? sizeOf(size)}</small>
        <button type="button" class="plain" aria-label=${`Remove ${name}`} onClick=${() =>
        remove(key)}><${Icon} name="close" /></button>
      </span>`
    )}</div>
  `;
}
