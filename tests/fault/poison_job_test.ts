// A job that runs whenever its process is killed: it gets one more chance, then it is dead-lettered and the others go on.
import assert from "node:assert/strict";
import { until } from "../wait.ts";
import { Cluster } from "./cluster.ts";

const CALENDAR = "/v1/collaboration/calendar";
const EVENTS = 2000;

/** A file that takes a while. */
const FILE = [
  "BEGIN:VCALENDAR",
  "VERSION:2.0",
  ...Array.from({ length: EVENTS }, (_, n) => [
    "BEGIN:VEVENT",
    `UID:event-${n}`,
    "DTSTART:20260302T090000Z",
    `SUMMARY:Event ${n}`,
    "END:VEVENT",
  ]).flat(),
  "END:VCALENDAR",
].join("\r\n");

Deno.test("a job whose process is killed twice while it runs is dead-lettered by the third, which does the others", async () => {
  await using cluster = await Cluster.openSingle();
  const jobs = async (state: string): Promise<number> => {
    const text = await (await fetch(`${cluster.node(0).url}/metrics`)).text();
    return Number(new RegExp(`^svc_jobs_waiting\\{state="${state}"\\} (\\d+)$`, "m").exec(text)?.[1]);
  };
  const roomId = await cluster.createRoom(["ann", "bob"]);
  await until(async () => await jobs("waiting") + await jobs("running") === 0);
  const { id } = await cluster.call(0, "ann", "POST", `${CALENDAR}/import`, { text: FILE });
  for (let kill = 1; kill <= 2; kill++) {
    await until(async () => await jobs("running") === 1, `the import runs before kill ${kill}`);
    await cluster.node(0).stop("SIGKILL");
    await cluster.node(0).start();
  }
  await until(async () => await jobs("dead") === 1, "the import is dead-lettered");
  const { state, report } = await cluster.call(0, "ann", "GET", `${CALENDAR}/import/${id}`);
  assert.equal(state, "done");
  assert.match(report.problems[0].detail, /^the gateway stopped twice while reading the file/);
  // Jobs that come after it are done: bob is notified that he was mentioned.
  await cluster.call(0, "ann", "POST", "/v1/messages", {
    roomId,
    text: "to bob",
    mentions: { principalIds: ["bob"], room: false },
  });
  await until(async () =>
    (await cluster.call(0, "bob", "GET", "/v1/collaboration/notifications?kinds=mention")).items.length === 1
  );
  assert.equal(await jobs("running"), 0);
});
