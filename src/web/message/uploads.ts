// Files on their way into a message: each is uploaded at once, and attached when the message is sent.
import type { VNode } from "preact";
import { effect, signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { createId, upload as sendFile, withQuery } from "../core/api.ts";
import { sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { messageOf, notify } from "../core/notice.ts";
import type { MessageFile } from "../core/resources.ts";
import { token } from "../core/session.ts";
import { Icon } from "../part/icon.ts";
import { fileLink } from "./file_links.ts";
import { PICTURE_TYPES } from "./files.ts";

type Upload = {
  key: string;
  name: string;
  size: number;
  state: "uploading" | "ready" | "failed";
  /** How much was sent, between 0 and 1. */
  progress?: number;
  failure?: string;
  file?: MessageFile;
  /** Uploads it again. */
  retry?: () => void;
  abort?: () => void;
};

const STORED = "gateway.uploads";
const FILES_MAX = 10;

/** By room or thread. Those that are ready outlive a reload of the page, as drafts do. */
export const uploads = signal<ReadonlyMap<string, readonly Upload[]>>(
  new Map(JSON.parse(sessionStorage.getItem(STORED) ?? "[]")),
);

effect(() => {
  const ready = [...uploads.value].map(([target, all]) => [target, all.filter(({ state }) => state === "ready")]);
  const text = JSON.stringify(ready.filter(([, all]) => all?.length !== 0));
  if (token.value !== "") sessionStorage.setItem(STORED, text);
});

export function upload(target: string, roomId: string, files: readonly File[]): void {
  const free = FILES_MAX - (uploads.value.get(target)?.length ?? 0);
  for (const file of files.slice(0, free)) void uploadOne(target, roomId, file);
  if (files.length > free) notify(`A message can have ${FILES_MAX} files. ${files.length - free} were left out.`, true);
}

/** What makes an element a place to drop files, for the message that is written in it. */
export function useDrop(target: string, roomId: string): { isOver: boolean; handlers: Record<string, unknown> } {
  const [isOver, setOver] = useState(false);
  return {
    isOver,
    handlers: {
      onDragOver: (event: DragEvent) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: () => setOver(false),
      onDrop: (event: DragEvent) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(false);
        upload(target, roomId, [...event.dataTransfer?.files ?? []]);
      },
    },
  };
}

function hasFiles({ dataTransfer }: DragEvent): boolean {
  return dataTransfer?.types.includes("Files") === true;
}

// Beside such places the browser would leave the page, and open the file.
for (const type of ["dragover", "drop"] as const) {
  addEventListener(type, (event) => {
    if (event.defaultPrevented || !hasFiles(event) || event.dataTransfer === null) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

// Who leaves the page ends them.
addEventListener("beforeunload", (event) => {
  const isUploading = [...uploads.value.values()].flat().some(({ state }) => state === "uploading");
  // Without a session, the page is left to show that.
  if (isUploading && token.value !== "") event.preventDefault();
});

async function uploadOne(target: string, roomId: string, file: File, key: string = createId()): Promise<void> {
  const change = (fields: Partial<Upload>): void =>
    setUploads(target, (all) => all.map((one) => one.key === key ? { ...one, ...fields } : one));
  const { name, size } = file;
  const end = new AbortController();
  const started: Upload = { key, name, size, state: "uploading", abort: () => end.abort() };
  setUploads(
    target,
    (all) => all.some((one) => one.key === key) ? all.map((one) => one.key === key ? started : one) : [...all, started],
  );
  try {
    const path = withQuery("v1/collaboration/files", { name, roomId });
    change({ state: "ready", file: await sendFile(path, file, (progress) => change({ progress }), end.signal) });
  } catch (error) {
    const retry = (): void => void uploadOne(target, roomId, file, key);
    change({ state: "failed", failure: messageOf(error), retry });
  }
}

function setUploads(target: string, change: (all: readonly Upload[]) => readonly Upload[]): void {
  uploads.value = new Map(uploads.value).set(target, change(uploads.value.get(target) ?? []));
}

export function Attachments({ target }: { target: string }): VNode | null {
  const all = uploads.value.get(target) ?? [];
  if (all.length === 0) return null;
  const remove = ({ key, abort }: Upload): void => {
    setUploads(target, (list) => list.filter((one) => one.key !== key));
    abort?.();
  };
  return html`
    <div class="attachments">${all.map((one) => {
      const { key, name, size, state, progress, failure, retry, file } = one;
      return html`<span key=${key} class=${state} title=${failure ?? name}>
        ${
        file !== undefined && PICTURE_TYPES.includes(file.contentType)
          ? html`<img src=${fileLink(file.id, 64)} alt="" />`
          : html`<${Icon} name="document" />`
      }<b dir="auto">${name}</b>
        ${
        state === "uploading"
          ? html`<progress value=${progress} aria-label=${`Uploading ${name}`}></progress>`
          : html`<small>${failure ?? sizeOf(size)}</small>`
      }
        ${retry === undefined ? null : html`<button type="button" onClick=${retry}>Try again</button>`}
        <button type="button" class="plain" aria-label=${`Remove ${name}`} onClick=${() =>
        remove(one)}><${Icon} name="close" /></button>
      </span>`;
    })}</div>
  `;
}
