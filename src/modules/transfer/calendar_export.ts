// Lines of events: each with its attendees, then what single occurrences of it have otherwise, and the answers to those.
import type { CalendarCarrier } from "@/modules/calendar/mod.ts";
import { partOf } from "./brought.ts";
import type { Telling } from "./section.ts";

/** The events of a room, or (null) personal ones; with `isShown` those that all of the room may see. */
export async function* calendarLines(
  carrier: CalendarCarrier,
  { tenantId, people, remember, counts }: Telling,
  roomId: string | null,
  isShown: boolean,
): AsyncGenerator<unknown[]> {
  for await (const { event, overrides, answers } of carrier.events(tenantId, roomId, isShown)) {
    yield await people([
      event.createdBy,
      ...event.attendees.flatMap(({ principalId }) => principalId ?? []),
      ...answers.map(({ principalId }) => principalId),
    ]);
    remember([partOf.event(roomId, event.id)]);
    counts.events++;
    const eventId = event.id;
    yield [
      { type: "event", ...event, parts: overrides.length + answers.length },
      ...overrides.map((override) => ({ type: "event_override", eventId, ...override })),
      ...answers.map((answer) => ({ type: "event_answer", eventId, ...answer })),
    ];
  }
}
