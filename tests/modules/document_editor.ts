// Clients for tests: the provider that TipTap, CodeMirror and the like use, on a document's text, and one that says anything.
import { HocuspocusProvider, HocuspocusProviderWebsocket } from "npm:@hocuspocus/provider@4.8.0";
import * as enc from "npm:lib0@0.2.120/encoding";
import * as Y from "yjs";
import type { Harness } from "../harness.ts";
import { pause, until } from "../wait.ts";
import { DocumentWorld } from "./document_world.ts";

export type EditorOptions = {
  url: string;
  document: string;
  token: string | (() => Promise<string>);
  doc?: Y.Doc;
};

/** One editor: its copy of the document, and what the gateway told it. */
export class Editor {
  readonly doc: Y.Doc;
  readonly provider: HocuspocusProvider;
  readonly refusals: string[] = [];
  readonly refused: { code: string; detail: string }[] = [];
  readonly scopes: string[] = [];
  readonly closes: number[] = [];
  readonly #socket: HocuspocusProviderWebsocket;

  constructor({ url, document, token, doc = new Y.Doc() }: EditorOptions) {
    this.doc = doc;
    this.#socket = new HocuspocusProviderWebsocket({ url, delay: 50, minDelay: 50, maxDelay: 300 });
    this.provider = new HocuspocusProvider({
      websocketProvider: this.#socket,
      name: document,
      token,
      document: doc,
      onAuthenticationFailed: ({ reason }) => this.refusals.push(reason),
      onAuthenticated: ({ scope }) => this.scopes.push(scope),
      onStateless: ({ payload }) => this.refused.push(JSON.parse(payload)),
      onClose: ({ event }) => this.closes.push(event.code),
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

  /** Whether the gateway has said that everything typed here is saved. */
  get isSaved(): boolean {
    return this.provider.isSynced && !this.provider.hasUnsyncedChanges;
  }

  async saved(): Promise<void> {
    await until(() => this.isSaved, "everything is saved");
  }

  /** Loses the connection, and types on alone. */
  async offline(): Promise<void> {
    this.#socket.disconnect();
    await until(() => this.#socket.status === "disconnected", "the socket is closed");
  }

  async online(): Promise<void> {
    await this.#socket.connect();
  }

  /** Others' states, by the name they gave themselves. */
  get names(): string[] {
    const states = [...this.provider.awareness?.getStates().values() ?? []];
    return states.flatMap((state) => state.user?.name ?? []).sort();
  }

  close(): void {
    this.provider.destroy();
    this.#socket.destroy();
  }
}

/** Kinds of frames. */
export const KIND = { sync: 0, awareness: 1, auth: 2, close: 7 };

/** A client that says what it is told to say. */
export class RawEditor {
  readonly socket: WebSocket;
  readonly closed: Promise<number>;
  readonly #name: string;
  readonly #heard: string[] = [];

  private constructor(url: string, name: string) {
    this.#name = name;
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = ({ data }) => this.#heard.push(new TextDecoder().decode(data));
    this.closed = new Promise((resolve) => this.socket.onclose = ({ code }) => resolve(code));
  }

  /** Without a token it stays a stranger. */
  static async connect(url: string, name: string, token?: string): Promise<RawEditor> {
    const editor = new RawEditor(url, name);
    await new Promise((resolve) => editor.socket.onopen = resolve);
    if (token === undefined) return editor;
    editor.ask(token);
    await until(() => editor.#heard.length > 0 || editor.socket.readyState !== WebSocket.OPEN, "answered");
    return editor;
  }

  /** Asks for a document. */
  ask(token: string, name?: string): void {
    this.say(KIND.auth, (frame) => {
      enc.writeVarUint(frame, 0);
      enc.writeVarString(frame, token);
    }, name);
  }

  say(kind: number, write: (frame: enc.Encoder) => void, name = this.#name): void {
    const frame = enc.createEncoder();
    enc.writeVarString(frame, name);
    enc.writeVarUint(frame, kind);
    write(frame);
    this.socket.send(enc.toUint8Array(frame) as Uint8Array<ArrayBuffer>);
  }

  /** Claims to be these clients. */
  claim(clients: readonly number[], clock: number, state: string): void {
    const update = enc.createEncoder();
    enc.writeVarUint(update, clients.length);
    for (const client of clients) {
      enc.writeVarUint(update, client);
      enc.writeVarUint(update, clock);
      enc.writeVarString(update, state);
    }
    this.say(KIND.awareness, (frame) => enc.writeVarUint8Array(frame, enc.toUint8Array(update)));
  }

  update(update: Uint8Array, step = 1): void {
    this.say(KIND.sync, (frame) => {
      enc.writeVarUint(frame, step);
      enc.writeVarUint8Array(frame, update);
    });
  }

  /** Whether it was told something that has these words in it. */
  heard(words: string): boolean {
    return this.#heard.some((text) => text.includes(words));
  }

  async close(): Promise<void> {
    this.socket.close();
    await this.closed;
  }
}

/** Serves a gateway on a port, so that editors can connect; gone with everything it opened when disposed. */
export class EditorRoom {
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

  open(document: string, token: EditorOptions["token"], doc?: Y.Doc, query = ""): Editor {
    const editor = new Editor({ url: this.url + query, document, token, ...doc === undefined ? {} : { doc } });
    this.#editors.push(editor);
    return editor;
  }

  /** An editor that has everything there is. */
  async join(document: string, token: EditorOptions["token"], doc?: Y.Doc): Promise<Editor> {
    const editor = this.open(document, token, doc);
    await until(() => editor.provider.isSynced, "the editor is in sync");
    return editor;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const editor of this.#editors) editor.close();
    await this.#gateway.app.drain();
    await this.#server.shutdown();
    // A closing socket is an open resource until the peer has answered.
    await pause(50);
  }
}

/** A document that says `text`, and editors of it; closed in their order when disposed. */
export class EditorScene {
  readonly world: DocumentWorld;
  readonly room: EditorRoom;
  readonly id: string;

  private constructor(world: DocumentWorld, id: string) {
    this.world = world;
    this.room = new EditorRoom(world.gateway);
    this.id = id;
  }

  static async open(text = "", environment: Record<string, string> = {}): Promise<EditorScene> {
    const world = await DocumentWorld.open({ environment });
    return new EditorScene(world, (await world.make(text)).id);
  }

  /** By the name of somebody in the world. */
  readonly token = (name: string): string => this.world.as(name).token;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.room[Symbol.asyncDispose]();
    await this.world[Symbol.asyncDispose]();
  }
}

/** Time for something that must not happen to happen. */
export function aWhile(): Promise<void> {
  return pause(150);
}
