// Clients of one rich document: some type into it, all note when they receive what was typed.
import * as enc from "npm:lib0@0.2.120/encoding";
import { createDecoder, readVarString, readVarUint, readVarUint8Array } from "lib0/decoding";
import * as Y from "yjs";
import { pause, until } from "../wait.ts";

const [SYNC, AUTH] = [0, 2];
const [STEP_ONE, STEP_TWO, UPDATE] = [0, 1, 2];

type Typing = { keystrokes: number; latenciesMs: number[] };

/** One socket with a document, as a provider has it, but without a copy unless it types. */
class Client {
  readonly doc = new Y.Doc();
  readonly #socket: WebSocket;
  readonly #name: string;
  readonly #onUpdate: (update: Uint8Array) => void;
  isSynced = false;

  constructor(url: string, name: string, token: string, onUpdate: (update: Uint8Array) => void) {
    this.#name = name;
    this.#onUpdate = onUpdate;
    this.#socket = new WebSocket(url);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => {
      this.#send(AUTH, (frame) => {
        enc.writeVarUint(frame, 0);
        enc.writeVarString(frame, token);
      });
      this.#sendSync(STEP_ONE, Y.encodeStateVector(this.doc));
    };
    this.#socket.onmessage = ({ data }) => this.#receive(new Uint8Array(data));
    this.doc.on("update", (update: Uint8Array, origin: unknown) => {
      if (origin !== this) this.#sendSync(UPDATE, update);
    });
  }

  close(): void {
    this.#socket.close();
  }

  #receive(data: Uint8Array): void {
    const decoder = createDecoder(data);
    readVarString(decoder);
    if (readVarUint(decoder) !== SYNC) return;
    const step = readVarUint(decoder);
    const payload = readVarUint8Array(decoder);
    if (step === STEP_ONE) this.#sendSync(STEP_TWO, Y.encodeStateAsUpdate(this.doc, payload));
    else if (step === STEP_TWO) {
      Y.applyUpdate(this.doc, payload, this);
      this.isSynced = true;
    } else this.#onUpdate(payload);
  }

  #sendSync(step: number, payload: Uint8Array): void {
    this.#send(SYNC, (frame) => {
      enc.writeVarUint(frame, step);
      enc.writeVarUint8Array(frame, payload);
    });
  }

  #send(kind: number, write: (frame: enc.Encoder) => void): void {
    const frame = enc.createEncoder();
    enc.writeVarString(frame, this.#name);
    enc.writeVarUint(frame, kind);
    write(frame);
    this.#socket.send(enc.toUint8Array(frame) as Uint8Array<ArrayBuffer>);
  }
}

/** Editors of one document, of which the first ones type. */
export class DocumentClients {
  readonly #clients: Client[];
  readonly #typists: number;
  /** When each keystroke was typed, by its client and clock. */
  readonly #typedAt = new Map<string, number>();
  readonly #latenciesMs: number[] = [];
  #received = 0;

  private constructor(url: string, name: string, token: string, count: number, typists: number) {
    this.#typists = typists;
    this.#clients = Array.from({ length: count }, () => new Client(url, name, token, (update) => this.#note(update)));
  }

  static async open(
    url: string,
    name: string,
    token: string,
    count: number,
    typists: number,
  ): Promise<DocumentClients> {
    const clients = new DocumentClients(url, name, token, count, typists);
    await until(() => clients.#clients.every(({ isSynced }) => isSynced), "all editors are in sync");
    return clients;
  }

  /** Writes the first content, as one editor. */
  async write(content: Uint8Array): Promise<void> {
    const [first, second] = this.#clients;
    if (first === undefined || second === undefined) return;
    Y.applyUpdate(first.doc, content);
    await until(() => this.#received > 0, "the content arrives");
  }

  /** Types a character every `everyMs` with each typist, in paragraphs of their own. */
  async type(keysEach: number, everyMs: number): Promise<Typing> {
    this.#typedAt.clear();
    this.#latenciesMs.length = 0;
    const typists = this.#clients.slice(0, this.#typists);
    await Promise.all(typists.map(async ({ doc }, at) => {
      const paragraph = doc.getXmlFragment("default").get(2 + at * 3) as Y.XmlElement;
      const text = paragraph.get(0) as Y.XmlText;
      await pause(everyMs * at / typists.length);
      for (let key = 0; key < keysEach; key++) {
        const clock = Y.getState(doc.store, doc.clientID);
        this.#typedAt.set(`${doc.clientID}:${clock}`, performance.now());
        text.insert(5 + key, "x");
        await pause(everyMs);
      }
    }));
    const keystrokes = typists.length * keysEach;
    await until(() => this.#latenciesMs.length >= keystrokes * (this.#clients.length - 1), "all keystrokes arrive");
    return { keystrokes, latenciesMs: this.#latenciesMs };
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  #note(update: Uint8Array): void {
    this.#received++;
    const now = performance.now();
    for (const [client, clock] of Y.parseUpdateMeta(update).from) {
      const typedAt = this.#typedAt.get(`${client}:${clock}`);
      if (typedAt !== undefined) this.#latenciesMs.push(now - typedAt);
    }
  }
}
