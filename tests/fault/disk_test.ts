// The disk is full under load: clear refusals, readiness says so, nothing acknowledged is lost, and it goes on when there is space.
import assert from "node:assert/strict";
import { Cluster } from "./cluster.ts";
import { History } from "./history.ts";
import { report } from "./report.ts";
import { eventually } from "./wait.ts";

/** A limit on the size of files stands for a full disk; a write beyond it then fails instead of ending the process. */
const WRAPPER = ["sh", "-c", `trap '' XFSZ; exec "$@"`, "sh"];
const ROOM_LEFT = 64 * 1024;
const PEOPLE: [string, ...string[]] = ["ann", "bob"];

Deno.test("a full disk refuses as unavailable, shows in readiness, loses nothing, and mends when there is space", async () => {
  await using cluster = await Cluster.single({ wrapper: WRAPPER });
  const history = await History.of(cluster, PEOPLE);
  for (const name of PEOPLE) {
    const client = await cluster.connect(name);
    await history.watch(client, name);
    history.sendThrough(client, name);
  }
  for (let filled = 0; filled < 2; filled++) {
    await history.progress(100);
    const { size } = await Deno.stat(`${cluster.folder}/gateway.db-wal`);
    await limitFiles(cluster.node(0).pid, String(size + ROOM_LEFT));
    await eventually(async () => {
      const { status, body } = await cluster.readiness(0);
      assert.equal(status, 503);
      assert.equal(body.checks.store, false);
    });
    const refused = await cluster.ask(0, "ann", "POST", "/v1/messages", { roomId: history.roomId, text: "no space" });
    assert.equal(refused.status, 503, JSON.stringify(refused.body));
    assert.equal(refused.body.code, "unavailable");
    const page = await cluster.ask(0, "bob", "GET", `/v1/rooms/${history.roomId}/events?after=0&limit=10`);
    assert.equal(page.status, 200, "reading goes on");
    await limitFiles(cluster.node(0).pid, "unlimited");
    await eventually(async () => assert.equal((await cluster.readiness(0)).status, 200));
  }
  await history.progress(100);
  await cluster.node(0).stop("SIGKILL");
  await cluster.node(0).start();
  report("disk full twice", history, await history.verify());
});

async function limitFiles(pid: number, bytes: string): Promise<void> {
  const { code } = await new Deno.Command("prlimit", { args: [`--pid=${pid}`, `--fsize=${bytes}:`] }).output();
  assert.equal(code, 0);
}
