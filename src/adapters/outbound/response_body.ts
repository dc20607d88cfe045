// The body of an outbound call's response: a bounded stream that is read no faster than it is used. JSON with bounds of its own is
// charged to the caller; where its parts are small, several are read at a time.
import type http from "node:http";
import { chargeTick, currentAccount } from "@/core/caller.ts";
import { delay, nextTick } from "@/core/time/clock.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { type JsonBounds, OutboundError } from "@/ports/outbound.ts";
import { limitJson } from "./json_limit.ts";

/** What is parsed in a tick, which takes a few milliseconds at most. */
const JSON_PIECE_BYTES = 8 * 1024;
/**
 * Small parts of JSON cost much more one by one than together: most of it is to wake up for each. So after such a part the connection
 * rests, and the system gathers what comes.
 */
const REST_MS = 100;
/** The rests of some streams end together, those of the next ones at another time: to read many at once delays others. */
const GROUP = { streams: 4, apartMs: 35 };
/** Parts before the first rest: a response begins at once. */
const EARLY_PARTS = 3;
/** Chunks of a body, beside one for so many of its bytes: each takes as long as a thousand bytes. */
const [CHUNKS_MAX, BYTES_PER_CHUNK] = [4096, 16];
/** Longest pause in reading for a caller that has used up its share of CPU time: servers wait that long for sure. */
const DEBT_PAUSE_MAX_MS = 1000;

export type BodyOptions = {
  maxBytes: number;
  json: JsonBounds | undefined;
  /** Aborts when the call ends. */
  call: AbortSignal;
  /** Called when the stream has ended, in any way. */
  end: () => void;
  /** Number of this body among those with JSON, of all calls. */
  n: number;
};

/** Throws `response_too_large` for a body whose announced length is too much. */
export function createBodyStream(incoming: http.IncomingMessage, options: BodyOptions): ReadableStream<Uint8Array> {
  if (Number(incoming.headers["content-length"]) > options.maxBytes) {
    incoming.destroy();
    throw tooLarge(`longer than ${options.maxBytes} bytes`);
  }
  return new ReadableStream(new BodySource(incoming, options));
}

class BodySource implements UnderlyingDefaultSource<Uint8Array> {
  readonly #incoming: http.IncomingMessage;
  readonly #options: BodyOptions;
  /** Who is charged for what is parsed. */
  readonly #account: CpuAccount | undefined;
  readonly #excessOf: (chunk: Uint8Array) => string | undefined;
  /** What is parsed as JSON is given out in pieces, one a tick. */
  readonly #pieceBytes: number;
  readonly #over = new AbortController();
  readonly #abort = (): void => this.#fail(this.#options.call.reason);
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #bytes = 0;
  #chunks = 0;
  /** What has arrived and was not given out; all of it may have arrived. */
  readonly #waiting: Uint8Array[] = [];
  #isComplete = false;
  /** Parts that were read and given out, and where the next one begins. */
  #parts = 0;
  #partStart = 0;

