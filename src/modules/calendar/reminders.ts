// The reminder job: sends what is due and promises the next, in one commit, so that nothing is sent twice or forgotten.
import { type Clock, iso } from "@/core/clock.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { CalendarAccess } from "./access.ts";
import { type Due, dueReminders, remindedOf, reminderEvent, reminderJob } from "./reminder.ts";
import { CalendarStore, type CalendarTables, type WholeEvent } from "./store.ts";

/** Tells somebody besides their stream; takes part in the running transaction. */
export type NotifyReminder = (reminder: {
  tenantId: string;
  principalId: string;
  roomId: string | null;
  eventId: string;
  title: string;
  startAt: string;
  minutesBefore: number;
}) => Promise<void>;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  access: CalendarAccess;
  identity: Pick<IdentityService, "enabled" | "subject">;
  notify?: NotifyReminder | undefined;
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
        for (const principalId of await this.#recipients(event, due)) {
          await tx.emit(reminderEvent(event, due, principalId));
          await this.#deps.notify?.({
            tenantId,
            principalId,
            roomId: event.row.room_id,
            eventId,
            title: due.occurrence.patch.title ?? event.row.title,
            startAt: iso(due.occurrence.startAt),
            minutesBefore: due.minutesBefore,
          });
        }
      }
      const reminded_at = iso(now);
      await events.update(tenantId, eventId, { reminded_at });
      const next = reminderJob({ ...event, row: { ...event.row, reminded_at } });
      if (next !== undefined) await tx.enqueue(next);
    });
  }

  /** Who is to be reminded and may know of the event now. */
  async #recipients(event: WholeEvent, { occurrence }: Due): Promise<string[]> {
    const { access, identity } = this.#deps;
    const { tenant_id } = event.row;
    const enabled = await identity.enabled(tenant_id, remindedOf(event, occurrence));
    const recipients: string[] = [];
    for (const id of enabled.keys()) {
      if (await access.level(await identity.subject(tenant_id, id), event) === "full") recipients.push(id);
    }
    return recipients;
  }
}
