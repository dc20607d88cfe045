// Rights of those who are connected, looked at again now and then: what a lost signal would otherwise leave standing.
import type { Actor } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import { CLOSE, UNSUBSCRIBE } from "./close.ts";
import type { Connection } from "./connection.ts";
import type { Subscriber } from "./subscribe.ts";

const RUNNING_MAX = 8;
const REASON = "no longer allowed";

const log = logOf("ws");

export class Revalidation {
  readonly #subscriber: Subscriber;
  readonly #revalidate: ((actor: Actor) => Promise<boolean>) | undefined;
  #running = 0;

  constructor(subscriber: Subscriber, revalidate: ((actor: Actor) => Promise<boolean>) | undefined) {
    this.#subscriber = subscriber;
    this.#revalidate = revalidate;
  }

  /** Starts on a connection; false when as many as may are being looked at already. */
  start(connection: Connection): boolean {
    if (this.#running >= RUNNING_MAX) return false;
    this.#running++;
    this.#look(connection).catch((thrown) => {
      // The store is away or failing: rights stay as they are until it can be asked.
      log.warn("rights could not be looked at again", { client: connection.client, cause: String(thrown) });
    }).finally(() => this.#running--);
    return true;
  }

  async #look(connection: Connection): Promise<void> {
    const { actor } = connection;
    if (actor === undefined) return;
    if (await this.#revalidate?.(actor) === false) return connection.close(CLOSE.forced);
    for (const subscription of [...connection.subscriptions.values()]) {
      if (connection.isClosed) return;
      if (subscription.isServerSide || !subscription.isLive) continue;
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
