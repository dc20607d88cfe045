// Work on a thread of its own: each request has one response, and the thread's memory is released with it.
import process from "node:process";
import { countStartingThread } from "@/runtime/memory.ts";
import { countStuckThread, mayStartWorker } from "@/runtime/stuck_thread.ts";
import { currentAccount } from "./caller.ts";
import { Fault } from "./fault.ts";

/** What a worker's global scope has and a window's lacks. */
type WorkerScope<Input> = {
  onmessage: (event: MessageEvent<Input>) => void;
  postMessage(message: unknown): void;
};

type RequestOptions = {
  /** Transferred instead of copied. */
  transfer?: Transferable[];
  /** After this time without a response the worker is abandoned; absent where its work is sure to end. */
  timeoutMs?: number;
};

/** A response, with the CPU time that it took. */
type Reply<Output> = { result: Output; cpuMs: number };

/** Named one by one: what is not named is inherited. */
const NO_PERMISSIONS = {
  env: false,
  ffi: false,
  import: false,
  net: false,
  read: false,
  run: false,
  sys: false,
  write: false,
};

/** A worker that serves one request at a time. Its input is untrusted, so it has no permissions by default. */
export class WorkerThread<Input, Output> implements Disposable {
  readonly #worker: Worker;
  #pending: PromiseWithResolvers<Reply<Output>> | undefined;
  #hasStarted = false;

  /** Starts a worker of the module at `url`. */
  constructor(url: URL, name: string, permissions: Deno.PermissionOptionsObject = {}) {
    if (!mayStartWorker()) throw new Fault("unavailable", "Worker threads of this node are blocked until it restarts");
    this.#worker = new Worker(url, {
      type: "module",
      name,
      deno: { permissions: { ...NO_PERMISSIONS, ...permissions } },
    });
    this.#worker.onmessage = ({ data }: MessageEvent<Reply<Output>>) => this.#pending?.resolve(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#pending?.reject(new Error(`The worker failed: ${event.message}`));
    };
  }

  /**
   * The worker's response; one request at a time. Throws when its module throws, when it is terminated meanwhile, and
   * `limit_reached` after the timeout, since a retry would take as long. The CPU time is charged to the caller's account.
   */
  async run(input: Input, { transfer = [], timeoutMs }: RequestOptions = {}): Promise<Output> {
    const pending = this.#pending = Promise.withResolvers<Reply<Output>>();
    using _starting = this.#hasStarted ? undefined : countStartingThread();
    this.#hasStarted = true;
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => {
      countStuckThread();
      pending.reject(new Fault("limit_reached", `Parsing takes longer than ${timeoutMs / 1000} seconds`));
    }, timeoutMs);
    try {
      this.#worker.postMessage(input, transfer);
      const { result, cpuMs } = await pending.promise;
      currentAccount()?.consume(cpuMs);
      return result;
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  [Symbol.dispose](): void {
    this.#worker.terminate();
    this.#pending?.reject(new Error("The worker was ended"));
  }
}

/** The response of a new worker of the module at `url`. It is terminated after its response or its timeout. */
export async function runInWorker<Output>(
  url: URL,
  name: string,
  input: unknown,
  { permissions, ...options }: RequestOptions & { permissions?: Deno.PermissionOptionsObject } = {},
): Promise<Output> {
  using thread = new WorkerThread<unknown, Output>(url, name, permissions);
  return await thread.run(input, options);
}

/** Called by the module of a worker; `work` serves its requests. */
export function serveWorker<Input>(work: (input: Input) => unknown): void {
  // The program is checked with the types of a window.
  const scope = self as unknown as WorkerScope<Input>;
  // The first request is charged with the start of the thread as well.
  let chargedMs = 0;
  scope.onmessage = async ({ data }) => {
    const result = await work(data);
    const totalMs = threadCpuMs();
    scope.postMessage({ result, cpuMs: totalMs - chargedMs });
    chargedMs = totalMs;
  };
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
