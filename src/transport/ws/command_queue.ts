// Commands of a client that have no reply yet: bounded in bytes, delayed beyond the rate, rejected beyond the longest wait.
import type { Operation } from "@/core/operation.ts";
import { CommandLimiter } from "./command_limiter.ts";
import { type Command, ERRORS } from "./protocol.ts";
import type { WsLimits } from "../shared/socket_limits.ts";

/** Size that a rejected command counts while its reply waits for earlier ones. */
const REFUSAL_BYTES = 256;

/** A command and the wall time before which it does not run. */
type Queued = { command: Command; notBefore: number };

/** Consecutive commands of the same group may run concurrently. */
export type ConcurrencyGroup = Operation | "subscribe" | "presence" | "presence_stats";

export type CommandQueueHost = {
  readonly limits: WsLimits;
  /** Wall time, ms. */
  now(): number;
  /** A command is rejected with `too many requests`. */
  onRejected(): void;
};

export class CommandQueue {
  readonly #host: CommandQueueHost;
  readonly #limiter: CommandLimiter;
  /** Shared by all connections of the principal and its agents; absent before authentication. */
  shared: CommandLimiter | undefined;
  #queue: Queued[] = [];
  #bytes = 0;

  constructor(host: CommandQueueHost) {
    this.#host = host;
    this.#limiter = new CommandLimiter(host.limits, host.now());
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  get head(): Command | undefined {
    return this.#queue[0]?.command;
  }

  /** Whether the next command must wait. A wait beyond the maximum means that the clock was set back. */
  get isDelayed(): boolean {
    const notBefore = this.#queue[0]?.notBefore ?? 0;
    if (notBefore === 0) return false;
    const waitMs = notBefore - this.#host.now();
    return waitMs > 0 && waitMs <= this.#host.limits.commandWaitMs;
  }

  /** Queues the connect command. */
  pushConnect(command: Command): void {
    this.#push(command, 0);
  }

  /** Queues a command; false if the client sends too many. */
  add(command: Command, isAuthenticated: boolean): boolean {
    const { limits } = this.#host;
    const bytes = this.#bytes + command.length;
    if (!isAuthenticated && bytes > limits.frameMaxBytes) return false;
    const waitMs = this.#waitMsFor(command);
    if (waitMs === undefined || bytes > limits.inboxMaxBytes) return this.#reject(command);
    this.#push(command, waitMs);
    return true;
  }

  /** Counts a pong; false if there were too many. */
  countPong(): boolean {
    const now = this.#host.now();
    return this.#limiter.waitMsFor("pong", now) !== undefined || this.#limiter.countRefusal(0, now);
  }

  shift(): void {
    this.#bytes -= this.#queue.shift()?.command.length ?? 0;
  }

  clear(): void {
    this.#queue = [];
    this.#bytes = 0;
  }

  /**
   * Queues the error `too many requests` in order, which slows down a client that waits for replies. False for one that
   * does not.
   */
  #reject(command: Command): boolean {
    const isAbuse = !this.#limiter.countRefusal(command.length, this.#host.now());
    if (isAbuse || this.#bytes > 2 * this.#host.limits.inboxMaxBytes) return false;
    // SDKs reconnect when an unsubscribe fails.
    if (command.method === "unsubscribe") {
      this.#push(command, 0);
    } else {
      this.#host.onRejected();
      this.#push({ method: "invalid", id: command.id, length: REFUSAL_BYTES, body: ERRORS.tooManyRequests }, 0);
    }
    return true;
  }

  /** The longer delay of both limiters; `undefined` if either rejects the command. */
  #waitMsFor(command: Command): number | undefined {
    const now = this.#host.now();
    const own = this.#limiter.waitMsFor(command, now);
    if (own === undefined || this.shared === undefined) return own;
    const shared = this.shared.waitMsFor(command, now);
    return shared === undefined ? undefined : Math.max(own, shared);
  }

  #push(command: Command, waitMs: number): void {
    this.#queue.push({ command, notBefore: waitMs === 0 ? 0 : this.#host.now() + waitMs });
    this.#bytes += command.length;
  }
}
