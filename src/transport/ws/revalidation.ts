// Rights of those who are connected, looked at again now and then: what a lost signal would otherwise leave standing.
import { lacksToHear } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import { CLOSE, ORIGIN_REFUSED, UNSUBSCRIBE } from "./close.ts";
import { type Identity, mayAct } from "./connect.ts";
import type { Connection } from "./connection.ts";
import type { Subscriber } from "./subscribe.ts";

/** What the store is asked at the same time; the rest waits its turn. */
const RUNNING_MAX = 8;
const REASON = "no longer allowed";

const log = logOf("ws");

export class Revalidation {
  readonly #subscriber: Subscriber;
  readonly #revalidate: Identity["revalidate"];
  readonly #waiting = new Set<Connection>();
  #running = 0;

  constructor(subscriber: Subscriber, revalidate: Identity["revalidate"]) {
    this.#subscriber = subscriber;
    this.#revalidate = revalidate;
  }

  add(connection: Connection): void {
    this.#waiting.add(connection);
    if (this.#running < RUNNING_MAX) void this.#work();
  }

  async #work(): Promise<void> {
    this.#running++;
    for (const connection of this.#waiting) {
      this.#waiting.delete(connection);
      try {
        await this.#look(connection);
      } catch (thrown) {
        // The store is away or failing: rights stay as they are until it can be asked.
        log.warn("rights could not be looked at again", { client: connection.client, cause: String(thrown) });
      }
    }
    this.#running--;
  }

  async #look(connection: Connection): Promise<void> {
    const { actor } = connection;
    if (actor === undefined || connection.isClosed) return;
    if (!mayAct(connection, actor)) return connection.close(ORIGIN_REFUSED);
    if (this.#revalidate !== undefined) {
      const current = await this.#revalidate(actor);
      // A newer token came meanwhile, or another look ended first: which of the two read later cannot be told.
      if (connection.actor !== actor) return this.add(connection);
      if (current === undefined) return connection.close(CLOSE.forced);
      connection.actor = current;
    }
    for (const subscription of [...connection.subscriptions.values()]) {
      if (connection.isClosed) return;
      if (subscription.isServerSide) {
        if (lacksToHear(connection.actor ?? actor) === undefined) subscription.unmute();
        else subscription.mute();
        continue;
      }
      const { kind, id } = this.#subscriber.kindOf(subscription.feed.channel);
      try {
        await kind.authorize(connection.actor ?? actor, id, "subscribe");
      } catch (thrown) {
        const fault = Fault.from(thrown);
        if (fault.kind.retryable) throw thrown;
        subscription.end(UNSUBSCRIBE.ended, REASON);
      }
    }
  }
}
