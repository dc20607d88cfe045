// What an import says about itself: how far it is, what it added, what it left out and why.
import { type Counts, EXAMPLES_MAX, type Failure, type Import, type Progress, type SkipCode } from "./schema.ts";

/** The archive as a whole cannot be imported. */
export class ArchiveFault extends Error {
  override readonly name = "ArchiveFault";
  readonly failure: Failure;

  constructor(code: Failure["code"], detail: string) {
    super(detail);
    this.failure = { code, detail: clip(detail) };
  }
}

/** The import was cancelled, or is somebody else's now. */
export class Halted extends Error {
  override readonly name = "Halted";
}

export class Report {
  readonly added: Counts = noCounts();
  present = 0;
  done = 0;
  readonly #total: number;
  readonly #skips = new Map<SkipCode, { count: number; examples: string[] }>();

  constructor(total: number) {
    this.#total = total;
  }

  /** Notes that something at `where` was left out or changed. */
  skip(code: SkipCode, where: string, count = 1): void {
    const entry = this.#skips.get(code) ?? { count: 0, examples: [] };
    entry.count += count;
    if (entry.examples.length < EXAMPLES_MAX) entry.examples.push(clip(where));
    this.#skips.set(code, entry);
  }

  progress(): Progress {
    return { done: Math.min(this.done, this.#total), total: this.#total, added: this.added, present: this.present };
  }

  items(): Import["report"] {
    return [...this.#skips].map(([code, entry]) => ({ code, ...entry }));
  }
}

/** Nothing, counted. */
export function noCounts(): Counts {
  return { principals: 0, rooms: 0, members: 0, messages: 0, reactions: 0, edits: 0 };
}

/** Names from archives are shown short, and without what a store refuses. */
function clip(text: string): string {
  return text.toWellFormed().replaceAll("\0", "�").slice(0, 200).toWellFormed();
}
