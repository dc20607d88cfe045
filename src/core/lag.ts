// Event-loop lag, measured by how late a timer fires; prom-client's own gauge reads nothing sensible on Deno.

const EVERY_MS = 250;

/** Samples until closed; `take` returns the worst since the last take, in seconds. */
export class LagSampler {
  #worstMs = 0;
  #dueAt = performance.now() + EVERY_MS;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.#worstMs = Math.max(this.#worstMs, now - this.#dueAt);
      this.#dueAt = now + EVERY_MS;
    }, EVERY_MS);
  }

  take(): number {
    const seconds = Math.max(0, this.#worstMs) / 1000;
    this.#worstMs = 0;
    return seconds;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
