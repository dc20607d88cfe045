// One socket of an editor, on which it may open several documents: validates its frames, and closes it.
import type { Hocuspocus, WebSocketLike } from "@hocuspocus/server";
import { chargeTick, chargeTo, measureOn } from "@/core/caller.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import type { Fault } from "@/core/fault.ts";
import { TokenBucket } from "@/core/limit/token_bucket.ts";
import type { DocumentKind } from "../content/update_scan.ts";
import { UPDATE_MAX_BYTES, VIEWS_MAX } from "../schema.ts";
import { type EditorFrame, parseFrame } from "./editor_frame.ts";
import { FrameQueue, type WaitingFrames } from "./frame_queue.ts";

/** Why a socket, or one document on it, is closed. Clients reconnect after each; the refusal of their token then states the reason. */
export const CLOSE = {
  malformed: { code: 4400, reason: "malformed frame" },
  unauthorized: { code: 4401, reason: "token expired or revoked" },
  forbidden: { code: 4403, reason: "no longer allowed" },
  refused: { code: 4422, reason: "content refused" },
  idle: { code: 4408, reason: "not authenticated in time" },
  rateLimited: { code: 4429, reason: "too many frames" },
  cpuLimit: { code: 4429, reason: "CPU limit exceeded" },
  tooMany: { code: 4429, reason: "too many documents, or too many editors of one" },
  tooLarge: { code: 1009, reason: "frame too large" },
  retry: { code: 4500, reason: "try again" },
  shutdown: { code: 1001, reason: "shutting down" },
} as const;
/** States of awareness. A provider repeats those of all editors: a hundred of them may type. */
const STATE_RATE = { perSecond: 4000, burst: 5000 };
/** Editors on one socket, including refused ones. */
const EDITORS_PER_SOCKET_MAX = 500;
/** What the runtime takes to receive a frame. */
const RECEIVE_MS = 0.02;
type Engine = ReturnType<Hocuspocus["handleConnection"]>;
type CloseReason = (typeof CLOSE)[keyof typeof CLOSE];

/** What the transport provides for a socket. */
export type SocketHooks = {
  /** Called when a token is accepted; `owner` is who is charged for its calls. */
  onAuthenticated(owner: string): void;
  /** Whether another frame of this many bytes is within the socket's rate. */
  allowFrame(bytes: number): boolean;
  /** Whether the origin of the socket is allowed in this tenant. */
  isOriginAllowed(tenantId: string): boolean;
};

type EditorSocketOptions = {
  authTimeoutMs: number;
  waiting: WaitingFrames;
  onClosed: (socket: EditorSocket) => void;
  /** Called for a rejected update, which is not passed to the engine, as that would parse it again. */
  onRejected: (socket: EditorSocket, frame: EditorFrame, rejection: Fault) => void;
};

export class EditorSocket {
  /** The CPU account of the principal of the last accepted token, or of its owner. */
  account: CpuAccount | undefined;
  /** The gateway has closed it, and what its client has sent is no longer handled. */
  isDiscarded = false;
  readonly #socket: WebSocketLike;
  readonly #hooks: SocketHooks;
  readonly #options: EditorSocketOptions;
  readonly #deadline: ReturnType<typeof setTimeout>;
  /** Editors that requested their documents; the engine would only queue frames of others. */
  readonly #requested = new Set<string>();
  /** Kinds of the documents that were opened. */
  readonly #kinds = new Map<string, DocumentKind>();
  /** Updates of documents that are not open yet: their kind decides what may be in them, and parsing needs an account. */
  #earlyUpdates: { documentId: string; bytes: Uint8Array }[] = [];
  readonly #states = new TokenBucket(STATE_RATE, performance.now());
  readonly #frames: FrameQueue;
  #engine: Engine | undefined;
  #isClosed = false;

