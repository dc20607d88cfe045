// `kill -9` of gateways while agents work: each run has one message, and no tool ran twice.
import assert from "node:assert/strict";
import { eventually, pause } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { printLine } from "./report.ts";

const RUNS = 60;
const AGENTS = 5;
const KILL_MS = 1000;
const KILLS_MAX = 25;
const WORDS = 20;

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** A model that creates a task first, then says slowly that it did. */
class SlowModel implements AsyncDisposable {
  readonly #server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => stream(await request.json()),
  );

  get url(): string {
    return `http://127.0.0.1:${(this.#server.addr as Deno.NetAddr).port}/v1`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

function stream({ messages }: Body): Response {
  const [, roomId, topic] = /Do it: (room_\w+) (topic \d+)/.exec(JSON.stringify(messages)) ?? [];
  const hasTask = messages.some(({ role }: Body) => role === "tool");
  const chunk = (delta: unknown, finish_reason: string | null = null) =>
    `data: ${
      JSON.stringify({
        id: "c",
        object: "chat.completion.chunk",
        created: 1,
        model: "m",
        choices: [{ index: 0, delta, finish_reason }],
      })
    }\n\n`;
  const call = { name: "task_create", arguments: JSON.stringify({ roomId, title: topic }) };
  return new Response(
    ReadableStream.from((async function* () {
      if (!hasTask) yield chunk({ tool_calls: [{ index: 0, id: "call", type: "function", function: call }] });
      for (let n = 0; hasTask && n < WORDS; n++) {
        yield chunk({ content: `word${n} ` });
        await pause(10);
      }
      yield chunk({}, hasTask ? "stop" : "tool_calls");
      yield "data: [DONE]\n\n";
    })()).pipeThrough(new TextEncoderStream()),
    { headers: { "content-type": "text/event-stream" } },
  );
}

/** Starts the runs, kills nodes until all have ended, and checks what is left. */
async function survive(cluster: Cluster, nodes: number): Promise<void> {
  const API = "/v1/collaboration";
  const roomId = await cluster.createRoom(["alice"]);
  const agentIds: string[] = [];
  for (let n = 0; n < AGENTS; n++) {
    const { id } = await cluster.call(0, "alice", "POST", `${API}/agents`, {
      displayName: `Agent ${n}`,
      tools: ["task.create"],
    });
    await cluster.call(0, "alice", "PUT", `/v1/rooms/${roomId}/members/${id}`, {});
    agentIds.push(id);
  }
  const threads: string[] = [];
  for (let n = 0; n < RUNS; n++) {
    const root = await cluster.call(0, "alice", "POST", "/v1/messages", { roomId, text: `topic ${n}` });
    threads.push(root.id);
  }
  let waiting = threads.map((threadId, n) => ({ threadId, n }));
  let kills = 0;
  const read = async (path: string): Promise<Body> => await eventually(() => cluster.call(0, "alice", "GET", path));
  while (true) {
    const refused: typeof waiting = [];
    for (const one of waiting) {
      const input = {
        roomId,
        threadId: one.threadId,
        agentId: agentIds[one.n % AGENTS],
        input: `Do it: ${roomId} topic ${one.n}`,
      };
      const { status } = await cluster.request(0, "alice", "POST", `${API}/ai/runs`, input);
      if (status !== 202) refused.push(one);
    }
    waiting = refused;
    const { items } = await read(`${API}/ai/runs?roomId=${roomId}&limit=200`);
    if (waiting.length === 0 && items.every(({ finishedAt }: Body) => finishedAt !== null)) break;
    await pause(KILL_MS);
    if (kills === KILLS_MAX) continue;
    const node = cluster.node(kills++ % nodes);
    await node.stop("SIGKILL");
    await node.start();
  }
  const { items: runs } = await read(`${API}/ai/runs?roomId=${roomId}&limit=200`);
  assert.deepEqual([...new Set(runs.map(({ status }: Body) => status))], ["succeeded"], JSON.stringify(runs));
  const words = Array.from({ length: WORDS }, (_, n) => `word${n}`).join(" ");
  for (const threadId of threads) {
    const { items } = await read(`/v1/messages?roomId=${roomId}&threadId=${threadId}&limit=200`);
    assert.deepEqual(items.map(({ text }: Body) => text), [words]);
  }
  const { items: tasks } = await read(`${API}/tasks?roomId=${roomId}&limit=200`);
  const titles = tasks.map(({ title }: Body) => title).sort();
  assert.deepEqual(titles, threads.map((_, n) => `topic ${n}`).sort());
  const attempts = runs.reduce((sum: number, { attempt }: Body) => sum + attempt, 0);
  printLine(`${kills} kills, ${runs.length} runs, ${attempts} attempts: one message and one task each`);
}

Deno.test(`kill -9 of a node on SQLite while ${RUNS} runs are executed`, async () => {
  await using model = new SlowModel();
  const environment = { SVC_AI_BASE_URL: model.url, SVC_AI_MODEL: "m" };
  await using cluster = await Cluster.openSingle({ environment });
  await survive(cluster, 1);
});

Deno.test({
  name: `kill -9 of one of two nodes on PostgreSQL while ${RUNS} runs are executed`,
  ignore: !hasServers,
  async fn() {
    await using model = new SlowModel();
    const environment = { SVC_AI_BASE_URL: model.url, SVC_AI_MODEL: "m" };
    await using cluster = await Cluster.openShared({ environment });
    await survive(cluster, 2);
  },
});
