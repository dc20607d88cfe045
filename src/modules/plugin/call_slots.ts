// Limits how many calls of a plugin run at the same time, in all and of one caller; the others wait in order.
type Waiting = { callerKey: string; start: () => void };
/** `hasWaited`: all slots were taken by earlier calls. */
type Slot = Disposable & { hasWaited: boolean };

export class CallSlots {
  readonly #perPlugin: number;
  readonly #perCaller: number;
  readonly #queues = new Map<string, { running: Map<string, number>; total: number; waiting: Waiting[] }>();

  constructor(limits: { perPlugin: number; perCaller: number }) {
    this.#perPlugin = limits.perPlugin;
    this.#perCaller = limits.perCaller;
  }

  /** Resolves when the call may run, to what ends it; rejects with the signal's reason when that aborts first. */
  async enter(plugin: string, callerKey: string, signal: AbortSignal): Promise<Slot> {
    let queue = this.#queues.get(plugin);
    if (queue === undefined) this.#queues.set(plugin, queue = { running: new Map(), total: 0, waiting: [] });
    const { waiting } = queue;
    const turn = Promise.withResolvers<void>();
    const entry: Waiting = { callerKey, start: turn.resolve };
    const onAbort = (): void => {
      const at = waiting.indexOf(entry);
      if (at < 0) return;
      waiting.splice(at, 1);
      turn.reject(signal.reason);
    };
    if (signal.aborted) throw signal.reason;
    signal.addEventListener("abort", onAbort, { once: true });
    waiting.push(entry);
    this.#next(plugin);
    const hasWaited = waiting.includes(entry);
    try {
      await turn.promise;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
    return { hasWaited, [Symbol.dispose]: () => this.#leave(plugin, callerKey) };
  }

  #next(plugin: string): void {
    const queue = this.#queues.get(plugin);
    if (queue === undefined || queue.total >= this.#perPlugin) return;
    const at = queue.waiting.findIndex(({ callerKey }) => (queue.running.get(callerKey) ?? 0) < this.#perCaller);
    const [entry] = at < 0 ? [] : queue.waiting.splice(at, 1);
    if (entry === undefined) return;
    queue.total++;
    queue.running.set(entry.callerKey, (queue.running.get(entry.callerKey) ?? 0) + 1);
    entry.start();
  }

  #leave(plugin: string, callerKey: string): void {
    const queue = this.#queues.get(plugin);
    if (queue === undefined) return;
    queue.total--;
    const left = (queue.running.get(callerKey) ?? 1) - 1;
    if (left === 0) queue.running.delete(callerKey);
    else queue.running.set(callerKey, left);
    if (queue.total === 0 && queue.waiting.length === 0) this.#queues.delete(plugin);
    else this.#next(plugin);
  }
}
