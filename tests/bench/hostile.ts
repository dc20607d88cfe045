// `deno task bench hostile`: one stranger and one member with forty agents try everything at once against a gateway with its
// limits on, while 200 others write and read; what these notice of it, beside calm times in the same run. HOSTILE_MINUTES sets how
// long, HOSTILE_ATTACKS which (`free/busy,agenda`).
import { createTemporaryFolder } from "../temporary_folder.ts";
import type { AttackReport, AttackRequest } from "./hostile_attack.ts";
import type { ClientsReport, ClientsRequest } from "./honest_clients.ts";
import { Gateway, SECRET } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import { type Row, say } from "./report.ts";
import { benchToken } from "./token.ts";

const HONEST = 200;
const ROOMS = 20;
const AGENTS = 40;
/** Those in the room of their owner; more could not be added in a minute. */
const AGENTS_IN_ROOM = 15;
const PER_SECOND = 20;
/** A calm time, then an attack, again and again: a machine that is busy with something else is so in both. */
const CALM_SECONDS = 15;
const ATTACK_SECONDS = 45;
const ONLY = Deno.env.get("HOSTILE_ATTACKS")?.split(",") ?? [];
const MINUTES = Number(Deno.env.get("HOSTILE_MINUTES") ?? 3);
const ROUNDS = Math.max(1, Math.round(MINUTES * 60 / (CALM_SECONDS + ATTACK_SECONDS)));

export async function hostile(): Promise<Row[]> {
  await using folder = await createTemporaryFolder();
  const gateway = await Gateway.start({
    SVC_RATE_LIMIT: "on",
    SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`,
    SVC_DATA_DIR: folder.path,
    // All honest clients come from one address here.
    SVC_LIMIT_CONNECTIONS_PER_ADDRESS: "1000",
  });
  const crowd = new LoadGenerator<ClientsRequest, ClientsReport>("./honest_clients.ts");
  const attackers = new LoadGenerator<AttackRequest, AttackReport>("./hostile_attack.ts", { isBackground: true });
  try {
    const { base, members, order } = await prepare(gateway);
    await crowd.request({ kind: "open", base, members });
    await crowd.request({ kind: "run", seconds: 5, perSecond: PER_SECOND });
    const [idleKib, bytes] = [gateway.server.residentKib(), await bytesIn(folder.path)];
    let peakKib = idleKib;
    const sampler = setInterval(() => peakKib = Math.max(peakKib, gateway.server.residentKib()), 200);
    const calm: ClientsReport[] = [];
    const attacked: ClientsReport[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      calm.push(await crowd.request({ kind: "run", seconds: CALM_SECONDS, perSecond: PER_SECOND }));
      const attack = attackers.request({ ...order, seconds: ATTACK_SECONDS, only: ONLY });
      attacked.push(await crowd.request({ kind: "run", seconds: ATTACK_SECONDS - 5, perSecond: PER_SECOND }));
      say(JSON.stringify({ calm: calm.at(-1), attacked: attacked.at(-1), attacks: await attack }, null, 1));
    }
    clearInterval(sampler);
    const grown = await bytesIn(folder.path) - bytes;
    const resources = {
      idleMiB: Math.round(idleKib / 1024),
      peakMiB: Math.round(peakKib / 1024),
      diskMiBPerMinute: Math.round(grown / (ROUNDS * ATTACK_SECONDS / 60) / 1024 / 1024),
    };
    say(JSON.stringify(resources, null, 1));
    return (["delivery", "acknowledgement"] as const).map((what) => ({
      what: `p95 of ${what === "delivery" ? "a delivery" : "an acknowledgement"} for ${HONEST} clients under attack`,
      unit: "ms",
      peer: "calm",
      ours: attacked.map((report) => report[what].p95),
      theirs: calm.map((report) => report[what].p95),
      isLowerBetter: true as const,
      goal: 0.67,
    }));
  } finally {
    await crowd.stop();
    await attackers.stop();
    await gateway.server.stop();
  }
}

/** Rooms with their members, and the member who attacks in a room of its own. */
async function prepare(gateway: Gateway): Promise<{
  base: string;
  members: { token: string; room: string }[];
  order: Omit<AttackRequest, "seconds" | "only">;
}> {
  const { url } = gateway.server;
  const rooms: string[] = [];
  for (let at = 0; at < ROOMS; at++) rooms.push(await create(url, `owner${at}`));
  const members: { token: string; room: string }[] = [];
  for (let at = 0; at < HONEST; at++) {
    const room = rooms[at % ROOMS] ?? "";
    members.push({ token: await benchToken(SECRET, `honest${at}`, { role: "member" }), room });
    await call(url, `honest${at}`, "PUT", `/v1/rooms/${room}/members/me`, {});
  }
  const tokens = [await benchToken(SECRET, "mallory", { role: "member" })];
  for (let at = 0; at < AGENTS; at++) {
    tokens.push(await benchToken(SECRET, `mallory-agent${at}`, { role: "member", kind: "agent", owner: "mallory" }));
  }
  const room = await create(url, "mallory");
  for (let at = 0; at < AGENTS_IN_ROOM; at++) {
    // An agent exists from its first call on.
    const headers = { authorization: `Bearer ${tokens[at + 1]}` };
    await (await fetch(`${url}/v1/collaboration/me`, { headers })).body?.cancel();
    await call(url, "mallory", "PUT", `/v1/rooms/${room}/members/mallory-agent${at}`, {});
  }
  return { base: url, members, order: { base: url, tokens, room } };
}

async function create(url: string, owner: string): Promise<string> {
  const room = await call(url, owner, "POST", "/v1/rooms", { name: `Room of ${owner}`, visibility: "public" });
  return room.id;
}

async function call(url: string, sub: string, method: string, path: string, body: unknown): Promise<{ id: string }> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${await benchToken(SECRET, sub, { role: "member" })}`,
      "content-type": "application/json",
    },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer.detail}`);
  return answer;
}

async function bytesIn(folder: string): Promise<number> {
  let sum = 0;
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    sum += isDirectory ? await bytesIn(path) : (await Deno.stat(path).catch(() => ({ size: 0 }))).size;
  }
  return sum;
}
