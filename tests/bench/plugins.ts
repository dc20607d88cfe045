// `deno task bench plugins`: how long others wait for their sends while one plugin hangs, one fails, one returns more than it may, and
// one responds to its own messages forever, beside calm times in the same run. PLUGINS_SECONDS sets how long each measurement takes.
import { installPlugin, manifestOf, PLUGINS, PluginServer } from "../modules/plugin/plugin_fixture.ts";
import type { ApiResponse, Caller } from "../harness.ts";
import { pause } from "../wait.ts";
import { CLIENTS, Crowd } from "./crowd.ts";
import { Gateway, SECRET } from "./gateway.ts";
import type { Row } from "./report.ts";
import { benchToken } from "./token.ts";

const SECONDS = Number(Deno.env.get("PLUGINS_SECONDS") ?? 10);
/** 1.5 times the latency of calm. */
const GOAL = 0.67;
/** People who run the commands of each plugin. */
const AT_ONCE = 4;
const REFUSED_MS = 1000;
const TOO_MUCH = "x".repeat(1024 * 1024);

type Answer = PluginServer["respond"];

export async function plugins(rounds: number): Promise<Row[]> {
  await using stack = new AsyncDisposableStack();
  const gateway = await Gateway.start({ SVC_OUTBOUND_ALLOW: "127.0.0.1", SVC_RATE_LIMIT: "on" });
  stack.defer(() => gateway.server.stop());
  const crowd = stack.use(await Crowd.open(gateway));
  const answers: Record<string, (server: PluginServer) => Answer> = {
    hanging: (server) => () => server.hang(),
    failing: () => () => new Response("no", { status: 500 }),
    huge: () => () => new Response(TOO_MUCH, { headers: { "content-type": "application/json" } }),
  };
  const attacks = await Promise.all(
    Object.entries(answers).map(async ([name, answerOf]) => {
      const server = stack.use(new PluginServer());
      server.respond = answerOf(server);
      return await callingOf(gateway, name, server);
    }),
  );
  attacks.push(await loopingOf(gateway));
  const [calm, attacked]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    calm.push(await crowd.measure(SECONDS));
    const ending = new AbortController();
    const running = attacks.map((attack) => attack(ending.signal));
    attacked.push(await crowd.measure(SECONDS));
    ending.abort();
    await Promise.all(running);
    await pause(1000);
  }
  return [{
    what: `p99 of message.send for ${CLIENTS} clients while plugins hang, fail, answer 1 MiB and loop`,
    unit: "ms",
    peer: "calm",
    ours: attacked,
    theirs: calm,
    isLowerBetter: true,
    goal: GOAL,
  }];
}

type Attack = (signal: AbortSignal) => Promise<void>;

/** A plugin whose command is run all the time. */
async function callingOf(gateway: Gateway, name: string, server: PluginServer): Promise<Attack> {
  const { admin, roomId, tenant } = await openTenant(gateway, name);
  const manifest = manifestOf({ transport: "http", endpoint: server.url });
  await installPlugin(admin, manifest, [[admin, roomId]]);
  const people = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, n) => {
      const caller = await callerOf(gateway, `${name}${n}`, tenant);
      await caller.get("/v1/collaboration/me");
      await admin.put(`/v1/rooms/${roomId}/members/${name}${n}`, {});
      return caller;
    }),
  );
  return (signal) =>
    repeat(people, signal, (who) => who.post("/v1/collaboration/commands/run", { roomId, text: "/poll x" }));
}

/** A plugin that responds to each of its messages with another one. */
async function loopingOf(gateway: Gateway): Promise<Attack> {
  const { admin, roomId } = await openTenant(gateway, "looping");
  const { token } = await installPlugin(admin, manifestOf(), [[admin, roomId]]);
  const plugin = caller(gateway, token);
  return (signal) => repeat([plugin], signal, (who) => who.post("/v1/messages", { roomId, text: "Again" }));
}

/** Each calls as fast as it may: a flood of refused calls would measure something else. */
async function repeat(
  callers: readonly Caller[],
  signal: AbortSignal,
  call: (who: Caller) => Promise<ApiResponse>,
): Promise<void> {
  await Promise.all(callers.map(async (who) => {
    while (!signal.aborted) {
      const { status } = await call(who);
      if (status === 429 || status === 503) await pause(REFUSED_MS);
    }
  }));
}

async function openTenant(
  gateway: Gateway,
  tenant: string,
): Promise<{ admin: Caller; roomId: string; tenant: string }> {
  const admin = await callerOf(gateway, "admin", tenant, "owner");
  const { body } = await admin.post("/v1/rooms", { name: PLUGINS });
  return { admin, roomId: body.id, tenant };
}

async function callerOf(gateway: Gateway, sub: string, tenant: string, role?: string): Promise<Caller> {
  return caller(gateway, await benchToken(SECRET, sub, { tenant, ...role === undefined ? {} : { role } }));
}

/** As the harness's, over the network. */
function caller(gateway: Gateway, token: string): Caller {
  const call = async (method: string, path: string, body?: unknown): Promise<ApiResponse> => {
    const response = await fetch(`${gateway.server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  };
  return {
    call,
    get: (path) => call("GET", path),
    post: (path, body = {}) => call("POST", path, body),
    put: (path, body = {}) => call("PUT", path, body),
    patch: (path, body = {}) => call("PATCH", path, body),
    delete: (path) => call("DELETE", path),
  } as Caller;
}
