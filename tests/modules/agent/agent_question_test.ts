// Questions that are deleted while the agent is busy with another one.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { AgentFixture } from "./agent_fixture.ts";
import { ok } from "../fixtures.ts";

/** An agent that is busy until the test opens its gate. */
async function openBusyAgent(
  environment: Record<string, string>,
): Promise<{ fixture: AgentFixture; open: () => void }> {
  const gate = Promise.withResolvers<void>();
  const fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "Done"] }), { environment });
  await fixture.mention(fixture.bob, "One");
  await fixture.settled("running");
  return { fixture, open: gate.resolve };
}

testOnEngines("a question that is deleted before its run begins is not answered", async (environment) => {
  const { fixture, open } = await openBusyAgent(environment);
  await using _ = fixture;
  const { id } = await fixture.mention(fixture.bob, "My password is swordfish");
  ok(await fixture.bob.delete(`/v1/messages/${id}`));
  open();
  const { error, outputMessageId } = await fixture.settled("cancelled", 2);
  assert.deepEqual([error.code, outputMessageId], ["not_found", null]);
  assert.equal(fixture.models.calls.length, 1);
  assert.equal((await fixture.texts()).filter((text) => text === "Done").length, 1);
});

testOnEngines("of questions that share a run, those that are left are answered", async (environment) => {
  const { fixture, open } = await openBusyAgent(environment);
  await using _ = fixture;
  const kept = await fixture.mention(fixture.bob, "Two");
  const deleted = await fixture.mention(fixture.alice, "Three");
  ok(await fixture.alice.delete(`/v1/messages/${deleted.id}`));
  open();
  const { triggerMessageId } = await fixture.settled("succeeded", 2);
  assert.equal(triggerMessageId, kept.id);
  assert.equal((await fixture.messages()).at(-1).replyToId, kept.id);
});
