// Pictures of documents are files of the gateway, which are shown through links, and uploaded when they are pasted or dropped.
// Those of other hosts would see who reads; so only their description and address are shown.
import type { Tokens } from "marked";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { upload, withQuery } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt, dismiss, notify, notifyUntilDismissed } from "../core/notice.ts";
import { fileLink, forgetFileLink } from "../message/file_links.ts";
import { PICTURE_TYPES } from "../message/files.ts";

const FILE = /\/v1\/collaboration\/files\/(file_[0-9A-Za-z]{32})(?:\/content)?$/;
/** The gateway attaches a file to its document with the next save; until then, others may not read it. */
const LINK_TRIES = 6;
const LINK_AGAIN_MS = 1500;

/** A picture in Markdown; nothing if it is elsewhere. */
export function pictureOf({ href, text }: Tokens.Image): VNode | undefined {
  const id = fileOf(href);
  return id === undefined ? undefined : html`<${Illustration} id=${id} alt=${text} />`;
}

function Illustration({ id, alt }: { id: string; alt: string }): VNode {
  useEffect(() => requestLink(id), [id]);
  const link = fileLink(id);
  return link === undefined ? html`<span class="picture-name">${alt}</span>` : html`<img src=${link} alt=${alt} />`;
}

/** The file of this gateway that an address names. */
export function fileOf(src: unknown): string | undefined {
  if (typeof src !== "string" || !URL.canParse(src, document.baseURI)) return undefined;
  const { origin, pathname } = new URL(src, document.baseURI);
  return origin === location.origin ? FILE.exec(pathname)?.[1] : undefined;
}

/** What a document says of a file. */
export function sourceOf(id: string): string {
  return `/v1/collaboration/files/${id}/content`;
}

/** Requests the link of a file again while there is none; returns what ends this. */
export function requestLink(id: string): () => void {
  let timer: ReturnType<typeof setTimeout>;
  const again = (tries: number): void => {
    timer = setTimeout(() => {
      if (fileLink(id) !== undefined || tries === 0) return;
      forgetFileLink(id);
      again(tries - 1);
    }, LINK_AGAIN_MS);
  };
  again(LINK_TRIES);
  return () => clearTimeout(timer);
}

/** Pictures that are pasted alone: with a text beside them they are pictures of that text. */
export function pastedFiles({ clipboardData }: ClipboardEvent): readonly File[] {
  return clipboardData === null || clipboardData.getData("text/plain") !== "" ? [] : [...clipboardData.files];
}

/** Uploads pictures one after the other, each to be inserted then. */
export async function uploadPictures(
  files: Iterable<File>,
  insert: (id: string, name: string) => void,
): Promise<void> {
  for (const file of files) {
    if (!PICTURE_TYPES.includes(file.type)) {
      notify(`${file.name} is not a picture that browsers can show`, true);
      continue;
    }
    const notice = notifyUntilDismissed(`Uploading ${file.name}…`);
    await attempt(async () => {
      const path = withQuery("v1/collaboration/files", { name: file.name });
      const { id } = await upload<{ id: string }>(path, file, () => {}, new AbortController().signal);
      insert(id, file.name);
    });
    dismiss(notice);
  }
}
