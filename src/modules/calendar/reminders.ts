// The reminder job: sends what is due and promises the next, in one commit, so that nothing is sent twice or forgotten.
import { type Clock, iso } from "@/core/clock.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { addressed } from "./access.ts";
import { dueReminders, remindedOf, reminderEvent, reminderJob } from "./reminder.ts";
import { CalendarStore, type CalendarTables } from "./store.ts";

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  notify: Notify;
};

export class Reminders {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Sends the due reminders of one event. Safe to repeat: what was sent is written down with it. */
  async send(tenantId: string, eventId: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const events = new CalendarStore(tx.db);
      const event = await events.locked(tenantId, eventId);
      if (event === undefined) return;
      const now = this.#deps.clock.now();
      for (const due of dueReminders(event, now)) {
        for (const principalId of await addressed(new RoomStore(tx.db), event, remindedOf(event, due.occurrence))) {
          await tx.emit(reminderEvent(event, due, principalId));
          await this.#deps.notify({
            tenantId,
            principalIds: [principalId],
            kind: "reminder",
            roomId: event.row.room_id ?? undefined,
            resource: { type: "event", id: eventId },
            title: due.occurrence.patch.title ?? event.row.title,
            data: { startAt: iso(due.occurrence.startAt), minutesBefore: due.minutesBefore },
          });
        }
      }
      const reminded_at = iso(now);
      await events.update(tenantId, eventId, { reminded_at });
      const next = reminderJob({ ...event, row: { ...event.row, reminded_at } });
      if (next !== undefined) await tx.enqueue(next);
    });
  }
}
