// Messages waiting to be sent to one client, and how they are joined to one frame. The connection and the tenant bound them.
import { Buffer } from "node:buffer";
import type { Backlog, TenantBacklog } from "./backlog.ts";

/** What a connection needs of a WebSocket. */
export type SocketLike = {
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
};

/** One or more lines for a client, or for many. */
export type Message = {
  readonly text: string;
  readonly bytes: number;
  /** Number of publications; a reply has none. */
  readonly count: number;
  /** Number of slow clients it waits for; only the first one takes memory. */
  waiting: number;
};

/** Slots retained for the next messages. */
const RETAINED_SLOTS = 8;
/** Below this part of the limit, the exact buffered amount does not matter. */
const PRESSURE_CHECK_DIVISOR = 4;
/** A frame has more only if one message has: the runtime retains a buffer of the largest frame of each socket. */
const FRAME_BYTES = 64 * 1024;
/** What a client that has read all is sent at once while its tenant has used its share. */
const WINDOW_BYTES = 2 * FRAME_BYTES;
const NONE: Message = { text: "", bytes: 0, count: 0, waiting: 0 };

/** Lines for one client that are no publications. */
export function messageOf(text: string, bytes = Buffer.byteLength(text)): Message {
  return { text, bytes, count: 0, waiting: 0 };
}

/** Replies and pushes in order. */
export class Outbox {
  readonly #socket: SocketLike;
  readonly #maxBytes: number;
  /** Closes the connection, since clients of its tenant read too little. */
  readonly onOverflow: () => void;
  // One array is reused for all frames: in a large room, one per frame costs much garbage collection.
  readonly #messages: Message[] = [];
  #count = 0;
  #bytes = 0;
  #pushes = 0;
  /** Upper bound of the bytes buffered in the socket. */
  #socketBytes = 0;
  /** Bytes that were left when it was sent last. */
  #unsentBytes = 0;
  /** Bytes of replies that are not added yet. */
  #heldBytes = 0;
  /** Absent until the client is authenticated. */
  #account: { owner: string; tenant: TenantBacklog } | undefined;
  #isSlow = false;
  /** For a large message that the runtime has. */
  #place: Disposable | undefined;

  constructor(socket: SocketLike, maxBytes: number, onOverflow: () => void) {
    this.#socket = socket;
    this.#maxBytes = maxBytes;
    this.onOverflow = onOverflow;
  }

