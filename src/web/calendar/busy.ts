// Who is busy at the time of an event that is being planned.
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { post } from "../core/api.ts";

type Busy = { busy: { principalId: string; start: string; end: string }[] };

const DELAY_MS = 250;

/** Those of the principals that are busy at the time which the form around `element` says. */
export function useBusy(element: RefObject<HTMLElement | null>, principalIds: readonly string[]): ReadonlySet<string> {
  const [busy, setBusy] = useState<ReadonlySet<string>>(new Set());
  const ids = principalIds.join();
  useEffect(() => {
    const form = element.current?.closest("form");
    if (form === null || form === undefined || ids === "") return setBusy(new Set());
    let timer: ReturnType<typeof setTimeout> | undefined;
    let reads = 0;
    async function read(fields: FormData): Promise<void> {
      const time = timeOf(fields);
      const current = ++reads;
      if (time === undefined) return setBusy(new Set());
      const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const { busy } = await post<Busy>("v1/collaboration/calendar/freebusy", {
        principalIds: ids.split(","),
        timeZone,
        ...time,
      });
      if (current === reads) setBusy(new Set(busy.map(({ principalId }) => principalId)));
    }
    const onChange = (): void => {
      clearTimeout(timer);
      // Only a hint: the event can be created without it.
      timer = setTimeout(() => void read(new FormData(form)).catch(() => setBusy(new Set())), DELAY_MS);
    };
    onChange();
    form.addEventListener("input", onChange);
    return () => {
      clearTimeout(timer);
      reads++;
      form.removeEventListener("input", onChange);
    };
  }, [ids]);
  return busy;
}

function timeOf(fields: FormData): { from: string; to: string } | undefined {
  const [from = NaN, to = NaN] =
    (fields.has("isAllDay")
      ? [`${fields.get("date")}T00:00`, `${fields.get("lastDate")}T24:00`]
      : [String(fields.get("start")), String(fields.get("end"))]).map(Date.parse);
  return to > from ? { from: new Date(from).toISOString(), to: new Date(to).toISOString() } : undefined;
}
