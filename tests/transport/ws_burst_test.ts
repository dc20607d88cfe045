// Bursts, losses, stalls and evictions in any order, and clients that do what the SDKs do: each hears everything once and in order.
import assert from "node:assert/strict";
import * as fc from "npm:fast-check@4.10.2";
import type { StoredEvent } from "@/core/event.ts";
import { streamKey } from "@/ports/store.ts";
import { pause } from "../wait.ts";
import { type FakeSocket, type Rig, rig, SMALL, TENANT } from "./ws_rig.ts";

const room = "room:a";
const CLIENTS = 3;

/** A client that keeps its position, and comes back with it whenever it is sent away. */
class Client {
  readonly seen: number[] = [];
  isUnrecovered = false;
  readonly #rig: Rig;
  #peer: Awaited<ReturnType<Rig["connect"]>> | undefined;
  #taken = 0;
  #id = 1;
  #epoch = "";

  constructor(own: Rig) {
    this.#rig = own;
  }

  get socket(): FakeSocket | undefined {
    return this.#peer?.socket;
  }

  async connect(isStuck = false): Promise<void> {
    this.#taken = 0;
    this.#peer = await this.#rig.connect("alice");
    this.#peer.socket.isStuck = isStuck;
    this.#subscribe();
  }

  /** Its network is gone, without a word. */
  cut(): void {
    this.#peer?.connection.gone();
    if (this.#peer?.socket.isOpen) this.#peer.socket.close();
  }

  /** Takes whatever has come. */
  async hear(): Promise<void> {
    const { socket } = this;
    if (socket === undefined) return;
    for (; this.#taken < socket.frames.length; this.#taken++) {
      for (const line of (socket.frames[this.#taken] ?? "").split("\n")) this.#hearLine(JSON.parse(line));
    }
    if (!socket.isOpen) await this.connect(socket.isStuck);
  }

  // deno-lint-ignore no-explicit-any -- whatever came
  #hearLine({ subscribe, error, push }: any): void {
    if (subscribe !== undefined) {
      if (subscribe.recovered !== true) this.isUnrecovered = true;
      this.#epoch = subscribe.epoch;
      for (const { offset } of subscribe.publications ?? []) this.seen.push(offset);
    } else if (error !== undefined || push?.unsubscribe !== undefined) {
      assert.ok(error?.temporary ?? push.unsubscribe.code === 2500);
      this.#subscribe();
    } else if (push?.pub !== undefined) this.seen.push(push.pub.offset);
  }

  #subscribe(): void {
    const position = { recover: true, offset: this.seen.at(-1) ?? 0, epoch: this.#epoch };
    this.#peer?.connection.receive(JSON.stringify({ id: ++this.#id, subscribe: { channel: room, ...position } }));
  }
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant("burst" as const),
    count: fc.integer({ min: 1, max: 60 }),
    length: fc.constantFrom(10, 300, 1500),
  }),
  fc.record({ kind: fc.constantFrom("lost" as const, "evict" as const, "wait" as const), ms: fc.constantFrom(0, 25) }),
  fc.record({
    kind: fc.constantFrom("stall" as const, "read" as const, "cut" as const),
    who: fc.nat(CLIENTS - 1),
  }),
);

Deno.test("whatever bursts, losses, stalls and evictions come, each client hears everything once and in order", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const own = rig({ limits: { ...SMALL, outboxMaxBytes: 20_000, replyMaxBytes: 5000, replyMaxEvents: 150 } });
      const clients = Array.from({ length: CLIENTS }, () => new Client(own));
      for (const client of clients) await client.connect();
      const tell = (events: StoredEvent[]) => own.bus.publish(streamKey(TENANT, room), { kind: "events", events });
      for (const one of steps) {
        const socket = "who" in one ? clients[one.who]?.socket : undefined;
        if (one.kind === "burst") {
          tell(Array.from({ length: one.count }, () => own.log.append(room, "x".repeat(one.length))));
        } else if (one.kind === "lost") own.log.append(room);
        else if (one.kind === "wait") await pause(one.ms);
        else if (one.kind === "evict") {
          own.emit(room, null, { kind: "evict", principalIds: "*", reason: "asked anew", resubscribe: true });
        } else if (one.kind === "cut") clients[one.who]?.cut();
        else if (socket !== undefined) read(socket, one.kind === "stall");
        for (const client of clients) await client.hear();
      }
      const { seq: head } = own.emit(room);
      for (let tries = 0; tries < 500 && clients.some(({ seen }) => seen.at(-1) !== head); tries++) {
        for (const { socket } of clients) if (socket !== undefined) read(socket, false);
        for (const client of clients) await client.hear();
        await pause(tries < 20 ? 0 : 3);
      }
      for (const { seen, isUnrecovered } of clients) {
        assert.deepEqual(seen, Array.from({ length: head }, (_, at) => at + 1));
        assert.equal(isUnrecovered, false);
      }
      await own.hub.drain();
    }),
    { numRuns: 60 },
  );
  // Readers that were behind when it ended are looked at once more.
  await pause(25);
});

/** Has a client read what it got, and from now on, or no longer. */
function read(socket: FakeSocket, isStuck: boolean): void {
  socket.isStuck = isStuck;
  if (!isStuck) socket.bufferedAmount = 0;
}
