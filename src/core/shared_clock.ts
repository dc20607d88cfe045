// The clock of a node among others: all tell the time of their one database, so that they agree on what is due, on whose
// lease has run out and on which token has expired, whatever their own clocks say or are set to.
import type { Clock, Machine } from "./clock.ts";
import { Fault } from "./fault.ts";
import { logOf } from "./log.ts";

/** How often the shared clock is looked at. Seldom enough to cost nothing, often enough for a machine that slept. */
const EVERY_MS = 5000;
/** The first reading also waits for a connection; those after it are exact. */
const FIRST_READINGS = 3;
/** Machines that keep time differ by less. */
const FAR_MS = 1000;

const log = logOf("clock");

/**
 * Counts on from its last reading by what nobody sets, so a machine whose clock is set moves nothing here. A database out
 * of reach leaves it as it is.
 *
 * Tokens are judged by it too, not by the machine's clock: a token must not be good on one node and bad on the next, and a
 * revocation is kept until the token's `exp` by this clock, so a node that judged `exp` by a clock behind it would let the
 * token in again.
 */
export class SharedClock implements Clock {
  readonly #machine: Machine;
  /** The time when `elapsed` was nothing. */
  #origin: number;
  #isFar = false;
  #isReading = false;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(machine: Machine) {
    this.#machine = machine;
    this.#origin = machine.clock.now() - machine.elapsed();
  }

  now(): number {
    return Math.floor(this.#origin + this.#machine.elapsed());
  }

  /** How far the machine's clock is ahead of this one. */
  get offsetMs(): number {
    return this.#machine.clock.now() - this.now();
  }

  /** Tells the time that `ask` tells, from now on until `stop`. Throws what it throws at first. */
  async follow(ask: () => Promise<number>, everyMs = EVERY_MS): Promise<void> {
    for (let reading = 0; reading < FIRST_READINGS; reading++) await this.#read(ask);
    this.#timer = setInterval(() => void this.#readAgain(ask), everyMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #readAgain(ask: () => Promise<number>): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      await this.#read(ask);
    } catch (cause) {
      log.debug("the shared clock could not be read", { code: Fault.from(cause).code });
    } finally {
      this.#isReading = false;
    }
  }

  async #read(ask: () => Promise<number>): Promise<void> {
    const askedAt = this.#machine.elapsed();
    const time = await ask();
    const answeredAt = this.#machine.elapsed();
    // It was read somewhere in between. What agrees with that stays, so that time does not tremble with the network.
    const [least, most] = [time - answeredAt, time - askedAt];
    if (this.#origin < least || this.#origin > most) this.#origin = (least + most) / 2;
    const isFar = Math.abs(this.offsetMs) > FAR_MS;
    if (isFar && !this.#isFar) {
      log.warning("this machine's clock is not the database's, which counts", { aheadMs: Math.round(this.offsetMs) });
    }
    this.#isFar = isFar;
  }
}
