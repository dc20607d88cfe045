// Agents in archives: their settings are exported, and imported where they are missing, paused.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { createTemporaryDatabase } from "../../temporary_database.ts";
import { postgresUrl } from "../../tier.ts";
import { AgentFixture } from "../agent/agent_fixture.ts";
import { assertProblem, createRoom, ok } from "../fixtures.ts";
import {
  type Any,
  exportRoom,
  exportTenant,
  importArchive,
  parseRecords,
  recordsOfType,
  skipCounts,
  toArchive,
} from "./transfer_fixture.ts";

const AGENTS = "/v1/collaboration/agents";
const SCHEDULE = {
  rrule: "FREQ=DAILY",
  startAt: "2026-03-01T09:00",
  timeZone: "Europe/Vienna",
  input: "Greet the team",
};
const SETTINGS = {
  model: "small",
  instructions: "Greet everybody.",
  tools: ["task.*", "weather.*"],
  askFirst: ["task.update"],
  memoryScopes: ["room"],
  triggers: ["mention", "reply"],
  maxSteps: 7,
  maxOutputTokens: 900,
  tokensPerDay: 50_000,
};

/** The fixture's agent with all settings, and Boss, who runs the tenant, in its room. */
async function openSource(environment: Record<string, string>): Promise<{ source: AgentFixture; boss: Caller }> {
  const source = await AgentFixture.open(() => "Hello", { environment });
  const boss = await source.gateway.as("boss", { role: "owner" });
  ok(await boss.put("/v1/collaboration/mcp/servers/weather", { url: "https://weather.example.com/mcp" }));
  ok(await source.alice.put(`/v1/rooms/${source.roomId}/members/boss`));
  const schedule = { ...SCHEDULE, roomId: source.roomId };
  ok(await source.alice.patch(`${AGENTS}/${source.agentId}`, { ...SETTINGS, schedule }));
  return { source, boss };
}

async function exportAgents(gateway: Harness, who: Caller, roomId: string): Promise<Any[]> {
  return recordsOfType(await exportRoom(gateway, who, roomId), "agent");
}

/** Another gateway on the engine of the test. */
async function withTarget(environment: Record<string, string>, work: (target: Harness) => Promise<void>) {
  const database = "SVC_DATABASE_URL" in environment ? await createTemporaryDatabase(postgresUrl ?? "") : undefined;
  try {
    await using target = await openGateway(database === undefined ? {} : { SVC_DATABASE_URL: database.url });
    await work(target);
  } finally {
    await database?.release();
  }
}

testOnEngines("agents are exported with their settings and imported once, paused", async (environment) => {
  const opened = await openSource(environment);
  await using source = opened.source;
  const { agentId, roomId, gateway } = source;
  await source.mention(source.alice, "hello");
  await source.settled();
  const archive = await exportTenant(gateway, opened.boss);
  const [record, ...others] = recordsOfType(archive, "agent");
  assert.deepEqual(others, []);
  const { id, version, createdBy, schedule, paused, type: _type, createdAt: _at, updatedAt: _updated, ...settings } =
    record;
  assert.deepEqual(settings, SETTINGS);
  assert.deepEqual([id, version, createdBy, paused], [agentId, 2, "alice", false]);
  assert.deepEqual(schedule, { ...SCHEDULE, roomId });
  assert.equal(parseRecords(archive).at(-1).counts.agents, 1);
  // Here it is already.
  assert.equal((await importArchive(gateway, opened.boss, "gateway", archive)).progress.added.agents, 0);
  await withTarget(environment, async (target) => {
    // Without any model or tool of the other gateway.
    const boss = await target.as("boss", { role: "owner" });
    for (const added of [1, 0]) {
      const done = await importArchive(target, boss, "gateway", archive);
      assert.deepEqual([done.state, done.progress.added.agents, done.report], ["done", added, []]);
    }
    const alice = await target.as("alice");
    const { paused: isPaused, ownerId, handle, displayName, ...here } = ok(await alice.get(`${AGENTS}/${agentId}`));
    assert.deepEqual([isPaused, ownerId, handle, displayName], [true, "alice", "helper", "Helper"]);
    assert.deepEqual({ ...here, paused, createdBy, type: "agent" }, record);
    assert.deepEqual(recordsOfType(await exportTenant(target, boss), "agent"), [{ ...record, paused: true }]);
    // Nothing runs before its owner lets it.
    const runs = async () => {
      const again = await target.as("alice");
      return ok(await again.get(`/v1/collaboration/ai/runs?roomId=${roomId}`)).items;
    };
    target.clock.advance(DAY_MS);
    await target.runJobs();
    assert.deepEqual(await runs(), []);
    ok(await (await target.as("boss", { role: "owner" })).patch(`${AGENTS}/${agentId}`, { paused: false }));
    target.clock.advance(DAY_MS);
    await target.runJobs();
    assert.deepEqual((await runs()).map(({ trigger, askerIds }: Any) => [trigger, askerIds]), [["schedule", ["boss"]]]);
    // Resuming it makes its owner responsible, within the token that does so.
    const narrow = await target.as("alice", { scope: "agent.*" });
    for (const isPausedNow of [true, false]) ok(await narrow.patch(`${AGENTS}/${agentId}`, { paused: isPausedNow }));
    target.clock.advance(DAY_MS);
    await target.runJobs();
    const { trigger, askerIds, scopes } = (await runs())[0];
    assert.deepEqual([trigger, askerIds, scopes], ["schedule", ["alice"], ["agent.*"]]);
    // What was imported and then deleted is not imported again.
    const owner = await target.as("boss", { role: "owner" });
    ok(await owner.delete(`${AGENTS}/${agentId}`));
    assert.equal((await importArchive(target, owner, "gateway", archive)).progress.added.agents, 0);
    assertProblem(await owner.get(`${AGENTS}/${agentId}`), 404, "not_found");
  });
});

