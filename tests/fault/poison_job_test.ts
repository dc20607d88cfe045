// A job that runs whenever its process is killed: the others go on, and it is dead-lettered after a few more attempts.
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { until, WAIT_MS } from "../wait.ts";
import { Cluster } from "./cluster.ts";

const CALENDAR = "/v1/collaboration/calendar";
const FILE = [
  "BEGIN:VCALENDAR",
  "VERSION:2.0",
  "BEGIN:VEVENT",
  "UID:event",
  "DTSTART:20260302T090000Z",
  "SUMMARY:Event",
  "END:VEVENT",
  "END:VCALENDAR",
].join("\r\n");
/** A process that inserts an event does nothing else from then on, until it is killed. */
const ENDLESS = `create trigger endless before insert on calendar_event begin
  select count(*) from (with recursive number (n) as (select 1 union all select n + 1 from number) select n from number);
end`;

Deno.test("a job whose process is killed while it runs waits longer each time, while others are done, and is dead-lettered", async () => {
  await using cluster = await Cluster.openSingle();
  const node = cluster.node(0);
  const jobs = async (state: string): Promise<number> => {
    const text = await (await fetch(`${node.url}/metrics`)).text();
    return Number(new RegExp(`^svc_jobs_waiting\\{state="${state}"\\} (\\d+)$`, "m").exec(text)?.[1]);
  };
  const roomId = await cluster.createRoom(["ann", "bob"]);
  await until(async () => await jobs("waiting") + await jobs("running") === 0);
  using db = new DatabaseSync(`${cluster.folder}/gateway.db`, { timeout: WAIT_MS });
  db.exec(ENDLESS);
  const running = db.prepare("select id from job where kind = 'calendar.import' and state = 'running' and deaths = ?");
  // The job may begin before there is a response, and then there is none.
  const asking = cluster.request(0, "ann", "POST", `${CALENDAR}/import`, { text: FILE }).catch(() => {});
  for (let kill = 1; kill <= 2; kill++) {
    await until(() => running.get(kill - 1) !== undefined, `the import runs before kill ${kill}`);
    await node.stop("SIGKILL");
    // The next one is at it before it listens, or soon after.
    if (kill === 1) node.spawn();
  }
  await asking;
  await node.start();
  // Jobs that come after it are done: bob is notified that he was mentioned.
  await cluster.call(0, "ann", "POST", "/v1/messages", {
    roomId,
    text: "to bob",
    mentions: { principalIds: ["bob"], room: false },
  });
  await until(async () =>
    (await cluster.call(0, "bob", "GET", "/v1/collaboration/notifications?kind=mention")).items.length === 1
  );
  assert.equal(await jobs("dead"), 0);
  // More kills, each after more time.
  db.exec("update job set deaths = 4 where kind = 'calendar.import'");
  await until(async () => await jobs("dead") === 1, "the import is dead-lettered");
  const { id } = db.prepare("select id from calendar_import").get() ?? {};
  const { state, report } = await cluster.call(0, "ann", "GET", `${CALENDAR}/import/${id}`);
  assert.equal(state, "done");
  assert.match(report.problems[0].detail, /^the gateway stopped several times while reading the file/);
  // The one that notified him has its result a moment later.
  await until(async () => await jobs("running") === 0, "no job runs for ever");
});
