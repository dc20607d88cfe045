// What parts of the reader, and of the writer, of our own exports share.
import type { z } from "@zod/zod";
import type { Part } from "./brought.ts";
import type { OpenRoom } from "./importer.ts";
import type { Report } from "./report.ts";
import type { Counts } from "./schema.ts";

/** The room whose lines come, by the id it has there; `open` is undefined when it was deleted here. */
export type Here = { sourceId: string; open: OpenRoom | undefined };

/** A part of the reader that takes lines of some types. */
export interface Section {
  readonly types: readonly string[];
  take(type: string, value: unknown, where: string, here: Here | undefined): Promise<void>;
  /** Puts what waits. */
  flush(): Promise<void>;
}

/** What writers of lines share: who is told of before they are named, and what is counted. */
export type Telling = {
  tenantId: string;
  /** Lines of those not told of yet. */
  people: (ids: readonly string[]) => Promise<unknown[]>;
  /** Parts that are told of do not come in again once they are gone. */
  remember: (parts: readonly Part[]) => void;
  counts: Counts;
};

/** What a line says by its schema; `undefined`, and a note in the report, when it does not fit. */
export function readAs<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  where: string,
  report: Report,
): z.output<Schema> | undefined {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  report.skip("invalid_record", `${where}: ${issue?.path.join("/") ?? ""} ${issue?.message ?? ""}`);
  return undefined;
}
