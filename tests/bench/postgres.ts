// Durable sends on PostgreSQL with fsync on: one gateway beside raw batched inserts, and several gateways beside the one.
//
// Beside raw inserts, the database and its client share one core on either side, and the generator has the other:
// the same work for the same hardware. Several processes exist to use more cores than one, so they and the one they are
// compared with may use all of them, generator included.
import connect from "postgres";
import { hasRedisServer, startRedis } from "../conformance/redis_server.ts";
import { hasPostgresServer, PostgresServer } from "../fault/postgres_server.ts";
import { Gateway } from "./gateway.ts";
import type { Row } from "./report.ts";
import { BATCH, DURABLE_SENDS, RAW_TABLE, rawRate, sendRate } from "./sends.ts";
import { ANY_CORE, FIRST_CORE, pinSelf } from "./server.ts";

const PROCESSES = 4;
/**
 * Each of several processes gets its part of the load only, and takes as much longer to have compiled what is hot. The one
 * they are compared with has as long, so that both write into tables of one size.
 */
const WARM_UP_SECONDS = 16;
/** Files of the write-ahead log: as many as a server keeps by default before it writes over the oldest. */
const WAL_FILES = 64;

export async function postgres(rounds: number): Promise<Row[]> {
  if (!hasPostgresServer || !hasRedisServer) {
    Deno.stderr.writeSync(new TextEncoder().encode("postgres: skipped, needs PostgreSQL and redis-server installed\n"));
    return [];
  }
  const [ours, raw] = await alternate(rounds, FIRST_CORE, (url) => gatewayRate(url, 1, FIRST_CORE), insertRate);
  const [several, one] = await alternate(
    rounds,
    ANY_CORE,
    (url) => gatewayRate(url, PROCESSES, ANY_CORE),
    (url) => gatewayRate(url, 1, ANY_CORE),
  );
  const unit = "/s";
  return [
    {
      what: `${DURABLE_SENDS}, PostgreSQL`,
      unit,
      peer: `PostgreSQL, ${BATCH} raw inserts a commit`,
      ours,
      theirs: raw,
      goal: 0.25,
    },
    {
      what: `The same, ${PROCESSES} processes in total`,
      unit,
      peer: "one process with all cores",
      ours: several,
      theirs: one,
      goal: 1,
    },
  ];
}

/** Both sides in turn, each on a new database of a server on these cores. */
async function alternate(
  rounds: number,
  cores: string,
  ours: (databaseUrl: string) => Promise<number>,
  theirs: (databaseUrl: string) => Promise<number>,
): Promise<[number[], number[]]> {
  await pinSelf(cores);
  await using server = await PostgresServer.open();
  await preallocateWal(server);
  const figures: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    figures[0].push(await ours(await createDatabase(server)));
    figures[1].push(await theirs(await createDatabase(server)));
  }
  await pinSelf(ANY_CORE);
  return figures;
}

async function gatewayRate(databaseUrl: string, processes: number, cores: string): Promise<number> {
  await using redis = await startRedis();
  const gateways: Gateway[] = [];
  for (let started = 0; started < processes; started++) {
    // A single one does not need Redis, and warns of going without it.
    const environment = processes > 1 ? { SVC_REDIS_URL: redis.url } : { RUST_LOG: "error" };
    gateways.push(await Gateway.start({ SVC_DATABASE_URL: databaseUrl, ...environment }, cores));
  }
  const sharesCores = cores === ANY_CORE;
  return await sendRate(gateways, sharesCores ? { sharesCores, warmUpSeconds: WARM_UP_SECONDS } : {});
}

/** Inserts one by one, sent without waiting for each other's responses, `BATCH` of them in a transaction. */
async function insertRate(databaseUrl: string): Promise<number> {
  const sql = connect(databaseUrl, { max: 1 });
  await sql.unsafe(RAW_TABLE);
  const rate = await rawRate(async (rows) => {
    await sql.begin((tx) =>
      rows.map(([id, room, seq, sender, text]) =>
        tx`insert into message values (${id}, ${room}, ${seq}, ${sender}, ${text})`
      )
    );
  });
  await sql.end();
  return rate;
}

/** Gives a server the log files that it would have after some time; the first writer would pay for creating them. */
async function preallocateWal({ url }: PostgresServer): Promise<void> {
  const sql = connect(url, { max: 1 });
  await sql.unsafe("alter system set min_wal_size = '1GB'");
  await sql.unsafe("select pg_reload_conf()");
  for (let made = 0; made < WAL_FILES; made++) {
    await sql.unsafe("select pg_logical_emit_message(true, '', 'full')");
    await sql.unsafe("select pg_switch_wal()");
  }
  await sql.unsafe("checkpoint");
  await sql.end();
}

async function createDatabase({ url }: PostgresServer): Promise<string> {
  const name = `bench_${crypto.randomUUID().slice(0, 8)}`;
  const sql = connect(url, { max: 1 });
  await sql.unsafe(`create database ${name}`);
  await sql.end();
  return new URL(name, url).href;
}
