// `deno task bench runs`: what a run of an agent costs while its model speaks. The CPU of a batch of its text to those who watch
// it, without what an idle gateway with as many sockets and the reading of the model take; that of the watchers alone; and that of
// the same frames from bare sockets. All of them include what clients take to receive: on one machine, the system delivers within a
// send. And how long others wait for their sends while as many runs stream as a node executes, beside calm times in the same run.
//
// The differences are small, so all are measured in turns, in processes that live as long and do the same all the time: one that
// has just started, or does little, takes several times as much for the same work.
// RUNS_SECONDS sets how long each measurement of a round takes.
import { RUN_LIMITS } from "@/modules/agent/run/runner.ts";
import { pause } from "../wait.ts";
import { CLIENTS, Crowd } from "./crowd.ts";
import { Gateway, SECRET } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import type { Row } from "./report.ts";
import { Server } from "./server.ts";
import { benchToken } from "./token.ts";

const API = "/v1/collaboration";
const WATCHERS = 100;
/** Several, so that one measurement differs less from the next. */
const WATCHED_RUNS = 4;
const BUDGET_MS = 1;
/** 1.5 times the latency of calm. */
const GOAL = 0.67;
const SECONDS = Number(Deno.env.get("RUNS_SECONDS") ?? 10);
/** How often each is measured in a round, for a part of the time. */
const TURNS = 2;
const POLL_MS = 200;
const WARM_UP_MS = 2000;
const MODELS = new URL("./runs_models.ts", import.meta.url).pathname;
const READER = new URL("./runs_reader.ts", import.meta.url).pathname;
const SOCKETS = new URL("./peers/sockets.ts", import.meta.url).pathname;
const { runsPerAgent: PER_AGENT, runsPerTenant: PER_TENANT, runsPerNode: PER_NODE } = RUN_LIMITS;

/** Milliseconds of CPU for one batch of a run. */
type BatchCost = {
  /** Of runs that are watched, beside the model and the sockets. */
  watched: number;
  /** Of those who watch, beside runs that nobody watches. */
  watchers: number;
  /** Of runs that nobody watches, with the reading of the model. */
  unwatched: number;
  /** To read the model, without a run. */
  reading: number;
  /** The same frames to as many bare sockets. */
  bare: number;
};

/** What is measured, each in a process of its own. */
type Subjects = { gateway: Server; reader: Server; sockets: Server };

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
  await using stack = new AsyncDisposableStack();
  const reader = await Server.start("deno", [READER, `${models.url}/v1`, String(WATCHED_RUNS)], {});
  stack.defer(() => reader.stop());
  const sockets = await Server.start("deno", [SOCKETS], {});
  stack.defer(() => sockets.stop());
  const tenant = await Tenant.open(gateway, "watched");
  const subjects = { gateway: gateway.server, reader, sockets };
  // The first turn compiles.
  await measureBatches(subjects, tenant);
  const costs: BatchCost[] = [];
  for (let turn = 0; turn < rounds * TURNS; turn++) costs.push(await measureBatches(subjects, tenant));
  const row = (what: string, ours: keyof BatchCost, peer: string, theirs: (cost: BatchCost) => number): Row => ({
    what,
    unit: "ms",
    peer,
    ours: costs.map((cost) => cost[ours]),
    theirs: costs.map(theirs),
    isLowerBetter: true,
  });
  const what = `Server CPU for a delta batch of a run to ${WATCHERS} watchers, beside the model`;
  return [
    { ...row(what, "watched", "budget", () => BUDGET_MS), goal: 1 },
    row("The same", "watched", "bare WebSockets of Deno", ({ bare }) => bare),
    row("The watchers alone", "watchers", "bare WebSockets of Deno", ({ bare }) => bare),
    row("Without watchers, with the model", "unwatched", "only reading the model", ({ reading }) => reading),
  ];
}

/**
 * A gateway with as many sockets as there will be watchers, idle, then with runs that stream; the same with watchers; bare sockets.
 * The model is read all the time.
 */
