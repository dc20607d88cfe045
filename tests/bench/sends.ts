// Durable sends: many clients over many rooms, beside raw batched inserts into the same engine with the same durability.
import { DatabaseSync } from "node:sqlite";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { Gateway } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import type { Row } from "./report.ts";

const CLIENTS = 200;
const ROOMS = 64;
const BYTES = 200;
const IN_FLIGHT = 8;
const SECONDS = 6;
const WARM_UP_SECONDS = 4;

export const DURABLE_SENDS = `Durable sends, ${CLIENTS} clients over ${ROOMS} rooms`;

/** The least table a message needs. */
export const RAW_TABLE =
  "create table message (id text primary key, room text, seq integer, sender text, text text, unique (room, seq))";

/** Rows of one commit of raw inserts. */
export const BATCH = 100;

/** A row of the raw table. */
type RawRow = [id: string, room: string, seq: number, sender: string, text: string];

export async function sends(rounds: number): Promise<Row[]> {
  const ours: number[] = [];
  const raw: number[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await sendRate([await Gateway.start()]));
    raw.push(await sqliteRate());
  }
  return [{
    what: DURABLE_SENDS,
    unit: "/s",
    peer: `SQLite, ${BATCH} raw inserts a commit`,
    ours,
    theirs: raw,
    goal: 0.25,
  }];
}

/** Sends a second that gateways on one database acknowledge, all together; stops them. */
export async function sendRate(
  gateways: readonly Gateway[],
  { warmUpSeconds = WARM_UP_SECONDS, sharesCores = false } = {},
): Promise<number> {
  const [first] = gateways;
  if (first === undefined) throw new TypeError("Expected a gateway, received none");
  const rooms = await first.rooms(ROOMS);
  const generator = new LoadGenerator();
  const bases = gateways.map(({ server }) => server.url);
  const { token } = first;
  await generator.request({ kind: "open", dialect: "sender", bases, sockets: CLIENTS, token, rooms, sharesCores });
  const flood = { kind: "flood", bytes: BYTES, senders: CLIENTS, inFlight: IN_FLIGHT } as const;
  await generator.request({ ...flood, seconds: warmUpSeconds });
  const report = await generator.request({ ...flood, seconds: SECONDS });
  await generator.stop();
  for (const { server } of gateways) await server.stop();
  return report.sends / report.seconds;
}

/** Rows a second, where `commit` makes rows durable. */
export async function rawRate(commit: (rows: readonly RawRow[]) => void | Promise<void>): Promise<number> {
  const text = "x".repeat(BYTES);
  const startedAt = performance.now();
  let count = 0;
  while (performance.now() < startedAt + SECONDS * 1000) {
    await commit(Array.from({ length: BATCH }, (): RawRow => {
      const row = count++;
      return [`message ${row}`, `room ${row % ROOMS}`, row, "bench", text];
    }));
  }
  return count * 1000 / (performance.now() - startedAt);
}

/** One table with a primary key, `synchronous=FULL` as the gateway has it. */
async function sqliteRate(): Promise<number> {
  await using folder = await createTemporaryFolder();
  const db = new DatabaseSync(`${folder.path}/raw.db`);
  db.exec(`pragma journal_mode=wal; pragma synchronous=full; ${RAW_TABLE}`);
  const insert = db.prepare("insert into message values (?, ?, ?, ?, ?)");
  const rate = await rawRate((rows) => {
    db.exec("begin immediate");
    for (const row of rows) insert.run(...row);
    db.exec("commit");
  });
  db.close();
  return rate;
}
