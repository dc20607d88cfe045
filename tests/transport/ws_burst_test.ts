// Random bursts, losses, stalls and evictions, with clients that recover like the SDKs.
import assert from "node:assert/strict";
import * as fc from "npm:fast-check@4.10.2";
import type { StoredEvent } from "@/core/event/event.ts";
import { streamKey } from "@/ports/store.ts";
import { pause } from "../wait.ts";
import { createHubHarness, type FakeSocket, type HubHarness, TENANT, TEST_LIMITS } from "./ws_harness.ts";

const room = "room:a";
const CLIENTS = 3;

/** A client that stores its position and recovers from it after each disconnect. */
class Client {
  readonly offsets: number[] = [];
  isUnrecovered = false;
  readonly #hub: HubHarness;
  #peer: Awaited<ReturnType<HubHarness["connect"]>> | undefined;
  #consumed = 0;
  #id = 1;
  #epoch = "";

  constructor(harness: HubHarness) {
    this.#hub = harness;
  }

  get socket(): FakeSocket | undefined {
    return this.#peer?.socket;
  }

  async connect(isStuck = false): Promise<void> {
    this.#consumed = 0;
    this.#peer = await this.#hub.connect("alice");
    this.#peer.socket.isStalled = isStuck;
    this.#subscribe();
  }

  /** Simulates a lost network. */
  dropConnection(): void {
    this.#peer?.connection.onSocketClosed();
    if (this.#peer?.socket.isOpen) this.#peer.socket.close();
  }

  /** Processes all received frames. */
  async consume(): Promise<void> {
    const { socket } = this;
    if (socket === undefined) return;
    for (; this.#consumed < socket.frames.length; this.#consumed++) {
      for (const line of (socket.frames[this.#consumed] ?? "").split("\n")) this.#handleMessage(JSON.parse(line));
    }
    if (!socket.isOpen) await this.connect(socket.isStalled);
  }

  // deno-lint-ignore no-explicit-any -- tests read arbitrary JSON
  #handleMessage({ subscribe, error, push }: any): void {
    if (subscribe !== undefined) {
      if (subscribe.recovered !== true) this.isUnrecovered = true;
      this.#epoch = subscribe.epoch;
      for (const { offset } of subscribe.publications ?? []) this.offsets.push(offset);
    } else if (error !== undefined || push?.unsubscribe !== undefined) {
      assert.ok(error?.temporary ?? push.unsubscribe.code === 2500);
      this.#subscribe();
    } else if (push?.pub !== undefined) this.offsets.push(push.pub.offset);
  }

  #subscribe(): void {
    const position = { recover: true, offset: this.offsets.at(-1) ?? 0, epoch: this.#epoch };
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

Deno.test("each client receives every event once and in order, despite bursts, losses, stalls and evictions", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const harness = createHubHarness({
        limits: { ...TEST_LIMITS, outboxMaxBytes: 20_000, replyMaxBytes: 5000, replyMaxEvents: 150 },
      });
      const clients = Array.from({ length: CLIENTS }, () => new Client(harness));
      for (const client of clients) await client.connect();
      const publish = (events: StoredEvent[]) =>
        harness.bus.publish(streamKey(TENANT, room), { kind: "events", events });
      for (const action of steps) {
        const socket = "who" in action ? clients[action.who]?.socket : undefined;
        if (action.kind === "burst") {
          publish(Array.from({ length: action.count }, () => harness.log.append(room, "x".repeat(action.length))));
        } else if (action.kind === "lost") harness.log.append(room);
        else if (action.kind === "wait") await pause(action.ms);
        else if (action.kind === "evict") {
          harness.emit(room, null, { kind: "evict", principalIds: "*", reason: "resubscribe", resubscribe: true });
        } else if (action.kind === "cut") clients[action.who]?.dropConnection();
        else if (socket !== undefined) read(socket, action.kind === "stall");
        for (const client of clients) await client.consume();
      }
      const { seq: head } = harness.emit(room);
      for (let tries = 0; tries < 500 && clients.some(({ offsets }) => offsets.at(-1) !== head); tries++) {
        for (const { socket } of clients) if (socket !== undefined) read(socket, false);
        for (const client of clients) await client.consume();
        await pause(tries < 20 ? 0 : 3);
      }
      for (const { offsets, isUnrecovered } of clients) {
        assert.deepEqual(offsets, Array.from({ length: head }, (_, at) => at + 1));
        assert.equal(isUnrecovered, false);
      }
      await harness.hub.drain();
    }),
    { numRuns: 60 },
  );
  // Slow clients have a pending check.
  await pause(25);
});

/** Makes a client read, or stop reading. */
function read(socket: FakeSocket, isStuck: boolean): void {
  socket.isStalled = isStuck;
  if (!isStuck) socket.bufferedAmount = 0;
}