testOnEngines(
  "lines of agents that do not fit are left out, and schedules that cannot be used",
  async (environment) => {
    const opened = await openSource({});
    await using source = opened.source;
    const lines = parseRecords(await exportTenant(source.gateway, opened.boss));
    const position = lines.findIndex(({ type }) => type === "agent");
    const agent = lines[position];
    const principal = lines.find(({ id }) => id === source.agentId);
    const principalOf = (id: string, ownerId: string) => ({ ...principal, id, handle: null, ownerId });
    const many = Array.from({ length: 100_000 }, (_, n) => `tool_${n}`);
    const archive = toArchive(
      lines.toSpliced(
        position,
        0,
        principalOf("stray", "nobody"),
        principalOf("nested", source.agentId),
        ...["one", "two", "three"].map((id) => principalOf(id, "alice")),
        { ...agent, id: "stray", schedule: null, later: true },
        { ...agent, id: "stray", instructions: "Another" },
        { ...agent, id: "nested", schedule: null },
        { ...agent, id: "one", schedule: { ...agent.schedule, rrule: "FREQ=SECONDLY" } },
        { ...agent, id: "two", schedule: { ...agent.schedule, roomId: "room_elsewhere" } },
        { ...agent, id: "three", schedule: { ...agent.schedule, rrule: "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30" } },
        { ...agent, id: "bob" },
        { ...agent, id: "unknown" },
        { ...agent, id: "one", instructions: "x".repeat(32_769) },
        { ...agent, id: "one", tools: many },
        { ...agent, id: "one", tools: many.map(() => 0) },
        { ...agent, id: "one", schedule: { ...agent.schedule, rrule: "x".repeat(501) } },
        { ...agent, id: "one", schedule: { ...agent.schedule, timeZone: "Nowhere/At_All" } },
        { ...agent, id: "one", triggers: ["dream"] },
        { ...agent, id: "one", tokensPerDay: -1 },
        { ...agent, id: "one", version: 2 ** 40 },
      ),
    );
    await withTarget(environment, async (target) => {
      const boss = await target.as("boss", { role: "owner" });
      const done = await importArchive(target, boss, "gateway", archive);
      assert.equal(done.state, "done", JSON.stringify(done));
      assert.deepEqual(skipCounts(done), { invalid_record: 8, not_an_agent: 2, schedule_invalid: 3 });
      assert.equal(done.progress.added.agents, 6);
      const { items } = ok(await boss.get(AGENTS));
      const shown = items.map(({ id, ownerId, schedule, paused, instructions }: Any) => [
        id === source.agentId ? "agent" : id,
        [ownerId, schedule === null, paused, instructions],
      ]);
      const text = SETTINGS.instructions;
      assert.deepEqual(Object.fromEntries(shown), {
        agent: ["alice", false, true, text],
        // Owners that are not there, and agents, own no agent.
        stray: ["boss", true, true, text],
        nested: ["boss", true, true, text],
        one: ["alice", true, true, text],
        two: ["alice", true, true, text],
        three: ["alice", true, true, text],
      });
      const again = await importArchive(target, boss, "gateway", archive);
      assert.equal(again.progress.added.agents, 0);
      assert.deepEqual(skipCounts(again), { invalid_record: 8, not_an_agent: 2 });
    });
  },
);

Deno.test("the export of a room has its agents, with what its requester may know of them", async () => {
  const { source: opened } = await openSource({});
  await using source = opened;
  const { alice, bob, roomId, agentId, gateway } = source;
  const elsewhere = await createRoom(alice, []);
  const schedule = { ...SCHEDULE, roomId: elsewhere };
  const other = ok(await alice.post(AGENTS, { displayName: "Other", schedule })).id;
  ok(await alice.put(`/v1/rooms/${elsewhere}/members/${other}`));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${other}`));
  ok(await alice.post(AGENTS, { displayName: "Absent" }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  const seenBy = async (who: Caller) =>
    Object.fromEntries(
      (await exportAgents(gateway, who, roomId)).map((
        { id, instructions, schedule: at, tools },
      ) => [id, [instructions, at?.roomId ?? null, tools.length]]),
    );
  assert.deepEqual(await seenBy(alice), { [agentId]: [SETTINGS.instructions, roomId, 2], [other]: ["", null, 0] });
  assert.deepEqual(await seenBy(bob), { [agentId]: [null, null, 2], [other]: [null, null, 0] });
});
