// For Deno 2.9.6. Event-loop lag, measured by how late a timer fires.
//
// Fault: `monitorEventLoopDelay` of `node:perf_hooks`, which prom-client's gauge uses, misses most of what keeps the event
// loop busy:
//
//   const histogram = monitorEventLoopDelay({ resolution: 250 });
//   histogram.enable();
//   for (const until = performance.now() + 600; performance.now() < until;);
//   // `histogram.max` is a few microseconds at the next tick.
//
// Delete it when that histogram shows the 600 ms in every run: with some resolutions it sometimes does today, so no test checks
// it.

const SAMPLE_INTERVAL_MS = 250;

/** Samples until closed; `take` returns the worst since the last take, in seconds. */
export class LagSampler {
  #worstMs = 0;
  #dueAt = performance.now() + SAMPLE_INTERVAL_MS;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.#worstMs = Math.max(this.#worstMs, now - this.#dueAt);
      this.#dueAt = now + SAMPLE_INTERVAL_MS;
    }, SAMPLE_INTERVAL_MS);
  }

  takeMax(): number {
    const seconds = Math.max(0, this.#worstMs) / 1000;
    this.#worstMs = 0;
    return seconds;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
