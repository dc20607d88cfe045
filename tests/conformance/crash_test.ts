// A gateway that is killed: what it said is saved is there, and nothing is there by half.
import assert from "node:assert/strict";
import { openPostgresStore } from "@/adapters/store/postgres/store.ts";
import { openSqliteStore } from "@/adapters/store/sqlite/store.ts";
import { systemClock } from "@/core/time/clock.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { createTemporarySchema, type Notes, notes } from "./store_backends.ts";
import type { SqlStore } from "@/adapters/store/sql_store.ts";
import { postgresUrl } from "../tier.ts";
import { eventually } from "../wait.ts";

const ROUNDS = 3;
const ACKS_PER_ROUND = 300;
const LOCK = new URL("../deno.lock", import.meta.url).pathname;
const WRITER = new URL("./crash_writer.ts", import.meta.url).pathname;
const options = { clock: systemClock };

/** Runs the writer until it has acknowledged enough, kills it in the middle of its work, and returns what it said. */
async function writeAndKill(place: string): Promise<string[]> {
  const writer = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", `--lock=${LOCK}`, WRITER, place],
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const chunk of writer.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.split("\n").length > ACKS_PER_ROUND) {
      try {
        writer.kill("SIGKILL");
      } catch {
        // It is dying already; what it still printed is read to the end.
      }
    }
  }
  const { signal } = await writer.status;
  assert.equal(signal, "SIGKILL");
  return text.split("\n").slice(0, -1);
}

async function assertWhole(store: SqlStore<Notes>, acknowledged: readonly string[]): Promise<void> {
  const rows = await store.db.selectFrom("note").select("id").execute();
  const saved = new Set(rows.map((row) => row.id));
  assert.deepEqual(acknowledged.filter((id) => !saved.has(id)), []);
  const told = new Set<string>();
  for (const stream of ["room:0", "room:1", "room:2"]) {
    const { head } = await store.log.position("acme", stream);
    const events = await store.log.read("acme", stream, 0, head + 1);
    assert.deepEqual(events.map((event) => event.seq), Array.from({ length: head }, (_, index) => index + 1));
    for (const event of events) told.add(JSON.parse(event.json).data.id);
  }
  assert.deepEqual(told, saved);
}

async function crashAndCheck(place: string, open: () => SqlStore<Notes>): Promise<void> {
  const first = open();
  await first.migrate([notes]);
  await first.close();
  const acknowledged: string[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    acknowledged.push(...await writeAndKill(place));
    const store = open();
    // A server may still be finishing what it had been sent; what it wrote by half stays so.
    await eventually(() => assertWhole(store, acknowledged));
    await store.close();
  }
  assert.ok(acknowledged.length >= ROUNDS * ACKS_PER_ROUND);
}

Deno.test("sqlite file: a killed gateway has lost nothing it acknowledged", async () => {
  await using folder = await createTemporaryFolder();
  const place = `${folder.path}/gateway.db`;
  await crashAndCheck(place, () => openSqliteStore<Notes>(place, options));
});

const url = postgresUrl;
if (url !== undefined) {
  Deno.test("postgres: a killed gateway has lost nothing it acknowledged", async () => {
    const schema = await createTemporarySchema(url);
    await crashAndCheck(schema.url, () => openPostgresStore<Notes>(schema.url, options));
    await schema.drop();
  });
}
