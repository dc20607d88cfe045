// Lists: read when they are opened, page by page where they are long, and again after every change.
import type { Dispatch, StateUpdater } from "preact/hooks";
import { useEffect, useRef, useState } from "preact/hooks";
import { attempt, type Read, useLatest } from "../core/notice.ts";

/** As in what lists of the API respond. */
type Part = { items: unknown[]; nextCursor: string | null };
type Pages<Page> = {
  /** What has been read so far. */
  page: Page | undefined;
  setPage: Dispatch<StateUpdater<Page | undefined>>;
  read: Read;
  /** Reads on; there is none at the end. */
  more: (() => void) | undefined;
};

const TYPING_MS = 200;

/**
 * The items, a function that reads them again, and one that wraps a change so that they are read after it. What was read
 * before stays until there is something else, but not if that could not be read.
 */
export function useList<Item>(load: () => Promise<readonly Item[]>, inputs: readonly unknown[] = []): {
  items: readonly Item[] | undefined;
  read: Read;
  act: (work: () => Promise<unknown>) => () => void;
} {
  const [items, setItems] = useState<readonly Item[]>();
  const read = useLatest(load, setItems);
  useEffect(read, inputs);
  const act = (work: () => Promise<unknown>) => (): void =>
    void attempt(async () => {
      await work();
      read();
    });
  return { items: read.hasFailed.value ? undefined : items, read, act };
}

/**
 * The first page of a list, and those after it that were asked for. They are all read again after a change: what is read or
 * written on the last one stays. Another `key` is another list.
 */
export function usePages<Page extends Part>(load: (cursor?: string) => Promise<Page>, key = ""): Pages<Page> {
  const [page, setPage] = useState<Page>();
  const wanted = useRef({ key, items: 0 });
  if (wanted.current.key !== key) wanted.current = { key, items: 0 };
  const { current: list } = wanted;
  const read = useLatest(async () => {
    let all = await load();
    while (all.nextCursor !== null && all.items.length < wanted.current.items) {
      all = joined(all, await load(all.nextCursor));
    }
    return all;
  }, setPage);
  const cursor = page?.nextCursor ?? undefined;
  const readOn = async (): Promise<void> => {
    const next = await load(cursor);
    list.items = (page?.items.length ?? 0) + next.items.length;
    // What was read again meanwhile may end elsewhere.
    setPage((shown) => shown === undefined || shown.nextCursor !== cursor ? shown : joined(shown, next));
  };
  return { page, setPage, read, more: cursor === undefined ? undefined : () => void attempt(readOn) };
}

function joined<Page extends Part>(page: Page, next: Page): Page {
  return { ...page, ...next, items: [...page.items, ...next.items] };
}

/** The same for what is found: by a text, or what else `key` says, which may still be typed. */
export function useFound<Page extends Part>(
  key: string,
  load: (cursor?: string) => Promise<Page>,
): Pages<Page> {
  const pages = usePages(load, key);
  useEffect(() => {
    const timer = setTimeout(pages.read, key === "" ? 0 : TYPING_MS);
    return () => clearTimeout(timer);
  }, [key]);
  return pages.read.hasFailed.value ? { ...pages, page: undefined, more: undefined } : pages;
}
