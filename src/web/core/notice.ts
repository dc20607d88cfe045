// Short notices at the edge of the page: what failed, and what was done.
import { signal } from "@preact/signals";
import { ApiError } from "./api.ts";

type Notice = { id: number; text: string; isProblem: boolean };

const SHOWN_MS = 6000;

export const notices = signal<readonly Notice[]>([]);
let nextId = 1;

export function notify(text: string, isProblem = false): void {
  const notice = { id: nextId++, text, isProblem };
  notices.value = [...notices.value, notice].slice(-3);
  setTimeout(() => dismiss(notice.id), SHOWN_MS);
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

/** A function that reads and shows; what a later read has overtaken is not shown. */
export function latest<Result>(load: () => Promise<Result>, show: (result: Result) => void): () => void {
  let reads = 0;
  return () =>
    void attempt(async () => {
      const current = ++reads;
      const result = await load();
      if (current === reads) show(result);
    });
}

/** What a person can read of a failure. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) {
    const [first] = error.errors;
    return first === undefined ? error.message : `${first.pointer.replace(/^\//, "")}: ${first.detail}`;
  }
  return error instanceof Error ? error.message : String(error);
}
