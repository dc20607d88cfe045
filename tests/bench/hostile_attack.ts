// One stranger and one member with forty agents, who try to take a gateway away from the others. Bounded in rate and time.
import { connect, type Socket } from "node:net";
import { readRequests, writeReport } from "./worker_protocol.ts";
import { encodeUpgradeRequest } from "../upgrade_request.ts";

export type AttackRequest = {
  base: string;
  seconds: number;
  /** Names of attacks; none means all. */
  only: string[];
  /** Of the member and its agents. */
  tokens: string[];
  /** A room of the member. */
  room: string;
};

/** How often each attack was made, by how it ended: a status, or what became of the connection. */
export type AttackReport = Record<string, Record<string, number>>;

type Attack = (world: AttackContext) => Promise<string | number>;

/** The stranger's address, so that limits of addresses distinguish it from the others. */
const STRANGER_ADDRESS = "127.0.0.66";
const FRAGMENT = new Uint8Array(64 * 1024);
const LONG = "x".repeat(900_000);
/** A megabyte in which hardly any two neighbors come twice: each two are a token of the search index. */
const CHINESE = Array.from({ length: 340_000 }, han(1)).join("");
/** Made once: to make them for each call would keep the generator busy, which shares its core with the honest clients. */
const LARGE_METADATA = metadataOf(100_000);
/** As much as a body may have. */
const METADATA = metadataOf(12_000);
const UNKNOWN_FIELDS = JSON.stringify(Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`field${at}`, 0])));
const DEEP = `${"[".repeat(400_000)}${"]".repeat(400_000)}`;
const CONCURRENCY = 4;

class AttackContext {
  readonly base: URL;
  readonly room: string;
  readonly #tokens: readonly string[];
  readonly #endsAt: number;
  #tokenIndex = 0;

  constructor({ base, seconds, tokens, room }: AttackRequest) {
    this.base = new URL(base);
    this.room = room;
    this.#tokens = tokens;
    this.#endsAt = Date.now() + seconds * 1000;
  }

  get isOver(): boolean {
    return Date.now() > this.#endsAt;
  }

  /** One of the tokens, each in its turn. */
  nextToken(): string {
    return this.#tokens[this.#tokenIndex++ % this.#tokens.length] ?? "";
  }

