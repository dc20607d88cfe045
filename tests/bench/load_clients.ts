// A crowd of sockets in one process of its own, so that its cost is not the server's.
import {
  createTimedText,
  type Dialect,
  gatewayDialect,
  senderDialect,
  sentAtOf,
  socketIoDialect,
  watcherDialect,
  wsDialect,
} from "./dialect.ts";
import { FrameSocket, pollSockets } from "./frame_socket.ts";
import { readRequests, writeReport } from "./worker_protocol.ts";

export type LoadRequest =
  | {
    kind: "open";
    dialect: string;
    bases: string[];
    sockets: number;
    token?: string;
    rooms?: string[];
    /** On a core of its own the crowd never sleeps, so that no server has to wake it. */
    sharesCores?: boolean;
  }
  | { kind: "flood"; seconds: number; bytes: number; senders: number; inFlight: number }
  | { kind: "steady"; seconds: number; bytes: number; perSecond: number }
  | { kind: "close" };

export type LoadReport = { deliveries: number; sends: number; seconds: number; latencies: number[] };

const OPEN_BATCH = 50;
const OPEN_TIMEOUT_MS = 20_000;
/** How long to wait for the sockets at a time. */
const WAIT_MS = 10;

/** What is in a frame. All sockets of a room receive the same one, which is read once. */
type ParsedFrame = { frame: string; pong: string | undefined; messages: number; sentAt: number; acknowledged: number };

class LoadClients {
  readonly #dialect: Dialect;
  readonly #waitMs: number;
  readonly #sockets: FrameSocket[] = [];
  #joined = 0;
  #deliveries = 0;
  #sent = 0;
  #acknowledged = 0;
  #latencies: number[] | undefined;
  #onAcknowledged: ((socket: FrameSocket, count: number) => void) | undefined;
  readonly #members = new Map<FrameSocket, number>();
  #nextId = 10;
  #lastFrame: ParsedFrame = { frame: "", pong: undefined, messages: 0, sentAt: NaN, acknowledged: 0 };

  constructor(dialect: Dialect, waitMs: number) {
    this.#dialect = dialect;
    this.#waitMs = waitMs;
  }

