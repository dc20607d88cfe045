// What an agent says in its own room, if somebody joins or leaves it meanwhile.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { until } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createCaller, createRoom, ok, sendMessage } from "../fixtures.ts";
import type { ScriptedStep } from "../../scripted_models.ts";

async function join({ gateway, alice, roomId }: AgentFixture, name: string): Promise<Caller> {
  const caller = await createCaller(gateway, name);
  ok(await alice.put(`/v1/rooms/${roomId}/members/${name}`));
  return caller;
}

/** Bob asks the agent, which reads its room; then another person joins, and the model continues. */
async function askAndJoin(fixture: AgentFixture, name: string, next: ScriptedStep): Promise<Caller> {
  const { roomId, bob, models } = fixture;
  const joined = Promise.withResolvers<void>();
  models.calls.length = 0;
  fixture.answer(async ({ number }) => {
    if (number === 1) return callTools(["message_list", { roomId }]);
    await joined.promise;
    return next;
  });
  await fixture.mention(bob, "What is new?");
  await until(() => models.calls.length === 2);
  const caller = await join(fixture, name);
  joined.resolve();
  return caller;
}

async function openFixture(environment: Record<string, string>, historyVisibility: string): Promise<AgentFixture> {
  const fixture = await AgentFixture.open(undefined, { environment, agent: { tools: ["message.*"] } });
  ok(await fixture.alice.patch(`/v1/rooms/${fixture.roomId}`, { historyVisibility }));
  await sendMessage(fixture.alice, fixture.roomId, "The secret is swordfish");
  return fixture;
}

async function seenBy(who: Caller, { roomId }: AgentFixture): Promise<string> {
  return JSON.stringify(ok(await who.get(`/v1/messages?roomId=${roomId}`)));
}

testOnEngines("an agent says nothing that is hidden from who joined its room meanwhile", async (environment) => {
  await using fixture = await openFixture(environment, "joined");
  const { bob, roomId } = fixture;
  const carol = await askAndJoin(fixture, "carol", { parts: ["It is swordfish"] });
  const { id, error, text } = await fixture.settled("failed");
  assert.equal(error.code, "forbidden");
  assert.match(text, /swordfish/, "who may see it still reads it in the run");
  assert.doesNotMatch(await seenBy(carol, fixture), /swordfish/);
  assert.equal((await carol.get(`/v1/collaboration/ai/runs/${id}`)).status, 404);
  // A later request gets a response from what all readers can see.
  fixture.answer(({ messages }) => /secret is/.test(JSON.stringify(messages)) ? "swordfish" : "Nothing");
  await fixture.mention(bob, "And now?");
  await fixture.settled("succeeded", 2);
  assert.equal((await fixture.texts()).at(-1), "Nothing");
  // A tool that writes there asks first.
  const dave = await askAndJoin(fixture, "dave", callTools(["message_send", { roomId, text: "It is halibut" }]));
  await fixture.settled("waiting_approval", 3);
  assert.doesNotMatch(await seenBy(dave, fixture), /halibut/);
});

testOnEngines("an agent responds in a room with shared history when others joined", async (environment) => {
  await using fixture = await openFixture(environment, "shared");
  const carol = await askAndJoin(fixture, "carol", { parts: ["It is swordfish"] });
  await fixture.settled();
  assert.match(await seenBy(carol, fixture), /It is swordfish/);
});

testOnEngines("a requester learns why there is no response when another requester left", async (environment) => {
  const busy = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(async () => {
    await busy.promise;
    return "Hello";
  }, { environment });
  const { alice, bob, roomId, models } = fixture;
  const carol = await join(fixture, "carol");
  await fixture.mention(bob, "One");
  await until(() => models.calls.length === 1);
  await fixture.mention(bob, "Two");
  await fixture.mention(carol, "Three");
  ok(await alice.delete(`/v1/rooms/${roomId}/members/carol`));
  busy.resolve();
  const { askerIds, error } = await fixture.settled("failed", 2);
  assert.deepEqual([askerIds, error.code], [["bob", "carol"], "not_found"]);
  assert.match((await fixture.texts()).at(-1) ?? "", /could not finish this: One of those who asked/);
  // None is left to notify.
  fixture.answer(async () => {
    ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
    return "Hello";
  });
  await fixture.mention(bob, "Four");
  await fixture.settled("failed", 3);
  assert.equal((await fixture.texts()).at(-1), "Four");
});

testOnEngines("a model learns that others may not see what it does not find", async (environment) => {
  const tools = { tools: ["message.list"] };
  let hidden = "";
  await using fixture = await AgentFixture.open(({ messages, last }) => {
    if (messages.at(-1)?.role === "tool") return JSON.parse(last).detail;
    return callTools(["message_list", { roomId: hidden }]);
  }, { environment, agent: tools });
  const { alice, agentId } = fixture;
  hidden = await createRoom(alice, [agentId]);
  await fixture.mention(alice, "What is new in the other room?");
  await fixture.settled();
  assert.match((await fixture.texts()).at(-1) ?? "", /everybody who reads its responses/);
});
