// `deno task bench runs`: what a run of an agent costs while its model speaks. The CPU of a batch of its text to those who watch it,
// and how long others wait for their sends while as many runs stream as a node executes, beside calm times in the same run.
// RUNS_SECONDS sets how long each measurement takes.
import { RUN_LIMITS } from "@/modules/agent/run/runner.ts";
import { pause } from "../wait.ts";
import type { ClientsReport, ClientsRequest } from "./honest_clients.ts";
import { Gateway, SECRET } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import type { Row } from "./report.ts";
import { Server } from "./server.ts";
import { benchToken } from "./token.ts";

const API = "/v1/collaboration";
const WATCHERS = 100;
const BUDGET_MS = 1;
const CLIENTS = 50;
/** One send of each client a second. */
const PER_SECOND = CLIENTS;
/** 1.5 times the latency of calm. */
const GOAL = 0.67;
const SECONDS = Number(Deno.env.get("RUNS_SECONDS") ?? 10);
const POLL_MS = 200;
const MODELS = new URL("./runs_models.ts", import.meta.url).pathname;
const { runsPerAgent: PER_AGENT, runsPerTenant: PER_TENANT, runsPerNode: PER_NODE } = RUN_LIMITS;

/** Milliseconds of CPU for one batch. */
type BatchCost = { watched: number; unwatched: number; model: number };

export async function runs(rounds: number): Promise<Row[]> {
  await using stack = new AsyncDisposableStack();
  const models = await Server.start("deno", [MODELS], {}, "1");
  stack.defer(() => models.stop());
  const gateway = await Gateway.start({
    SVC_AI_BASE_URL: `${models.url}/v1`,
    SVC_AI_MODEL: "speaker",
    SVC_OUTBOUND_ALLOW: "127.0.0.1",
  });
  stack.defer(() => gateway.server.stop());
  return [...await watch(gateway, models, rounds), ...await send(gateway, rounds)];
}

async function watch(gateway: Gateway, models: Server, rounds: number): Promise<Row[]> {
  const tenant = await Tenant.open(gateway, "watched");
  const costs: BatchCost[] = [];
  for (let round = 0; round < rounds; round++) {
    const [run = ""] = await tenant.startRuns(1);
    costs.push(await measureBatches(gateway.server, models, { token: tenant.token, run }));
    await tenant.cancelRuns();
  }
  const ours = costs.map(({ watched }) => watched);
  const row = (what: string, peer: string, theirs: number[]): Row => ({
    what,
    unit: "ms",
    peer,
    ours,
    theirs,
    isLowerBetter: true,
  });
  const what = `Server CPU for a delta batch of a run to ${WATCHERS} watchers`;
  return [
    { ...row(what, "budget", ours.map(() => BUDGET_MS)), goal: 1 },
    row("The same beside nobody who watches", "the same run", costs.map(({ unwatched }) => unwatched)),
    row("The same beside the model", "CPU of its server", costs.map(({ model }) => model)),
  ];
}

/** Of a run that streams: first with watchers, then without. */
async function measureBatches(
  server: Server,
  models: Server,
  { token, run }: { token: string; run: string },
): Promise<BatchCost> {
  const watchers = new LoadGenerator();
  const bases = [server.url];
  const dialect = "watcher";
  await watchers.request({ kind: "open", dialect, bases, sockets: WATCHERS, token, rooms: [run], sharesCores: true });
  await pause(500);
  const listen = { kind: "flood", bytes: 0, senders: 0, inFlight: 0, seconds: SECONDS } as const;
  const [watched, { deliveries, seconds }] = await cpuOf([server, models], () => watchers.request(listen));
  await watchers.stop();
  await pause(500);
  const [unwatched] = await cpuOf([server], () => pause(SECONDS * 1000));
  const batchesPerSecond = deliveries / WATCHERS / seconds;
  if (batchesPerSecond === 0) throw new Error("nobody heard the run");
  const [ofWatched = NaN, ofModel = NaN] = watched;
  const [ofUnwatched = NaN] = unwatched;
  return {
    watched: ofWatched / batchesPerSecond,
    unwatched: ofUnwatched / batchesPerSecond,
    model: ofModel / batchesPerSecond,
  };
}

/** Milliseconds of CPU that each server used a second while something was done. */
async function cpuOf<Result>(
  servers: readonly Server[],
  action: () => Promise<Result>,
): Promise<[rates: number[], result: Result]> {
  const before = servers.map((server) => server.cpuSeconds());
  const startedAt = performance.now();
  const result = await action();
  const seconds = (performance.now() - startedAt) / 1000;
  return [servers.map((server, at) => (server.cpuSeconds() - (before[at] ?? NaN)) * 1000 / seconds), result];
}