  /** Members are spread over the bases in blocks, so that those of a room, who are far apart, meet on different ones. */
  open(bases: readonly string[], sockets: number): void {
    const baseOf = (member: number): string => bases[Math.floor(member * bases.length / sockets)] ?? "";
    while (this.#sockets.length < sockets) {
      const from = this.#sockets.length;
      for (let member = from; member < Math.min(from + OPEN_BATCH, sockets); member++) {
        this.#join(baseOf(member), member);
      }
      this.#pollFor(OPEN_TIMEOUT_MS, () => this.#joined === this.#sockets.length);
      if (this.#joined < this.#sockets.length) throw new Error("some sockets were not let in");
    }
  }

  /** A few members send as fast as they are acknowledged, `inFlight` each. */
  flood(seconds: number, bytes: number, senders: number, inFlight: number): LoadReport {
    const before = { deliveries: this.#deliveries, acknowledged: this.#acknowledged };
    const startedAt = performance.now();
    this.#onAcknowledged = (socket, count) => this.#send(socket, bytes, count);
    for (const socket of this.#sockets.slice(0, senders)) this.#send(socket, bytes, inFlight);
    this.#pollFor(seconds * 1000);
    this.#onAcknowledged = undefined;
    const report = {
      deliveries: this.#deliveries - before.deliveries,
      sends: this.#acknowledged - before.acknowledged,
      seconds: (performance.now() - startedAt) / 1000,
      latencies: [],
    };
    this.#pollFor(500);
    this.#pollFor(10_000, () => this.#acknowledged === this.#sent);
    if (this.#acknowledged < this.#sent) {
      throw new Error(`${this.#sent - this.#acknowledged} sends were not acknowledged`);
    }
    return report;
  }

  /** One member sends at a fixed rate; how long every delivery took. */
  steady(seconds: number, bytes: number, perSecond: number): LoadReport {
    this.#latencies = [];
    const deliveries = this.#deliveries;
    const [sender] = this.#sockets;
    const startedAt = performance.now();
    for (let sent = 0; sent < seconds * perSecond; sent++) {
      const at = startedAt + sent * 1000 / perSecond;
      while (performance.now() < at) pollSockets(this.#waitMs);
      if (sender !== undefined) this.#send(sender, bytes);
    }
    this.#pollFor(1000);
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

  /** Reads from all sockets for so long, or until it is enough. */
  #pollFor(ms: number, isEnough = (): boolean => false): void {
    const until = performance.now() + ms;
    while (performance.now() < until && !isEnough()) pollSockets(this.#waitMs);
  }

  /** Sends `count` messages, in one frame where the protocol takes several in one. */
  #send(socket: FrameSocket, bytes: number, count = 1): void {
    if (!socket.isOpen) return;
    this.#sent += count;
    const member = this.#members.get(socket) ?? 0;
    const frames = Array.from(
      { length: count },
      () => this.#dialect.send(this.#nextId++, createTimedText(bytes), member),
    );
    if (this.#dialect.joiner === undefined) frames.forEach((frame) => socket.send(frame));
    else socket.send(frames.join(this.#dialect.joiner));
  }

  #join(base: string, member: number): void {
    const dialect = this.#dialect;
    const socket = new FrameSocket(dialect.socketUrl(base));
    const hello = dialect.hello(member);
    const greet = (): void => socket.send(hello.shift()?.text ?? "");
    socket.onOpen = () => {
      while (hello[0]?.afterFrame === false) greet();
    };
    socket.onText = (frame) => {
      if (!dialect.isJoined(frame)) return hello.length > 0 ? greet() : undefined;
      this.#joined++;
      socket.onText = (frame) => this.#receive(socket, frame);
    };
    this.#sockets.push(socket);
    this.#members.set(socket, member);
  }

  #receive(socket: FrameSocket, frame: string): void {
    if (frame !== this.#lastFrame.frame) this.#lastFrame = this.#parseFrame(frame);
    const { pong, messages, sentAt, acknowledged } = this.#lastFrame;
    if (pong !== undefined) socket.send(pong);
    this.#deliveries += messages;
    if (messages > 0) this.#latencies?.push(performance.timeOrigin + performance.now() - sentAt);
    if (acknowledged === 0) return;
    this.#acknowledged += acknowledged;
    this.#onAcknowledged?.(socket, acknowledged);
  }

  #parseFrame(frame: string): ParsedFrame {
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

async function serveRequests(): Promise<void> {
  let crowd: LoadClients | undefined;
  // Servers are answered between orders as well.
  setInterval(() => pollSockets(0), 100);
  for await (const order of readRequests<LoadRequest>()) {
    let report: LoadReport = { deliveries: 0, sends: 0, seconds: 0, latencies: [] };
    if (order.kind === "open") {
      const rooms = order.rooms ?? [];
      const roomOf = (member: number): string => rooms[member % rooms.length] ?? "";
      const dialect = [
        gatewayDialect(order.token ?? "", roomOf),
        senderDialect(order.token ?? "", roomOf),
        watcherDialect(order.token ?? "", roomOf),
        socketIoDialect,
        wsDialect,
      ].find(({ name }) => name === order.dialect);
      if (dialect === undefined) throw new Error(`no dialect ${order.dialect}`);
      crowd = new LoadClients(dialect, order.sharesCores ? WAIT_MS : 0);
      crowd.open(order.bases, order.sockets);
    } else if (order.kind === "flood") {
      report = crowd?.flood(order.seconds, order.bytes, order.senders, order.inFlight) ?? report;
    } else if (order.kind === "steady") {
      report = crowd?.steady(order.seconds, order.bytes, order.perSecond) ?? report;
    } else crowd?.close();
    writeReport(report);
  }
}

await serveRequests();
