// The body of an outbound call's response: a bounded stream that is read no faster than it is used. JSON with bounds of its own is
// charged to the caller; of many such streams at a time, more is gathered before it is given out.
import type http from "node:http";
import { chargeTick, currentAccount } from "@/core/caller.ts";
import { delay, nextTick } from "@/core/time/clock.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { type JsonBounds, OutboundError } from "@/ports/outbound.ts";
import { limitJson } from "./json_limit.ts";

/** What is parsed in a tick, which takes a few milliseconds at most. */
const JSON_PIECE_BYTES = 8 * 1024;
/**
 * How soon after a piece the next one is given out, for each open stream of JSON: parsing small parts one by one costs much more
 * than parsing them together. Those of a few streams are given out as they come.
 */
const GATHER = { perStreamMs: 3, maxMs: 100 };
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
  /** Number of open streams of JSON, of all calls. */
  open: { count: number };
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
  #givenAt = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(incoming: http.IncomingMessage, options: BodyOptions) {
    const { json } = options;
    this.#incoming = incoming;
    this.#options = options;
    // Other calls have deadlines that a pause would exceed, and little to parse.
    this.#account = json === undefined ? undefined : currentAccount();
    this.#excessOf = json === undefined ? () => undefined : limitJson(json);
    this.#pieceBytes = json === undefined ? Infinity : JSON_PIECE_BYTES;
    if (json !== undefined) options.open.count++;
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
    const pauseMs = this.#pauseMs;
    if (pauseMs > 0) await delay(pauseMs, this.#over.signal);
    else if (this.#waiting.length > 0) await nextTick();
    if (this.#isOver) return;
    if (this.#waiting.length > 0) this.#give();
    else this.#incoming.resume();
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
    if (this.#waiting.length > 1 && this.#timer === undefined) return;
    const gatherMs = this.#waitingBytes < this.#pieceBytes ? this.#gatherMs : 0;
    if (gatherMs <= 0) this.#give();
    else this.#timer ??= setTimeout(() => this.#give(), gatherMs);
  }

  /** How long to wait for more. */
  get #gatherMs(): number {
    const { json, open } = this.#options;
    if (json === undefined) return 0;
    return this.#givenAt + Math.min(GATHER.maxMs, open.count * GATHER.perStreamMs) - performance.now();
  }

  get #waitingBytes(): number {
    return this.#waiting.reduce((sum, { length }) => sum + length, 0);
  }

  /** Gives out one piece, and reads on if more is wanted now. */
  #give(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#givenAt = performance.now();
    chargeTick(this.#account);
    this.#controller?.enqueue(this.#takePiece());
    if (this.#waiting.length > 0) this.#incoming.pause();
    else if (this.#isComplete) this.#close();
    else if ((this.#controller?.desiredSize ?? 1) <= 0 || this.#pauseMs > 0) this.#incoming.pause();
  }

  /** What waits, up to the length of a piece; a copy, since the connection uses its buffers again. */
  #takePiece(): Uint8Array<ArrayBuffer> {
    const piece = new Uint8Array(Math.min(this.#waitingBytes, this.#pieceBytes));
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
    // Nothing more comes.
    else if (this.#timer !== undefined) this.#give();
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
    if (this.#options.json !== undefined && !this.#isOver) this.#options.open.count--;
    clearTimeout(this.#timer);
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
