// One client connection: its queue of commands, its outbox, its deadlines and its single close.
import { type Actor, chargedTo } from "@/core/actor.ts";
import type { EventFilter } from "@/core/event/event_view.ts";
import { isLongerThan } from "@/core/text/text.ts";
import type { ClientInfo } from "@/ports/presence.ts";
import type { ConnectionMeta } from "../shared/connection_limiter.ts";
import { CONNECT_EXPECTED, DISCONNECT, type Disconnect } from "../shared/disconnect.ts";
import { CommandQueue, type CommandQueueHost, type ConcurrencyGroup } from "./command_queue.ts";
import { type Command, encodeError, parseCommand, PING, type ReplyError } from "./protocol.ts";
import type { Backlog } from "./backlog.ts";
import { FrameCache, type Message, messageOf, Outbox, type SocketLike } from "./outbox.ts";
import type { Flushable, FlushScheduler } from "./flush_scheduler.ts";
import type { Subscription } from "./subscription.ts";

/** `new`: nothing received. `connecting`: its token is being verified. `refused`: got an error; further input is ignored. */
type ConnectionPhase = "new" | "connecting" | "ready" | "refused" | "closed";

const OPEN = 1;
/** A draining connection closes after this many checks in a row without a frame, or after discarding this many bytes. */
const IDLE_CHECKS = 3;
const DISCARD_MAX_BYTES = 1024 * 1024;
/** What a frame counts in addition to its length. */
const FRAME_COST = 1024;

type Draining = { disconnect: Disconnect; idleChecks: number; discardedBytes: number };

/** What all connections of a hub share. */
export interface ConnectionHost extends CommandQueueHost {
  readonly flushScheduler: FlushScheduler;
  readonly backlog: Backlog;
  /** Hub time for deadlines; it stops while the process is paused. */
  readonly time: number;
  concurrencyGroupOf(command: Command): ConcurrencyGroup | undefined;
  eventFilterOf(actor: Actor): EventFilter | undefined;
  run(connection: Connection, command: Command): Promise<void>;
  onReady(connection: Connection): void;
  /** The client is slow, or its input is being discarded: resume the connection later. */
  pause(connection: Connection): void;
  /** So many broadcast messages were not sent to a client that stays connected. */
  onDiscarded(count: number): void;
  /** The connection has ended; `dropped` broadcast messages were not sent. */
  onClosed(connection: Connection, disconnect: Disconnect | undefined, dropped: number): void;
  /** The socket has closed as well. */
  onSocketClosed(connection: Connection): void;
}

export class Connection implements Flushable {
  readonly client = crypto.randomUUID();
  readonly shard: number;
  readonly subscriptions = new Map<string, Subscription>();
  readonly meta: ConnectionMeta;
  /** Hub time of the next revalidation. */
  revalidateAt = Infinity;
  readonly openedAt: number;
  #actor: Actor | undefined;
  #eventFilter: EventFilter | undefined;
  readonly #socket: SocketLike;
  readonly #host: ConnectionHost;
  readonly #outbox: Outbox;
  #phase: ConnectionPhase = "new";
  readonly queue: CommandQueue;
  #running = 0;
  #concurrencyGroup: ConcurrencyGroup | undefined;
  #isFlushScheduled = false;
  #isSocketClosed = false;
  #wasClosedByGateway = false;
  /** Set while input is discarded before the close. */
  #draining: Draining | undefined;
  #pingAt = Infinity;
  #pongBy = Infinity;
  #abort: AbortController | undefined;

  constructor(socket: SocketLike, meta: ConnectionMeta, host: ConnectionHost) {
    this.#socket = socket;
    this.#host = host;
    this.#outbox = new Outbox(socket, host.limits.outboxMaxBytes, () => this.close(DISCONNECT.slow));
    this.shard = host.flushScheduler.assign();
    this.meta = meta;
    this.openedAt = host.time;
    this.queue = new CommandQueue(host);
  }

  get actor(): Actor | undefined {
    return this.#actor;
  }