async function send(gateway: Gateway, rounds: number): Promise<Row[]> {
  const names = Array.from({ length: PER_NODE / PER_TENANT }, (_, n) => `busy${n}`);
  const tenants = await Promise.all(names.map((name) => Tenant.open(gateway, name)));
  const crowd = new LoadGenerator<ClientsRequest, ClientsReport>("./honest_clients.ts");
  const calm: number[] = [];
  const streaming: number[] = [];
  const measure = async (): Promise<number> => {
    const report = await crowd.request({ kind: "run", seconds: SECONDS, perSecond: PER_SECOND });
    if (report.refused > 0 || report.lost > 0) throw new Error(`sends failed: ${JSON.stringify(report)}`);
    return report.acknowledgement.p99;
  };
  try {
    await crowd.request({ kind: "open", base: gateway.server.url, members: await createMembers(gateway) });
    await crowd.request({ kind: "run", seconds: 3, perSecond: PER_SECOND });
    for (let round = 0; round < rounds; round++) {
      calm.push(await measure());
      await Promise.all(tenants.map((tenant) => tenant.startRuns(PER_TENANT)));
      streaming.push(await measure());
      // None of them ended meanwhile.
      await Promise.all(tenants.map((tenant) => tenant.cancelRuns()));
      await pause(1000);
    }
  } finally {
    await crowd.stop();
  }
  return [{
    what: `p99 of message.send for ${CLIENTS} clients while ${PER_NODE} runs stream`,
    unit: "ms",
    peer: "calm",
    ours: streaming,
    theirs: calm,
    isLowerBetter: true,
    goal: GOAL,
  }];
}

/** Each has a room of its own. */
async function createMembers(gateway: Gateway): Promise<{ token: string; room: string }[]> {
  return await Promise.all(Array.from({ length: CLIENTS }, async (_, n) => {
    const token = await benchToken(SECRET, `client${n}`);
    const { id: room } = await gateway.call("POST", "/v1/rooms", { name: `Room ${n}` }, token);
    return { token, room };
  }));
}

/** Rooms and agents for as many runs as a tenant may have at once. */
class Tenant {
  readonly token: string;
  readonly #gateway: Gateway;
  readonly #places: { roomId: string; agentId: string }[] = [];
  #running: string[] = [];

  private constructor(gateway: Gateway, token: string) {
    this.#gateway = gateway;
    this.token = token;
  }

  static async open(gateway: Gateway, name: string): Promise<Tenant> {
    const tenant = new Tenant(gateway, await benchToken(SECRET, "bench", { tenant: name }));
    const roomIds: string[] = [];
    // An agent has one run at a time in a room.
    for (let n = 0; n < PER_AGENT; n++) {
      roomIds.push((await tenant.#call("POST", "/v1/rooms", { name: `Room ${n}` })).id);
    }
    for (let n = 0; n < PER_TENANT / PER_AGENT; n++) {
      const { id: agentId } = await tenant.#call("POST", `${API}/agents`, { displayName: `Agent ${n}` });
      for (const roomId of roomIds) {
        await tenant.#call("PUT", `/v1/rooms/${roomId}/members/${agentId}`, {});
        tenant.#places.push({ roomId, agentId });
      }
    }
    return tenant;
  }

  /** Resolves to the ids of the runs once some of the text of each is stored. */
  async startRuns(count: number): Promise<string[]> {
    for (const place of this.#places.slice(0, count)) {
      this.#running.push((await this.#call("POST", `${API}/ai/runs`, { ...place, input: "Speak" })).id);
    }
    for (const id of this.#running) {
      while ((await this.#call("GET", `${API}/ai/runs/${id}`)).text === "") await pause(POLL_MS);
    }
    return this.#running;
  }

  /** Throws if one has ended by itself. */
  async cancelRuns(): Promise<void> {
    for (const id of this.#running) {
      const { status, error } = await this.#call("GET", `${API}/ai/runs/${id}`);
      if (status !== "running") throw new Error(`a run is ${status}: ${JSON.stringify(error)}`);
      await this.#call("POST", `${API}/ai/runs/${id}/cancel`);
    }
    this.#running = [];
  }

  // deno-lint-ignore no-explicit-any -- bodies of every shape
  async #call(method: string, path: string, body?: unknown): Promise<any> {
    return await this.#gateway.call(method, path, body, this.token);
  }
}
