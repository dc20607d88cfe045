// Messages in fragments without end, which the runtime buffers: memory stays bounded, and others do not notice.
import assert from "node:assert/strict";
import { openTarget, type Target } from "../e2e/target.ts";
import { eventually, pause, WAIT_MS } from "../wait.ts";
import { printLine } from "./report.ts";

const ATTACK = new URL("./fragments_attack.ts", import.meta.url).pathname;
const CLIENTS = 100;
const SOCKETS = 50;
const ATTACK_MS = 2500;
const EVERY_MS = 50;
/** Mostly one tick of the runtime, in which it reads 128 MiB; on a busy machine there may be a third before the sample. */
const GROWTH_MAX_MIB = 450;
/** There may be more, but not each time. What the first attack left in memory counts as grown. */
const TRIES_MAX = 3;
const WARNING = "unfinished input uses too much memory";
/** So long the log says it only once. */
const WARN_EVERY_MS = 60_000;
/** Of the clock. */
const TOLERANCE_MS = 1000;
/** An authenticated client must be distinguished from those that are merely silent, which takes a moment. */
const MEMBER_GROWTH_MAX_MIB = 2048;

const KINDS = [
  { path: "/ws", kib: 64 },
  { path: "/ws", kib: 1024 },
  { path: "/ws", kib: 60_000 },
  { path: "/v1/collaboration/documents/sync", kib: 1024 },
  { path: "/ws", kib: 1024, isMember: true },
];

Deno.test("messages in endless fragments cost a bounded amount of memory, and well-behaved clients nothing", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const { process } = target;
  assert.ok(process);
  const crowd = await HonestClients.open(target);
  await crowd.send(50);
  const calm = crowd.latencies();
  for (const kind of KINDS) {
    const name = `${SOCKETS} ${kind.isMember ? "members" : "strangers"}, ${kind.path}, fragments of ${kind.kib} KiB`;
    await t.step(name, async () => {
      await openOnce(target, kind.path);
      const idle = memoryMib(process.pid, "VmRSS");
      const most = kind.isMember ? MEMBER_GROWTH_MAX_MIB : GROWTH_MAX_MIB;
      for (let tries = 1;; tries++) {
        await Deno.writeTextFile(`/proc/${process.pid}/clear_refs`, "5"); // Begins a new peak.
        const attack = new Deno.Command(Deno.execPath(), {
          args: ["run", "--quiet", "--no-config", "--allow-net", ATTACK, ...await argumentsOf(target, kind)],
        }).output();
        await crowd.send(ATTACK_MS / EVERY_MS);
        const sent = new TextDecoder().decode((await attack).stdout);
        const grown: number = memoryMib(process.pid, "VmHWM") - idle;
        const { p50, p95 } = crowd.latencies();
        printLine(
          `fragments: ${name}: ${sent} MiB sent, memory ${grown.toFixed(0)} MiB above idle; deliveries p50/p95 ` +
            `${p50.toFixed(1)}/${p95.toFixed(1)} ms, ${calm.p50.toFixed(1)}/${calm.p95.toFixed(1)} ms in calm`,
        );
        // Closed for being silent, a slow client comes back and misses nothing.
        if (!kind.isMember) assert.deepEqual(crowd.disconnects, []);
        if (grown < most) break;
        assert.ok(tries < TRIES_MAX, `${grown} MiB above idle`);
      }
      // A client that was refused meanwhile connects afterwards.
      const late = await target.connect(await target.token({ sub: "late" }));
      late.disconnect();
    });
  }
  const metrics = await (await fetch(`${target.baseUrl}/metrics`)).text();
  assert.match(metrics, /svc_connection_errors\{type="memory"\} [1-9]/);
  const warnings = process.log.split("\n").filter((line) => line.includes(WARNING));
  const warnedAt = warnings.map((line) => Date.parse(JSON.parse(line)["@timestamp"]));
  assert.notEqual(warnedAt.length, 0);
  // On a slow machine the attacks go on for more than a minute.
  for (const [at, time] of warnedAt.entries()) {
    assert.ok(time - (warnedAt[at - 1] ?? 0) > WARN_EVERY_MS - TOLERANCE_MS, warnedAt.join());
  }
});

async function argumentsOf(
  target: Target,
  { path, kib, isMember }: { path: string; kib: number; isMember?: boolean },
): Promise<string[]> {
  const hello = JSON.stringify({ id: 1, connect: { token: await target.token({ sub: "mallory" }) } });
  const all = [new URL(target.baseUrl).port, path, SOCKETS, kib, ATTACK_MS, ...(isMember ? [hello] : [])];
  return all.map(String);
}

/** What serves the path is loaded by its first socket. */
async function openOnce({ baseUrl }: Target, path: string): Promise<void> {
  const socket = new WebSocket(`${baseUrl.replace(/^http/, "ws")}${path}`);
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => socket.close();
    socket.onclose = () => resolve();
    socket.onerror = () => reject(new Error(`${path} lets nobody in`));
  });
}

/** Clients of one room, which all get what one of them sends. */
class HonestClients {
  readonly disconnects: string[] = [];
  readonly #send: (text: string) => Promise<unknown>;
  readonly #received: number[];
  readonly #sentAt = new Map<string, number>();
  #latencies: number[] = [];
  #sent = 0;

  private constructor(send: (text: string) => Promise<unknown>) {
    this.#send = send;
    this.#received = Array.from({ length: CLIENTS }, () => 0);
  }

  static async open(target: Target): Promise<HonestClients> {
    const token = await target.token({ sub: "ann" });
    const { id: roomId } = await target.call(token, "POST", "/v1/rooms", { name: "fragments" });
    const sender = await target.connect(token);
    const crowd = new HonestClients((text) => sender.rpc("message.send", { roomId, text, clientMessageId: text }));
    for (let at = 0; at < CLIENTS; at++) {
      const client = await target.connect(token);
      const subscription = client.newSubscription(`room:${roomId}`);
      subscription.on("publication", ({ data }) => crowd.#onMessage(at, data.data.message.text));
      subscription.subscribe();
      await subscription.ready(WAIT_MS);
      client.on("connecting", ({ reason }) => crowd.disconnects.push(reason));
      client.on("disconnected", ({ code, reason }) => code !== 0 && crowd.disconnects.push(reason));
    }
    return crowd;
  }

  /** Sends so many messages, one after the other, and waits until everybody has them. */
  async send(count: number): Promise<void> {
    this.#latencies = [];
    for (let more = 0; more < count; more++) {
      const text = String(++this.#sent);
      this.#sentAt.set(text, performance.now());
      // The sender, too, may be closed with a member's attack, and sends again.
      await eventually(() => this.#send(text));
      await pause(EVERY_MS);
    }
    await eventually(() => assert.ok(this.#received.every((received) => received === this.#sent)));
  }

  latencies(): { p50: number; p95: number } {
    const sorted = this.#latencies.toSorted((a, b) => a - b);
    const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? 0;
    return { p50: at(0.5), p95: at(0.95) };
  }

  #onMessage(at: number, text: string): void {
    this.#received[at] = (this.#received[at] ?? 0) + 1;
    this.#latencies.push(performance.now() - (this.#sentAt.get(text) ?? 0));
  }
}

function memoryMib(pid: number, field: string): number {
  const [, kib] = new RegExp(`${field}:\\s+(\\d+)`).exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ?? [];
  return Number(kib) / 1024;
}
