// A restored database: on each engine, earlier positions are refused.
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { sql } from "kysely";
import { createBackup, restore } from "@/adapters/store/backup.ts";
import { streamKey } from "@/ports/store.ts";
import { testOnPostgres } from "../engines.ts";
import { openGateway, TestClock } from "../harness.ts";
import { assertProblem, createCallers, createRoom } from "../modules/fixtures.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { openMigratedStore } from "./store_backends.ts";

const MIB = 1024 * 1024;

testOnPostgres("a database that was restored by its own tools resets every stream", async (environment) => {
  const url = environment.SVC_DATABASE_URL ?? "";
  await assert.rejects(createBackup(url, "copy"), /for PostgreSQL, use pg_dump/);
  const positions: Map<string, string> = new Map();
  let cursor = "";
  {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice");
    for (let made = 0; made < 3; made++) await createRoom(alice, []);
    for (const { id, epoch } of (await alice.get("/v1/rooms")).body.items) positions.set(id, epoch);
    cursor = (await alice.get("/v1/collaboration/sync")).body.cursor;
    await assert.rejects(restore(url, "copy", gateway.clock), /for PostgreSQL, run pg_restore/);
  }
  await restore(url, undefined, new TestClock());
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const rooms = (await alice.get("/v1/rooms")).body.items;
  assert.equal(rooms.length, 3);
  for (const { id, epoch } of rooms) assert.notEqual(epoch, positions.get(id));
  assertProblem(await alice.get(`/v1/collaboration/sync?since=${cursor}`), 409, "stream_reset");
});

Deno.test("a database that is replaced twice within a second is retained both times", async () => {
  await using folder = await createTemporaryFolder();
  const [url, copy, clock] = [`sqlite:${folder.path}/gateway.db`, `${folder.path}/copy.db`, new TestClock()];
  await (await openMigratedStore(url, clock)).close();
  await createBackup(url, copy);
  const kept = new Set([await restore(url, copy, clock), await restore(url, copy, clock)]);
  assert.equal(kept.size, 2);
  for (const path of kept) assert.ok((await Deno.stat(path ?? "")).isFile);
});

Deno.test("a restore that was killed before its last step is finished by the next start, and keeps the old database whole", async () => {
  const clock = new TestClock();
  for (const moved of [[], ["-wal"], ["-wal", ""]]) {
    await using folder = await createTemporaryFolder();
    const [path, copy] = [`${folder.path}/gateway.db`, `${folder.path}/copy.db`];
    const held = (at: string) => streamsOf(`sqlite:${at}`, clock);
    const store = await openMigratedStore(`sqlite:${path}`, clock);
    await store.write((tx) => tx.lock("acme", "room:1"));
    await createBackup(`sqlite:${path}`, copy);
    await store.write((tx) => tx.lock("acme", "room:2"));
    // As a gateway that was killed leaves it: with its last writes in the log only.
    for (const end of ["", "-wal"]) await Deno.copyFile(`${path}${end}`, `${folder.path}/killed${end}`);
    await store.close();
    for (const end of ["", "-wal"]) await Deno.rename(`${folder.path}/killed${end}`, `${path}${end}`);
    // What a restore has done when it is killed between any two of its steps.
    await Deno.copyFile(copy, `${path}.restored`);
    await Deno.utime(`${path}.restored`, clock.now() / 1000, clock.now() / 1000);
    const old = `${path}.replaced-20260301T120000Z`;
    for (const end of moved) await Deno.rename(`${path}${end}`, `${old}${end}`);

    {
      await using _gateway = await openGateway({ SVC_DATABASE_URL: `sqlite:${path}`, SVC_DATA_DIR: folder.path });
    }
    assert.deepEqual([await held(path), await held(old)], [["room:1"], ["room:1", "room:2"]], `${moved}`);
  }
});

Deno.test("the log of a database that grew while a backup read it is cut, and neither it nor a backup keeps what was deleted", async () => {
  await using folder = await createTemporaryFolder();
  const [path, copy] = [`${folder.path}/gateway.db`, `${folder.path}/copy.db`];
  const store = await openMigratedStore(`sqlite:${path}`, new TestClock());
  const write = (statement: ReturnType<typeof sql>) => store.write((tx) => statement.execute(tx.db));
  const logSize = async (): Promise<number> => (await Deno.stat(`${path}-wal`)).size;
  await write(sql`create table filler (text text)`);
  {
    using reader = new DatabaseSync(path, { readOnly: true });
    reader.exec("begin; select * from filler");
    for (let written = 0; written < 48; written++) await write(sql`insert into filler values (${"x".repeat(MIB)})`);
    assert.ok(await logSize() > 40 * MIB);
  }
  // The first one is stored in the file, the second restarts the log.
  for (const text of ["a", "b"]) await write(sql`update filler set text = ${text}`);
  assert.ok(await logSize() <= 32 * MIB);
  const secret = "to be forgotten".repeat(1000);
  await write(sql`insert into filler values (${secret}), (${secret})`);
  await write(sql`delete from filler where text = ${secret}`);
  await createBackup(`sqlite:${path}`, copy);
  assert.ok(!(await Deno.readTextFile(copy)).includes("forgotten"));
  assert.ok((await Deno.readTextFile(`${path}-wal`)).includes("forgotten"));
  await store.emptyLog();
  assert.deepEqual([await logSize(), (await Deno.readTextFile(path)).includes("forgotten")], [0, false]);
  await store.close();
});

Deno.test("a database in memory is neither backed up nor restored", async () => {
  await using folder = await createTemporaryFolder();
  const [url, copy, clock] = [`sqlite:${folder.path}/gateway.db`, `${folder.path}/copy.db`, new TestClock()];
  await (await openMigratedStore(url, clock)).close();
  await createBackup(url, copy);
  await assert.rejects(createBackup("sqlite::memory:", `${folder.path}/other.db`), /in-memory/i);
  await assert.rejects(restore("sqlite::memory:", copy, clock), /in-memory/i);
});

Deno.test("a database stays in its place, with what it has, for as long as not all of it can be put aside", async () => {
  await using folder = await createTemporaryFolder();
  const [path, copy, clock] = [`${folder.path}/gateway.db`, `${folder.path}/copy.db`, new TestClock()];
  const store = await openMigratedStore(`sqlite:${path}`, clock);
  await createBackup(`sqlite:${path}`, copy);
  await store.write((tx) => tx.lock("acme", "room:1"));
  await Deno.mkdir(`${path}.replaced-20260301T120000Z-wal`);
  await assert.rejects(restore(`sqlite:${path}`, copy, clock));
  await store.close();
  const again = await openMigratedStore(`sqlite:${path}`, clock);
  assert.equal((await again.log.heads([{ tenantId: "acme", stream: "room:1" }])).size, 1);
  await again.close();
});

/** Which streams of rooms a database has. */
async function streamsOf(url: string, clock: TestClock): Promise<string[]> {
  const store = await openMigratedStore(url, clock);
  const streams = ["room:1", "room:2"].map((stream) => ({ tenantId: "acme", stream }));
  const heads = await store.log.heads(streams);
  await store.close();
  return streams.map(({ stream }) => stream).filter((stream) => heads.has(streamKey("acme", stream)));
}
