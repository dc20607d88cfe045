// Runs act within the tokens with which they were asked for.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { eventually } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { assertProblem, ok, sendMessage } from "../fixtures.ts";

const RUNS = "/v1/collaboration/ai/runs";
const TASKS = { tools: ["task.*", "message.send"] };
const CHAT = "room.read message.read message.write run.read run.write";

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** An agent that adds a task, and says whether it succeeded. */
function openTaskAgent(environment: Record<string, string> = {}): Promise<AgentFixture> {
  const opening = AgentFixture.open(async ({ number, last, messages, toolNames }) => {
    const { roomId } = await opening;
    const isAnswered = messages.at(-1)?.role === "tool";
    if (!isAnswered) return callTools(["task_create", { roomId, title: `Task ${number}` }]);
    return `${toolNames.includes("task_create")} ${JSON.parse(last).error ?? "added"}`;
  }, { environment, agent: TASKS });
  return opening;
}

async function countTasks({ alice, roomId }: AgentFixture): Promise<number> {
  return ok(await alice.get(`/v1/collaboration/tasks?roomId=${roomId}`)).items.length;
}

testOnEngines("a token without the scope of a tool has no agent call it", async (environment) => {
  await using fixture = await openTaskAgent(environment);
  const narrow = await fixture.gateway.as("bob", { scope: CHAT });
  await fixture.mention(narrow, "Add a task");
  const run = await fixture.settled();
  assert.deepEqual(run.scopes, CHAT.split(" "));
  assert.equal((await fixture.texts()).at(-1), "false not_found");
  assert.equal(await countTasks(fixture), 0);
  await fixture.mention(fixture.bob, "Add a task");
  assert.equal((await fixture.settled("succeeded", 2)).scopes, null);
  assert.equal((await fixture.texts()).at(-1), "true added");
  await fixture.mention(await fixture.gateway.as("bob", { scope: `${CHAT} task.*` }), "Add another one");
  await fixture.settled("succeeded", 3);
  assert.equal(await countTasks(fixture), 2);
});

testOnEngines(
  "what a token that cannot read messages sends starts no agent, and the run and the agent say why",
  async (environment) => {
    await using fixture = await openTaskAgent(environment);
    const writer = await fixture.gateway.as("bob", { scope: "message.write" });
    await fixture.mention(writer, "What was said before?");
    const { error } = await fixture.settled("failed");
    assert.deepEqual([error.code, /lacks the scope message\.read/.test(error.detail)], ["scope_missing", true]);
    const [, ...said] = await fixture.texts();
    const why = "The token that sent the message lacks the scope message.read.";
    assert.deepEqual(said, [`I cannot respond to this: ${why}`]);
  },
);

testOnEngines("requests that share a run have the scopes that all their tokens have", async (environment) => {
  const first = Promise.withResolvers<string>();
  await using fixture = await AgentFixture.open(({ number }) => number === 1 ? first.promise : "Second", {
    environment,
  });
  const { alice, bob, gateway } = fixture;
  await fixture.mention(alice, "One");
  await fixture.settled("running");
  await fixture.mention(bob, "Two");
  await fixture.mention(await gateway.as("alice", { scope: `${CHAT} task.read` }), "Three");
  await fixture.mention(await gateway.as("bob", { scope: "room.read message.* task.*" }), "Four");
  first.resolve("First");
  const { askerIds, scopes } = await fixture.settled("succeeded", 2);
  assert.deepEqual([askerIds, scopes.sort()], [
    ["bob", "alice"],
    ["message.read", "message.write", "room.read", "task.read"],
  ]);
});

testOnEngines(
  "a call, a message sent later and a schedule start runs within their tokens, too",
  async (environment) => {
    await using fixture = await openTaskAgent(environment);
    const { roomId, agentId, gateway } = fixture;
    const scopesOfLast = async (): Promise<unknown> => {
      await eventually(async () => {
        await gateway.runJobs();
        const last = (await runs()).at(0);
        assert.deepEqual([last.status, last.outputMessageId === null], ["succeeded", false]);
      });
      return (await runs())[0].scopes;
    };
    const runs = async (): Promise<Body[]> =>
      ok(await (await gateway.as("alice")).get(`${RUNS}?roomId=${roomId}&limit=200`)).items;
    const caller = await gateway.as("alice", { scope: "run.write" });
    const { id: threadId } = await sendMessage(fixture.alice, roomId, "The secret is swordfish");
    assertProblem(await caller.post(RUNS, { agentId, roomId, threadId, input: "What is it?" }), 403, "scope_missing");
    ok(await caller.post(RUNS, { agentId, roomId, input: "Add a task" }));
    assert.deepEqual(await scopesOfLast(), ["run.write"]);
    assert.ok(!JSON.stringify(fixture.models.calls[0]?.request.messages).includes("swordfish"));
    const sender = await gateway.as("alice", { scope: CHAT });
    const sendAt = new Date(gateway.clock.now() + 1000).toISOString();
    const mentions = { principalIds: [agentId], room: false };
    ok(await sender.post("/v1/messages", { roomId, text: "Later", mentions, sendAt }));
    gateway.clock.advance(1000);
    assert.deepEqual(await scopesOfLast(), CHAT.split(" "));
    const manager = await gateway.as("alice", { scope: "agent.*" });
    const startAt = "2026-03-02T12:00";
    const schedule = { rrule: "FREQ=DAILY", startAt, timeZone: "UTC", roomId, input: "Add a task" };
    const agent = ok(await manager.patch(`/v1/collaboration/agents/${agentId}`, { schedule }));
    assert.deepEqual(agent.schedule, schedule);
    gateway.clock.advance(DAY_MS);
    await gateway.runJobs();
    assert.deepEqual([await scopesOfLast(), (await runs())[0].trigger], [["agent.*"], "schedule"]);
    assert.equal(ok(await (await gateway.as("alice")).get(`/v1/collaboration/tasks?roomId=${roomId}`)).items.length, 0);
  },
);

