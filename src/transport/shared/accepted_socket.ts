// Accepts WebSockets: upgrades synchronously, buffers frames until the session is loaded, and releases the slot at the end.
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import { closeSocket } from "@/runtime/close_socket.ts";
import { dropSocket } from "@/runtime/drop_socket.ts";
import { noteInput } from "@/runtime/input_tick.ts";
import { estimateSendBytes } from "@/runtime/memory.ts";
import { upgradeWebSocket } from "@/runtime/upgrade.ts";
import { DISCONNECT, type Disconnect } from "./disconnect.ts";
import type { WsLimits } from "./socket_limits.ts";
import type { GuardedSocket, MemoryGuard } from "./memory_guard.ts";

/** Serves an open socket. */
export type SocketSession = {
  receive(data: unknown): void;
  /** Sends a ping of the protocol, which clients reply to. */
  probe(): void;
  close(disconnect: Disconnect): void;
  /** The socket has closed; may be called twice. */
  onSocketClosed(): void;
};

type AcceptOptions = {
  /** The selected subprotocol. */
  protocol?: string | undefined;
  /** Seconds without traffic after which the runtime pings; 0 for protocols with their own pings. */
  idleTimeout?: number;
  limits: Pick<WsLimits, "authTimeoutMs" | "inboxMaxBytes" | "closeTimeoutMs">;
  guard: MemoryGuard;
  isAuthenticated(): boolean;
  /** Whom the calls of an authenticated socket are charged to. */
  owner?(): string | undefined;
  /** Serves the open socket; frames are buffered until it resolves. */
  serve(socket: AcceptedSocket): SocketSession | Promise<SocketSession>;
  /** The socket has closed, or did not open in time; called once. */
  onClosed(): void;
};

/** Time to write a close frame to a peer that reads. */
const CLOSE_FRAME_MS = 5;

/** What a frame counts in addition to its length. */
const FRAME_OVERHEAD_BYTES = 1024;

const log = logOf("ws");

/** The upgrade response. Must be called in the tick in which the request arrived, see `upgradeWebSocket`. */
export function acceptSocket(request: Request, options: AcceptOptions): Response {
  try {
    return new AcceptedSocket(request, options).response;
  } catch (cause) {
    options.onClosed();
    throw new Fault("bad_request", "Expected a WebSocket upgrade", { cause });
  }
}

/** An accepted socket. The gateway can end it whatever its peer does. */
export class AcceptedSocket implements GuardedSocket {
  lastReceivedAt = performance.now();
  hasReceived = false;
  /** The response to the upgrade request. */
  readonly response: Response;
  readonly #socket: WebSocket;
  readonly #options: AcceptOptions;
  #session: SocketSession | undefined;
  #buffered: unknown[] = [];
  #bufferedBytes = 0;
  #isClosing = false;
  #ignoredBytes = 0;
  /** Length of the largest frame sent. */
  #largestFrame = 0;
  #isTerminated = false;
  #hasEnded = false;

  constructor(request: Request, options: AcceptOptions) {
    this.#options = options;
    const { protocol, idleTimeout, limits, guard } = options;
    const { socket, response } = upgradeWebSocket(request, {
      protocol,
      idleTimeout,
      openTimeoutMs: limits.authTimeoutMs,
      onOpen: () => this.#onOpen(),
      onEnd: this.#onEnded,
    });
    this.#socket = socket;
    this.response = response;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => this.#receive(data);
    guard.add(this);
  }

  get isAuthenticated(): boolean {
    return this.#options.isAuthenticated();
  }

  get owner(): string | undefined {
    return this.#options.owner?.();
  }

  get readyState(): number {
    return this.#isClosing ? WebSocket.CLOSING : this.#socket.readyState;
  }

  get bufferedAmount(): number {
    return this.#isTerminated ? 0 : this.#socket.bufferedAmount;
  }

  get writeBytes(): number {
    return this.#isTerminated ? 0 : estimateSendBytes(this.#socket, this.#largestFrame);
  }

  send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.#isClosing) return;
    this.#largestFrame = Math.max(this.#largestFrame, data.length);
    this.#socket.send(data);
  }

  close(code?: number, reason?: string): void {
    if (this.readyState >= WebSocket.CLOSING) return;
    this.#isClosing = true;
    closeSocket(this.#socket, code, reason);
    // The peer has this long to close as well; the timer does not delay the end of the process.
    const timer = setInterval(() => {
      // The runtime drops nothing that it still writes: its memory and its connection last until the peer reads or is lost.
      if (this.bufferedAmount > 0 && !this.#hasEnded) return;
      clearInterval(timer);
      this.#terminate();
      this.#onEnded();
    }, this.#options.limits.closeTimeoutMs);
    Deno.unrefTimer(timer);
    this.#socket.addEventListener("close", () => clearInterval(timer), { once: true });
  }

  probe(): void {
    this.#session?.probe();
  }

  shed(): void {
    if (this.#session === undefined) this.#end(DISCONNECT.memory);
    else this.#session.close(DISCONNECT.memory);
    // The close frame is written in the next tick; unauthenticated clients get none.
    if (this.isAuthenticated) setTimeout(() => this.#terminate(), CLOSE_FRAME_MS);
    else this.#terminate();
    this.#onEnded();
  }

  #onOpen(): void {
    // Its slot has been released already.
    if (this.#hasEnded) return this.#terminate();
    const session = this.#options.serve(this);
    if (!(session instanceof Promise)) return this.#attach(session);
    session.then((loaded) => this.#attach(loaded)).catch((thrown) => {
      log.error("serving a socket failed", { cause: String(thrown) });
      this.#end(DISCONNECT.internal);
    });
  }

  #attach(session: SocketSession): void {
    this.#session = session;
    if (this.#hasEnded) return session.onSocketClosed();
    for (const data of this.#buffered.splice(0)) session.receive(data);
  }

  #receive(data: unknown): void {
    noteInput();
    this.lastReceivedAt = performance.now();
    this.hasReceived = true;
    const size = typeof data === "string" ? data.length : (data as ArrayBuffer).byteLength;
    if (this.#isClosing) return this.#ignore(size);
    if (this.#session !== undefined) return this.#session.receive(data);
    this.#bufferedBytes += size;
    if (this.#bufferedBytes > this.#options.limits.inboxMaxBytes) this.#end(DISCONNECT.tooManyRequests);
    else this.#buffered.push(data);
  }

  /** Frames sent before the peer saw the close are allowed, up to a limit. */
  #ignore(size: number): void {
    this.#ignoredBytes += FRAME_OVERHEAD_BYTES + size;
    if (this.#ignoredBytes > this.#options.limits.inboxMaxBytes) this.#terminate();
  }

  #terminate(): void {
    this.#isTerminated = true;
    dropSocket(this.#socket);
  }

  #end({ code, reason }: Disconnect): void {
    this.#buffered = [];
    this.close(code, reason);
  }

  readonly #onEnded = (): void => {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#buffered = [];
    this.#options.guard.delete(this);
    this.#options.onClosed();
    this.#session?.onSocketClosed();
  };
}
