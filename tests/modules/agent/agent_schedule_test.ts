// Agents that start runs by a schedule.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { assertProblem, createRoom, ok, readTexts } from "../fixtures.ts";
import { connectNode, untilLockWait } from "../postgres_node.ts";

testOnEngines("a schedule starts a run at each of its times, once, on behalf of who set it", async (environment) => {
  await using fixture = await AgentFixture.open(() => "Good morning", { environment });
  const { alice, bob, agentId, roomId, gateway } = fixture;
  const path = `/v1/collaboration/agents/${agentId}`;
  const schedule = {
    rrule: "FREQ=DAILY",
    startAt: "2026-03-01T09:00",
    timeZone: "Europe/Vienna",
    roomId,
    input: "Greet the team",
  };
  assertProblem(await bob.patch(path, { schedule }), 403, "forbidden");
  assert.deepEqual(ok(await alice.patch(path, { schedule })).schedule, schedule);
  assert.equal(ok(await bob.get(path)).schedule, null);
  await gateway.runJobs();
  assert.deepEqual(await fixture.runs(), []);
  // It is noon; the next time is 08:00 UTC tomorrow.
  gateway.clock.advance(DAY_MS - 4 * 3_600_000 - 1000);
  await gateway.runJobs();
  const again = await gateway.as("alice");
  const runs = async () => ok(await again.get(`/v1/collaboration/ai/runs?roomId=${roomId}`)).items;
  assert.deepEqual(await runs(), []);
  gateway.clock.advance(1000);
  await gateway.runJobs();
  const [run] = await runs();
  assert.deepEqual([run.trigger, run.askerIds], ["schedule", ["alice"]]);
  await gateway.runJobs();
  assert.equal((await runs()).length, 1);
  const { rrule: _rrule, ...rest } = schedule;
  for (
    const rrule of [
      "FREQ=MINUTELY",
      "FREQ=DAILY;COUNT=3",
      "FREQ=MONTHLY;BYMONTHDAY=1,2,3;BYHOUR=1,2,3;BYSETPOS=999",
      "nonsense",
    ]
  ) {
    assert.equal((await again.patch(path, { schedule: { ...rest, rrule } })).status, 422, rrule);
  }
  for (const part of ["COUNT=3", "UNTIL=20260401"]) {
    const { body } = await again.patch(path, { schedule: { ...rest, rrule: `FREQ=DAILY;${part}` } });
    const [{ pointer, code, detail }] = body.errors;
    assert.deepEqual([pointer, code], ["/schedule/rrule", "invalid_rule"]);
    const remedy = "a schedule has no end; when it should stop, set `schedule` to null";
    assert.equal(detail, `${part.slice(0, 5)} is not supported: ${remedy}`);
  }
  ok(await again.patch(path, { schedule: null }));
  gateway.clock.advance(DAY_MS / 24);
  await gateway.runJobs();
});

Deno.test("a schedule needs a room of who sets it", async () => {
  await using fixture = await AgentFixture.open();
  const { alice, bob, agentId } = fixture;
  const secret = await createRoom(bob, []);
  const schedule = { rrule: "FREQ=DAILY", startAt: "2026-03-01T09:00", timeZone: "UTC", roomId: secret, input: "x" };
  assertProblem(await alice.patch(`/v1/collaboration/agents/${agentId}`, { schedule }), 404, "not_found");
});

testOnPostgres(
  "agent.update of a schedule is not undone by a run of the old one that starts meanwhile",
  async (environment) => {
    await using fixture = await AgentFixture.open(() => "Good morning", { environment });
    const { alice, agentId, roomId, gateway } = fixture;
    const path = `/v1/collaboration/agents/${agentId}`;
    const old = { rrule: "FREQ=YEARLY", startAt: "2026-03-02T00:00", timeZone: "UTC", roomId, input: "Greet" };
    ok(await alice.patch(path, { schedule: old }));
    gateway.clock.advance(DAY_MS);
    const at = new Date(gateway.clock.now() + 3_600_000).toISOString();
    // Another node, whose change of the agent is not committed yet when the job runs.
    await using node = connectNode(environment);
    let running = Promise.resolve();
    await node.begin(async (sql) => {
      await sql`update stream set head = head where name = ${`principal:${agentId}`}`;
      const [{ schedule_json } = { schedule_json: "" }] =
        await sql`select schedule_json from agent where id = ${agentId}`;
      const schedule = { ...JSON.parse(schedule_json), rrule: "FREQ=HOURLY" };
      await sql`update agent set schedule_json = ${JSON.stringify(schedule)} where id = ${agentId}`;
      running = gateway.runJobs();
      await untilLockWait(sql, "the run waits for the change");
    });
    await running;
    const jobs = await node`select run_at from job where kind = 'agent.schedule' and state = 'waiting'`;
    assert.deepEqual(jobs.map(({ run_at }) => run_at), [at]);
  },
);

testOnEngines("an agent sends what it scheduled when its run is past its retention", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: { tools: ["message.send"] } });
  const { bob, roomId, gateway } = fixture;
  const sendAt = new Date(gateway.clock.now() + 120 * DAY_MS).toISOString();
  fixture.answer(({ number }) => number === 1 ? callTools(["message_send", { roomId, text: "Renew it", sendAt }]) : "");
  await fixture.mention(bob, "Remind us in four months");
  const { id } = await fixture.settled();
  const texts = async (): Promise<string[]> => readTexts(await gateway.as("alice"), roomId);
  gateway.clock.advance(2 * DAY_MS);
  await gateway.app.runMaintenance();
  gateway.clock.advance(117 * DAY_MS);
  await gateway.app.runMaintenance();
  assert.deepEqual(await texts(), ["Remind us in four months"]);
  gateway.clock.advance(DAY_MS);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.deepEqual(await texts(), ["Remind us in four months", "Renew it"]);
  // Then nothing needs it any more.
  gateway.clock.advance(2 * DAY_MS);
  await gateway.app.runMaintenance();
  assertProblem(await (await gateway.as("alice")).get(`/v1/collaboration/ai/runs/${id}`), 404, "not_found");
});
