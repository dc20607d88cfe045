// One client: what it sent waits its turn here, what it gets waits to leave, and its life ends here, once.
import { Buffer } from "node:buffer";
import type { MayActIn } from "../http/origin.ts";
import type { Actor } from "@/core/actor.ts";
import type { Operation } from "@/core/operation.ts";
import { isLongerThan } from "@/core/text.ts";
import type { ClientInfo } from "@/ports/presence.ts";
import { CLOSE, type Verdict } from "./close.ts";
import { type Command, encodeError, encodeReply, parseLine, PING, type WireError } from "./frame.ts";
import { Allowance, type WsLimits } from "./limits.ts";
import { Frames, Outbox } from "./outbox.ts";
import type { Member, Pool } from "./pool.ts";
import type { Subscription } from "./subscription.ts";

/** What a connection needs of a WebSocket. */
export type SocketLike = {
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
};

/** What is known of a socket before its first message. */
export type ConnectionMeta = {
  ip: string;
  /** Token of the URL's query; used when the connect command has none. */
  legacyToken?: string;
  userAgent?: string;
  /** Where only some tenants let its page in: whether this one does. */
  mayActIn?: MayActIn;
  /** Called once, when the connection has said who it is. */
  onAuthenticated?(): void;
};

/** Commands that follow each other may overlap where this is the same for them. */
export type Overlap = Operation | "subscribe";

/** What all connections of a hub share. */
export interface ConnectionHost {
  readonly limits: WsLimits;
  readonly pool: Pool;
  /** Hub time for deadlines; stands still while the process does. */
  readonly time: number;
  /** Wall time, ms. */
  now(): number;
  overlapOf(command: Command): Overlap | undefined;
  run(connection: Connection, command: Command): Promise<void>;
  welcomed(connection: Connection): void;
  /** The reader is behind, or has input to be read away: resume the connection a little later. */
  stalled(connection: Connection): void;
  /** So many broadcast messages do not reach somebody who stays. */
  dropped(count: number): void;
  /** Over for us; `dropped` broadcast messages were not sent. */
  closed(connection: Connection, verdict: Verdict | undefined, dropped: number): void;
  /** The socket is gone as well. */
  gone(connection: Connection): void;
}

/** Fresh: said nothing. Connecting: its token is being looked at. Refused: got an error, is not heard any more. */
type Phase = "fresh" | "connecting" | "ready" | "refused" | "closed";

const OPEN = 1;
/** A client is told to go after so many looks in a row found no further frame of it, or after so much that was read away. */
const QUIET_LOOKS = 3;
const UNHEARD_MAX = 1024 * 1024;
/** What a frame counts besides its length. */
const FRAME_COST = 1024;

/** Below this part of what may wait, the exact number does not matter. */
const SURELY_FEW = 4;

type Parting = { verdict: Verdict; looks: number; unheard: number };

export class Connection implements Member {
  readonly client = crypto.randomUUID();
  readonly shard: number;
  readonly subscriptions = new Map<string, Subscription>();
  readonly meta: ConnectionMeta;
  actor: Actor | undefined;
  /** Hub time at which its rights are looked at again. */
  revalidateAt = Infinity;
  readonly openedAt: number;
  readonly #socket: SocketLike;
  readonly #host: ConnectionHost;
  readonly #outbox = new Outbox();
  /** Most bytes that the socket may still hold. */
  #unread = 0;
  #phase: Phase = "fresh";
  #inbox: Command[] = [];
  #inboxBytes = 0;
  #running = 0;
  #overlapping: Overlap | undefined;
  #isTouched = false;
  #isGone = false;
  #isOurVerdict = false;
  /** Why it is not heard any more, while what it sent before it knows is read away. */
  #parting: Parting | undefined;
  #pingAt = Infinity;
  #pongBy = Infinity;
  readonly #allowance: Allowance;
  #abort: AbortController | undefined;

  constructor(socket: SocketLike, meta: ConnectionMeta, host: ConnectionHost) {
    this.#socket = socket;
    this.#host = host;
    this.shard = host.pool.assign();
    this.meta = meta;
    this.openedAt = host.time;
    this.#allowance = new Allowance(host.limits, host.now());
  }

  get isClosed(): boolean {
    return this.#phase === "closed";
  }

  /** Whether what comes in still counts. */
  get isHeard(): boolean {
    return this.#phase !== "closed" && this.#phase !== "refused" && this.#parting === undefined;
  }

  /** Whether it was let in at some time. */
  get wasWelcome(): boolean {
    return this.#pingAt !== Infinity;
  }

  /** Whether it ended by a verdict of ours, and not by the client. */
  get wasClosedByUs(): boolean {
    return this.#isOurVerdict;
  }

  /** Whether no command is running or waiting. */
  get isIdle(): boolean {
    return this.#running === 0 && this.#inbox.length === 0;
  }

