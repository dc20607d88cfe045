// A crowd of sockets in one process of its own, so that its cost is not the server's. Runs on Node as well, which reads from
// sockets at a third of the cost.
import {
  type Dialect,
  gatewayDialect,
  senderDialect,
  sentAtOf,
  socketIoDialect,
  stamped,
  wsDialect,
} from "./dialect.ts";
import { FrameSocket } from "./frame_socket.ts";
import { answer, orders } from "./orders.ts";

export type Order =
  | { kind: "open"; dialect: string; bases: string[]; sockets: number; token?: string; rooms?: string[] }
  | { kind: "flood"; seconds: number; bytes: number; senders: number; inFlight: number }
  | { kind: "steady"; seconds: number; bytes: number; perSecond: number }
  | { kind: "close" };

export type Report = { deliveries: number; sends: number; seconds: number; latencies: number[] };

/** What is in a frame. All sockets of a room hear the same one, which is read once. */
type Read = { frame: string; pong: string | undefined; messages: number; sentAt: number; acknowledged: number };

class Crowd {
  readonly #dialect: Dialect;
  readonly #sockets: FrameSocket[] = [];
  #deliveries = 0;
  #sent = 0;
  #acknowledged = 0;
  #latencies: number[] | undefined;
  #onAcknowledged: ((socket: FrameSocket, count: number) => void) | undefined;
  readonly #members = new Map<FrameSocket, number>();
  #nextId = 10;
  #read: Read = { frame: "", pong: undefined, messages: 0, sentAt: NaN, acknowledged: 0 };

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  /** Members are spread over the bases in blocks, so that those of a room, who are far apart, meet on different ones. */
  async open(bases: readonly string[], sockets: number): Promise<void> {
    const baseOf = (member: number): string => bases[Math.floor(member * bases.length / sockets)] ?? "";
    for (let from = 0; from < sockets; from += 50) {
      const members = Array.from({ length: Math.min(50, sockets - from) }, (_, at) => from + at);
      const some = members.map((member) => this.#join(baseOf(member), member));
      this.#sockets.push(...await Promise.all(some));
    }
  }

  /** A few members send as fast as they are acknowledged, `inFlight` each. */
  async flood(seconds: number, bytes: number, senders: number, inFlight: number): Promise<Report> {
    const before = { deliveries: this.#deliveries, acknowledged: this.#acknowledged };
    const startedAt = performance.now();
    let isOver = false;
    this.#onAcknowledged = (socket, count) => {
      if (!isOver) this.#send(socket, bytes, count);
    };
    for (const socket of this.#sockets.slice(0, senders)) {
      this.#send(socket, bytes, inFlight);
    }
    await pause(seconds * 1000);
    isOver = true;
    const took = (performance.now() - startedAt) / 1000;
    const report = {
      deliveries: this.#deliveries - before.deliveries,
      sends: this.#acknowledged - before.acknowledged,
      seconds: took,
      latencies: [],
    };
    await pause(500);
    for (let waits = 0; this.#acknowledged < this.#sent && waits < 100; waits++) await pause(100);
    if (this.#acknowledged < this.#sent) {
      throw new Error(`${this.#sent - this.#acknowledged} sends were not acknowledged`);
    }
    return report;
  }

  /** One member sends at a fixed rate; how long every delivery took. */
  async steady(seconds: number, bytes: number, perSecond: number): Promise<Report> {
    this.#latencies = [];
    const deliveries = this.#deliveries;
    const [sender] = this.#sockets;
    const startedAt = performance.now();
    for (let sent = 0; sent < seconds * perSecond; sent++) {
      const wait = startedAt + sent * 1000 / perSecond - performance.now();
      if (wait > 0) await pause(wait);
      if (sender !== undefined) this.#send(sender, bytes);
    }
    await pause(1000);
    const latencies = this.#latencies.toSorted((a, b) => a - b);
    this.#latencies = undefined;
    return {
      deliveries: this.#deliveries - deliveries,
      sends: seconds * perSecond,
      seconds,
      latencies: [0.5, 0.9, 0.99, 0.999].map((share) => latencies[Math.floor(share * (latencies.length - 1))] ?? NaN),
    };
  }

  close(): void {
    for (const socket of this.#sockets) socket.close();
  }

  /** Sends `count` messages, in one frame where the protocol takes several in one. */
  #send(socket: FrameSocket, bytes: number, count = 1): void {
    if (!socket.isOpen) return;
    this.#sent += count;
    const member = this.#members.get(socket) ?? 0;
    const frames = Array.from({ length: count }, () => this.#dialect.send(this.#nextId++, stamped(bytes), member));
    if (this.#dialect.joiner === undefined) frames.forEach((frame) => socket.send(frame));
    else socket.send(frames.join(this.#dialect.joiner));
  }

  async #join(base: string, member: number): Promise<FrameSocket> {
    const dialect = this.#dialect;
    const socket = await FrameSocket.open(dialect.socketUrl(base));
    const hello = dialect.hello(member);
    while (hello[0]?.afterFrame === false) socket.send(hello.shift()?.text ?? "");
    await new Promise<void>((resolve) => {
      socket.onText = (frame) => {
        if (dialect.isJoined(frame)) resolve();
        else if (hello.length > 0) socket.send(hello.shift()?.text ?? "");
      };
    });
    this.#members.set(socket, member);
    socket.onText = (frame) => this.#receive(socket, frame);
    return socket;
  }

  #receive(socket: FrameSocket, frame: string): void {
    if (frame !== this.#read.frame) this.#read = this.#readFrame(frame);
    const { pong, messages, sentAt, acknowledged } = this.#read;
    if (pong !== undefined) socket.send(pong);
    this.#deliveries += messages;
    if (messages > 0) this.#latencies?.push(performance.timeOrigin + performance.now() - sentAt);
    if (acknowledged === 0) return;
    this.#acknowledged += acknowledged;
    this.#onAcknowledged?.(socket, acknowledged);
  }

  #readFrame(frame: string): Read {
    const messages = this.#dialect.count(frame);
    return {
      frame,
      pong: this.#dialect.pong(frame),
      messages,
      sentAt: messages > 0 ? sentAtOf(frame) : NaN,
      acknowledged: this.#dialect.acknowledges(frame),
    };
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function obey(): Promise<void> {
  let crowd: Crowd | undefined;
  for await (const order of orders<Order>()) {
    let report: Report = { deliveries: 0, sends: 0, seconds: 0, latencies: [] };
    if (order.kind === "open") {
      const rooms = order.rooms ?? [];
      const roomOf = (member: number): string => rooms[member % rooms.length] ?? "";
      const dialect = [
        gatewayDialect(order.token ?? "", roomOf),
        senderDialect(order.token ?? "", roomOf),
        socketIoDialect,
        wsDialect,
      ].find(({ name }) => name === order.dialect);
      if (dialect === undefined) throw new Error(`no dialect ${order.dialect}`);
      crowd = new Crowd(dialect);
      await crowd.open(order.bases, order.sockets);
    } else if (order.kind === "flood") {
      report = await crowd?.flood(order.seconds, order.bytes, order.senders, order.inFlight) ?? report;
    } else if (order.kind === "steady") {
      report = await crowd?.steady(order.seconds, order.bytes, order.perSecond) ?? report;
    } else crowd?.close();
    answer(report);
  }
}

await obey();
