// What an import says about itself: how far it is, what it added, what it left out and why.
import { Metadata } from "@/modules/room/mod.ts";
import { Counts, EXAMPLES_MAX, type Failure, type Import, type Progress, type SkipCode } from "./schema.ts";
import type { ImportRow } from "./store.ts";

/** What reading an archive finds each time; of everything else only the adding tells, once. */
const FOUND_AGAIN: ReadonlySet<SkipCode> = new Set([
  "invalid_json",
  "invalid_record",
  "invalid_text",
  "line_too_long",
  "unknown_type",
  "unknown_entry",
  "unknown_room",
  "unknown_document",
  "unknown_task",
  "unknown_event",
  "unknown_meeting",
  "room_deleted",
  "too_many_members",
  "too_many_revisions",
  "too_many_comments",
  "too_many_tasks",
  "too_many_relations",
  "prefix_taken",
  "too_many_exceptions",
  "too_many_answers",
  "uid_taken",
  "too_many_segments",
  "text_split",
  "empty",
  "file_not_copied",
  "archive_truncated",
  "document_damaged",
  "document_too_large",
  "file_damaged",
  "file_refused",
]);

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

/** A report as it stood at some point. */
export type Standing = Pick<Progress, "added" | "present"> & { items: Import["report"] };

export class Report {
  readonly added: Counts = noCounts();
  present = 0;
  done = 0;
  readonly #total: number;
  /** Messages that earlier runs of this import added, and that this one will find present. */
  readonly #addedBefore: number;
  #skips = new Map<SkipCode, { count: number; examples: string[] }>();

  /** Goes on from what an earlier run of the import left in its row. */
  constructor({ size, progress_json, report_json }: Pick<ImportRow, "size" | "progress_json" | "report_json">) {
    const { added }: Progress = JSON.parse(progress_json);
    const items: Import["report"] = JSON.parse(report_json);
    this.#total = Number(size ?? 0);
    this.#addedBefore = added.messages;
    this.restore({
      added: { ...noCounts(), ...added },
      present: 0,
      items: items.filter(({ code }) => !FOUND_AGAIN.has(code)),
    });
  }

  /** Notes that something at `where` was left out or changed. */
  skip(code: SkipCode, where: string, count = 1): void {
    const entry = this.#skips.get(code) ?? { count: 0, examples: [] };
    entry.count += count;
    if (entry.examples.length < EXAMPLES_MAX) entry.examples.push(clip(where));
    this.#skips.set(code, entry);
  }

  /** The text where it is not too long, else its beginning; in code points. */
  fit(text: string, max: number, where: string): string {
    // No text has more code points than UTF-16 units.
    if (text.length <= max) return text;
    const points = [...text];
    if (points.length <= max) return text;
    this.skip("shortened", where);
    return points.slice(0, max).join("");
  }

  /** The metadata where it is not too large, else none. */
  fitMetadata<Given extends Record<string, unknown>>(metadata: Given, where: string): Given | Record<string, never> {
    if (Metadata.safeParse(metadata).success) return metadata;
    this.skip("metadata_too_large", where);
    return {};
  }

  progress(): Progress {
    return {
      done: Math.min(this.done, this.#total),
      total: this.#total,
      added: { ...this.added },
      present: Math.max(0, this.present - this.#addedBefore),
    };
  }

  items(): Import["report"] {
    return [...this.#skips].map(([code, { count, examples }]) => ({ code, count, examples: [...examples] }));
  }

  standing(): Standing {
    return { added: { ...this.added }, present: this.present, items: this.items() };
  }

  restore({ added, present, items }: Standing): void {
    Object.assign(this.added, added);
    this.present = present;
    this.#skips = new Map(items.map(({ code, count, examples }) => [code, { count, examples: [...examples] }]));
  }
}

/** Nothing, counted. */
export function noCounts(): Counts {
  return Object.fromEntries(Object.keys(Counts.shape).map((name) => [name, 0])) as Counts; // name by name what it is
}

/** Names from archives are shown short, and without what a store refuses. */
function clip(text: string): string {
  return text.toWellFormed().replaceAll("\0", "�").slice(0, 200).toWellFormed();
}
