// `kill -9` of gateways in the middle of what their agents say: each run has one message, and no tool ran twice.
import assert from "node:assert/strict";
import { withTimeout } from "@/core/time/clock.ts";
import { type ModelCall, ModelServer } from "../model_server.ts";
import type { ScriptedStep } from "../scripted_models.ts";
import { eventually, pause, WAIT_MS } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { printLine } from "./report.ts";

const API = "/v1/collaboration";
const RUNS = 30;
/** As many as have so many runs queued. */
const AGENTS = 6;
/** A run that is interrupted more often than this fails. */
const KILLS = 5;
/** A kill comes after at most so many words: all kills need fewer words than the runs have, and so none waits for ever. */
const WORDS_BEFORE_KILL_MAX = 48;
const WORDS = Array.from({ length: 12 }, (_, n) => `word${n} `);
const WORD_MS = 10;
/** To list all runs costs the nodes as much as to execute one. */
const POLL_MS = 250;

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** Models that create a task first, then say slowly that they did. Each node has an address of its own. */
class Speakers {
  readonly #server = new ModelServer((call) => this.#answer(call));
  readonly #open = Promise.withResolvers<void>();
  #wordsLeft = Infinity;
  #due = Promise.withResolvers<number>();
  /** Once one is paused, all others wait until then. */
  #goesOn = Promise.withResolvers<void>();

  environmentOf(node: number): Record<string, string> {
    return {
      SVC_AI_BASE_URL: `http://127.0.0.1:${this.#server.port}/${node}/v1`,
      SVC_AI_MODEL: "m",
      SVC_OUTBOUND_ALLOW: "127.0.0.1",
    };
  }

  /** From now on they speak. */
  open(): void {
    this.#open.resolve();
  }

  /** Resolves to the node that receives the last of so many words of a response. Then all models pause. */
  hold(words = Infinity): Promise<number> {
    this.#goesOn.resolve();
    this.#due = Promise.withResolvers();
    this.#goesOn = Promise.withResolvers();
    this.#wordsLeft = words;
    return this.#due.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.open();
    this.#goesOn.resolve();
    await this.#server[Symbol.asyncDispose]();
  }

  #answer(call: ModelCall): ScriptedStep {
    const { messages } = call.body;
    const [, roomId, topic] = /Do it: (room_\w+) (topic \d+)/.exec(JSON.stringify(messages)) ?? [];
    if (!messages.some(({ role }: Body) => role === "tool")) {
      const input = JSON.stringify({ roomId, title: topic });
      return { parts: [() => this.#open.promise, { kind: "tool", callId: "call", name: "task_create", input }] };
    }
    return { parts: WORDS.flatMap((word) => [word, () => this.#wait(call)]) };
  }

  async #wait(call: ModelCall): Promise<void> {
    if (this.#wordsLeft === 0) await this.#goesOn.promise;
    if (call.isAborted) throw new Error("its node is gone");
    if (--this.#wordsLeft !== 0) return await pause(WORD_MS);
    this.#due.resolve(Number(call.path.split("/")[1]));
    await this.#goesOn.promise;
    throw new Error("its node was killed");
  }
}

/** Starts the runs, kills nodes while they speak, and checks what is left. */
async function survive(cluster: Cluster, speakers: Speakers): Promise<void> {
  const call = (method: string, path: string, body?: unknown) => cluster.call(0, "alice", method, path, body);
  const roomId = await cluster.createRoom(["alice"]);
  const agentIds: string[] = [];
  for (let n = 0; n < AGENTS; n++) {
    const { id } = await call("POST", `${API}/agents`, { displayName: `Agent ${n}`, tools: ["task.create"] });
    await call("PUT", `/v1/rooms/${roomId}/members/${id}`, {});
    agentIds.push(id);
  }
  const threads: string[] = [];
  for (let n = 0; n < RUNS; n++) {
    const { id: threadId } = await call("POST", "/v1/messages", { roomId, text: `topic ${n}` });
    const agentId = agentIds[n % AGENTS];
    await call("POST", `${API}/ai/runs`, { roomId, threadId, agentId, input: `Do it: ${roomId} topic ${n}` });
    threads.push(threadId);
  }
  speakers.open();
  const holdSoon = () => speakers.hold(1 + Math.floor(Math.random() * WORDS_BEFORE_KILL_MAX));
  let held = holdSoon();
  for (let n = 1; n <= KILLS; n++) {
    const at = await withTimeout(held, 3 * WAIT_MS);
    assert.ok(at !== undefined, "an agent speaks: too few runs are left");
    const node = cluster.node(at);
    await node.stop("SIGKILL");
    // What the others say while it starts counts as well.
    held = n < KILLS ? holdSoon() : speakers.hold();
    await node.start();
  }
  let runs: Body[] = [];
  // A slow machine is waited for as long as another one ends.
  for (let left = RUNS; left > 0;) {
    left = await eventually(async () => {
      await pause(POLL_MS);
      runs = (await call("GET", `${API}/ai/runs?roomId=${roomId}&limit=200`)).items;
      const unfinished = runs.filter(({ finishedAt }) => finishedAt === null).length;
      assert.ok(unfinished < left, "another one ends");
      return unfinished;
    });
  }
  assert.equal(runs.length, RUNS);
  assert.deepEqual([...new Set(runs.map(({ status }) => status))], ["succeeded"], JSON.stringify(runs));
  for (const threadId of threads) {
    const { items } = await call("GET", `/v1/messages?roomId=${roomId}&threadId=${threadId}&limit=200`);
    assert.deepEqual(items.map(({ text }: Body) => text), [WORDS.join("").trim()]);
  }
  const { items: tasks } = await call("GET", `${API}/tasks?roomId=${roomId}&limit=200`);
  const titles = tasks.map(({ title }: Body) => title).sort();
  assert.deepEqual(titles, threads.map((_, n) => `topic ${n}`).sort());
  const attempts = runs.reduce((sum: number, { attempt }) => sum + attempt, 0);
  assert.ok(attempts >= RUNS + KILLS, `each kill interrupted a run: ${attempts} attempts`);
  printLine(`${KILLS} kills, ${RUNS} runs, ${attempts} attempts: one message and one task each`);
}

Deno.test(`kill -9 of a node on SQLite while ${RUNS} runs are executed`, async () => {
  await using speakers = new Speakers();
  await using cluster = await Cluster.openSingle({ environment: speakers.environmentOf(0) });
  await survive(cluster, speakers);
});

Deno.test({
  name: `kill -9 of one of two nodes on PostgreSQL while ${RUNS} runs are executed`,
  ignore: !hasServers,
  async fn() {
    await using speakers = new Speakers();
    await using cluster = await Cluster.openShared({ nodeEnvironment: (node) => speakers.environmentOf(node) });
    await survive(cluster, speakers);
  },
});
