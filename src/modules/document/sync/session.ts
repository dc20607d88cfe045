// One socket of an editor, on which it may open several documents: what comes in is checked, and it ends in one way.
import type { Hocuspocus, WebSocketLike } from "@hocuspocus/server";
import type { Fault } from "@/core/fault.ts";
import { UPDATE_MAX_BYTES, VIEWS_MAX } from "../schema.ts";
import type { Share } from "../share.ts";
import { type Frame, readFrame } from "./frame.ts";

/** How a socket or a document on it ends. Clients come back after each of them; a refused token then says why. */
export const ENDED = {
  malformed: { code: 4400, reason: "malformed frame" },
  unauthorized: { code: 4401, reason: "token expired or revoked" },
  forbidden: { code: 4403, reason: "no longer allowed" },
  idle: { code: 4408, reason: "not authenticated in time" },
  flood: { code: 4429, reason: "too many frames" },
  work: { code: 4429, reason: "too much work" },
  crowd: { code: 4429, reason: "too many documents, or editors of one" },
  tooLarge: { code: 1009, reason: "frame too large" },
  again: { code: 4500, reason: "try again" },
  shutdown: { code: 1001, reason: "shutting down" },
} as const;
/** Editors on one socket, those included that were refused. */
const ASKED_MAX = 500;
type Engine = ReturnType<Hocuspocus["handleConnection"]>;
export type End = (typeof ENDED)[keyof typeof ENDED];

/** What the transport knows of a socket. */
export type SocketMeta = {
  /** Called with the first token that is good. */
  onAuthenticated(): void;
  /** Whether another frame of this many bytes is within the socket's rate. */
  takeFrame(bytes: number): boolean;
  /** Whether the page behind the socket may act in this tenant. */
  mayActIn(tenantId: string): boolean;
};

type SessionOptions = {
  authTimeoutMs: number;
  onGone: (session: SyncSession) => void;
  /** Of a frame with an update that is not taken: the engine, which would take it apart once more, does not get it. */
  onRefused: (session: SyncSession, frame: Frame, refusal: Fault) => void;
};

export class SyncSession {
  /** Whose socket it is, as of the last token that was good. */
  principal: string | undefined;
  readonly #socket: WebSocketLike;
  readonly #meta: SocketMeta;
  readonly #options: SessionOptions;
  readonly #deadline: ReturnType<typeof setTimeout>;
  /** Editors that have asked for their documents; frames of others would only wait in a queue. */
  readonly #asked = new Set<string>();
  /** Updates from before it was known whose they are: reading them is work. */
  readonly #early: Uint8Array[] = [];
  #share: Share | undefined;
  #engine: Engine | undefined;
  #isGone = false;

  constructor(socket: WebSocketLike, meta: SocketMeta, options: SessionOptions) {
    this.#socket = socket;
    this.#meta = meta;
    this.#options = options;
    this.#deadline = setTimeout(() => this.end(ENDED.idle), options.authTimeoutMs);
  }

  /** Gives the session the engine's side of the socket. */
  attach(engine: Engine): void {
    this.#engine = engine;
  }

  receive(data: unknown): void {
    if (this.#isGone || !(data instanceof ArrayBuffer)) return this.end(ENDED.malformed);
    if (!this.#meta.takeFrame(data.byteLength)) return this.end(ENDED.flood);
    if (this.#share !== undefined && this.#share.waitMs > 0) return this.end(ENDED.work);
    this.#take(new Uint8Array(data));
  }

  #take(bytes: Uint8Array): void {
    if (this.#isGone) return;
    const share = this.#share;
    const read = (): ReturnType<typeof readFrame> => readFrame(bytes, this.#asked, share === undefined);
    const frame = share === undefined ? read() : share.time(read);
    if (frame === "too_large") return this.end(ENDED.tooLarge);
    if (frame === "malformed") return this.end(ENDED.malformed);
    if (frame.kind === "ping") return;
    if (frame.kind === "auth") {
      this.#asked.add(frame.name);
      if (this.#asksTooMuch(documentOf(frame.name))) return this.end(ENDED.crowd);
    }
    if (!this.#asked.has(frame.name)) return;
    if (share === undefined && (frame.kind === "update" || frame.kind === "first_sync")) return this.#putOff(bytes);
    if (frame.refusal !== undefined) return this.#options.onRefused(this, frame, frame.refusal);
    this.#engine?.handleMessage(bytes);
    if (frame.kind === "close") this.#asked.delete(frame.name);
  }

  /** A token was good. */
  authenticated(principal: string, share: Share): void {
    clearTimeout(this.#deadline);
    this.principal = principal;
    this.#share = share;
    for (const bytes of this.#early.splice(0)) this.#take(bytes);
    this.#meta.onAuthenticated();
  }

  /** Whether the page behind the socket may act in this tenant. */
  mayActIn(tenantId: string): boolean {
    return this.#meta.mayActIn(tenantId);
  }

  /** An editor was cut off: no frame of it counts until it asks again. */
  forget(address: string): void {
    this.#asked.delete(address);
  }

  /** Closes the socket. */
  end({ code, reason }: End): void {
    if (this.#isGone) return;
    this.#socket.close(code, reason);
    this.gone();
  }

  /** The socket is closed, or about to be; may be called twice. */
  gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    clearTimeout(this.#deadline);
    this.#engine?.handleClose({ code: 1000, reason: "closed" });
    this.#options.onGone(this);
  }

  #putOff(bytes: Uint8Array): void {
    this.#early.push(bytes);
    if (this.#early.reduce((sum, { length }) => sum + length, 0) > UPDATE_MAX_BYTES) this.end(ENDED.flood);
  }

  /** Whether the client has asked for more than any page opens. */
  #asksTooMuch(name: string): boolean {
    const views = [...this.#asked].filter((address) => documentOf(address) === name);
    return views.length > VIEWS_MAX || this.#asked.size > ASKED_MAX;
  }
}

/** The document that an editor's address names. */
export function documentOf(address: string): string {
  return address.split("\0")[0] ?? "";
}