  constructor(socket: WebSocketLike, hooks: SocketHooks, options: EditorSocketOptions) {
    this.#socket = socket;
    this.#hooks = hooks;
    this.#options = options;
    this.#frames = new FrameQueue({
      waiting: options.waiting,
      handle: (frame) => this.#handleFrame(frame),
      onFull: () => this.close(CLOSE.rateLimited),
      onEmpty: () => this.#endIfClosed(),
    });
    this.#deadline = setTimeout(() => this.close(CLOSE.idle), options.authTimeoutMs);
  }

  /** Connects the engine, for which the socket is open until all is handled that has arrived: else it would stop after a frame. */
  attach(connect: (socket: WebSocketLike) => Engine): void {
    const [socket, frames] = [this.#socket, this.#frames];
    this.#engine = connect({
      get readyState() {
        return frames.isEmpty ? socket.readyState : WebSocket.OPEN;
      },
      send: (data) => socket.send(data),
      close: (code, reason) => socket.close(code, reason),
    });
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  receive(data: unknown): void {
    if (this.#isClosed || !(data instanceof ArrayBuffer)) return this.close(CLOSE.malformed);
    if (!this.#hooks.allowFrame(data.byteLength)) return this.close(CLOSE.rateLimited);
    this.account?.consume(RECEIVE_MS);
    if (this.account?.isOverdrawn()) return this.close(CLOSE.cpuLimit);
    this.#frames.add(new Uint8Array(data), this.account);
  }

  #handleFrame(bytes: Uint8Array): void {
    const account = this.account;
    // What the engine does with a frame before its first hook, such as opening a document, is not measured by itself.
    chargeTick(account);
    const read = (): ReturnType<typeof parseFrame> =>
      parseFrame(bytes, {
        requested: this.#requested,
        kindOf: (name) => this.#kinds.get(documentIdOf(name)),
        allowStates: (count) => this.#states.consume(performance.now(), count),
      });
    const frame = measureOn(account, read);
    if (frame === "too_large") return this.close(CLOSE.tooLarge);
    if (frame === "malformed") return this.close(CLOSE.malformed);
    if (frame.kind === "ignored" || this.#isClosed && !isUpdate(frame)) return;
    if (frame.kind === "auth") {
      this.#requested.add(frame.name);
      if (this.#hasTooManyEditors(documentIdOf(frame.name))) return this.close(CLOSE.tooMany);
    }
    if (!this.#requested.has(frame.name)) return;
    const documentId = documentIdOf(frame.name);
    if (!this.#kinds.has(documentId) && isUpdate(frame)) return this.#queueEarlyUpdate(documentId, bytes);
    if (frame.rejection !== undefined) return this.#options.onRejected(this, frame, frame.rejection);
    chargeTo(account, () => this.#engine?.handleMessage(bytes));
    if (frame.kind === "close") this.#requested.delete(frame.name);
  }

  /** Called when a token is accepted for a document. */
  markAuthenticated(account: CpuAccount, { id, kind }: { id: string; kind: DocumentKind }): void {
    clearTimeout(this.#deadline);
    this.account = account;
    this.#kinds.set(id, kind);
    const queued = this.#earlyUpdates;
    this.#earlyUpdates = queued.filter(({ documentId }) => documentId !== id);
    for (const { documentId, bytes } of queued) {
      if (documentId === id) this.#handleFrame(bytes);
    }
    this.#hooks.onAuthenticated(account.key);
  }

  /** Whether the origin of the socket is allowed in this tenant. */
  isOriginAllowed(tenantId: string): boolean {
    return this.#hooks.isOriginAllowed(tenantId);
  }

  /** An editor was disconnected: its frames are ignored until it requests its document again. */
  removeEditor(address: string): void {
    this.#requested.delete(address);
  }

  close({ code, reason }: CloseReason): void {
    this.isDiscarded = true;
    this.#frames.clear();
    if (!this.#isClosed) this.#socket.close(code, reason);
    this.onSocketClosed();
  }

  /** The socket is closed, or about to be; may be called twice. */
  onSocketClosed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#deadline);
    this.#options.onClosed(this);
    this.#endIfClosed();
  }

  /** The engine learns that the socket has closed once it has all that the client had sent. */
  #endIfClosed(): void {
    if (this.#isClosed && this.#frames.isEmpty) this.#engine?.handleClose({ code: 1000, reason: "closed" });
  }

  #queueEarlyUpdate(documentId: string, bytes: Uint8Array): void {
    this.#earlyUpdates.push({ documentId, bytes });
    if (this.#earlyUpdates.reduce((sum, one) => sum + one.bytes.length, 0) > UPDATE_MAX_BYTES) {
      this.close(CLOSE.rateLimited);
    }
  }

  /** Whether the client has opened more editors than any web page does. */
  #hasTooManyEditors(name: string): boolean {
    const views = [...this.#requested].filter((address) => documentIdOf(address) === name);
    return views.length > VIEWS_MAX || this.#requested.size > EDITORS_PER_SOCKET_MAX;
  }
}

/** Whether the client loses what is in the frame unless it is stored. */
function isUpdate({ kind }: EditorFrame): boolean {
  return kind === "update" || kind === "first_sync";
}

/** The document that an editor's address names. */
export function documentIdOf(address: string): string {
  return address.split("\0")[0] ?? "";
}
