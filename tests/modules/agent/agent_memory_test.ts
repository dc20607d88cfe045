// What the model of an agent reads of memory: facts and search results that all readers of its room may read.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { eventually, until } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createRoom, ok, sendMessage } from "../fixtures.ts";
import { inRoom, listedTexts, remember } from "../memory/memory_fixture.ts";

/** What the model was asked last, as text. */
function lastPrompt({ models }: AgentFixture): string {
  return models.calls.at(-1)?.request.messages.map((message) => message.role === "tool" ? "" : message.text).join(
    "\n",
  ) ??
    "";
}

testOnEngines(
  "a model reads pinned facts in its stable prefix, and facts and messages that answer the question",
  async (environment) => {
    await using fixture = await AgentFixture.open(() => "On Thursday.", {
      environment,
      agent: { instructions: "Be brief.", memoryScopes: ["room", "agent", "tenant"] },
    });
    const { alice, bob, roomId, agentId } = fixture;
    const both = await createRoom(alice, ["bob", agentId], { name: "Both" });
    const owners = await createRoom(alice, [agentId], { name: "Owners" });
    await sendMessage(alice, both, "The zeppelin lands at noon");
    const secret = await sendMessage(alice, owners, "The zeppelin is sold");
    await remember(alice, inRoom(roomId), "The zeppelin is called Lotte", { pinned: true });
    await remember(alice, inRoom(roomId), "The zeppelin landing is at the lake");
    await remember(alice, { type: "agent", id: agentId }, "The zeppelin is sold to Otto", {
      sourceMessageIds: [secret.id],
    });
    await remember(alice, { type: "principal" }, "Alice hates the zeppelin", { pinned: true });
    await sendMessage(bob, roomId, "Good morning");
    let asked = 0;
    // What a search on a busy machine takes too long for is left out.
    await eventually(async () => {
      await fixture.mention(bob, "Where and when is the landing of the zeppelin?");
      await fixture.settled("succeeded", ++asked);
      assert.match(
        lastPrompt(fixture),
        /\[Background, found by search: message of 2026-03-01 in the room "Both"\] The zeppelin lands at noon/,
      );
    });
    const messages = fixture.models.calls.at(-1)?.request.messages ?? [];
    const [system, ...rest] = messages;
    assert.equal(system?.role, "system");
    assert.match(JSON.stringify(system), /Be brief\..*The zeppelin is called Lotte.*"isCacheable":true/);
    const prompt = lastPrompt(fixture);
    assert.match(prompt, /\[Background, may be outdated: .*\] The zeppelin landing is at the lake/);
    assert.match(prompt, /\[bob\] Where and when is the landing of the zeppelin\?$/, "the question comes last");
    assert.ok(!prompt.includes("sold") && !prompt.includes("hates"), prompt);
    assert.equal(rest.at(-1)?.role, "user");

    // Alone with its owner it reads what both may read, of the scopes that it has.
    const direct = ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: [agentId] })).id;
    await sendMessage(alice, direct, "What about the zeppelin?");
    await fixture.gateway.runJobs();
    await fixture.settled("succeeded", 1, direct);
    assert.match(lastPrompt(fixture), /The zeppelin is sold to Otto/);
    assert.ok(!lastPrompt(fixture).includes("hates"), "its configuration leaves out facts of principals");
    ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { memoryScopes: ["principal"] }));
    await sendMessage(alice, direct, "And what else about the zeppelin?");
    await fixture.gateway.runJobs();
    await fixture.settled("succeeded", 2, direct);
    assert.match(lastPrompt(fixture), /Alice hates the zeppelin/);
    assert.ok(!lastPrompt(fixture).includes("The zeppelin is sold to Otto"));
  },
);

testOnEngines(
  "an agent proposes a fact by a tool, and recalls it once a person has activated it",
  async (environment) => {
    let sourceId = "";
    await using fixture = await AgentFixture.open(({ number, toolNames }) => {
      assert.ok(toolNames.includes("memory_create"), toolNames.join());
      if (number > 1) return "Noted.";
      const scope = { type: "room", id: fixture.roomId };
      return callTools(["memory_create", { scope, text: "The code word is Falcon", sourceMessageIds: [sourceId] }]);
    }, { environment, agent: { tools: ["memory.create", "memory.search"] } });
    const { alice, bob, roomId } = fixture;
    sourceId = (await sendMessage(bob, roomId, "The code word is Falcon from today on")).id;
    await fixture.mention(bob, "Remember the code word, please");
    await fixture.settled();
    assert.deepEqual(await listedTexts(alice), []);
    const [proposal] = ok(await alice.get("/v1/collaboration/memory/items?status=proposed")).items;
    assert.deepEqual([proposal.text, proposal.createdBy], ["The code word is Falcon", fixture.agentId]);
    ok(await alice.patch(`/v1/collaboration/memory/items/${proposal.id}`, { status: "active" }));
    await fixture.mention(bob, "What is the code word?");
    await fixture.settled("succeeded", 2);
    assert.match(lastPrompt(fixture), /\[Background, may be outdated: fact .*\] The code word is Falcon/);
  },
);

testOnEngines("a question to a busy agent is answered after the question before", async (env) => {
  const busy = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(async ({ number }) => {
    if (number === 1) await busy.promise;
    return `Answer ${number}`;
  }, { environment: env });
  const { bob, alice, models, roomId, agentId } = fixture;
  await fixture.mention(bob, "One?");
  await until(() => models.calls.length === 1);
  await fixture.mention(bob, "Two?");
  await fixture.mention(alice, "Three?");
  busy.resolve();
  await fixture.settled("succeeded", 2);
  const messages = models.calls[1]?.request.messages ?? [];
  assert.deepEqual(messages.map(({ role }) => role), ["system", "user", "assistant", "user"]);
  assert.match(lastPrompt(fixture), /\[bob\] One\?\nAnswer 1\n\[bob\] Two\?\n\n.*\[alice\] Three\?$/s);
  // Called without a question, the model still does not go on with its own words.
  ok(await alice.post("/v1/collaboration/ai/runs", { agentId, roomId }));
  await fixture.settled("succeeded", 3);
  assert.match(lastPrompt(fixture), /Answer 2\n\[Background\]/);
  assert.equal(models.calls[2]?.request.messages.at(-1)?.role, "user");
});