  constructor(incoming: http.IncomingMessage, options: BodyOptions) {
    const { json } = options;
    this.#incoming = incoming;
    this.#options = options;
    // Other calls have deadlines that a pause would exceed, and little to parse.
    this.#account = json === undefined ? undefined : currentAccount();
    this.#excessOf = json === undefined ? () => undefined : limitJson(json);
    this.#pieceBytes = json === undefined ? Infinity : JSON_PIECE_BYTES;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#incoming.on("data", (chunk: Uint8Array) => this.#receive(chunk));
    this.#incoming.on("end", () => this.#complete());
    const cut = (cause?: unknown): void => {
      // A body that has arrived may wait for its reader, and its connection be closed meanwhile.
      if (!this.#isComplete) this.#fail(cutOff(cause));
    };
    this.#incoming.on("error", cut);
    this.#incoming.on("aborted", () => cut());
    this.#incoming.on("close", () => cut());
    const { call } = this.#options;
    // It may have ended since the response began.
    if (call.aborted) return this.#abort();
    call.addEventListener("abort", this.#abort, { once: true });
  }

  async pull(): Promise<void> {
    if (this.#waiting.length === 0) await this.#rest();
    const pauseMs = this.#pauseMs;
    if (pauseMs > 0) await delay(pauseMs, this.#over.signal);
    else if (this.#waiting.length > 0) await nextTick();
    if (this.#isOver) return;
    if (this.#waiting.length > 0) return this.#give();
    this.#incoming.socket.resume();
    this.#incoming.resume();
  }

  cancel(): void {
    this.#finish();
  }

  get #isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** How long reading pauses. */
  get #pauseMs(): number {
    return Math.min(this.#account?.waitMs ?? 0, DEBT_PAUSE_MAX_MS);
  }

  #receive(chunk: Uint8Array): void {
    if (this.#isOver) return;
    const { maxBytes } = this.#options;
    this.#bytes += chunk.length;
    const excess = this.#bytes > maxBytes
      ? `longer than ${maxBytes} bytes`
      : ++this.#chunks > CHUNKS_MAX + this.#bytes / BYTES_PER_CHUNK
      ? "sent in chunks of a few bytes"
      : this.#excessOf(chunk);
    if (excess !== undefined) return this.#fail(tooLarge(excess));
    this.#waiting.push(chunk);
    // What was read together is given out together.
    if (this.#waiting.length === 1) queueMicrotask(() => this.#give());
  }

  /** Gives out one piece, and reads on if more is wanted now. */
  #give(): void {
    if (this.#isOver || this.#waiting.length === 0) return;
    chargeTick(this.#account);
    this.#controller?.enqueue(this.#takePiece());
    if (this.#waiting.length > 0) this.#incoming.pause();
    else if (this.#isComplete) this.#close();
    else if ((this.#controller?.desiredSize ?? 1) <= 0 || this.#pauseMs > 0) this.#incoming.pause();
  }

  /** After a small part, the connection is not read for a while. */
  async #rest(): Promise<void> {
    const { json, n } = this.#options;
    if (json === undefined || this.#bytes === this.#partStart) return;
    // What was just read makes the runtime read on, but in this tick only. It may have been the last part.
    await nextTick();
    const bytes = this.#bytes - this.#partStart;
    this.#partStart = this.#bytes;
    this.#parts++;
    if (this.#isOver || bytes >= JSON_PIECE_BYTES || this.#parts <= EARLY_PARTS) return;
    this.#incoming.socket.pause();
    const phaseMs = Math.floor(n / GROUP.streams) * GROUP.apartMs;
    await delay(REST_MS - (performance.now() + phaseMs) % REST_MS, this.#over.signal);
  }

  /** What waits, up to the length of a piece; a copy, since the connection uses its buffers again. */
  #takePiece(): Uint8Array<ArrayBuffer> {
    const waitingBytes = this.#waiting.reduce((sum, { length }) => sum + length, 0);
    const piece = new Uint8Array(Math.min(waitingBytes, this.#pieceBytes));
    for (let filled = 0; filled < piece.length;) {
      const chunk = this.#waiting.shift() ?? piece;
      const part = chunk.subarray(0, piece.length - filled);
      piece.set(part, filled);
      filled += part.length;
      if (part.length < chunk.length) this.#waiting.unshift(chunk.subarray(part.length));
    }
    return piece;
  }

  #complete(): void {
    if (this.#isOver) return;
    // A body that was cut has an end, too.
    if (!this.#incoming.complete) return this.#fail(cutOff());
    this.#isComplete = true;
    if (this.#waiting.length === 0) this.#close();
  }

  #close(): void {
    this.#finish();
    // What is not a stream of events is parsed now.
    chargeTick(this.#account);
    this.#controller?.close();
  }

  #fail(reason: unknown): void {
    if (this.#isOver) return;
    this.#finish();
    this.#controller?.error(reason);
  }

  #finish(): void {
    this.#over.abort();
    this.#options.call.removeEventListener("abort", this.#abort);
    this.#incoming.destroy();
    this.#options.end();
  }
}

function tooLarge(how: string): OutboundError {
  return new OutboundError("response_too_large", `The response is ${how}`);
}

function cutOff(cause?: unknown): OutboundError {
  return new OutboundError("connection_failed", "The response was cut off", { cause });
}
