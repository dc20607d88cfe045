// Short notices at the edge of the page: what failed, and what was done.
import { useMemo, useRef } from "preact/hooks";
import { type ReadonlySignal, signal } from "@preact/signals";
import { ApiError } from "./api.ts";

/** A lasting one is there until it is dismissed. */
type Notice = { id: number; text: string; isProblem: boolean; isLasting: boolean };

const SHOWN_MS = 6000;
/** What browsers say of a script. Firefox loads it again with the page only. */
const NOT_LOADED = /dynamically imported|importing a module/i;

export const notices = signal<readonly Notice[]>([]);
let nextId = 1;

export function notify(text: string, isProblem = false): void {
  const id = show(text, isProblem, false);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

/** For what a person has asked for, and may read slowly. */
export function notifyUntilDismissed(text: string): number {
  return show(text, false, true);
}

function show(text: string, isProblem: boolean, isLasting: boolean): number {
  const notice = { id: nextId++, text, isProblem, isLasting };
  // What several reads of a place meet is one problem, such as a gateway that is starting.
  notices.value = [...notices.value.filter((one) => one.text !== text), notice].slice(-3);
  return notice.id;
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/** Runs what a person asked for; a failure becomes a notice. Returns whether it succeeded. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    notify(messageOf(error), true);
    return false;
  }
}

/** Reads, and says whether that has failed. */
export type Read = (() => void) & { readonly hasFailed: ReadonlySignal<boolean> };

/** A function that reads and shows; what a later read of this view has overtaken is not shown. */
export function useLatest<Result>(load: () => Promise<Result>, show: (result: Result) => void): Read {
  const reads = useRef(0);
  const hasFailed = useMemo(() => signal(false), []);
  const read = async (): Promise<void> => {
    const current = ++reads.current;
    hasFailed.value = false;
    const isDone = await attempt(async () => {
      const result = await load();
      if (current === reads.current) show(result);
    });
    if (current === reads.current) hasFailed.value = !isDone;
  };
  return Object.assign(() => void read(), { hasFailed });
}

/** What a person can read of a failure. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) {
    const [first] = error.errors;
    // Fields are named in words: `displayName` is "display name".
    const field = first?.pointer.replace(/^\//, "").replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    return first === undefined ? error.message : `${field}: ${first.detail}`;
  }
  const text = error instanceof Error ? error.message : String(error);
  return NOT_LOADED.test(text) ? "This could not be loaded. Try again, or load the page again." : text;
}
