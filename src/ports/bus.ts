// The bus: carries committed events, ephemeral events and signals from one node to every node with listeners.
//
// - At most once, never durable: the log is the truth, and a listener reads missed events from it.
// - Messages of one topic from one node arrive in the order they were published, unless lost.
// - `publish` never throws and never waits; what cannot be sent is lost.
// - A subscriber also receives messages published by its own node, the same as those of others.
import type { EphemeralEvent, Signal, StoredEvent } from "@/core/event/event.ts";

export type BusMessage =
  /** Consecutive events of one stream. Topic: `streamKey`. */
  | { kind: "events"; events: readonly StoredEvent[] }
  /** Topic: `streamKey` of the channel. */
  | { kind: "ephemeral"; event: EphemeralEvent }
  /** Topic: `CONTROL_TOPIC`. */
  | { kind: "signal"; signal: Signal };

/** Every node subscribes to it. */
export const CONTROL_TOPIC = "control";

export interface Bus {
  publish(topic: string, message: BusMessage): void;
  /**
   * Resolves once every node that may be current has received what was published until now. `undefined` where nothing is to wait for.
   */
  flush(): Promise<void> | undefined;
  /** Resolves once messages published from now on will be received. */
  subscribe(topic: string, listener: (message: BusMessage) => void): Promise<BusSubscription>;
  /** False while other nodes cannot be reached. Readiness shows it; the node serves on, and reads from the log. */
  readonly isHealthy: boolean;
  /** Whether everything that others published up to a second ago has arrived here; not so while the server is silent. */
  readonly isCurrent: boolean;
  /** Called when the bus becomes unavailable; may be called again before it recovers. */
  onLost: () => void;
  /** Called when the bus is available again after an outage: any message may have been missed. */
  onRecovered: () => void;
  close(): Promise<void>;
}

export interface BusSubscription {
  close(): void;
}