  /** Whether the client reads slower than it is written to. */
  get isBehind(): boolean {
    return this.#pressure() > this.#host.limits.outboxMaxBytes / 2;
  }

  /** Ends when the connection does. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isClosed) this.#abort.abort();
    return this.#abort.signal;
  }

  /** How others see this client. */
  info(): ClientInfo {
    const { actor } = this;
    return {
      user: actor?.principalId ?? "",
      client: this.client,
      conn_info: { name: actor?.displayName, kind: actor?.kind },
    };
  }

  /** Takes a frame as it came in. */
  receive(data: unknown): void {
    if (this.#phase === "closed" || this.#phase === "refused") return;
    if (this.#parting !== undefined) return this.#unheard(this.#parting, data);
    if (typeof data !== "string") return this.#part(this.#isTooLarge(data) ? CLOSE.tooLarge : CLOSE.badRequest);
    if (isLongerThan(data, this.#host.limits.frameMaxBytes)) return this.#part(CLOSE.tooLarge);
    const text = data.endsWith("\n") ? data.slice(0, -1) : data;
    for (const line of text.includes("\n") ? text.split("\n") : [text]) {
      this.#take(line);
      if (this.#parting !== undefined) break;
    }
    this.pump();
  }

  /** Goes on after a pause that the host was asked for. */
  resume(): void {
    this.pump();
    const parting = this.#parting;
    if (parting === undefined || this.isClosed) return;
    if (this.isIdle && ++parting.looks > QUIET_LOOKS) this.close(parting.verdict);
    else this.#host.stalled(this);
  }

  /**
   * Runs what waits, strictly in order. Only subscribes, and calls of one operation that says so, overlap; nothing overtakes them.
   * A client that does not read its replies gets no further ones.
   */
  pump(): void {
    for (let next = this.#inbox[0]; next !== undefined; next = this.#inbox[0]) {
      if (this.#phase === "closed" || this.#phase === "refused") return;
      const overlap = this.#host.overlapOf(next);
      if (this.#running > 0) {
        if (overlap === undefined || overlap !== this.#overlapping) return;
        if (this.#running >= this.#host.limits.overlapMax) return;
      }
      if (this.isBehind) return this.#host.stalled(this);
      this.#inbox.shift();
      this.#inboxBytes -= next.length;
      this.#overlapping = overlap;
      this.#running++;
      // It never rejects.
      this.#host.run(this, next).then(this.#settled);
    }
  }

  /** Whether so many bytes may wait for the client beside what waits already. */
  takes(bytes: number): boolean {
    return this.#pressure(bytes) <= this.#host.limits.outboxMaxBytes;
  }

  /** Queues a reply; `body` is encoded. */
  reply(id: number, method: string, body: string): void {
    this.#send(encodeReply(id, method, body));
  }

  /** Queues a failed reply. */
  fail(id: number, error: WireError): void {
    this.#send(encodeError(id, error));
  }

  /** Queues broadcast lines; false where they are too many at once for a client that reads well. */
  push(text: string, bytes: number, count: number): boolean {
    if (this.isClosed) return true;
    const { outboxMaxBytes } = this.#host.limits;
    const isTight = this.#outbox.bytes + this.#unread + bytes > outboxMaxBytes;
    if (isTight && !this.takes(bytes) && this.#unread <= outboxMaxBytes / 2) return false;
    this.#outbox.add(text, bytes, count);
    if (this.#outbox.bytes > outboxMaxBytes) this.close(CLOSE.slow);
    else this.#touch();
    return true;
  }

  /** Goes without so many broadcast messages. */
  drop(count: number): void {
    this.#host.dropped(count);
  }

  /** The connection is let in; call before its connect reply. */
  welcome(): void {
    const { limits, time } = this.#host;
    this.#phase = "ready";
    this.#pingAt = time + limits.pingMs * (1 + Math.random()) / 2;
    this.revalidateAt = time + limits.revalidateMs * (1 + Math.random()) / 2;
    this.meta.onAuthenticated?.();
    this.#host.welcomed(this);
  }

  /** Answers connect with an error: nothing is heard after it, and the deadline ends it. */
  refuse(id: number, error: WireError): void {
    this.fail(id, error);
    this.#phase = "refused";
    this.#inbox = [];
    this.actor = undefined;
  }

  /** Goes on as the same principal with a newer token, whose rights are looked at soon. */
  renew(actor: Actor): void {
    this.actor = actor;
    this.revalidateAt = 0;
  }

  /** Looks at the deadlines. */
  tick(): void {
    const { limits, time } = this.#host;
    if (this.#phase !== "ready") {
      if (time - this.openedAt >= limits.authTimeoutMs) this.close(CLOSE.stale);
    } else if (time >= this.#pongBy) {
      this.close(CLOSE.noPong);
    } else if ((this.actor?.expiresAt ?? Infinity) + limits.refreshGraceMs <= this.#host.now()) {
      this.close(CLOSE.expired);
    } else if (time >= this.#pingAt) {
      this.#pingAt = time + limits.pingMs;
      this.#pongBy = time + limits.pongTimeoutMs;
      this.#send(PING);
    }
  }

  forget(subscription: Subscription): void {
    this.subscriptions.delete(subscription.feed.channel);
  }

  /** Sends what waits; called by the pool. */
  flush(frames: Frames): number {
    this.#isTouched = false;
    if (this.isClosed || this.#outbox.bytes === 0 || this.#socket.readyState !== OPEN) return 0;
    if (this.#pressure() > this.#host.limits.outboxMaxBytes) {
      this.close(CLOSE.slow);
      return 0;
    }
    const { pushes } = this.#outbox;
    this.#sendAll(frames);
    return pushes;
  }

  /** Ends the connection: for us at once, whatever the peer does. */
  close(verdict: Verdict): void {
    if (this.isClosed) return;
    const dropped = verdict === CLOSE.slow ? this.#outbox.pushes : 0;
    if (dropped === 0 && this.#socket.readyState === OPEN && this.#outbox.bytes > 0) this.#sendRest();
    this.#release(verdict, dropped);
    this.#socket.close(verdict.code, verdict.reason);
  }

  /** The socket has closed; may be told twice. */
  gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    if (!this.isClosed) this.#release(undefined, 0);
    this.#host.gone(this);
  }

  readonly #settled = (): void => {
    this.#running--;
    this.pump();
  };

  /**
   * Ends the connection for something it sent: what was accepted before is done and answered first. The socket closes when
   * nothing more comes in, for the runtime resets one that still gets frames after its close frame, and then the client
   * never reads why.
   */
  #part(verdict: Verdict): void {
    this.#parting = { verdict, looks: 0, unheard: 0 };
    this.#host.stalled(this);
  }

  #unheard(parting: Parting, data: unknown): void {
    parting.looks = 0;
    const size = data instanceof ArrayBuffer ? data.byteLength : UNHEARD_MAX;
    parting.unheard += FRAME_COST + (typeof data === "string" ? data.length : size);
    if (parting.unheard > UNHEARD_MAX) this.close(parting.verdict);
  }

  #isTooLarge(data: unknown): boolean {
    return data instanceof ArrayBuffer && data.byteLength > this.#host.limits.frameMaxBytes;
  }

  #take(line: string): void {
    const { limits } = this.#host;
    const isFresh = this.#phase === "fresh";
    if (isFresh && isLongerThan(line, limits.connectMaxBytes)) return this.#part(CLOSE.tooLarge);
    const parsed = parseLine(line);
    if (parsed === undefined) return this.#part(CLOSE.badRequest);
    const method = typeof parsed === "string" ? parsed : parsed.method;
    if (isFresh !== (method === "connect")) return this.#part(CLOSE.badRequest);
    // Closed for what it subscribes to while it connects, a client would come back and do the same.
    const isFree = isFresh || (method === "subscribe" && this.#phase !== "ready");
    if (!isFree && !this.#allowance.take(method, this.#host.now())) return this.#part(CLOSE.tooManyRequests);
    if (parsed === "send") return this.#part(CLOSE.notAvailable);
    if (parsed === "pong") {
      this.#pongBy = Infinity;
      return;
    }
    if (isFresh) this.#phase = "connecting";
    this.#inbox.push(parsed);
    this.#inboxBytes += parsed.length;
    const maxBytes = this.#phase === "ready" ? limits.inboxMaxBytes : limits.frameMaxBytes;
    if (this.#inboxBytes > maxBytes) this.#part(CLOSE.tooManyRequests);
  }

  #send(text: string): void {
    if (!this.push(text, Buffer.byteLength(text), 0)) this.close(CLOSE.slow);
  }

  #touch(): void {
    if (this.#isTouched) return;
    this.#isTouched = true;
    this.#host.pool.touch(this);
  }

  /**
   * Bytes that wait for the client, and `more`. The runtime is asked how many of those it got are still there only when they
   * may matter: at most what it got since it was last asked, and what was there then.
   */
  #pressure(more = 0): number {
    const own = this.#outbox.bytes + more;
    if (own + this.#unread > this.#host.limits.outboxMaxBytes / SURELY_FEW) this.#unread = this.#socket.bufferedAmount;
    return own + this.#unread;
  }

  #sendRest(): void {
    if (this.#pressure() <= this.#host.limits.outboxMaxBytes) this.#sendAll(new Frames());
  }

  #sendAll(frames: Frames): void {
    this.#unread += this.#outbox.bytes;
    this.#socket.send(this.#outbox.take(frames));
  }

  #release(verdict: Verdict | undefined, dropped: number): void {
    this.#phase = "closed";
    this.#isOurVerdict = verdict !== undefined;
    this.#inbox = [];
    this.#outbox.clear();
    this.#abort?.abort();
    for (const subscription of [...this.subscriptions.values()]) subscription.leave();
    this.#host.closed(this, verdict, dropped);
  }
}
