// Agents outside that send messages without runs are in chains of agents as all others are.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { AgentFixture } from "./agent_fixture.ts";
import { createCaller, ok, sendMessage } from "../fixtures.ts";

const RUNS = "/v1/collaboration/ai/runs";

/** A room whose agents may write to each other, so that chains alone stop them. */
async function openFixture(environment: Record<string, string>) {
  const fixture = await AgentFixture.open(() => "Hello", { environment });
  const { gateway, alice, roomId } = fixture;
  ok(await alice.patch(`/v1/rooms/${roomId}`, { agentPolicy: { maxAgentTurns: 100 } }));
  const bots: Record<string, Caller> = {};
  for (const name of ["robo", "zeta"]) {
    bots[name] = await createCaller(gateway, name, { kind: "agent", owner: "alice" });
    ok(await alice.put(`/v1/rooms/${roomId}/members/${name}`));
  }
  const { robo, zeta } = bots as { robo: Caller; zeta: Caller };
  return { fixture, robo, zeta, [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose]() };
}

testOnEngines(
  "an agent outside and one of ours that answer each other are stopped until a person writes",
  async (environment) => {
    await using opened = await openFixture(environment);
    const { fixture, robo } = opened;
    const { alice, roomId } = fixture;
    let count = 0;
    /** The depth and the outcome of the run that a message of robo starts, and the response to it. */
    const ask = async (more: Record<string, unknown>, status = "succeeded") => {
      const { id } = await fixture.mention(robo, "And now?", more);
      const { chainDepth, outputMessageId } = await fixture.settled(status, ++count);
      return { id, chainDepth, outputMessageId };
    };
    // What it says by itself is the start of a chain each time.
    const first = await ask({});
    const second = await ask({});
    assert.deepEqual([first.chainDepth, second.chainDepth], [2, 2]);
    assert.equal((await ask({ replyToId: second.outputMessageId }, "failed")).chainDepth, 4);
    assert.equal((await fixture.runs()).at(-1).error.code, "loop_stopped");
    // In the thread below its own message, before and after a response there.
    assert.equal((await ask({ threadId: first.id })).chainDepth, 2);
    assert.equal((await ask({ threadId: first.id }, "failed")).chainDepth, 4);
    await sendMessage(alice, roomId, "Go on");
    assert.equal((await ask({ threadId: first.id })).chainDepth, 2);
  },
);

testOnEngines(
  "agents outside that answer each other are stopped, whether they report runs or not",
  async (environment) => {
    await using opened = await openFixture(environment);
    const { fixture: { alice, bob, roomId }, robo, zeta } = opened;
    /** Zeta reports a run about a message, and responds unless it is stopped. */
    const respond = async (triggerMessageId: string) => {
      const { id, chainDepth, status, error } = ok(await zeta.post(RUNS, { roomId, triggerMessageId }));
      if (status === "failed") return { chainDepth, code: error.code };
      const { outputMessageId } = ok(await zeta.post(`${RUNS}/${id}/finish`, { text: "And you?" }));
      return { chainDepth, outputMessageId };
    };
    const question = await sendMessage(bob, roomId, "Discuss it");
    const opening = await sendMessage(robo, roomId, "Well?", { replyToId: question.id });
    const answer = await respond(opening.id);
    assert.equal(answer.chainDepth, 2);
    const reply = await sendMessage(robo, roomId, "Fine", { replyToId: answer.outputMessageId });
    assert.deepEqual(await respond(reply.id), { chainDepth: 4, code: "loop_stopped" });
    // Without any run, for however long.
    let last = opening;
    for (let n = 0; n < 10; n++) {
      last = await sendMessage(n % 2 === 0 ? zeta : robo, roomId, "No, you", {
        replyToId: last.id,
      });
    }
    assert.equal((await respond(last.id)).code, "loop_stopped");
    await sendMessage(alice, roomId, "Enough");
    const after = await sendMessage(robo, roomId, "Fine", { replyToId: last.id });
    assert.equal((await respond(after.id)).chainDepth, 2);
  },
);
