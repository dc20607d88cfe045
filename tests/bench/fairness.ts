// One principal, one budget: how long others wait for their sends while one member with forty agents takes all it can get.
import { createTemporaryFolder } from "../temporary_folder.ts";
import { Gateway, SECRET } from "./gateway.ts";
import { type AttackName, type AttackOptions, ATTACKS } from "./fairness_attack.ts";
import { type Row, say } from "./report.ts";
import { pin } from "./server.ts";
import { benchToken } from "./token.ts";
import { freePort } from "../free_port.ts";
import { pause } from "../wait.ts";

const CLIENTS = 50;
const AGENTS = 40;
const SERIES = 4000;
const GUESTS = 200;
const MESSAGES = 3000;
const SECONDS = 10;
/** One send of each client in so many ms: what a busy team does. */
const SEND_INTERVAL_MS = 1000;

/** 1.5 times the latency of calm. */
const GOAL = 0.67;
const ATTACK = new URL("./fairness_attack.ts", import.meta.url).pathname;

/** For each attack the p95 of others' sends, beside that of a calm time just before. */
export async function fairness(attacks: readonly AttackName[] = ATTACKS): Promise<Row[]> {
  await using folder = await createTemporaryFolder();
  const database = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, SVC_DATA_DIR: folder.path };
  const order = { ...await prepare(database), modelPort: freePort() };
  const rows: Row[] = [];
  for (const name of attacks) {
    const gateway = await Gateway.start({
      ...database,
      SVC_RATE_LIMIT: "on",
      SVC_LIMIT_CONNECTIONS_PER_ADDRESS: "10000",
      SVC_AI_BASE_URL: `http://127.0.0.1:${order.modelPort}/v1`,
      SVC_AI_MODEL: "nonsense",
      SVC_OUTBOUND_ALLOW: "127.0.0.1",
    });
    const { url } = gateway.server;
    const clients = await Promise.all(Array.from({ length: CLIENTS }, (_, n) => createClient(url, n)));
    await measure(clients, 3);
    const calm = await measure(clients, SECONDS);
    const [command = "", ...args] = [
      "nice",
      "-n",
      "10",
      ...pin(1),
      Deno.execPath(),
      "run",
      "--quiet",
      "--allow-net",
      ATTACK,
    ];
    const process = new Deno.Command(command, {
      args: [...args, JSON.stringify({ ...order, name, url })],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    await pause(2000);
    const under = await measure(clients, SECONDS);
    process.kill("SIGKILL");
    const statuses = new TextDecoder().decode((await process.output()).stdout).trim().split("\n").at(-1);
    say(`answers to ${name}: ${statuses}`);
    rows.push({
      what: `p50 of others' sends, ${name}`,
      unit: "ms",
      peer: "calm",
      ours: [quantile(under, 0.5)],
      theirs: [quantile(calm, 0.5)],
      isLowerBetter: true,
    });
    rows.push({
      what: `p95 of others' sends, ${name}`,
      unit: "ms",
      peer: "calm",
      ours: [quantile(under, 0.95)],
      theirs: [quantile(calm, 0.95)],
      isLowerBetter: true,
      goal: GOAL,
    });
    await gateway.server.stop();
  }
  return rows;
}

type Client = () => Promise<number>;

/** Sends one message; resolves to how long that took. */
async function createClient(url: string, n: number): Promise<Client> {
  const headers = {
    authorization: `Bearer ${await benchToken(SECRET, `user${n}`)}`,
    "content-type": "application/json",
  };
  const { items } = await (await fetch(`${url}/v1/rooms?limit=1`, { headers })).json();
  const roomId: string = items[0].id;
  return async () => {
    const startedAt = performance.now();
    const body = JSON.stringify({ roomId, text: "Good morning" });
    const response = await fetch(`${url}/v1/messages`, { method: "POST", headers, body });
    if (response.status !== 201) throw new Error(`an honest send was answered ${response.status}`);
    await response.body?.cancel();
    return performance.now() - startedAt;
  };
}

/** Latencies of sends that begin at their time, however long those before them take. */
async function measure(clients: readonly Client[], seconds: number): Promise<number[]> {
  const took: Promise<number>[] = [];
  const stepMs = SEND_INTERVAL_MS / clients.length;
  const startedAt = performance.now();
  for (let n = 0; performance.now() - startedAt < seconds * 1000; n++) {
    const send = clients[n % clients.length];
    if (send !== undefined) took.push(send());
    await pause(Math.max(0, startedAt + (n + 1) * stepMs - performance.now()));
  }
  return (await Promise.all(took)).sort((a, b) => a - b);
}

function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.floor(sorted.length * part)] ?? NaN;
}

/** What is in the database before: the rooms of honest clients, and what the attacker has stored. */
async function prepare(database: Record<string, string>): Promise<Omit<AttackOptions, "name" | "url" | "modelPort">> {
  const gateway = await Gateway.start(database);
  const { url } = gateway.server;
  const call = async (token: string, method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? undefined : await response.json();
  };
  for (let n = 0; n < CLIENTS; n++) {
    await call(await benchToken(SECRET, `user${n}`), "POST", "/v1/rooms", { name: `Room ${n}` });
  }
  const mallory = await benchToken(SECRET, "mallory", { role: "member" });
  const { id: roomId } = await call(mallory, "POST", "/v1/rooms", { name: "Lair" });
  const guestIds = Array.from({ length: GUESTS }, (_, n) => `guest${n}`);
  const everybody = guestIds.map((id) => benchToken(SECRET, id, { role: "member" }));
  await Promise.all((await Promise.all(everybody)).map((token) => call(token, "GET", "/v1/collaboration/me")));
  const tokens = await Promise.all(
    Array.from(
      { length: AGENTS },
      (_, n) => benchToken(SECRET, `bot${n}`, { role: "member", kind: "agent", owner: "mallory" }),
    ),
  );
  for (const token of tokens) {
    const { principal } = await call(token, "GET", "/v1/collaboration/me");
    await call(mallory, "PUT", `/v1/rooms/${roomId}/members/${principal.id}`, { role: "moderator" });
  }
  for (const id of guestIds) await call(mallory, "PUT", `/v1/rooms/${roomId}/members/${id}`, { role: "member" });
  await runConcurrently(SERIES, (n) =>
    call(mallory, "POST", "/v1/collaboration/calendar/events", {
      title: `Series ${n}`,
      start: { dateTime: `2026-02-0${1 + n % 9}T09:00:00`, timeZone: "Europe/Vienna" },
      durationMinutes: 15,
      rrule: "FREQ=DAILY",
    }));
  await runConcurrently(
    MESSAGES,
    (n) => call(mallory, "POST", "/v1/messages", { roomId, text: `${n} ${"x".repeat(300)}` }),
  );
  await gateway.server.stop();
  return { tokens: [mallory, ...tokens], roomId, guestIds };
}

/** So many calls, some at a time. */
async function runConcurrently(count: number, call: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  await Promise.all(Array.from({ length: 16 }, async () => {
    while (next < count) await call(next++);
  }));
}
