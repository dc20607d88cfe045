// Files of a message: thumbnails of pictures, and cards of everything else.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import type { MessageFile } from "../core/resources.ts";
import { Icon } from "../part/icon.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { fileLink, readFileLink } from "./file_links.ts";

/** Those that browsers show, and the gateway makes thumbnails of. */
export const PICTURE_TYPES: readonly string[] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const PREVIEW_MAX_PX = 320;

export function Files({ files }: { files: readonly MessageFile[] }): VNode | null {
  if (files.length === 0) return null;
  return html`
    <div class="files">${files.map((file) =>
      PICTURE_TYPES.includes(file.contentType)
        ? html`<${Picture} key=${file.id} file=${file} />`
        : html`<${FileCard} key=${file.id} file=${file} />`
    )}</div>
  `;
}

function Picture({ file }: { file: MessageFile }): VNode {
  const source = fileLink(file.id, 640);
  const [broken, setBroken] = useState<string>();
  const { width, height } = displaySize(file);
  // Such as what only claims to be a picture: it can still be downloaded.
  if (source !== undefined && broken === source) return html`<${FileCard} file=${file} />`;
  return html`
    <button type="button" class="picture plain" title=${file.name} aria-label=${`Open ${file.name}`}
      style=${{ width: `${width}px`, aspectRatio: `${width} / ${height}` }} onClick=${() => openPicture(file)}>
      ${source === undefined
        ? file.name
        : html`<img src=${source} alt=${file.name} loading="lazy" onError=${() => setBroken(source)} />`}
    </button>
  `;
}

function FileCard({ file }: { file: MessageFile }): VNode {
  return html`
    <button type="button" class="file-card" onClick=${() => void download(file)} title=${`Download ${file.name}`}>
      <${Icon} name="document" /><span><b dir="auto">${file.name}</b><small class="dim">${sizeOf(
        file.size,
      )}</small></span>
    </button>
  `;
}

function openPicture(file: MessageFile): void {
  openDialog(() => html`<${Viewer} file=${file} />`);
}

function Viewer({ file }: { file: MessageFile }): VNode {
  const source = fileLink(file.id);
  return html`
    <div class="viewer">
      <${Heading} title=${file.name} onClose=${closeDialog}>
        <button type="button" onClick=${() => void download(file)}>Download</button>
      <//>
      ${source === undefined ? null : html`<img src=${source} alt=${file.name} />`}
    </div>
  `;
}

/** Opens a link that downloads: the browser stores the file under its name. */
async function download(file: MessageFile): Promise<void> {
  await attempt(async () => {
    const link = document.createElement("a");
    link.href = await readFileLink(file.id, true);
    link.download = file.name;
    link.click();
  });
}

/** Known before the picture is loaded, so that nothing moves then. */
function displaySize({ width, height }: MessageFile): { width: number; height: number } {
  const [w, h] = [width ?? PREVIEW_MAX_PX, height ?? PREVIEW_MAX_PX];
  const factor = Math.min(1, PREVIEW_MAX_PX / Math.max(w, h, 1));
  return { width: Math.max(48, Math.round(w * factor)), height: Math.max(48, Math.round(h * factor)) };
}
