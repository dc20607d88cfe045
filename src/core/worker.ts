// Work for a thread of its own: one order, one answer, and the memory it took goes with it.

/** What a worker's global scope has and a window's has not. */
type Scope<Order> = {
  onmessage: (event: MessageEvent<Order>) => void;
  postMessage(message: unknown): void;
};

/**
 * What a new worker of the module at `url` answers to `order`. Throws when the module throws. What `transfer` names goes over
 * without a copy. The worker is ended only when it has answered: to end one that computes does not stop its thread, but would
 * let the next one start beside it.
 */
export async function askWorker<Answer>(
  url: URL,
  name: string,
  order: unknown,
  transfer: Transferable[] = [],
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const worker = new Worker(url, { type: "module", name });
  worker.onmessage = ({ data }: MessageEvent<Answer>) => resolve(data);
  worker.onerror = (event) => {
    event.preventDefault();
    reject(new Error(`The worker failed: ${event.message}`));
  };
  try {
    worker.postMessage(order, transfer);
    return await promise;
  } finally {
    worker.terminate();
  }
}

/** Called by the module of a worker: what it answers to its order. */
export function answerOrder<Order>(work: (order: Order) => Promise<unknown>): void {
  // The types of the program are those of a window, for all of it.
  const scope = self as unknown as Scope<Order>;
  scope.onmessage = async ({ data }) => scope.postMessage(await work(data));
}
