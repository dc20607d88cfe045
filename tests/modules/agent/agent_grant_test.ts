// A decision that applies to further calls holds while its maker could still make it.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { eventually } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const APPROVALS = "/v1/collaboration/ai/approvals";

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** A room that bob and carol are in, and one where eve is as well; each run copies from the first to the second. */
async function openFixture(environment: Record<string, string>) {
  const fixture = await AgentFixture.open(undefined, { environment, agent: { tools: ["message.*"] } });
  const { alice, roomId, agentId, gateway } = fixture;
  const { carol } = await createCallers(gateway, "carol", "eve");
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`));
  const targetId = await createRoom(alice, ["bob", "carol", "eve", agentId]);
  await sendMessage(alice, roomId, "The secret is swordfish");
  fixture.answer(({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? "Copied"
      : callTools(["message_send", { roomId: targetId, text: "swordfish" }])
  );
  /** The status of a run that somebody asks for. */
  const ask = async (who: Caller): Promise<string> => {
    await fixture.mention(who, "Copy it");
    return (await ended(fixture)).status;
  };
  /** Somebody asks, decides, and lets the decision hold in the room. */
  const decide = async (who: Caller, asker: Caller): Promise<void> => {
    assert.equal(await ask(asker), "waiting_approval");
    const [{ id }] = ok(await who.get(`${APPROVALS}?roomId=${roomId}&status=pending`)).items;
    ok(await who.post(`${APPROVALS}/${id}/decision`, { decision: "approve", remember: "room" }));
    assert.equal((await ended(fixture)).status, "succeeded");
  };
  return { fixture, carol, targetId, ask, decide };
}

async function ended(fixture: AgentFixture): Promise<Body> {
  return await eventually(async () => {
    const run = (await fixture.runs()).at(-1);
    assert.ok(!["queued", "running"].includes(run.status), run.status);
    return run;
  });
}

testOnEngines("what is allowed for a room holds while its maker is in both rooms", async (environment) => {
  const { fixture, carol, targetId, ask, decide } = await openFixture(environment);
  await using _ = fixture;
  const { alice, bob, roomId, gateway } = fixture;
  await decide(bob, bob);
  assert.equal(await ask(carol), "succeeded");
  const inTarget = `/v1/rooms/${targetId}/members/bob`;
  const inRoom = `/v1/rooms/${roomId}/members/bob`;
  const losses = [
    () => alice.put(inTarget, { role: "observer" }),
    () => alice.put(inRoom, { role: "observer" }),
    () => alice.delete(inRoom),
    async () => {
      ok(await alice.delete(inRoom));
      return await alice.delete(inTarget);
    },
  ];
  for (const [n, lose] of losses.entries()) {
    ok(await lose());
    assert.equal(await ask(carol), "waiting_approval", `${n}`);
    for (const member of [inTarget, inRoom]) ok(await alice.put(member, { role: "member" }));
    assert.equal(await ask(carol), "succeeded", `${n}`);
  }
  // One who left the tenant decides nothing either.
  const admin = await gateway.as("root", { role: "admin" });
  ok(await admin.delete("/v1/collaboration/principals/bob"));
  assert.equal(await ask(carol), "waiting_approval");
});

testOnEngines("what a moderator allowed holds while they moderate the room", async (environment) => {
  const { fixture, carol, ask, decide } = await openFixture(environment);
  await using _ = fixture;
  const { alice, bob, roomId } = fixture;
  const member = `/v1/rooms/${roomId}/members/bob`;
  ok(await alice.put(member, { role: "moderator" }));
  await decide(bob, carol);
  assert.equal(await ask(carol), "succeeded");
  ok(await alice.put(member, { role: "member" }));
  assert.equal(await ask(carol), "waiting_approval");
  ok(await alice.put(member, { role: "owner" }));
  assert.equal(await ask(carol), "succeeded");
});

testOnEngines("what is denied for a room stays denied without its maker", async (environment) => {
  const { fixture, carol, ask } = await openFixture(environment);
  await using _ = fixture;
  const { alice, bob, roomId } = fixture;
  assert.equal(await ask(bob), "waiting_approval");
  const [{ id }] = ok(await bob.get(`${APPROVALS}?roomId=${roomId}&status=pending`)).items;
  ok(await bob.post(`${APPROVALS}/${id}/decision`, { decision: "deny", remember: "room" }));
  await ended(fixture);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  assert.equal(await ask(carol), "succeeded");
  const run = await fixture.run((await ended(fixture)).id);
  assert.equal(run.steps.find(({ kind }: Body) => kind === "tool").status, "denied");
});

testOnEngines("a right that its owner takes from an agent at work is lost at once", async (environment) => {
  const asked = Promise.withResolvers<void>();
  const changed = Promise.withResolvers<void>();
  const agent = { tools: ["task.create"] };
  await using fixture = await AgentFixture.open(async ({ messages, number, last }) => {
    if (messages.at(-1)?.role === "tool") return JSON.parse(last).error ?? "added";
    if (number === 1) {
      asked.resolve();
      await changed.promise;
    }
    return callTools(["task_create", { title: "Late" }]);
  }, { environment, agent });
  const { alice, bob, agentId } = fixture;
  await fixture.mention(bob, "Add a task");
  await asked.promise;
  ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { tools: ["task.list"] }));
  changed.resolve();
  await fixture.settled();
  assert.equal((await fixture.texts()).at(-1), "not_found");
});
