// A crowd that is cut off and comes back, in one process of its own. Sockets of `ws`, because those can be torn down without
// a word. While the clock runs it only keeps frames and counts; what is in them is read afterwards.
import type { Buffer } from "node:buffer";
import { WebSocket } from "npm:ws@8.23.0";
import { pause } from "../wait.ts";
import { countOccurrences } from "./dialect.ts";
import { readRequests, writeReport } from "./worker_protocol.ts";
import {
  createGatewayRecovery,
  type RecoveryProtocol,
  type RecoveryState,
  socketIoRecovery,
} from "./recovery_protocol.ts";

export type StormRequest =
  | { kind: "open"; base: string; clients: number; gateway?: { secret: string; roomId: string } }
  | { kind: "cut" }
  | { kind: "send"; count: number; bytes: number }
  | { kind: "return" }
  | { kind: "check" };

/** How long all clients took to receive everything, and messages that were received once and in order. */
export type StormReport = { seconds: number; received: number };

const MARK = "storm@";
const RECOVERY_TIMEOUT_MS = 60_000;
const CONCURRENCY = 50;

class Client {
  received = 0;
  readonly #protocol: RecoveryProtocol;
  readonly #member: number;
  #recoveryState: RecoveryState | undefined;
  #frames: string[] = [];
  #socket: WebSocket | undefined;
  #onFrame: (frame: string) => void = () => {};

  constructor(returning: RecoveryProtocol, member: number) {
    this.#protocol = returning;
    this.#member = member;
  }

  /** Resolves once it is in the room; `onHeard` receives every frame with messages. */
  join(base: string, onHeard: () => void): Promise<void> {
    const returning = this.#protocol;
    const hello = returning.hello(this.#member, this.#recoveryState);
    this.#frames = [];
    this.received = 0;
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(returning.socketUrl(base), { perMessageDeflate: false });
      this.#socket = socket;
      let isGreeted = false;
      const greet = (): void => {
        isGreeted = true;
        socket.send(hello.text);
      };
      socket.on("error", reject);
      if (!hello.afterFrame) socket.on("open", greet);
      socket.on("message", (data: Buffer) => {
        const frame = data.toString();
        const pong = returning.pong(frame);
        if (pong !== undefined) return socket.send(pong);
        if (!isGreeted) return greet();
        this.#frames.push(frame);
        this.#onFrame(frame);
        if (returning.isJoined(frame)) resolve();
        const count = countOccurrences(frame, MARK);
        if (count === 0) return;
        this.received += count;
        onHeard();
      });
    });
  }

  /** Sends one message; resolves when it is acknowledged. */
  send(id: number, text: string): Promise<void> {
    return new Promise((resolve) => {
      this.#onFrame = (frame) => {
        if (this.#protocol.isAcknowledgement(frame)) resolve();
      };
      this.#socket?.send(this.#protocol.send(id, text));
    });
  }

  /** Tears the socket down, as a network does, and keeps what is needed to come back. */
  terminate(): void {
    this.#recoveryState = this.#protocol.recoveryState(this.#frames);
    this.#socket?.terminate();
  }

  /** Throws unless the messages of this connection are those numbered `from` on, each once and in order. */
  assertReceived(from: number, count: number): void {
    const numbers = this.#protocol.texts(this.#frames).map((text) => Number(text.slice(MARK.length).split(" ", 1)));
    const wrong = numbers.findIndex((number, at) => number !== from + at);
    if (numbers.length !== count || wrong >= 0) {
      throw new Error(`a client heard ${numbers.length} of ${count}: ${numbers[wrong]} in place ${wrong}`);
    }
  }
}

class Storm {
  readonly #base: string;
  readonly #sender: Client;
  readonly #clients: Client[];
  #sent = 0;
  #missed = 0;

  constructor(base: string, returning: RecoveryProtocol, clients: number) {
    this.#base = base;
    this.#sender = new Client(returning, clients);
    this.#clients = Array.from({ length: clients }, (_, member) => new Client(returning, member));
  }

  /** All connect and receive one message: before that, socket.io has no position to recover from. */
  async open(): Promise<void> {
    await this.#sender.join(this.#base, () => {});
    for (let from = 0; from < this.#clients.length; from += CONCURRENCY) {
      const some = this.#clients.slice(from, from + CONCURRENCY);
      await Promise.all(some.map((client) => client.join(this.#base, () => {})));
    }
    await this.send(1, 0);
    await pause(2000);
  }

  disconnectAll(): void {
    this.#missed = 0;
    for (const client of this.#clients) client.terminate();
  }

  async send(count: number, bytes: number): Promise<void> {
    for (let left = count; left > 0; left--) {
      const text = `${MARK}${this.#sent++} `;
      await this.#sender.send(10 + this.#sent, text + "x".repeat(Math.max(0, bytes - text.length)));
    }
    this.#missed += count;
  }

  /** All at once; resolves to the seconds until the last one has what it missed. */
  async reconnectAll(): Promise<number> {
    const startedAt = performance.now();
    let behind = this.#clients.length;
    const { promise: caughtUp, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => reject(new Error(`${behind} clients are not back`)), RECOVERY_TIMEOUT_MS);
    for (const client of this.#clients) {
      let isBehind = true;
      client.join(this.#base, () => {
        if (!isBehind || client.received < this.#missed) return;
        isBehind = false;
        if (--behind === 0) resolve();
      }).catch(reject);
    }
    await caughtUp;
    clearTimeout(timer);
    return (performance.now() - startedAt) / 1000;
  }

  /** Waits for what may come twice, then reads everything; resolves to the number of messages received. */
  async countReceived(): Promise<number> {
    await pause(500);
    for (const client of this.#clients) client.assertReceived(this.#sent - this.#missed, this.#missed);
    return this.#clients.length * this.#missed;
  }
}

async function serveRequests(): Promise<void> {
  let storm: Storm | undefined;
  for await (const order of readRequests<StormRequest>()) {
    const report: StormReport = { seconds: 0, received: 0 };
    if (order.kind === "open") {
      const { base, clients, gateway } = order;
      const returning = gateway === undefined
        ? socketIoRecovery
        : await createGatewayRecovery(gateway.secret, gateway.roomId, clients);
      storm = new Storm(base, returning, clients);
      await storm.open();
    } else if (order.kind === "cut") {
      storm?.disconnectAll();
      await pause(1000);
    } else if (order.kind === "send") await storm?.send(order.count, order.bytes);
    else if (order.kind === "return") report.seconds = await storm?.reconnectAll() ?? NaN;
    else report.received = await storm?.countReceived() ?? 0;
    writeReport(report);
  }
}

if (import.meta.main) await serveRequests();
