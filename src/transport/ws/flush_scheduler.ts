// Flushes sockets that have data to send shard by shard: immediately when idle, paced under load.
import { clearImmediate, setImmediate } from "node:timers";
import { logOf } from "@/core/log.ts";
import { FrameCache } from "./outbox.ts";

/** A socket. `flush` sends its outbox as one frame and returns the number of broadcast messages. */
export type Flushable = { readonly shard: number; flush(frames: FrameCache): number };

/** A flush that takes longer yields to the event loop before the next shard, so that first sockets need not wait for the last. */
const SLICE_MS = 0.1;
/** The longest pause between two flushes; bounds the latency under load. */
const PAUSE_MAX_MS = 25;
/** More messages per socket in one flush mean that messages arrive faster than they are sent. */
const LOADED_PUSHES = 2;
/** The resolution of timers; a shorter pause is skipped. */
const TIMER_MS = 1;

const log = logOf("ws");

/**
 * When a flush blocked the event loop for T ms and sent several messages to each socket, the next one waits about T ms, so
 * that frames grow under load. A frame costs about the same whatever its size, so fewer, larger frames make fan-out cheap.
 * While messages arrive slower than they can be flushed, there is no wait.
 */
export class FlushScheduler {
  readonly #shards: Flushable[][];
  readonly #frames = new FrameCache();
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

  /** Schedules a member that has data to send; call once per flush. */
  schedule(member: Flushable): void {
    this.#shards[member.shard]?.push(member);
    if (!this.#isScheduled) this.#scheduleFlush();
  }

  /** Flushes now and stops. */
  close(): void {
    this.#flush(0, Infinity);
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  #scheduleFlush(): void {
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
        this.#countSent(pushes);
        this.#immediate = setImmediate(() => this.#flush(index + 1, sliceMs));
        return;
      }
    }
    this.#countSent(pushes);
    if (sliceMs === Infinity) return;
    // The runtime writes to the sockets after this tick, so the cost of the flush is known only then.
    if (this.#isLoaded) this.#immediate = setImmediate(() => this.#finish());
    else this.#finish();
  }

  /** Whether messages arrive faster than they are sent. */
  get #isLoaded(): boolean {
    return this.#pushCount > this.#frameCount * LOADED_PUSHES;
  }

  #countSent(pushes: number): void {
    this.#pushCount += pushes;
    this.#onSent(pushes);
  }

  #finish(): void {
    const now = performance.now();
    this.#notBefore = this.#isLoaded ? now + Math.min(PAUSE_MAX_MS, now - this.#startedAt) : 0;
    this.#frames.clear();
    this.#isScheduled = false;
    if (this.#shards.some((members) => members.length > 0)) this.#scheduleFlush();
  }
}

/** A socket that cannot be written to must not affect the others. */
function flush(member: Flushable, frames: FrameCache): number {
  try {
    return member.flush(frames);
  } catch (thrown) {
    log.error("writing to a socket failed", { cause: String(thrown) });
    return 0;
  }
}
