// The disk is full under load: clear refusals, readiness says so, nothing acknowledged is lost, and it continues when there is space.
import assert from "node:assert/strict";
import postgres from "postgres";
import { eventually, pause, repeatFor } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { hasPostgresServer, PostgresServer } from "./postgres_server.ts";
import { printReport } from "./report.ts";
import { hasSmallDisk, SmallDisk } from "./small_disk.ts";

/** A limit on the size of files simulates a full disk; a write beyond it then fails instead of ending the process. */
const WRAPPER = ["sh", "-c", `trap '' XFSZ; exec "$@"`, "sh"];
const FULL_MS = 3000;
/** Between two looks at readiness meanwhile. */
const POLL_MS = 30;
/** Less than what the database has written by then: its log cannot start over in the space that it has either. */
const FILE_BYTES = "65536";
const DISK_BYTES = 48 * 1024 * 1024;
const PEOPLE: [string, ...string[]] = ["ann", "bob"];

Deno.test("a full disk refuses as unavailable, shows in readiness, loses nothing, and recovers when there is space", async () => {
  await using cluster = await Cluster.openSingle({ wrapper: WRAPPER });
  const history = await History.openWithTraffic(cluster, PEOPLE);
  for (let filled = 0; filled < 2; filled++) {
    await history.waitForAcknowledged(100);
    await limitFiles(cluster.node(0).pid, FILE_BYTES);
    await eventually(async () => {
      const { status, body } = await cluster.readReadiness(0);
      assert.equal(status, 503);
      assert.equal(body.checks.store, false);
    });
    const refused = await cluster.request(0, "ann", "POST", "/v1/messages", {
      roomId: history.roomId,
      text: "no space",
    });
    assert.equal(refused.status, 503, JSON.stringify(refused.body));
    assert.equal(refused.body.code, "unavailable");
    const page = await cluster.request(0, "bob", "GET", `/v1/rooms/${history.roomId}/events?after=0&limit=10`);
    assert.equal(page.status, 200, "reading goes on");
    await limitFiles(cluster.node(0).pid, "unlimited");
    await eventually(async () => assert.equal((await cluster.readReadiness(0)).status, 200));
  }
  await history.waitForAcknowledged(100);
  await cluster.node(0).stop("SIGKILL");
  await cluster.node(0).start();
  printReport("disk full twice", history, await history.verify());
});

Deno.test({
  name:
    "a full disk of PostgreSQL shows in readiness for as long as it is full, however small the write that probes it",
  ignore: !hasServers || !hasPostgresServer || !hasSmallDisk,
  async fn() {
    await using disk = await SmallDisk.open(DISK_BYTES, "postgres");
    await using server = await PostgresServer.open();
    await onDisk(server.url, disk.folder);
    await using cluster = await Cluster.openShared({ nodes: 1, databaseUrl: server.url });
    const history = await History.openWithTraffic(cluster, PEOPLE);
    for (let filled = 0; filled < 2; filled++) {
      await history.waitForAcknowledged(100);
      await disk.fill();
      await eventually(async () => assert.equal((await cluster.readReadiness(0)).status, 503));
      await repeatFor(FULL_MS, async () => {
        const { status, body } = await cluster.readReadiness(0);
        assert.equal(status, 503);
        assert.equal(body.checks.store, false);
        await pause(POLL_MS);
      });
      const page = await cluster.request(0, "bob", "GET", `/v1/rooms/${history.roomId}/events?after=0&limit=10`);
      assert.equal(page.status, 200, "reading goes on");
      await disk.free();
      await eventually(async () => assert.equal((await cluster.readReadiness(0)).status, 200));
    }
    await history.waitForAcknowledged(100);
    printReport("PostgreSQL's disk full twice", history, await history.verify());
  },
});

/** Puts tables made from now on there; the server's own log stays where it has space. */
async function onDisk(url: string, folder: string): Promise<void> {
  const admin = postgres(url, { max: 1 });
  await admin.unsafe(`create tablespace small location '${folder}'`);
  await admin.unsafe("alter database postgres set default_tablespace = small");
  await admin.end();
}

async function limitFiles(pid: number, bytes: string): Promise<void> {
  const { code } = await new Deno.Command("prlimit", { args: [`--pid=${pid}`, `--fsize=${bytes}:`] }).output();
  assert.equal(code, 0);
}
