// Revalidates the rights of connections periodically, in case a signal of a change was lost.
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import { DISCONNECT, ORIGIN_NOT_ALLOWED } from "../shared/disconnect.ts";
import { UNSUBSCRIBE } from "./protocol.ts";
import { hasAllowedOrigin, type Identity } from "./connect_handler.ts";
import type { Connection } from "./connection.ts";
import type { SubscribeHandler } from "./subscribe_handler.ts";

/** Connections revalidated concurrently. */
const RUNNING_MAX = 8;
const ACCESS_ENDED_REASON = "no longer allowed";

const log = logOf("ws");

export class RevalidationQueue {
  readonly #subscribeHandler: SubscribeHandler;
  readonly #revalidate: Identity["revalidate"];
  readonly #waiting = new Set<Connection>();
  #running = 0;

  constructor(subscribeHandler: SubscribeHandler, revalidate: Identity["revalidate"]) {
    this.#subscribeHandler = subscribeHandler;
    this.#revalidate = revalidate;
  }

  add(connection: Connection): void {
    this.#waiting.add(connection);
    if (this.#running < RUNNING_MAX) void this.#processQueue();
  }

  async #processQueue(): Promise<void> {
    this.#running++;
    for (const connection of this.#waiting) {
      this.#waiting.delete(connection);
      try {
        await this.#revalidateConnection(connection);
      } catch (thrown) {
        // The store is unavailable: rights stay unchanged until it can be read.
        log.warn("revalidation failed", { client: connection.client, cause: String(thrown) });
      }
    }
    this.#running--;
  }

  async #revalidateConnection(connection: Connection): Promise<void> {
    const { actor } = connection;
    if (actor === undefined || connection.isClosed) return;
    if (!hasAllowedOrigin(connection, actor)) return connection.close(ORIGIN_NOT_ALLOWED);
    if (this.#revalidate !== undefined) {
      const current = await this.#revalidate(actor);
      // A refresh or another revalidation ended meanwhile, and it is unknown which of the two read later.
      if (connection.actor !== actor) return this.add(connection);
      if (current === undefined) return connection.close(DISCONNECT.forced);
      connection.actor = current;
    }
    for (const subscription of [...connection.subscriptions.values()]) {
      if (connection.isClosed) return;
      if (subscription.isServerSide) continue;
      const { kind, id } = this.#subscribeHandler.kindOf(subscription.fanout.channel);
      try {
        await kind.authorize(connection.actor ?? actor, id, "subscribe");
      } catch (thrown) {
        const fault = Fault.from(thrown);
        if (fault.spec.retryable) throw thrown;
        subscription.end(UNSUBSCRIBE.ended, ACCESS_ENDED_REASON);
      }
    }
  }
}
