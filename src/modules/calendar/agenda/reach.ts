// Which events of an agenda are worth reading: most series that go on have nothing on a given day.
import { isSurelyIdle } from "../expansion.ts";
import type { AgendaStore, Outline } from "./store.ts";

/** Ids of those events that have, or may have, something from `from` to before `to`. */
export async function reaching(
  agenda: AgendaStore,
  tenantId: string,
  outlines: readonly Outline[],
  [from, to]: readonly [from: number, to: number],
  rest?: () => Promise<unknown>,
): Promise<string[]> {
  const idle = new Set<string>();
  for (const outline of outlines) {
    if (isSurelyIdle(seriesOf(outline), from - outline.duration_seconds * 1000, to)) idle.add(outline.id);
    await rest?.();
  }
  // Where the series has nothing an edit may have put something.
  for (const id of await agenda.edited(tenantId, [...idle])) idle.delete(id);
  return outlines.flatMap(({ id }) => idle.has(id) ? [] : [id]);
}

function seriesOf({ start_local, time_zone, rrule, last_local }: Outline) {
  return { startLocal: start_local, timeZone: time_zone, rrule, lastLocal: last_local };
}
