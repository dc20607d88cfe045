// Work on a thread of its own: each request has one response, and the thread's memory is released with it.
import process from "node:process";
import { countStartingThread, countWorkingBytes } from "@/runtime/memory.ts";
import { countStuckThread, mayStartWorker } from "@/runtime/stuck_thread.ts";
import { currentAccount } from "./caller.ts";
import { Fault } from "./fault.ts";

/** What a worker's global scope has and a window's lacks. */
type WorkerScope<Input> = { onmessage: (event: MessageEvent<Input>) => void; postMessage(message: unknown): void };

type RequestOptions = {
  /** Transferred instead of copied. */
  transfer?: Transferable[];
  /** After this time without a response the worker is abandoned; absent where its work is sure to end. */
  timeoutMs?: number;
  /** Memory that it works with, if that is much: it is not taken for that of messages. */
  workingBytes?: number;
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
  /** Called when work that took too long ends after all, with its CPU time if it is known. */
  #onLateEnd: ((cpuMs: number) => void) | undefined;
  #hasStarted = false;

  /** Starts a worker of the module at `url`. */
  constructor(url: URL, name: string, permissions: Deno.PermissionOptionsObject = {}) {
    if (!mayStartWorker()) {
      throw new Fault(
        "unavailable",
        "The worker threads of this node are busy with work that takes too long; try again later",
      );
    }
    this.#worker = new Worker(url, {
      type: "module",
      name,
      deno: { permissions: { ...NO_PERMISSIONS, ...permissions } },
    });
    this.#worker.onmessage = ({ data }: MessageEvent<Reply<Output>>) => {
      this.#onLateEnd?.(data.cpuMs);
      this.#pending?.resolve(data);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#onLateEnd?.(0);
      this.#pending?.reject(new Error(`The worker failed: ${event.message}`));
    };
  }

  /**
   * The worker's response; one request at a time. Throws when its module throws, when it is terminated meanwhile, and
   * `limit_reached` after the timeout, since a retry would take as long. The CPU time is charged to the caller's account,
   * also that of work which ends after its timeout.
   */
  async run(input: Input, { transfer = [], timeoutMs, workingBytes = 0 }: RequestOptions = {}): Promise<Output> {
    const pending = this.#pending = Promise.withResolvers<Reply<Output>>();
    using _starting = this.#hasStarted ? undefined : countStartingThread();
    using _working = workingBytes === 0 ? undefined : countWorkingBytes(workingBytes);
    this.#hasStarted = true;
    const account = currentAccount();
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => {
      const onEnd = countStuckThread();
      this.#onLateEnd = (cpuMs) => {
        onEnd();
        account?.consume(cpuMs);
        this.#worker.terminate();
      };
      pending.reject(new Fault("limit_reached", `Parsing takes longer than ${timeoutMs / 1000} seconds`));
    }, timeoutMs);
    try {
      this.#worker.postMessage(input, transfer);
      const { result, cpuMs } = await pending.promise;
      account?.consume(cpuMs);
      return result;
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  [Symbol.dispose](): void {
    // A thread that computes cannot be terminated. One that took too long is when its work has ended.
    if (this.#onLateEnd === undefined) this.#worker.terminate();
    this.#pending?.reject(new Error("The worker was ended"));
  }
}

/** The response of a new worker of the module at `url`. It is terminated after its response, also a late one. */
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
