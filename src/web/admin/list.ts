// Lists of the admin tab: read when they are opened, and again after every change.
import { useEffect, useState } from "preact/hooks";
import { attempt, type Read, useLatest } from "../core/notice.ts";

/** The items, a function that reads them again, and one that wraps a change so that they are read after it. */
export function useList<Item>(load: () => Promise<readonly Item[]>): {
  items: readonly Item[] | undefined;
  read: Read;
  act: (work: () => Promise<unknown>) => () => void;
} {
  const [items, setItems] = useState<readonly Item[]>();
  const read = useLatest(load, setItems);
  useEffect(read, []);
  const act = (work: () => Promise<unknown>) => (): void =>
    void attempt(async () => {
      await work();
      read();
    });
  return { items, read, act };
}
