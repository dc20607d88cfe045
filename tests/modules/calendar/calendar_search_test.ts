// What the search of events discloses.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { completeSearch, createCallers, createRoom, ok } from "../fixtures.ts";

testOnEngines("search neither finds nor counts private events of others in a room", async (settings) => {
  await using gateway = await openGateway(settings);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const start = { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" };
  const create = async (title: string, more: Record<string, unknown>) =>
    ok(await alice.post("/v1/collaboration/calendar/events", { roomId, title, start, durationMinutes: 30, ...more }));
  await create("Layoffs", { visibility: "private" });
  for (let n = 0; n < 3; n++) await create("Layoffs party", {});
  await gateway.runJobs();
  for (const mode of ["keyword", "auto"]) {
    const found = async (who: typeof alice) =>
      await completeSearch(() => who.get(`/v1/search?types=event&q=layoffs&limit=1&mode=${mode}`)) as {
        items: unknown[];
        totalEstimate: number;
      };
    const [own, other] = [await found(alice), await found(bob)];
    assert.deepEqual([own.totalEstimate, other.totalEstimate], [4, 3], mode);
  }
});
