// Parses an iCalendar file into groups of events that belong together, in a worker or on this thread.
import { createYielder } from "@/core/caller.ts";
import { Fault, type FaultData } from "@/core/fault.ts";
import { type IcsFile, parseIcs } from "./file.ts";
import { createEventReader, type IcsEvent } from "./reader.ts";

/** `homeZone` is for times without a zone in a file without one. */
export type ParseRequest = { text: string; homeZone: string; problemsMax: number };
/**
 * Parsed events, and problems with the others. A batch is an array of groups as JSON, so that the main thread does not have to
 * deserialize all of them at once. Uids are unique in a batch.
 */
export type ParsedFile = { batches: string[]; problems: { uid: string | null; detail: string }[] };
export type ParseResult = ParsedFile | FaultData;

/** A series or a single event, with its single-occurrence edits. */
export type EventGroup = { master: IcsEvent; overrides: IcsEvent[] };

/** Writing a batch takes some milliseconds. */
const BATCH_MAX = 10;
const BATCH_MAX_CHARS = 10_000;

/** Parses a file on this thread, yielding to other work. */
export async function parseGroups({ text, homeZone, problemsMax }: ParseRequest): Promise<ParseResult> {
  const problems: ParsedFile["problems"] = [];
  const problem = (uid: string | null, detail: string): void => {
    if (problems.length < problemsMax) problems.push({ uid, detail });
  };
  try {
    const file = await parseIcs(text);
    if (file.oversized > 0) problem(null, `${file.oversized} events are too large`);
    return { batches: batchesOf(await groupsOf(file, homeZone, problem)), problems };
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    return thrown.data;
  }
}

/** Series with their single-occurrence edits; an edit without its series becomes a single event. */
async function groupsOf(
  file: IcsFile,
  homeZone: string,
  problem: (uid: string, detail: string) => void,
): Promise<EventGroup[]> {
  const parsed: IcsEvent[] = [];
  const readEvent = createEventReader(file, homeZone);
  const yieldIfDue = createYielder();
  for (const event of file.events) {
    await yieldIfDue();
    try {
      parsed.push(readEvent(event));
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown;
      problem(event.uid, thrown.message.replace(/^\/text: /, ""));
    }
  }
  const groups: EventGroup[] = [];
  for (const [uid, events] of Map.groupBy(parsed, (event) => event.uid)) {
    const masters = events.filter((event) => event.occurrence === null);
    const master = masters.at(-1);
    const overrides = events.filter((event) => event.occurrence !== null);
    if (masters.length > 1) problem(uid, "duplicate uid in the file; the last one was used");
    if (master?.isCancelled) problem(uid, "skipped: cancelled in the file");
    else if (master !== undefined) groups.push({ master, overrides });
    else {
      for (const edit of overrides.filter((one) => !one.isCancelled)) {
        const name = edit.occurrence?.local.replaceAll(/[-:]/g, "");
        groups.push({
          master: { ...edit, uid: `${uid.slice(0, 200)}_R${name}`, rrule: null, exDates: [] },
          overrides: [],
        });
      }
    }
  }
  return groups;
}

/** Groups in their order, in batches that are written together. */
function batchesOf(groups: readonly EventGroup[]): string[] {
  const batches: string[] = [];
  const batch = new Map<string, string>();
  let chars = 0;
  const close = (): void => {
    if (batch.size > 0) batches.push(`[${[...batch.values()].join()}]`);
    batch.clear();
    chars = 0;
  };
  for (const group of groups) {
    const json = JSON.stringify(group);
    if (batch.size === BATCH_MAX || chars + json.length > BATCH_MAX_CHARS || batch.has(group.master.uid)) close();
    batch.set(group.master.uid, json);
    chars += json.length;
  }
  close();
  return batches;
}
