// A node that is killed in the midst of a job: another does it soon, not when the lease of a minute has run out.
import assert from "node:assert/strict";
import postgres from "postgres";
import { createTemporaryDatabase } from "../temporary_database.ts";
import { postgresUrl } from "../tier.ts";
import { eventually, until } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";

/** Longer than anything is waited for. */
const LEASE_LEFT_MS = 3_600_000;

Deno.test({
  name: "a scheduled message that a killed node was about to send goes out through another, once",
  ignore: !hasServers,
}, async () => {
  await using stack = new AsyncDisposableStack();
  const database = await createTemporaryDatabase(postgresUrl ?? "");
  stack.defer(() => database.release());
  const admin = stack.adopt(postgres(database.url, { max: 2 }), (sql) => sql.end());
  const cluster = stack.use(await Cluster.openShared({ databaseUrl: database.url }));
  const [killed, other] = [cluster.node(0), cluster.node(1)];
  const roomId = await cluster.createRoom(["ann", "bob"]);
  await other.stop("SIGTERM");
  const running = async (): Promise<number> =>
    (await admin`select id from job where kind = 'message.send_scheduled' and state = 'running'`).length;
  const locked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  stack.defer(() => release.resolve());
  // Sending waits for this; scheduling does not.
  const holding = admin.begin(async (sql) => {
    await sql`lock table message in share mode`;
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  await eventually(async () => {
    const sendAt = new Date(Date.now() + 1000).toISOString();
    await cluster.call(0, "ann", "POST", "/v1/messages", { roomId, text: "later", sendAt });
  });
  await until(async () => await running() === 1, "the job runs");
  // It stays as it is until it is killed: its session is there, and so the job is nobody else's.
  Deno.kill(killed.pid, "SIGSTOP");
  const leaseUntil = new Date(Date.now() + LEASE_LEFT_MS).toISOString();
  await admin`update job set lease_until = ${leaseUntil} where kind = 'message.send_scheduled'`;
  release.resolve();
  await holding;
  await other.start();
  assert.equal(await running(), 1);
  await killed.stop("SIGKILL");
  const texts = async (): Promise<string[]> =>
    (await cluster.call(1, "bob", "GET", `/v1/messages?roomId=${roomId}`)).items.map((
      { text }: { text: string },
    ) => text);
  await until(async () => (await texts()).length > 0, "it is sent before the lease ends");
  await until(async () => (await admin`select id from job where kind = 'message.send_scheduled'`).length === 0);
  assert.deepEqual(await texts(), ["later"]);
});
