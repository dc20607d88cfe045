// What was acknowledged and what everybody saw, written down as it happens, and whether that agrees with the log.
import assert from "node:assert/strict";
import type { Centrifuge, PublicationContext } from "npm:centrifuge@5.8.0";
import { pause, until, WAIT_MS } from "../wait.ts";
import type { Cluster } from "./cluster.ts";

/** Between two sends of one sender: as much load as leaves a node that starts its share of two cores. */
const SEND_INTERVAL_MS = 10;

type SeenEvent = { seq: number; id: string };
type LoggedEvent = SeenEvent & { type: string; text: string | undefined };

/** One client's view of one room: every event it was given, in the order it was. */
type ClientView = { name: string; after: number; seen: SeenEvent[]; isComplete: boolean };

export class History {
  readonly roomId: string;
  /** Text of every acknowledged message → its place. */
  readonly acknowledged = new Map<string, number>();
  readonly views: ClientView[] = [];
  /** Attempts that were answered with an error or not at all. */
  failures = 0;
  /** Between two sends of a sender at least: longer while something else is to get the CPU. */
  pauseMs = 0;
  readonly #cluster: Cluster;
  readonly #reader: string;
  readonly #sending: Promise<void>[] = [];
  #isSending = true;

  constructor(cluster: Cluster, roomId: string, reader: string) {
    this.#cluster = cluster;
    this.#reader = reader;
    this.roomId = roomId;
  }

  /** The history of a new room of these principals. */
  static async open(cluster: Cluster, subs: readonly [string, ...string[]]): Promise<History> {
    return new History(cluster, await cluster.createRoom(subs), subs[0]);
  }

  /** The history of a new room that everybody watches, and sends to through a node of their own. */
  static async openWithTraffic(
    cluster: Cluster,
    people: readonly [string, ...string[]],
    nodeOf: (at: number) => number = () => 0,
  ): Promise<History> {
    const history = await History.open(cluster, people);
    for (const [at, name] of people.entries()) {
      const client = await cluster.connect(name, nodeOf(at));
      await history.watch(client, name);
      history.sendOverSocket(client, name);
    }
    return history;
  }

  /** Writes down everything a client is shown of the room. */
  async watch(client: Centrifuge, name: string): Promise<ClientView> {
    const view: ClientView = { name, after: 0, seen: [], isComplete: true };
    const subscription = client.newSubscription(`room:${this.roomId}`);
    subscription.on("publication", ({ data, offset }: PublicationContext) => {
      if (offset !== undefined) view.seen.push({ seq: offset, id: data.id });
    });
    subscription.on("subscribed", ({ wasRecovering, recovered, streamPosition }) => {
      if (!wasRecovering) view.after = streamPosition?.offset ?? 0;
      view.isComplete &&= wasRecovering === recovered;
    });
    subscription.subscribe();
    await subscription.ready(WAIT_MS);
    this.views.push(view);
    return view;
  }

  /** Sends through a client, one message after the other, each again until it is acknowledged. */
  sendOverSocket(client: Centrifuge, name: string, pauseMs = SEND_INTERVAL_MS): void {
    this.#sending.push(this.#send(name, pauseMs, async (text) => {
      return (await client.rpc("message.send", { roomId: this.roomId, text, clientMessageId: text })).data.seq;
    }));
  }

  /** Sends over HTTP to any node that responds. */
  sendOverHttp(sub: string, name: string, pauseMs = SEND_INTERVAL_MS): void {
    let node = 0;
    this.#sending.push(this.#send(name, pauseMs, async (text) => {
      const body = { roomId: this.roomId, text, clientMessageId: text };
      try {
        return (await this.#cluster.call(node, sub, "POST", "/v1/messages", body)).seq;
      } catch (error) {
        node = (node + 1) % this.#cluster.nodes.length;
        throw error;
      }
    }));
  }

  /** Waits for so many further acknowledgements: for each as long as a test waits for anything. */
  async waitForAcknowledged(count: number): Promise<void> {
    const target = this.acknowledged.size + count;
    while (this.acknowledged.size < target) {
      const { size } = this.acknowledged;
      await until(() => this.acknowledged.size > size, `one of ${target - size} more acknowledged messages`);
    }
  }

  /** Lets every sender finish the message it is at. */
  async stopSending(): Promise<void> {
    this.#isSending = false;
    await Promise.all(this.#sending);
  }

  /**
   * The stream has no gap and no duplicate; every acknowledged message is at its acknowledged position; every client saw
   * the stream exactly as it is, each event once; and every node returns the same.
   */
  async verify(): Promise<{ events: number; acknowledged: number; views: number }> {
    await this.stopSending();
    const [log = [], ...others] = await Promise.all(this.#cluster.nodes.map((_, node) => this.#readLog(node)));
    for (const other of others) assert.deepEqual(other, log, "nodes disagree on the log");
    assert.deepEqual(log.map(({ seq }) => seq), log.map((_, at) => at + 1), "the line has a hole");
    assert.equal(new Set(log.map(({ id }) => id)).size, log.length, "an event is there twice");
    const texts = log.flatMap(({ type, text, seq }) => type === "message.created" ? [[text, seq] as const] : []);
    const stored = new Map(texts);
    assert.equal(stored.size, texts.length, "a message was stored twice");
    const lost = [...this.acknowledged].filter(([text, seq]) => stored.get(text) !== seq);
    assert.deepEqual(lost, [], "acknowledged messages are not where they were said to be");
    for (const view of this.views) {
      const last = log.at(-1)?.seq ?? 0;
      await until(() => (view.seen.at(-1)?.seq ?? view.after) >= last, `${view.name} has seen everything`);
      const line = log.slice(view.after).map(({ seq, id }) => ({ seq, id }));
      assert.deepEqual(view.seen, line, `${view.name} saw something else than the line`);
      assert.ok(view.isComplete, `${view.name} was refused a recovery`);
    }
    return { events: log.length, acknowledged: this.acknowledged.size, views: this.views.length };
  }

  async #send(name: string, pauseMs: number, send: (text: string) => Promise<number>): Promise<void> {
    for (let count = 0; this.#isSending; count++) {
      const text = `${name}:${count}`;
      while (!this.acknowledged.has(text)) {
        try {
          this.acknowledged.set(text, await send(text));
        } catch {
          // Cut off: nobody knows whether it was written, so the same clientMessageId is sent again.
          this.failures++;
          await pause(20);
        }
      }
      await pause(Math.max(pauseMs, this.pauseMs));
    }
  }

  async #readLog(node: number): Promise<LoggedEvent[]> {
    const log: LoggedEvent[] = [];
    while (true) {
      const path = `/v1/rooms/${this.roomId}/events?after=${log.at(-1)?.seq ?? 0}&limit=300`;
      const page = await this.#cluster.call(node, this.#reader, "GET", path);
      for (const { id, seq, type, data } of page.events) log.push({ id, seq, type, text: data.message?.text });
      if (page.complete) return log;
    }
  }
}