testOnEngines("a reply with a narrower token narrows the rest of the run", async (environment) => {
  await using fixture = await AgentFixture.open(({ number, last }) => {
    if (number === 1) return callTools(["ask_user", { question: "Which one?" }]);
    return number === 2 ? callTools(["task_create", { roomId: fixture.roomId, title: last }]) : JSON.parse(last).error;
  }, { environment, agent: TASKS });
  await fixture.mention(fixture.bob, "Add a task");
  const { id } = await fixture.settled("waiting_input");
  const narrow = await fixture.gateway.as("bob", { scope: CHAT });
  ok(await narrow.post(`${RUNS}/${id}/reply`, { text: "The first" }));
  assert.deepEqual((await fixture.settled()).scopes, CHAT.split(" "));
  assert.equal((await fixture.texts()).at(-1), "not_found");
});

testOnEngines("an agent that another one asks has no scopes that the first did not have", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TASKS });
  const { alice, roomId, gateway } = fixture;
  const other = { handle: "other", displayName: "Other", ...TASKS };
  const { id } = ok(await alice.post("/v1/collaboration/agents", other));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
  fixture.answer(({ messages, toolNames }) =>
    JSON.stringify(messages[0]).includes("You are Helper") ? "@other add a task" : JSON.stringify(toolNames)
  );
  await fixture.mention(await gateway.as("bob", { scope: CHAT }), "Ask the other one");
  await eventually(async () => {
    await gateway.runJobs();
    assert.equal((await fixture.texts()).length, 3);
  });
  assert.deepEqual((await fixture.runs()).map(({ chainDepth, scopes }) => [chainDepth, scopes]), [
    [1, CHAT.split(" ")],
    [2, CHAT.split(" ")],
  ]);
  assert.ok(!(await fixture.texts()).at(-1)?.includes("task_create"));
});

/** The fixture's agent and another one, with the same tools; the response says whose turn it is. */
async function openTwoAgents(environment: Record<string, string>): Promise<{ fixture: AgentFixture; otherId: string }> {
  const fixture = await AgentFixture.open(undefined, { environment, agent: TALKS });
  const { alice, roomId } = fixture;
  const { id } = ok(await alice.post("/v1/collaboration/agents", { handle: "other", displayName: "Other", ...TALKS }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
  return { fixture, otherId: id };
}
const TALKS = { tools: ["message.send", "message.update"] };

testOnEngines(
  "what an agent sends later is on behalf of who asked, and no way around the end of loops",
  async (env) => {
    const { fixture, otherId } = await openTwoAgents(env);
    await using _ = fixture;
    const { bob, agentId, roomId, alice, gateway } = fixture;
    fixture.answer(({ messages }) => {
      if (messages.at(-1)?.role === "tool") return "";
      const to = JSON.stringify(messages[0]).includes("You are Helper") ? otherId : agentId;
      const sendAt = new Date(gateway.clock.now() + 120_000).toISOString();
      return callTools(["message_send", { text: "Your turn", mentions: { principalIds: [to], room: false }, sendAt }]);
    });
    await fixture.mention(bob, "Start");
    for (let count = 1; count < 4; count++) {
      await fixture.settled("succeeded", count);
      gateway.clock.advance(120_000);
      await gateway.runJobs();
    }
    await fixture.settled("failed", 4);
    const runs = await fixture.runs();
    assert.deepEqual(
      runs.map(({ chainDepth, askerIds }) => [chainDepth, askerIds]),
      [1, 2, 3, 4].map((n) => [n, ["bob"]]),
    );
    assert.equal(runs[3].error.code, "loop_stopped");
    // Who has left asks for nothing any more.
    await fixture.mention(bob, "Again");
    await fixture.settled("succeeded", 5);
    ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
    const before = await fixture.texts();
    gateway.clock.advance(120_000);
    await gateway.runJobs();
    assert.deepEqual(await fixture.texts(), before);
  },
);

testOnEngines(
  "an agent that is named in an edit acts on behalf of who had it edited, within the rights of the owner",
  async (environment) => {
    const { fixture, otherId } = await openTwoAgents(environment);
    await using _ = fixture;
    const { alice, bob, agentId, gateway } = fixture;
    const mentions = { principalIds: [otherId], room: false };
    let edited: string | undefined;
    fixture.answer(({ messages }) => {
      if (messages.at(-1)?.role === "tool" || JSON.stringify(messages[0]).includes("You are Other")) return "";
      if (edited === undefined) return "A note";
      return callTools(["message_update", { id: edited, text: "Your turn", mentions }]);
    });
    await fixture.mention(alice, "Write a note");
    edited = (await fixture.settled()).outputMessageId;
    await fixture.mention(bob, "Edit it");
    const asked = async (count: number): Promise<unknown> =>
      (await eventually(async () => {
        await gateway.runJobs();
        return await fixture.settled("succeeded", count);
      })).askerIds;
    assert.deepEqual(await asked(3), ["bob", "alice"]);
    const other = await gateway.as(agentId, { kind: "agent", owner: "alice" });
    edited = undefined;
    await fixture.mention(bob, "Write a note");
    const { outputMessageId } = await fixture.settled("succeeded", 4);
    ok(await other.patch(`/v1/messages/${outputMessageId}`, { text: "Your turn", mentions }));
    assert.deepEqual(await asked(5), ["bob", "alice"]);
  },
);
