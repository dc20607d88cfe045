// Durable sends: many clients over many rooms, beside raw batched inserts into the same engine with the same durability.
import { DatabaseSync } from "node:sqlite";
import { Gateway } from "./gateway.ts";
import { Generator } from "./generator.ts";
import type { Row } from "./report.ts";

const CLIENTS = 200;
const ROOMS = 64;
const BYTES = 200;
const IN_FLIGHT = 8;
const BATCH = 100;

export async function sends(rounds: number): Promise<Row[]> {
  const ours: number[] = [];
  const raw: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const gateway = await Gateway.start();
    const rooms = await gateway.rooms(ROOMS);
    const generator = new Generator();
    const { token, server } = gateway;
    await generator.order({ kind: "open", dialect: "sender", base: server.url, sockets: CLIENTS, token, rooms });
    const flood = { kind: "flood", bytes: BYTES, senders: CLIENTS, inFlight: IN_FLIGHT } as const;
    await generator.order({ ...flood, seconds: 2 });
    const report = await generator.order({ ...flood, seconds: 6 });
    ours.push(report.sends / report.seconds);
    await generator.stop();
    await server.stop();
    raw.push(await rawInserts(6));
  }
  return [{
    what: `Durable sends, ${CLIENTS} clients over ${ROOMS} rooms`,
    unit: "/s",
    peer: `SQLite, ${BATCH} raw inserts a commit`,
    ours,
    theirs: raw,
    goal: 0.25,
  }];
}

/** Rows a second into one table with a primary key, `synchronous=FULL` as the gateway has it. */
async function rawInserts(seconds: number): Promise<number> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-bench-raw-" });
  const db = new DatabaseSync(`${folder}/raw.db`);
  db.exec(
    "pragma journal_mode=wal; pragma synchronous=full; create table message (id text primary key, room text, seq integer, sender text, text text, unique (room, seq))",
  );
  const insert = db.prepare("insert into message values (?, ?, ?, ?, ?)");
  const text = "x".repeat(BYTES);
  const until = performance.now() + seconds * 1000;
  let rows = 0;
  while (performance.now() < until) {
    db.exec("begin immediate");
    for (let row = 0; row < BATCH; row++, rows++) {
      insert.run(`message ${rows}`, `room ${rows % ROOMS}`, rows, "bench", text);
    }
    db.exec("commit");
  }
  db.close();
  await Deno.remove(folder, { recursive: true });
  return rows / seconds;
}