  async call(method: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<number> {
    const response = await fetch(new URL(path, this.base), {
      method,
      headers: { authorization: `Bearer ${this.nextToken()}`, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    });
    await response.body?.cancel();
    return response.status;
  }

  /** A connection of the stranger's that has sent this. */
  openSocket(first: string | Uint8Array): Socket {
    const socket = connect({ host: this.base.hostname, port: Number(this.base.port), localAddress: STRANGER_ADDRESS });
    socket.on("error", () => {});
    socket.write(first);
    return socket;
  }
}

/** Fragments of one message that never ends; resolves when the other side hangs up. */
async function endlessFragments(world: AttackContext, path: string): Promise<string> {
  const socket = world.openSocket(encodeUpgradeRequest(path));
  const head = new Uint8Array([0x01, 0x80 | 127, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
  let isOver = false;
  socket.on("close", () => isOver = true);
  for (let first = true; !isOver && !world.isOver; first = false) {
    head[0] = first ? 0x01 : 0x00;
    socket.write(head);
    if (!socket.write(FRAGMENT)) {
      await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), pause(1000)]);
    }
    await pause(1);
  }
  socket.destroy();
  return isOver ? "cut off" : "went on";
}

async function abortedUpgrade(world: AttackContext): Promise<string> {
  const socket = world.openSocket(
    encodeUpgradeRequest(Math.random() < 0.5 ? "/ws" : "/v1/collaboration/documents/sync"),
  );
  await pause(20 * Math.random());
  socket.destroy();
  await pause(50);
  return "gone";
}

async function header(world: AttackContext): Promise<string> {
  const list = Array.from({ length: 700 }, (_, at) => `a/${at};q=0.5`).join(",");
  const socket = world.openSocket(
    `GET /docs HTTP/1.1\r\nHost: gateway\r\nAccept: ${list}\r\nDigest: ${
      "a=".repeat(3000)
    }\r\nConnection: close\r\n\r\n`,
  );
  await Promise.race([new Promise((resolve) => socket.once("data", resolve)), pause(2000)]);
  socket.destroy();
  return "sent";
}

async function silent(world: AttackContext): Promise<string> {
  const socket = world.openSocket(encodeUpgradeRequest("/ws"));
  await pause(5000);
  socket.destroy();
  return "gone";
}

const calendar = (zone: string, events: string): string =>
  `BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nX-WR-TIMEZONE:${zone}\r\n${events}END:VCALENDAR\r\n`;
const series = (): string =>
  Array.from(
    { length: 2000 },
    (_, at) =>
      `BEGIN:VEVENT\r\nUID:${crypto.randomUUID()}\r\nDTSTART:20260101T${
        String(at % 24).padStart(2, "0")
      }0000Z\r\nDURATION:PT5M\r\n` +
      `RRULE:FREQ=DAILY\r\nSUMMARY:s\r\nEND:VEVENT\r\n`,
  ).join("");
const inTheMiddle = { from: "2026-03-01T00:00:00Z", to: "2026-12-01T00:00:00Z" };

const ATTACKS: Readonly<Record<string, Attack>> = {
  "fragments /ws": (world) => endlessFragments(world, "/ws"),
  "fragments documents": (world) => endlessFragments(world, "/v1/collaboration/documents/sync"),
  "aborted upgrades": abortedUpgrade,
  "silent sockets": silent,
  "long headers": header,
  "large metadata": (world) => world.call("POST", "/v1/rooms", LARGE_METADATA),
  "metadata": (world) => world.call("POST", "/v1/rooms", METADATA),
  "unknown fields": (world) => world.call("POST", "/v1/messages", UNKNOWN_FIELDS),
  "deep JSON": (world) => world.call("POST", "/v1/messages", DEEP),
  "zone of a calendar": (world) =>
    world.call("POST", "/v1/collaboration/calendar/import", { text: calendar(" ".repeat(200_000) + "x", "") }),
  "calendar of series": (world) =>
    world.call("POST", "/v1/collaboration/calendar/import", { text: calendar("UTC", series()) }),
  "free/busy": (world) =>
    world.call("POST", "/v1/collaboration/calendar/freebusy", { principalIds: ["me", "mallory"], ...inTheMiddle }),
  "agenda": (world) =>
    world.call(
      "GET",
      `/v1/collaboration/calendar/events?from=${inTheMiddle.from}&to=${inTheMiddle.to}&limit=5000`,
      undefined,
    ),
  "tasks": (world) =>
    world.call("POST", "/v1/collaboration/tasks", {
      roomId: world.room,
      title: "t",
      description: LONG.slice(0, 49_000),
    }),
  "exports": (world) => world.call("POST", "/v1/collaboration/exports", { kind: "room", roomId: world.room }),
  "Chinese documents": (world) =>
    world.call("POST", "/v1/collaboration/documents", { title: "d", roomId: world.room, text: CHINESE }),
  "invitations": (world) =>
    world.call("POST", "/v1/collaboration/calendar/events", {
      title: "i",
      start: { dateTime: "2026-12-01T09:00:00", timeZone: "UTC" },
      durationMinutes: 5,
      description: LONG.slice(0, 15_000),
      attendees: Array.from({ length: 200 }, (_, at) => ({ email: `guest${at}@example.com` })),
    }),
  "searches": (world) =>
    world.call("GET", `/v1/search?q=${encodeURIComponent("a b c d e f g h i j ".repeat(20).trim())}`, undefined),
  "messages": (world) => world.call("POST", "/v1/messages", { roomId: world.room, text: LONG.slice(0, 15_900) }),
  "declared uploads": async (world) => {
    const socket = connect({ host: world.base.hostname, port: Number(world.base.port) });
    socket.on("error", () => {});
    socket.write(
      `POST /v1/collaboration/files?name=x.bin HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${world.nextToken()}\r\n` +
        `Content-Type: application/octet-stream\r\nContent-Length: 26214400\r\n\r\n${LONG.slice(0, 3000)}`,
    );
    await pause(3000);
    socket.destroy();
    return "held";
  },
};

/** A room with so many fields of metadata. */
function metadataOf(fields: number): string {
  const metadata = Object.fromEntries(Array.from({ length: fields }, (_, at) => [`xxxxxxxxx${at}`, 1]));
  return JSON.stringify({ name: "m", metadata });
}

/** Chinese characters at random, the same ones each time. */
function han(state: number): () => string {
  return () => String.fromCharCode(0x4e00 + (state = state * 48_271 % 0x7fffffff) % 3000);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function attack(order: AttackRequest): Promise<AttackReport> {
  const world = new AttackContext(order);
  const report: AttackReport = {};
  const loop = async (name: string, run: Attack): Promise<void> => {
    const counts = report[name] ??= {};
    while (!world.isOver) {
      const end = String(await run(world).catch(() => "failed"));
      counts[end] = (counts[end] ?? 0) + 1;
      // A refusal costs the attacker next to nothing; a pause keeps this process off the others' core.
      await pause(100);
    }
  };
  await Promise.all(
    Object.entries(ATTACKS).filter(([name]) => order.only.length === 0 || order.only.includes(name))
      .flatMap(([name, run]) => Array.from({ length: CONCURRENCY }, () => loop(name, run))),
  );
  return report;
}

for await (const order of readRequests<AttackRequest>()) writeReport(await attack(order));
