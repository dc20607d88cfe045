// Joins and leaves on a channel, for guests of the tenant: they receive those of principals that they may see.
import type { Actor } from "@/core/actor.ts";
import type { PresenceVisibility } from "@/core/event/channel.ts";
import { logOf } from "@/core/log.ts";

/** Pushes that may wait for their check; more are dropped, as others are while the bus is down. */
const WAITING_MAX = 1000;

const log = logOf("ws");

/** A guest's subscription. */
type Guest<Push> = { readonly connection: { readonly actor: Actor | undefined }; deliver(push: Push): void };

/** Checks one push at a time, for all guests at once, so that a leave never overtakes its join. */
export class GuestPresence<Push> {
  readonly #visibility: PresenceVisibility;
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor(visibility: PresenceVisibility) {
    this.#visibility = visibility;
  }

  deliver(push: Push, principalId: string, guests: readonly Guest<Push>[]): void {
    if (this.#waiting >= WAITING_MAX) return;
    this.#waiting++;
    this.#last = this.#last.then(() => this.#check(push, principalId, guests)).finally(() => this.#waiting--);
  }

  async #check(push: Push, principalId: string, guests: readonly Guest<Push>[]): Promise<void> {
    try {
      const actors = guests.flatMap(({ connection }) => connection.actor ?? []);
      const viewers = await this.#visibility.filterViewers(actors, principalId);
      for (const guest of guests) {
        if (viewers.has(guest.connection.actor?.principalId ?? "")) guest.deliver(push);
      }
    } catch (thrown) {
      log.warn("the presence of a principal was not shown to guests", { cause: String(thrown) });
    }
  }
}
