// The clock of a node among others: all nodes use the time of their database, so that they agree on what is due, which lease has
// run out and which token has expired, whatever their own clocks say.
import type { Clock, TimeSource } from "./clock.ts";
import { Fault } from "../fault.ts";
import { logOf } from "../log.ts";

/** Rare enough to cost nothing, frequent enough for a host that was suspended. */
const SYNC_INTERVAL_MS = 5000;
/** The first reading includes the time to connect; later ones are exact. */
const INITIAL_READINGS = 3;
/** Hosts whose clocks are synchronized differ by less. */
const SKEW_WARN_MS = 1000;

const log = logOf("clock");

/**
 * Between readings it advances with the monotonic clock, so setting the host's clock changes nothing. It continues while the
 * database is unavailable.
 *
 * Tokens are checked against it too: a token must not be valid on one node and expired on the next. A revocation is stored until
 * the token's `exp` by this clock, so a node whose own clock lags would accept a revoked token.
 */
export class DatabaseClock implements Clock {
  readonly #timeSource: TimeSource;
  /** The time when `monotonicMs` was 0. */
  #origin: number;
  #isSkewed = false;
  #isReading = false;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(source: TimeSource) {
    this.#timeSource = source;
    this.#origin = source.clock.now() - source.monotonicMs();
  }

  now(): number {
    return Math.floor(this.#origin + this.#timeSource.monotonicMs());
  }

  /** How far the host's clock is ahead of this one. */
  get offsetMs(): number {
    return this.#timeSource.clock.now() - this.now();
  }

  /** Follows the time that `read` returns, until `stop`. Throws when the first readings fail. */
  async sync(read: () => Promise<number>, everyMs = SYNC_INTERVAL_MS): Promise<void> {
    for (let reading = 0; reading < INITIAL_READINGS; reading++) await this.#read(read);
    this.#timer = setInterval(() => void this.#resync(read), everyMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #resync(read: () => Promise<number>): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      await this.#read(read);
    } catch (cause) {
      log.debug("reading the database clock failed", { code: Fault.from(cause).code });
    } finally {
      this.#isReading = false;
    }
  }

  async #read(read: () => Promise<number>): Promise<void> {
    const startedAt = this.#timeSource.monotonicMs();
    const time = await read();
    const endedAt = this.#timeSource.monotonicMs();
    // It was read between the two. An origin that agrees with that stays, so that the clock does not jitter with the network; any
    // other moves as little as it must, so that a late answer never makes it less exact.
    const [least, most] = [time - endedAt, time - startedAt];
    this.#origin = Math.min(Math.max(this.#origin, least), most);
    const isSkewed = Math.abs(this.offsetMs) > SKEW_WARN_MS;
    if (isSkewed && !this.#isSkewed) {
      log.warn("this host's clock differs from the database clock; the database clock is used", {
        aheadMs: Math.round(this.offsetMs),
      });
    }
    this.#isSkewed = isSkewed;
  }
}