  get owner(): string | undefined {
    return this.#account?.owner;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Number of broadcast messages waiting. */
  get pushes(): number {
    return this.#pushes;
  }

  /** Whether so much waits that senders should wait. */
  get isBackpressured(): boolean {
    return this.#waitingBytes(0) > this.#maxBytes / 2;
  }

  /** Whether what is here counts for the tenant: from when nothing could be sent until all was. */
  get isSlow(): boolean {
    return this.#isSlow;
  }

  get waitingBytes(): number {
    return this.#heldBytes + (this.#isSlow ? this.#bytes : 0);
  }

  /** Whether to look again later what the client has read. */
  get isWaiting(): boolean {
    return this.#isSlow || this.#place !== undefined;
  }

  /** Counts what the client does not read for its tenant, until the socket has closed. */
  countFor(owner: string, backlog: Backlog): void {
    if (this.#account !== undefined) return;
    this.#account = { owner, tenant: backlog.add(this, owner) };
    this.#account.tenant.countSent(this.#socketBytes);
  }

  onSocketClosed(): void {
    this.#setSocketBytes(0);
    this.#releasePlace();
    this.#account?.tenant.delete(this);
    this.#account = undefined;
  }

  /** Whether there is room for so many bytes. */
  hasCapacity(bytes: number): boolean {
    return this.#waitingBytes(bytes) <= this.#maxBytes;
  }

  /** Whether so many bytes are too many at once, even for a client that reads fast enough. */
  isBurst(bytes: number): boolean {
    const isTight = this.#bytes + this.#socketBytes + bytes > this.#maxBytes;
    return isTight && !this.hasCapacity(bytes) && this.#socketBytes + this.#unsentBytes <= this.#maxBytes / 2;
  }

  add(message: Message): void {
    this.#messages[this.#count++] = message;
    this.#bytes += message.bytes;
    this.#pushes += message.count;
    if (!this.#isSlow) return;
    this.#account?.tenant.addWaiting(message);
    this.#account?.tenant.relieve();
  }

  /** Counts a message for the tenant that is not added yet, since there is no room. */
  hold(bytes: number): Disposable {
    const tenant = this.#account?.tenant;
    const message = messageOf("", bytes);
    this.#heldBytes += bytes;
    tenant?.addWaiting(message);
    tenant?.relieve();
    return {
      [Symbol.dispose]: () => {
        this.#heldBytes -= bytes;
        tenant?.removeWaiting(message);
      },
    };
  }

  /** Sends what may be sent; false if that is nothing. */
  send(frames: FrameCache): boolean {
    if (this.#place !== undefined) this.measure();
    const maxBytes = this.#account?.tenant.isFull === true ? this.#windowOf(this.#account) : Infinity;
    let sent = 0;
    while (this.#count > 0 && (sent === 0 ? maxBytes > 0 : sent + this.#firstBytes <= maxBytes)) {
      const count = this.#countUpTo(Math.min(FRAME_BYTES, maxBytes - sent));
      const frame = frames.join(this.#messages, count);
      const bytes = this.#remove(count);
      sent += bytes;
      this.#setSocketBytes(this.#socketBytes + bytes);
      this.#socket.send(frame);
    }
    this.#unsentBytes = this.#bytes;
    return sent > 0;
  }

  /** Nothing could be sent: what is here counts for the tenant. */
  markSlow(): void {
    if (this.#isSlow || this.#count === 0) return;
    this.#isSlow = true;
    for (let i = 0; i < this.#count; i++) this.#account?.tenant.addWaiting(this.#messages[i] ?? NONE);
    this.#account?.tenant.relieve();
  }

  clear(): void {
    this.#remove(this.#count);
  }

  measure(): void {
    this.#setSocketBytes(this.#socket.bufferedAmount);
    if (this.#socketBytes === 0) this.#releasePlace();
  }

  /** The bytes for which the tenant needs no share: a window if the client has read all, nothing otherwise. */
  #windowOf({ owner, tenant }: { owner: string; tenant: TenantBacklog }): number {
    this.measure();
    if (this.#socketBytes > 0) return 0;
    if (this.#firstBytes <= WINDOW_BYTES) return WINDOW_BYTES;
    this.#place = tenant.enterPlace(owner);
    return this.#place === undefined ? 0 : this.#firstBytes;
  }

  get #firstBytes(): number {
    return this.#messages[0]?.bytes ?? 0;
  }

  /** The number of messages that have up to so many bytes together, at least one. */
  #countUpTo(maxBytes: number): number {
    if (this.#bytes <= maxBytes) return this.#count;
    let count = 1;
    for (let bytes = this.#firstBytes; count < this.#count; count++) {
      bytes += this.#messages[count]?.bytes ?? 0;
      if (bytes > maxBytes) break;
    }
    return count;
  }

  /** Removes the first messages and returns their size. */
  #remove(count: number): number {
    let bytes = this.#bytes;
    let pushes = this.#pushes;
    if (this.#isSlow || count < this.#count) {
      bytes = pushes = 0;
      for (const message of this.#messages.slice(0, count)) {
        bytes += message.bytes;
        pushes += message.count;
        if (this.#isSlow) this.#account?.tenant.removeWaiting(message);
      }
    }
    this.#bytes -= bytes;
    this.#pushes -= pushes;
    if (count < this.#count) this.#messages.splice(0, count);
    else this.#empty();
    this.#count -= count;
    return bytes;
  }

  #empty(): void {
    this.#isSlow = false;
    // An idle client retains no text.
    for (let i = 0; i < this.#count; i++) this.#messages[i] = NONE;
    if (this.#count > RETAINED_SLOTS) this.#messages.length = RETAINED_SLOTS;
  }

  #setSocketBytes(bytes: number): void {
    this.#account?.tenant.countSent(bytes - this.#socketBytes);
    this.#socketBytes = bytes;
  }

  #releasePlace(): void {
    this.#place?.[Symbol.dispose]();
    this.#place = undefined;
  }

  /**
   * Bytes waiting for the client, plus `more`. Reading `bufferedAmount` is costly, so the upper bound of it is used until the
   * exact number may matter.
   */
  #waitingBytes(more: number): number {
    const own = this.#bytes + more;
    if (own + this.#socketBytes > this.#maxBytes / PRESSURE_CHECK_DIVISOR) this.measure();
    return own + this.#socketBytes;
  }
}

/** Joins messages to frames and caches the last one: sockets of a room send the same messages. */
export class FrameCache {
  #messages: readonly Message[] = [];
  #frame = "";

  /** A frame of the first `count` messages. */
  join(messages: readonly Message[], count: number): string {
    if (count === 1) return messages[0]?.text ?? "";
    if (!this.#isLast(messages, count)) {
      this.#messages = messages.slice(0, count);
      this.#frame = this.#messages.map(({ text }) => text).join("\n");
    }
    return this.#frame;
  }

  /** Releases the memory of the last frame. */
  clear(): void {
    this.#messages = [];
    this.#frame = "";
  }

  #isLast(messages: readonly Message[], count: number): boolean {
    if (count !== this.#messages.length) return false;
    for (let i = 0; i < count; i++) {
      if (messages[i] !== this.#messages[i]) return false;
    }
    return true;
  }
}
