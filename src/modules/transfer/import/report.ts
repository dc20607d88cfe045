// What an import says about itself: how far it is, what it added, what it left out and why.
import type { z } from "@zod/zod";
import type { AnyArchiveSection, ImportReport } from "@/core/archive/section.ts";
import { Elements } from "@/core/interaction/element.ts";
import { INPUT_ERRORS } from "@/core/input/input_error.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { truncateCodePoints } from "@/core/text/text.ts";
import { Metadata } from "@/modules/room/mod.ts";
import { clip } from "../fault.ts";
import { CORE_SKIP_CODES, type Counts, EXAMPLES_MAX, type Import, type Progress, zeroCounts } from "../schema.ts";
import type { ImportRow } from "../store.ts";

/** A report as it stood at some point. */
type ReportSnapshot = Pick<Progress, "added" | "present"> & { items: Import["report"] };

export class Report implements ImportReport {
  readonly added: Counts = zeroCounts();
  present = 0;
  done = 0;
  readonly #total: number;
  /** Messages that earlier runs of this import added, and that this one will find present. */
  readonly #addedBefore: number;
  #skips = new Map<string, { count: number; examples: string[] }>();

  /** Continues what an earlier run of the import left in its row. */
  constructor(
    { size, progress_json, report_json }: Pick<ImportRow, "size" | "progress_json" | "report_json">,
    sections: readonly AnyArchiveSection[] = [],
  ) {
    const { added }: Progress = JSON.parse(progress_json);
    const skipCodes = { ...CORE_SKIP_CODES, ...Object.assign({}, ...sections.map((section) => section.skipCodes)) };
    const items: Import["report"] = JSON.parse(report_json);
    this.#total = Number(size ?? 0);
    this.#addedBefore = added.messages;
    this.restore({
      added: { ...zeroCounts(sections), ...added },
      present: 0,
      items: items.filter(({ code }) => skipCodes[code] !== "each_run"),
    });
  }

  /** Reports that something at `where` was left out or changed. */
  skip(code: string, where: string, count = 1): void {
    const entry = this.#skips.get(code) ?? { count: 0, examples: [] };
    entry.count += count;
    if (entry.examples.length < EXAMPLES_MAX) entry.examples.push(clip(where));
    this.#skips.set(code, entry);
  }

  count(name: string, items: number): void {
    this.added[name] = (this.added[name] ?? 0) + items;
  }

  /** The text where it is not too long, else its beginning; in code points. */
  truncate(text: string, max: number, where: string): string {
    const start = truncateCodePoints(text, max);
    if (start.length < text.length) this.skip("truncated", where);
    return start;
  }

  /** The name, tidy and no longer than `max`. */
  truncateName(name: string, max: number, where: string): string {
    return this.truncate(sanitizeName(name), max, where);
  }

  /** The metadata where it is not too large, else none. */
  limitMetadata<Given extends Record<string, unknown>>(metadata: Given, where: string): Given | Record<string, never> {
    if (Metadata.safeParse(metadata).success) return metadata;
    this.skip("metadata_too_large", where);
    return {};
  }

  /** The elements of a message as stored; null where it has none, or none that can be. */
  elementsJson(elements: unknown, where: string): string | null {
    if (elements === undefined) return null;
    const parsed = Elements.safeParse(elements);
    if (!parsed.success) this.skip("elements_invalid", where);
    return parsed.success ? JSON.stringify(parsed.data) : null;
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

  snapshot(): ReportSnapshot {
    return { added: { ...this.added }, present: this.present, items: this.items() };
  }

  restore({ added, present, items }: ReportSnapshot): void {
    Object.assign(this.added, added);
    this.present = present;
    this.#skips = new Map(items.map(({ code, count, examples }) => [code, { count, examples: [...examples] }]));
  }
}

/** The record, if it fits its schema; else it is reported. */
export function parseRecord<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  where: string,
  report: Report,
): z.output<Schema> | undefined {
  const parsed = schema.safeParse(value, INPUT_ERRORS);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  report.skip("invalid_record", `${where}: ${issue?.path.join("/") ?? ""} ${issue?.message ?? ""}`);
  return undefined;
}
