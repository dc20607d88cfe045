// The sharded pool: sockets with something to send are flushed shard by shard, at once when idle and paced under load.
import { clearImmediate, setImmediate } from "node:timers";
import { logOf } from "@/core/log.ts";
import { Frames } from "./outbox.ts";

/** A socket of the pool. `flush` sends what waits as one frame and returns how many broadcast messages that were. */
export type Member = { readonly shard: number; flush(frames: Frames): number };

/** A flush that takes longer lets the event loop write and read before the next shard: the first socket need not wait for the last. */
const SLICE_MS = 0.1;
/** The longest pause between two flushes, so that load costs latency only up to here. */
const PAUSE_MAX_MS = 25;
/** More messages to a socket in one flush than this mean that they come faster than they leave. */
const LOADED_PUSHES = 2;
/** Timers are no finer than this; a shorter pause is none. */
const TIMER_MS = 1;

const log = logOf("ws");

/**
 * Flushes its members. When a flush kept the event loop for T ms and carried several messages to each socket, the next waits
 * about T ms, so that input gathers and frames grow under load. A frame costs about the same whatever it holds: fewer,
 * larger ones are what makes fan-out cheap. While messages come slower than they can be flushed, nothing ever waits.
 */
export class Pool {
  readonly #shards: Member[][];
  readonly #frames = new Frames();
  readonly #onSent: (pushes: number) => void;
  #nextShard = 0;
  #isScheduled = false;
  #startedAt = 0;
  #frameCount = 0;
  #pushCount = 0;
  #notBefore = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #immediate: ReturnType<typeof setImmediate> | undefined;

  constructor(shards: number, onSent: (pushes: number) => void) {
    this.#shards = Array.from({ length: shards }, () => []);
    this.#onSent = onSent;
  }

  /** The shard of a new member. */
  assign(): number {
    return this.#nextShard++ % this.#shards.length;
  }

  /** Says that a member has something to send; once per flush. */
  touch(member: Member): void {
    this.#shards[member.shard]?.push(member);
    if (!this.#isScheduled) this.#schedule();
  }

  /** Sends what waits, now, and stops. */
  close(): void {
    this.#flush(0, Infinity);
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  #schedule(): void {
    this.#isScheduled = true;
    const waitMs = this.#notBefore - performance.now();
    if (waitMs < TIMER_MS) this.#immediate = setImmediate(() => this.#begin());
    else this.#timer = setTimeout(() => this.#begin(), waitMs);
  }

  #begin(): void {
    this.#startedAt = performance.now();
    this.#frameCount = 0;
    this.#pushCount = 0;
    this.#flush(0, SLICE_MS);
  }

  #flush(from: number, sliceMs: number): void {
    const startedAt = performance.now();
    let pushes = 0;
    for (let index = from; index < this.#shards.length; index++) {
      const members = this.#shards[index] ?? [];
      if (members.length === 0) continue;
      this.#shards[index] = [];
      for (const member of members) pushes += flush(member, this.#frames);
      this.#frameCount += members.length;
      if (index + 1 < this.#shards.length && performance.now() - startedAt > sliceMs) {
        this.#sent(pushes);
        this.#immediate = setImmediate(() => this.#flush(index + 1, sliceMs));
        return;
      }
    }
    this.#sent(pushes);
    // The runtime writes to the sockets after this turn, so what the flush cost shows only then.
    if (sliceMs !== Infinity) this.#immediate = setImmediate(() => this.#finish());
  }

  #sent(pushes: number): void {
    this.#pushCount += pushes;
    this.#onSent(pushes);
  }

  #finish(): void {
    const now = performance.now();
    const isLoaded = this.#pushCount > this.#frameCount * LOADED_PUSHES;
    this.#notBefore = isLoaded ? now + Math.min(PAUSE_MAX_MS, now - this.#startedAt) : 0;
    this.#frames.forget();
    this.#isScheduled = false;
    if (this.#shards.some((members) => members.length > 0)) this.#schedule();
  }
}

/** One socket that cannot be written to is not the others' problem. */
function flush(member: Member, frames: Frames): number {
  try {
    return member.flush(frames);
  } catch (thrown) {
    log.error("a socket could not be written to", { cause: String(thrown) });
    return 0;
  }
}
