// Clients of live documents: the provider that editors use, and one that sends arbitrary frames.
import { HocuspocusProvider, HocuspocusProviderWebsocket } from "npm:@hocuspocus/provider@4.8.0";
import * as enc from "npm:lib0@0.2.120/encoding";
import * as Y from "yjs";
import { EditorAccess } from "@/modules/document/collaboration/editor_access.ts";
import { countSockets } from "../../counted_sockets.ts";
import type { Harness } from "../../harness.ts";
import { allEnded, pause, until } from "../../wait.ts";
import { DocumentFixture } from "./document_fixture.ts";

type EditorOptions = {
  url: string;
  document: string;
  token: string | (() => Promise<string>);
  doc?: Y.Doc;
};

/** An editor: its copy of the document, and what it received from the gateway. */
export class Editor {
  readonly doc: Y.Doc;
  readonly provider: HocuspocusProvider;
  readonly authFailures: string[] = [];
  readonly rejections: { code: string; detail: string }[] = [];
  readonly scopes: string[] = [];
  readonly closeCodes: number[] = [];
  readonly closeReasons: string[] = [];
  readonly #sockets = countSockets(WebSocket);
  readonly #socket: HocuspocusProviderWebsocket;

  constructor({ url, document, token, doc = new Y.Doc() }: EditorOptions) {
    this.doc = doc;
    this.#socket = new HocuspocusProviderWebsocket({
      url,
      delay: 50,
      minDelay: 50,
      maxDelay: 300,
      WebSocketPolyfill: this.#sockets.Socket,
    });
    this.provider = new HocuspocusProvider({
      websocketProvider: this.#socket,
      name: document,
      token,
      document: doc,
      onAuthenticationFailed: ({ reason }) => this.authFailures.push(reason),
      onAuthenticated: ({ scope }) => this.scopes.push(scope),
      onStateless: ({ payload }) => this.rejections.push(JSON.parse(payload)),
      onClose: ({ event }) => {
        this.closeCodes.push(event.code);
        this.closeReasons.push(event.reason);
      },
    });
    this.provider.attach();
  }

  get text(): string {
    return this.doc.getText("content").toString();
  }

  insert(at: number, text: string): void {
    this.doc.getText("content").insert(at, text);
  }

  remove(at: number, length: number): void {
    this.doc.getText("content").delete(at, length);
  }

  /** Whether all edits are acknowledged. */
  get isSaved(): boolean {
    return this.provider.isSynced && !this.provider.hasUnsyncedChanges;
  }

  async waitUntilSaved(): Promise<void> {
    await until(() => this.isSaved, "everything is saved").catch((cause) => {
      const { authFailures, closeReasons, rejections } = this;
      throw new Error(`not saved: ${JSON.stringify({ authFailures, closeReasons, rejections })}`, { cause });
    });
  }

  /** Disconnects; edits are queued. */
  async disconnect(): Promise<void> {
    this.#socket.disconnect();
    await until(() => this.#socket.status === "disconnected", "the socket is closed");
  }

  async reconnect(): Promise<void> {
    await this.#socket.connect();
  }

  /** Names in the awareness states. */
  get awarenessNames(): string[] {
    const states = [...this.provider.awareness?.getStates().values() ?? []];
    return states.flatMap((state) => state.user?.name ?? []).sort();
  }

  /** Resolves when its peer has answered, or has disconnected. */
  async close(): Promise<void> {
    this.provider.destroy();
    this.#socket.destroy();
    await this.#sockets.untilClosed();
  }
}

/** Types of frames. */
export const FRAME_TYPE = { sync: 0, awareness: 1, auth: 2, close: 7 };

/** The frame that requests a document. */
export function authFrame(name: string, token: string): Uint8Array<ArrayBuffer> {
  return encodeFrame(name, FRAME_TYPE.auth, (frame) => {
    enc.writeVarUint(frame, 0);
    enc.writeVarString(frame, token);
  });
}

/** The frame of an update; 1: that of the first sync. */
export function updateFrame(name: string, update: Uint8Array, step = 1): Uint8Array<ArrayBuffer> {
  return encodeFrame(name, FRAME_TYPE.sync, (frame) => {
    enc.writeVarUint(frame, step);
    enc.writeVarUint8Array(frame, update);
  });
}

/** A frame of the protocol. */
export function encodeFrame(name: string, kind: number, write: (frame: enc.Encoder) => void): Uint8Array<ArrayBuffer> {
  const frame = enc.createEncoder();
  enc.writeVarString(frame, name);
  enc.writeVarUint(frame, kind);
  write(frame);
  return enc.toUint8Array(frame) as Uint8Array<ArrayBuffer>;
}

/** A client that sends arbitrary frames. */
export class RawEditor {
  readonly socket: WebSocket;
  readonly closed: Promise<number>;
  readonly #name: string;
  readonly #received: string[] = [];

