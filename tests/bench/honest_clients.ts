// Honest clients of a gateway that is busy with something else: each in one room, all in one process; how long deliveries
// take, and what is lost.
import { readRequests, writeReport } from "./worker_protocol.ts";

export type ClientsRequest =
  | { kind: "open"; base: string; members: { token: string; room: string }[] }
  | { kind: "run"; seconds: number; perSecond: number };

type Quantiles = { p50: number; p95: number; p99: number };

export type ClientsReport = {
  /** Milliseconds from a send to its delivery at each member of the room, and to its acknowledgement. */
  delivery: Quantiles;
  acknowledgement: Quantiles;
  sent: number;
  refused: number;
  lost: number;
  disconnects: number;
};

const SETTLE_MS = 5000;

class Member {
  readonly room: string;
  readonly #socket: WebSocket;
  readonly #pendingReplies = new Map<number, (reply: { error?: unknown }) => void>();
  #nextId = 1;
  onMessage: (text: string) => void = () => {};
  onClose: () => void = () => {};

  private constructor(socket: WebSocket, room: string) {
    this.#socket = socket;
    this.room = room;
    socket.onmessage = ({ data }) => {
      for (const line of String(data).split("\n")) this.#receive(line);
    };
    socket.onclose = () => this.onClose();
  }

  static async open(base: string, token: string, room: string): Promise<Member> {
    const socket = new WebSocket(`${base.replace("http", "ws")}/ws`);
    const member = new Member(socket, room);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new Error("a socket was refused"));
    });
    await member.#call({ connect: { token } });
    await member.#call({ subscribe: { channel: `room:${room}` } });
    return member;
  }

  /** Whether it was acknowledged. */
  async send(text: string): Promise<boolean> {
    const { error } = await this.#call({ rpc: { method: "message.send", data: { roomId: this.room, text } } });
    return error === undefined;
  }

  #call(command: Record<string, unknown>): Promise<{ error?: unknown }> {
    const id = this.#nextId++;
    const reply = new Promise<{ error?: unknown }>((resolve) => this.#pendingReplies.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, ...command }));
    return reply;
  }

  #receive(line: string): void {
    if (line === "{}") return this.#socket.send("{}");
    const { id, push, ...reply } = JSON.parse(line);
    this.#pendingReplies.get(id)?.(reply);
    this.#pendingReplies.delete(id);
    const publication = push?.pub?.data;
    if (publication?.type === "message.created") this.onMessage(publication.data.message.text);
  }
}

class HonestClients {
  readonly #members: Member[] = [];
  readonly #expected = new Map<string, { at: number; left: number }>();
  #deliveries: number[] = [];
  #disconnects = 0;

  async open(base: string, members: readonly { token: string; room: string }[]): Promise<void> {
    for (const { token, room } of members) {
      const member = await Member.open(base, token, room);
      member.onMessage = (text) => this.#deliver(text);
      member.onClose = () => this.#disconnects++;
      this.#members.push(member);
    }
  }

  async run(seconds: number, perSecond: number): Promise<ClientsReport> {
    this.#deliveries = [];
    this.#disconnects = 0;
    const acknowledgements: number[] = [];
    const calls: Promise<void>[] = [];
    let refused = 0;
    for (let sent = 0; sent < seconds * perSecond; sent++) {
      const member = this.#members[sent * 7 % this.#members.length];
      if (member === undefined) break;
      const text = `hostile ${crypto.randomUUID()}`;
      const at = performance.now();
      this.#expected.set(text, { at, left: this.#members.filter(({ room }) => room === member.room).length });
      calls.push(
        member.send(text).then((isSent) => {
          if (isSent) acknowledgements.push(performance.now() - at);
          else if (this.#expected.delete(text)) refused++;
        }),
      );
      await new Promise((resolve) => setTimeout(resolve, 1000 / perSecond));
    }
    await Promise.race([Promise.all(calls), new Promise((resolve) => setTimeout(resolve, SETTLE_MS))]);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const lost = [...this.#expected.values()].reduce((sum, { left }) => sum + left, 0);
    this.#expected.clear();
    return {
      delivery: quantiles(this.#deliveries),
      acknowledgement: quantiles(acknowledgements),
      sent: calls.length,
      refused,
      lost,
      disconnects: this.#disconnects,
    };
  }

  #deliver(text: string): void {
    const expected = this.#expected.get(text);
    if (expected === undefined) return;
    this.#deliveries.push(performance.now() - expected.at);
    if (--expected.left === 0) this.#expected.delete(text);
  }
}

function quantiles(values: readonly number[]): Quantiles {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? NaN;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

const crowd = new HonestClients();
for await (const order of readRequests<ClientsRequest>()) {
  if (order.kind === "open") writeReport(await crowd.open(order.base, order.members) ?? {});
  else writeReport(await crowd.run(order.seconds, order.perSecond));
}