async function measureBatches({ gateway, reader, sockets }: Subjects, tenant: Tenant): Promise<BatchCost> {
  const silent = await openClients(gateway, "sender", tenant.token, Array(WATCHED_RUNS).fill(""));
  const [[idle]] = await cpuOf([gateway], silent);
  const ids = await tenant.startRuns(WATCHED_RUNS);
  const [[unwatched, readingBefore]] = await cpuOf([gateway, reader], silent);
  await silent.stop();
  const watchers = await openClients(gateway, "watcher", tenant.token, ids);
  const [[watched, readingAfter], batches] = await cpuOf([gateway, reader], watchers);
  await watchers.stop();
  if (batches === 0) throw new Error("nobody heard the runs");
  await tenant.cancelRuns();
  const peers = await openClients(sockets, "watcher", tenant.token, ids);
  const [[bare], bareBatches] = await cpuOf([sockets], peers);
  await peers.stop();
  const reading = (readingBefore + readingAfter) / 2;
  return {
    watched: (watched - idle - reading) / batches,
    watchers: (watched - unwatched) / batches,
    unwatched: (unwatched - idle) / batches,
    reading: reading / batches,
    bare: bare / bareBatches,
  };
}

/** So many clients for each id, after their sockets are open for some time. */
async function openClients(
  server: Server,
  dialect: "sender" | "watcher",
  token: string,
  ids: string[],
): Promise<LoadGenerator> {
  const clients = new LoadGenerator();
  await clients.request({
    kind: "open",
    dialect,
    bases: [server.url],
    sockets: WATCHERS * ids.length,
    token,
    rooms: ids,
    sharesCores: true,
  });
  await pause(WARM_UP_MS);
  return clients;
}

/** Milliseconds of CPU that servers use a second while the clients listen, and the batches that these receive a second. */
async function cpuOf<Servers extends Server[]>(
  servers: [...Servers],
  clients: LoadGenerator,
): Promise<[rates: { [At in keyof Servers]: number }, batches: number]> {
  const before = servers.map((server) => server.cpuSeconds());
  const startedAt = performance.now();
  const listen = { kind: "flood", bytes: 0, senders: 0, inFlight: 0, seconds: SECONDS / TURNS } as const;
  const { deliveries, seconds } = await clients.request(listen);
  const elapsedMs = performance.now() - startedAt;
  const rates = servers.map((server, at) => (server.cpuSeconds() - (before[at] ?? 0)) * 1e6 / elapsedMs);
  return [rates as { [At in keyof Servers]: number }, deliveries / WATCHERS / seconds];
}

async function send(gateway: Gateway, rounds: number): Promise<Row[]> {
  const names = Array.from({ length: PER_NODE / PER_TENANT }, (_, n) => `busy${n}`);
  const tenants = await Promise.all(names.map((name) => Tenant.open(gateway, name)));
  await using crowd = await Crowd.open(gateway);
  const calm: number[] = [];
  const streaming: number[] = [];
  for (let round = 0; round < rounds; round++) {
    calm.push(await crowd.measure(SECONDS));
    await Promise.all(tenants.map((tenant) => tenant.startRuns(PER_TENANT)));
    streaming.push(await crowd.measure(SECONDS));
    // None of them ended meanwhile.
    await Promise.all(tenants.map((tenant) => tenant.cancelRuns()));
    await pause(1000);
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

/** Rooms and agents for as many runs as a tenant may have at once, and two people who ask for them. */
class Tenant {
  readonly token: string;
  readonly #tokens: readonly string[];
  readonly #gateway: Gateway;
  readonly #places: { roomId: string; agentId: string }[] = [];
  #running: string[] = [];

  private constructor(gateway: Gateway, tokens: readonly string[]) {
    this.#gateway = gateway;
    this.#tokens = tokens;
    this.token = tokens[0] ?? "";
  }

  static async open(gateway: Gateway, name: string): Promise<Tenant> {
    const tokenOf = (sub: string) => benchToken(SECRET, sub, { tenant: name });
    const tenant = new Tenant(gateway, [await tokenOf("bench"), await tokenOf("other")]);
    await tenant.#call("GET", `${API}/me`, undefined, 1);
    const roomIds: string[] = [];
    // An agent has one run at a time in a room.
    for (let n = 0; n < PER_AGENT; n++) {
      roomIds.push((await tenant.#call("POST", "/v1/rooms", { name: `Room ${n}`, memberIds: ["other"] })).id);
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
    for (const [n, place] of this.#places.slice(0, count).entries()) {
      const body = { ...place, input: "Speak" };
      this.#running.push((await this.#call("POST", `${API}/ai/runs`, body, n % this.#tokens.length)).id);
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
  async #call(method: string, path: string, body?: unknown, caller = 0): Promise<any> {
    return await this.#gateway.call(method, path, body, this.#tokens[caller] ?? "");
  }
}
