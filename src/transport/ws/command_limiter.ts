// Rate limits of the commands of a connection: beyond the rate they wait, beyond the longest wait they are rejected.
import { TokenBucket } from "@/core/limit/token_bucket.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import type { ParsedCommand } from "./protocol.ts";

/** After connecting, a client sends `subscribe`, `presence` and `history` for each of its channels. */
const COMMANDS_PER_CHANNEL = 3;
/** A history page costs one command per so many events. */
const EVENTS_PER_COMMAND = 100;
const KIB = 1024;

/** Token buckets by kind of command. Commands about channels have their own: clients send them for all channels at once. */
export class CommandLimiter {
  readonly #limits: WsLimits;
  readonly #commands: TokenBucket | undefined;
  readonly #channels: TokenBucket | undefined;
  readonly #publications: TokenBucket | undefined;
  readonly #refusals: TokenBucket;
  /** Created with the first connection: only the limiter of an owner counts these. */
  #connections: TokenBucket | undefined;

  constructor(limits: WsLimits, now: number) {
    const { rate, publishRate = rate, refusedRate, subscriptionsMax } = limits;
    this.#limits = limits;
    this.#refusals = new TokenBucket(refusedRate, now);
    if (rate === undefined || publishRate === undefined) return;
    const channelBurst = Math.max(rate.burst, COMMANDS_PER_CHANNEL * subscriptionsMax);
    this.#commands = new TokenBucket(rate, now);
    this.#channels = new TokenBucket({ ...rate, burst: channelBurst }, now);
    this.#publications = new TokenBucket(publishRate, now);
  }

  /** The delay of the command in ms; `undefined` if it would wait too long and must be rejected. */
  waitMsFor(command: ParsedCommand, now: number): number | undefined {
    const bucket = this.#bucketOf(typeof command === "string" ? command : command.method);
    return bucket === undefined ? 0 : bucket.reserve(now, this.#costOf(command), this.#limits.commandWaitMs);
  }

  /** Counts a new connection; false if there were too many, for which commands have the rate. */
  countConnection(now: number): boolean {
    const { rate } = this.#limits;
    if (rate === undefined) return true;
    return (this.#connections ??= new TokenBucket(rate, now)).consume(now);
  }

  /** Counts a rejected command of so many characters; false if there were too many. */
  countRefusal(length: number, now: number): boolean {
    return this.#refusals.consume(now, 1 + Math.floor(length / KIB));
  }

  #bucketOf(method: string): TokenBucket | undefined {
    switch (method) {
      case "publish":
        return this.#publications;
      case "subscribe":
      case "unsubscribe":
      case "presence":
      case "presence_stats":
      case "history":
        return this.#channels;
      default:
        return this.#commands;
    }
  }

  #costOf(command: ParsedCommand): number {
    if (typeof command === "string" || command.method !== "history") return 1;
    const { replyMaxEvents } = this.#limits;
    const { limit } = command.body;
    const events = limit < 0 ? replyMaxEvents : Math.min(limit, replyMaxEvents);
    return Math.max(1, Math.ceil(events / EVENTS_PER_COMMAND));
  }
}