  private constructor(url: string, name: string) {
    this.#name = name;
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = ({ data }) => this.#received.push(new TextDecoder().decode(data));
    this.closed = new Promise((resolve) => this.socket.onclose = ({ code }) => resolve(code));
  }

  /** Without a token it does not authenticate. */
  static async connect(url: string, name: string, token?: string): Promise<RawEditor> {
    const editor = new RawEditor(url, name);
    await new Promise((resolve) => editor.socket.onopen = resolve);
    if (token === undefined) return editor;
    editor.authenticate(token);
    await until(() => editor.#received.length > 0 || editor.socket.readyState !== WebSocket.OPEN, "a response arrives");
    return editor;
  }

  /** Requests a document. */
  authenticate(token: string, name = this.#name): void {
    this.socket.send(authFrame(name, token));
  }

  sendFrame(kind: number, write: (frame: enc.Encoder) => void, name = this.#name): void {
    this.socket.send(encodeFrame(name, kind, write));
  }

  /** Sends awareness states of these clients. */
  sendAwareness(clients: readonly number[], clock: number, state: string): void {
    const update = enc.createEncoder();
    enc.writeVarUint(update, clients.length);
    for (const client of clients) {
      enc.writeVarUint(update, client);
      enc.writeVarUint(update, clock);
      enc.writeVarString(update, state);
    }
    this.sendFrame(FRAME_TYPE.awareness, (frame) => enc.writeVarUint8Array(frame, enc.toUint8Array(update)));
  }

  sendUpdate(update: Uint8Array, step = 1): void {
    this.socket.send(updateFrame(this.#name, update, step));
  }

  /** Whether a received frame contains this text. */
  hasReceived(words: string): boolean {
    return this.#received.some((text) => text.includes(words));
  }

  get receivedCount(): number {
    return this.#received.length;
  }

  async close(): Promise<void> {
    this.socket.close();
    await this.closed;
  }
}

/** Serves a gateway on a port for editors; disposing closes it and its editors. */
export class EditorServer {
  readonly url: string;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #editors: Editor[] = [];
  readonly #gateway: Harness;

  constructor(gateway: Harness) {
    this.#gateway = gateway;
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request, info) => gateway.app.fetch(request, info.remoteAddr.hostname),
    );
    this.url = `ws://127.0.0.1:${this.#server.addr.port}/v1/collaboration/documents/sync`;
  }

  openEditor(document: string, token: EditorOptions["token"], doc?: Y.Doc, query = ""): Editor {
    const editor = new Editor({ url: this.url + query, document, token, ...doc === undefined ? {} : { doc } });
    this.#editors.push(editor);
    return editor;
  }

  /** An editor that is in sync. */
  async openSyncedEditor(document: string, token: EditorOptions["token"], doc?: Y.Doc): Promise<Editor> {
    const editor = this.openEditor(document, token, doc);
    await until(() => editor.provider.isSynced, "the editor is in sync");
    return editor;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closing = this.#editors.map((editor) => editor.close());
    await this.#gateway.app.drain();
    await this.#server.shutdown();
    await Promise.all(closing);
  }
}

/** A document with `text`, and a server for its editors. */
export class EditorFixture {
  readonly documents: DocumentFixture;
  readonly server: EditorServer;
  readonly id: string;

  private constructor(fixture: DocumentFixture, id: string) {
    this.documents = fixture;
    this.server = new EditorServer(fixture.gateway);
    this.id = id;
  }

  static async open(text = "", environment: Record<string, string> = {}): Promise<EditorFixture> {
    const fixture = await DocumentFixture.open({ environment });
    return new EditorFixture(fixture, (await fixture.create(text)).id);
  }

  /** Token of a principal of the fixture. */
  readonly token = (name: string): string => this.documents.as(name).token;

  /** Editors of these principals that are in sync. */
  openEditors<Names extends readonly string[]>(...names: Names): Promise<{ [At in keyof Names]: Editor }> {
    return allEnded(names.map((name) => this.server.openSyncedEditor(this.id, this.token(name)))) as never; // as many
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await this.documents[Symbol.asyncDispose]();
  }
}

/** The newer tokens that gateways have checked, until it is disposed of: no editor is notified of that. */
export function recordRenewals(): Disposable & { readonly all: { isVerified: boolean; expiresAt: number }[] } {
  const { renewToken } = EditorAccess.prototype;
  const all: { isVerified: boolean; expiresAt: number }[] = [];
  EditorAccess.prototype.renewToken = async function (editor, token) {
    await renewToken.call(this, editor, token);
    const { isTokenUnverified, actor: { expiresAt = Infinity } } = editor.context;
    all.push({ isVerified: isTokenUnverified !== true, expiresAt });
  };
  return { all, [Symbol.dispose]: () => void (EditorAccess.prototype.renewToken = renewToken) };
}

/** Waits for effects that must not occur. */
export function waitBriefly(): Promise<void> {
  return pause(150);
}
