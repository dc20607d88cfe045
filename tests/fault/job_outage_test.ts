// The database is cut off from a gateway that never ends, each time while a job runs: that is no death of its process, and what
// the job was to do is done.
import assert from "node:assert/strict";
import postgres from "postgres";
import { TcpProxy } from "../conformance/tcp_proxy.ts";
import { createTemporaryDatabase } from "../temporary_database.ts";
import { postgresUrl } from "../tier.ts";
import { eventually, until } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";

const SCHEDULED = "/v1/messages/scheduled";
const LOST_RESULT = "writing the job result failed";
/** Counted as deaths of the process, the second and third would delay the job by minutes. */
const OUTAGES = 3;

Deno.test({
  name: "a scheduled message is sent although the database is away whenever its job ends",
  ignore: !hasServers,
  async fn() {
    await using stack = new AsyncDisposableStack();
    const database = stack.adopt(await createTemporaryDatabase(postgresUrl ?? ""), (made) => made.release());
    const sql = stack.adopt(postgres(database.url, { max: 2, onnotice() {} }), (opened) => opened.end());
    const proxy = stack.use(new TcpProxy(database.url));
    const cluster = stack.use(await Cluster.openShared({ nodes: 1, databaseUrl: proxy.url }));
    const { pid } = cluster.node(0);
    const roomId = await cluster.createRoom(["ann", "bob"]);
    // Who sends waits for this lock, so the job runs for as long as the test wants it to; who schedules does not wait.
    let unlock = await lockMessages(sql);
    stack.defer(() => unlock());
    const { id } = await eventually(async () => {
      const sendAt = new Date(Date.now() + 1000).toISOString();
      return await cluster.call(0, "ann", "POST", "/v1/messages", { roomId, text: "later", sendAt });
    });
    const countLost = (): number => cluster.node(0).log.split(LOST_RESULT).length - 1;
    for (let outage = 1; outage <= OUTAGES; outage++) {
      const lost = countLost();
      await until(async () => {
        // The job is claimed before the gateway knows; once it waits for the lock, it runs.
        const [job] = await sql`select attempts, deaths,
          exists (select from pg_locks where relation = 'message'::regclass and not granted) as is_waiting
          from job where kind = 'message.send_scheduled'`;
        assert.equal(Number(job?.deaths), 0);
        return job?.is_waiting && Number(job.attempts) === outage;
      }, `attempt ${outage}`);
      proxy.refuse();
      await unlock();
      await until(() => countLost() > lost, "the result cannot be written");
      if (outage < OUTAGES) unlock = await lockMessages(sql);
      proxy.accept();
    }
    await until(
      async () => (await cluster.request(0, "ann", "GET", `${SCHEDULED}/${id}`)).status === 404,
      "it is sent",
    );
    const { items } = await cluster.call(0, "bob", "GET", `/v1/messages?roomId=${roomId}`);
    assert.deepEqual(items.map(({ text }: { text: string }) => text), ["later"]);
    assert.equal(cluster.node(0).pid, pid);
  },
});

/** Resolves to what ends the lock, once there is one. */
async function lockMessages(sql: postgres.Sql): Promise<() => Promise<void>> {
  const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holding = sql.begin(async (tx) => {
    await tx`lock table message in share mode`;
    locked.resolve();
    await released.promise;
  });
  await Promise.race([locked.promise, holding]);
  return async () => {
    released.resolve();
    await holding;
  };
}
