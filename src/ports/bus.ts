// The bus: carries what was committed from the node that committed it to every node with listeners.
//
// - At most once, never durable: the log is the truth, and a listener repairs what it missed from there.
// - Messages of one topic from one node arrive in the order they were published, unless lost.
// - `publish` never throws and never waits; what cannot be sent is lost.
// - A subscriber gets messages published by its own node as well, exactly as those of others.
import type { EphemeralEvent, StoredEvent } from "@/core/event.ts";
import type { Signal } from "./store.ts";

export type BusMessage =
  /** Consecutive events of one stream. Topic: `streamKey`. */
  | { kind: "events"; events: readonly StoredEvent[] }
  /** Topic: `streamKey` of the channel. */
  | { kind: "ephemeral"; event: EphemeralEvent }
  /** Topic: `CONTROL_TOPIC`. */
  | { kind: "signal"; signal: Signal };

/** Every node listens here. */
export const CONTROL_TOPIC = "control";

export interface Bus {
  publish(topic: string, message: BusMessage): void;
  /** Resolves once messages published from now on are heard. */
  subscribe(topic: string, listener: (message: BusMessage) => void): Promise<BusSubscription>;
  /** False while other nodes cannot be reached; readiness shows it. */
  readonly isHealthy: boolean;
  /** Called when the bus is reached again after a break: everything may have been missed. */
  onRecovered: () => void;
  close(): Promise<void>;
}

export interface BusSubscription {
  close(): void;
}
