// Addresses of files: images cannot send a token, so each has a signed link for some minutes.
import { signal } from "@preact/signals";
import { addressOf, post } from "../core/api.ts";

type Thumbnail = 64 | 160 | 320 | 640;
type Link = { url: string; expiresAt: number };

const BATCH_MAX = 50;
const MARGIN_MS = 60_000;

const links = signal<ReadonlyMap<string, Link>>(new Map());
const requested = new Map<string, { id: string; thumbnail: Thumbnail | undefined }>();
let timer: ReturnType<typeof setTimeout> | undefined;

/** The address of a file or its thumbnail; `undefined` until it is read, and then the caller is rendered again. */
export function fileLink(id: string, thumbnail?: Thumbnail): string | undefined {
  const key = keyOf(id, thumbnail);
  const link = links.value.get(key);
  if (link !== undefined && link.expiresAt - MARGIN_MS > Date.now()) return link.url;
  if (!requested.has(key)) {
    requested.set(key, { id, thumbnail });
    timer ??= setTimeout(readRequested, 20);
  }
  return link?.url;
}

/** Reads the link of a file again that could not be read so far. */
export function forgetFileLink(id: string): void {
  const key = keyOf(id, undefined);
  requested.delete(key);
  fileLink(id);
}

/** A new link to a file, to open or to download it. */
export async function readFileLink(id: string, download: boolean): Promise<string> {
  const { items } = await post<{ items: { url: string }[] }>("v1/collaboration/files/links", { ids: [id], download });
  const [link] = items;
  if (link === undefined) throw new Error("This file does not exist");
  return addressOf(link.url);
}

async function readRequested(): Promise<void> {
  timer = undefined;
  const batches = Map.groupBy(requested, ([, { thumbnail }]) => thumbnail);
  for (const [thumbnail, entries] of batches) {
    const batch = entries.slice(0, BATCH_MAX);
    if (entries.length > batch.length) timer ??= setTimeout(readRequested, 20);
    try {
      const { items } = await post<{ items: { id: string; url: string; expiresAt: string }[] }>(
        "v1/collaboration/files/links",
        { ids: [...new Set(batch.map(([, { id }]) => id))], thumbnail },
      );
      links.value = new Map([
        ...links.value,
        ...items.map(({ id, url, expiresAt }) =>
          [keyOf(id, thumbnail), { url: addressOf(url), expiresAt: Date.parse(expiresAt) }] as const
        ),
      ]);
      for (const [key] of batch) if (links.value.has(key)) requested.delete(key);
    } catch {
      // Without links, names of files are shown; they are asked for again when these are rendered.
      for (const [key] of batch) requested.delete(key);
    }
  }
}

function keyOf(id: string, thumbnail: Thumbnail | undefined): string {
  return `${id} ${thumbnail}`;
}