  set actor(actor: Actor | undefined) {
    this.#actor = actor;
    this.#eventFilter = actor && this.#host.eventFilterOf(actor);
    if (actor !== undefined && !this.#isSocketClosed) this.#outbox.countFor(chargedTo(actor), this.#host.backlog);
  }

  get eventFilter(): EventFilter | undefined {
    return this.#eventFilter;
  }

  get isClosed(): boolean {
    return this.#phase === "closed";
  }

  /** Whether frames are still processed. */
  get acceptsInput(): boolean {
    return this.#phase !== "closed" && this.#phase !== "refused" && this.#draining === undefined;
  }

  /** Whether it ever authenticated. */
  get wasAuthenticated(): boolean {
    return this.#pingAt !== Infinity;
  }

  /** Whether the gateway closed it, and not the client. */
  get wasClosedByGateway(): boolean {
    return this.#wasClosedByGateway;
  }

  /** Whether no command is running or waiting. */
  get isIdle(): boolean {
    return this.#running === 0 && this.queue.isEmpty;
  }

  /** Whether the client reads too slowly. */
  get isBackpressured(): boolean {
    return this.#outbox.isBackpressured;
  }

  /** Aborted when the connection ends. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isClosed) this.#abort.abort();
    return this.#abort.signal;
  }

  /** The client as shown in presence. */
  info(): ClientInfo {
    const { actor } = this;
    return {
      user: actor?.principalId ?? "",
      client: this.client,
      conn_info: { name: actor?.displayName, kind: actor?.kind },
    };
  }

  /** Processes a frame from the client. */
  receive(data: unknown): void {
    if (this.#phase === "closed" || this.#phase === "refused") return;
    if (this.#draining !== undefined) return this.#discard(this.#draining, data);
    const { frameMaxBytes } = this.#host.limits;
    if (typeof data !== "string") {
      const isTooLarge = data instanceof ArrayBuffer && data.byteLength > frameMaxBytes;
      return this.#drainAndClose(isTooLarge ? DISCONNECT.tooLarge : this.#badRequest());
    }
    if (isLongerThan(data, frameMaxBytes)) return this.#drainAndClose(DISCONNECT.tooLarge);
    const text = data.endsWith("\n") ? data.slice(0, -1) : data;
    for (const command of text.includes("\n") ? text.split("\n") : [text]) {
      this.#handleCommand(command);
      if (this.#draining !== undefined) break;
    }
    this.runQueued();
  }

  /** Continues after `pause` of the host. */
  resume(): void {
    if (this.#outbox.isWaiting) this.#scheduleFlush();
    this.runQueued();
    const draining = this.#draining;
    if (draining === undefined || this.isClosed) return;
    if (this.isIdle && ++draining.idleChecks > IDLE_CHECKS) this.close(draining.disconnect);
    else this.#host.pause(this);
  }

  /**
   * Runs queued commands strictly in order. Only commands of one concurrency group overlap; no command overtakes another.
   * A client that does not read its replies gets no further ones.
   */
  runQueued(): void {
    for (let command = this.queue.head; command !== undefined; command = this.queue.head) {
      if (this.#phase === "closed" || this.#phase === "refused") return;
      const group = this.#host.concurrencyGroupOf(command);
      if (this.#running > 0) {
        if (group === undefined || group !== this.#concurrencyGroup) return;
        if (this.#running >= this.#host.limits.maxConcurrent) return;
      }
      if (this.isBackpressured || this.queue.isDelayed) return this.#host.pause(this);
      this.queue.shift();
      this.#concurrencyGroup = group;
      this.#running++;
      // It never rejects.
      this.#host.run(this, command).then(this.#onCommandDone);
    }
  }

  /** Whether the outbox has room for so many bytes. */
  hasCapacity(bytes: number): boolean {
    return this.#outbox.hasCapacity(bytes);
  }

  /** Counts a reply of so many bytes that waits until there is room for it. */
  hold(bytes: number): Disposable {
    return this.#outbox.hold(bytes);
  }

  /** Queues an encoded reply. */
  reply(text: string, bytes?: number): void {
    if (!this.push(messageOf(text, bytes))) this.close(DISCONNECT.slow);
  }

  /** Queues a failed reply. */
  fail(id: number, error: ReplyError): void {
    this.reply(encodeError(id, error));
  }

  /** Queues a message; false if it is too much at once even for a client that reads fast enough. */
  push(message: Message): boolean {
    if (this.isClosed) return true;
    if (this.#outbox.isBurst(message.bytes)) return false;
    this.#outbox.add(message);
    if (this.#outbox.bytes > this.#host.limits.outboxMaxBytes) this.close(DISCONNECT.slow);
    else if (!this.#outbox.isSlow) this.#scheduleFlush();
    return true;
  }

  /** Counts broadcast messages that are not sent. */
  discard(count: number): void {
    this.#host.onDiscarded(count);
  }

  /** The connection is authenticated; call before its connect reply. */
  markReady(): void {
    const { limits, time } = this.#host;
    this.#phase = "ready";
    this.#pingAt = time + limits.pingMs * (1 + Math.random()) / 2;
    this.revalidateAt = time + limits.revalidateMs * (1 + Math.random()) / 2;
    this.meta.onAuthenticated?.(this.#actor && chargedTo(this.#actor));
    this.#host.onReady(this);
  }

  /** Replies to connect with an error; further input is ignored until the deadline closes the connection. */
  rejectConnect(id: number, error: ReplyError): void {
    this.fail(id, error);
    this.#phase = "refused";
    this.queue.clear();
    this.actor = undefined;
  }

  /** Replaces the token of the principal; the new one is revalidated soon. */
  updateActor(actor: Actor): void {
    this.actor = actor;
    this.revalidateAt = 0;
  }

  /** Checks the deadlines. */
  tick(): void {
    const { limits, time } = this.#host;
    if (this.#phase !== "ready") {
      if (time - this.openedAt >= limits.authTimeoutMs) this.close(DISCONNECT.stale);
    } else if (time >= this.#pongBy) {
      this.close(DISCONNECT.noPong);
    } else if ((this.actor?.expiresAt ?? Infinity) + limits.refreshGraceMs <= this.#host.now()) {
      this.close(DISCONNECT.expired);
    } else if (time >= this.#pingAt) {
      this.#ping();
    }
  }

  /** Pings now instead of when the next ping is due. */
  probe(): void {
    if (this.#phase !== "ready" || this.#pongBy !== Infinity) return;
    this.#ping();
  }

  removeSubscription(channel: string): void {
    this.subscriptions.delete(channel);
  }

  /** Sends the outbox, as far as the client reads; called by the flush scheduler. */
  flush(frames: FrameCache): number {
    this.#isFlushScheduled = false;
    if (this.isClosed || this.#socket.readyState !== OPEN) return 0;
    if (!this.hasCapacity(0)) {
      this.close(DISCONNECT.slow);
      return 0;
    }
    const { pushes } = this.#outbox;
    const hasSent = this.#outbox.send(frames);
    if (!hasSent) this.#outbox.markSlow();
    if (hasSent && this.#outbox.bytes > 0) this.#scheduleFlush();
    else if (this.#outbox.isWaiting) this.#host.pause(this);
    return pushes - this.#outbox.pushes;
  }

  /** Ends the connection at once, whatever the peer does. */
  close(disconnect: Disconnect): void {
    if (this.isClosed) return;
    const dropped = disconnect === DISCONNECT.slow ? this.#outbox.pushes : 0;
    if (dropped === 0 && this.#socket.readyState === OPEN && this.hasCapacity(0)) this.#outbox.send(new FrameCache());
    this.#release(disconnect, dropped);
    this.#socket.close(disconnect.code, disconnect.reason);
  }

  /** The socket has closed; may be called twice. */
  onSocketClosed(): void {
    if (this.#isSocketClosed) return;
    this.#isSocketClosed = true;
    if (!this.isClosed) this.#release(undefined, 0);
    this.#outbox.onSocketClosed();
    this.#host.onSocketClosed(this);
  }

  readonly #onCommandDone = (): void => {
    this.#running--;
    this.runQueued();
  };

  /**
   * Ends the connection for an invalid frame: commands accepted before it are executed and replied to first. The socket
   * closes when input has stopped: the runtime resets a socket that receives frames after its close frame, and the client
   * would never read the reason.
   */
  #drainAndClose(disconnect: Disconnect): void {
    this.#draining = { disconnect, idleChecks: 0, discardedBytes: 0 };
    this.#host.pause(this);
  }

  #discard(draining: Draining, data: unknown): void {
    draining.idleChecks = 0;
    const size = data instanceof ArrayBuffer ? data.byteLength : DISCARD_MAX_BYTES;
    draining.discardedBytes += FRAME_COST + (typeof data === "string" ? data.length : size);
    if (draining.discardedBytes > DISCARD_MAX_BYTES) this.close(draining.disconnect);
  }

  #handleCommand(text: string): void {
    const { limits } = this.#host;
    const isNew = this.#phase === "new";
    if (isNew && isLongerThan(text, limits.connectMaxBytes)) return this.#drainAndClose(DISCONNECT.tooLarge);
    const parsed = parseCommand(text);
    const method = typeof parsed === "string" ? parsed : parsed?.method;
    if (parsed === undefined || isNew !== (method === "connect")) return this.#drainAndClose(this.#badRequest());
    if (parsed === "send") return this.#drainAndClose(DISCONNECT.notAvailable);
    if (parsed === "pong") {
      this.#pongBy = Infinity;
      if (!this.queue.countPong()) this.#drainAndClose(DISCONNECT.tooManyRequests);
    } else if (isNew) {
      this.#phase = "connecting";
      this.queue.pushConnect(parsed);
    } else if (!this.queue.add(parsed, this.#phase === "ready")) {
      this.#drainAndClose(DISCONNECT.tooManyRequests);
    }
  }

  #badRequest(): Disconnect {
    return this.#phase === "new" ? CONNECT_EXPECTED : DISCONNECT.badRequest;
  }

  #ping(): void {
    const { limits, time } = this.#host;
    this.#pingAt = time + limits.pingMs;
    this.#pongBy = time + limits.pongTimeoutMs;
    this.reply(PING);
  }

  #scheduleFlush(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    this.#host.flushScheduler.schedule(this);
  }

  #release(disconnect: Disconnect | undefined, dropped: number): void {
    this.#phase = "closed";
    this.#wasClosedByGateway = disconnect !== undefined;
    this.queue.clear();
    this.#outbox.clear();
    this.#abort?.abort();
    for (const subscription of [...this.subscriptions.values()]) subscription.unsubscribe();
    this.#host.onClosed(this, disconnect, dropped);
  }
}
