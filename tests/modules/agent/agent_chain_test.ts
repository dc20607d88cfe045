// Agents outside that send messages without runs are in chains of agents as all others are.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { eventually } from "../../wait.ts";
import { createCaller, ok, sendMessage } from "../fixtures.ts";
import { createWebhook, Endpoint } from "../webhook/webhook_fixture.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";

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

const PROGRAM_WAYS: Record<string, (roomId: string) => readonly [string, Record<string, unknown>]> = {
  "message.created": (roomId: string) => ["message_send", { roomId, text: "Now" }],
  "task.created": (roomId: string) => ["task_create", { roomId, title: "Now" }],
  "document.created": (roomId: string) => ["document_create", { roomId, title: "Now", text: "x" }],
};
for (const [type, callOf] of Object.entries(PROGRAM_WAYS)) {
  Deno.test(
    `agents that start each other by ${type} through a program which passes on its baggage are stopped`,
    () => assertProgramStops(type, callOf),
  );
}

async function assertProgramStops(
  type: string,
  callOf: (roomId: string) => readonly [string, Record<string, unknown>],
): Promise<void> {
  const environment = { SVC_OUTBOUND_ALLOW: "127.0.0.1" };
  const tools = ["message.send", "task.create", "document.create"];
  await using fixture = await AgentFixture.open(() => "Done", { environment, agent: { tools } });
  const { gateway, alice, bob, roomId } = fixture;
  // It says something in two ways: as its response, and by a tool.
  fixture.answer(({ last, number }) =>
    number % 2 === 0 || last.includes('"id"') ? "Done" : callTools([...callOf(roomId)])
  );
  const incoming = ok(await alice.post("/v1/collaboration/incoming", { roomId, displayName: "Program" }));
  await using endpoint = new Endpoint();
  const passedOn: (string | null)[] = [];
  endpoint.answer = async ({ headers, body }) => {
    if (body.actor.kind !== "agent" || body.data.message?.text === "Done") return new Response();
    const baggage = headers.get("baggage");
    passedOn.push(baggage);
    if (passedOn.length > 5) return new Response();
    const request = new Request(`http://gateway.test${incoming.path}`, {
      method: "POST",
      headers: { "content-type": "application/json", baggage: `user=x, ${baggage};p=1` },
      body: JSON.stringify({ text: "/helper and now?" }),
    });
    return new Response(null, { status: (await gateway.send(request)).status });
  };
  await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: [type] });
  await fixture.mention(bob, "Go");
  await eventually(async () => {
    await gateway.runJobs();
    assert.equal((await fixture.runs()).at(-1).status, "failed");
  });
  const runs = await fixture.runs();
  assert.deepEqual(runs.map(({ chainDepth }) => chainDepth), [1, 2, 3, 4]);
  assert.equal(runs.at(-1).error.code, "loop_stopped");
  assert.deepEqual(passedOn, ["agent-hops=1", "agent-hops=2", "agent-hops=3"]);
}

testOnEngines("an edit and a scheduled message count the agents that led to them", async (environment) => {
  await using opened = await openFixture(environment);
  const { fixture: { gateway, roomId }, robo } = opened;
  const baggage = { baggage: "agent-hops=2" };
  const { id } = await sendMessage(robo, roomId, "Wait");
  const edited = ok(await robo.call("PATCH", `/v1/messages/${id}`, { text: "Now" }, baggage));
  assert.deepEqual(edited.metadata, { agentHops: 3 });
  assert.deepEqual(ok(await robo.patch(`/v1/messages/${id}`, { text: "Later" })).metadata, { agentHops: 3 });
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  ok(await robo.post("/v1/messages", { roomId, text: "Planned", sendAt }, baggage));
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  const { items } = ok(await robo.get(`/v1/messages?roomId=${roomId}`));
  assert.deepEqual([items.at(-1).text, items.at(-1).metadata], ["Planned", { agentHops: 3 }]);
});
