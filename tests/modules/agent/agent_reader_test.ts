// Who reads what a run writes besides the readers of a room: without an approval, only those who can see all that it has read.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { eventually } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const APPROVALS = "/v1/collaboration/ai/approvals";
const EVENTS = "/v1/collaboration/calendar/events";
const FACTS = "/v1/collaboration/memory/items";
const START = { start: { dateTime: "2026-12-12T10:00:00", timeZone: "UTC" } };

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** A room with a secret, which alice, bob and the agent are in, but eve and mallory are not. */
async function openFixture(environment: Record<string, string>) {
  const agent = { tools: ["message.list", "event.*", "memory.*"] };
  const fixture = await AgentFixture.open(undefined, { environment, agent });
  await sendMessage(fixture.alice, fixture.roomId, "The secret is swordfish");
  return { fixture, ...await createCallers(fixture.gateway, "eve", "mallory") };
}

/** Bob asks the agent, which reads the room and calls a tool; resolves to the run once it has ended or waits. */
async function ask(fixture: AgentFixture, tool: string, input: unknown): Promise<Body> {
  const { roomId, bob } = fixture;
  fixture.answer(({ messages }) => {
    const results = messages.filter(({ role }) => role === "tool").length;
    return [callTools(["message_list", { roomId }]), callToolsOnce(tool, input)][results] ?? "Done";
  });
  await fixture.mention(bob, "Do it");
  return await ended(fixture);
}

function callToolsOnce(tool: string, input: unknown) {
  return { parts: [{ kind: "tool" as const, callId: "write", name: tool, input: JSON.stringify(input) }] };
}

async function ended(fixture: AgentFixture): Promise<Body> {
  return await eventually(async () => {
    const run = (await fixture.runs()).at(-1);
    assert.ok(!["queued", "running"].includes(run.status), run.status);
    return await fixture.run(run.id);
  });
}

/** What the last call of a tool resulted in. */
function resultOf({ steps }: Body): Body {
  return JSON.parse(steps.findLast(({ tool }: Body) => tool !== null).result);
}

async function decide({ bob, roomId }: AgentFixture, body: Record<string, unknown>): Promise<Body> {
  const [approval] = ok(await bob.get(`${APPROVALS}?roomId=${roomId}&status=pending`)).items;
  ok(await bob.post(`${APPROVALS}/${approval.id}/decision`, body));
  return approval;
}

async function seenBy(who: Caller): Promise<string> {
  const window = "from=2026-12-01T00:00:00Z&to=2026-12-30T00:00:00Z";
  return JSON.stringify([
    ok(await who.get(`${EVENTS}?${window}`)).items,
    ok(await who.get("/v1/collaboration/notifications")).items,
  ]);
}

testOnEngines("an event with an attendee who cannot see what was read needs an approval", async (environment) => {
  const { fixture, eve } = await openFixture(environment);
  await using _ = fixture;
  const { roomId, agentId } = fixture;
  const attendees = [{ principalId: "eve" }, { principalId: "bob" }, { principalId: agentId }];
  for (const place of [{}, { roomId }]) {
    const title = `swordfish ${Object.keys(place)}`;
    const run = await ask(fixture, "event_create", { ...place, ...START, title, attendees });
    assert.equal(run.status, "waiting_approval", JSON.stringify(run));
    assert.doesNotMatch(await seenBy(eve), /swordfish/);
    const approval = await decide(fixture, { decision: "deny" });
    assert.deepEqual([approval.targetRoomId, approval.readerIds], [roomId, ["eve"]]);
    assert.match(approval.reason, /attendees/);
    assert.equal((await ended(fixture)).status, "succeeded");
    assert.doesNotMatch(await seenBy(eve), /swordfish/);
  }
  const insiders = attendees.slice(1);
  const run = await ask(fixture, "event_create", { roomId, ...START, title: "Inside", attendees: insiders });
  assert.equal(run.status, "succeeded");
  assert.match(await seenBy(fixture.bob), /Inside/);
  // Who is approved reads it.
  await ask(fixture, "event_create", { roomId, ...START, title: "Approved", attendees });
  await decide(fixture, { decision: "approve" });
  assert.equal((await ended(fixture)).status, "succeeded");
  assert.match(await seenBy(eve), /Approved.*Approved/);
});

testOnEngines("changing or answering an event with such an attendee needs an approval", async (environment) => {
  const { fixture, eve } = await openFixture(environment);
  await using _ = fixture;
  const { alice, roomId, agentId } = fixture;
  const attendees = [{ principalId: "eve" }, { principalId: agentId }];
  const { id } = ok(await alice.post(EVENTS, { roomId, ...START, title: "Dinner", attendees }));
  const calls: [string, unknown][] = [
    ["event_update", { id, title: "swordfish" }],
    ["event_rsvp", { id, status: "accepted", comment: "swordfish" }],
  ];
  for (const [tool, input] of calls) {
    assert.equal((await ask(fixture, tool, input)).status, "waiting_approval", tool);
    assert.deepEqual((await decide(fixture, { decision: "deny" })).readerIds, ["eve"]);
    await ended(fixture);
    assert.doesNotMatch(JSON.stringify(ok(await eve.get(`${EVENTS}/${id}`))), /swordfish/);
    assert.doesNotMatch(await seenBy(eve), /swordfish/);
  }
  // Without her it is for the room again.
  ok(await alice.patch(`${EVENTS}/${id}`, { attendees: attendees.slice(1) }));
  for (const [tool, input] of calls) assert.equal((await ask(fixture, tool, input)).status, "succeeded", tool);
});

testOnEngines("a grant is for the readers of the call that was approved", async (environment) => {
  const { fixture } = await openFixture(environment);
  await using _ = fixture;
  const { bob, roomId } = fixture;
  const invite = (...ids: string[]) =>
    ask(fixture, "event_create", {
      roomId,
      ...START,
      title: "Dinner",
      attendees: ids.map((principalId) => ({ principalId })),
    });
  assert.equal((await invite("eve")).status, "waiting_approval");
  await decide(fixture, { decision: "approve", remember: "room" });
  await ended(fixture);
  const [grant] = ok(await bob.get(`/v1/collaboration/ai/grants?roomId=${roomId}`)).items;
  assert.deepEqual([grant.tool, grant.readerIds], ["event.create", ["eve"]]);
  assert.equal((await invite("eve")).status, "succeeded");
  assert.equal((await invite("eve", "mallory")).status, "waiting_approval");
  assert.deepEqual((await decide(fixture, { decision: "deny" })).readerIds, ["eve", "mallory"]);
  await ended(fixture);
  // Another one of the same person does not end it.
  assert.equal((await invite("mallory")).status, "waiting_approval");
  await decide(fixture, { decision: "approve", remember: "room" });
  await ended(fixture);
  assert.equal((await invite("eve")).status, "succeeded");
  const { items } = ok(await bob.get(`/v1/collaboration/ai/grants?roomId=${roomId}`));
  assert.deepEqual(items.map(({ readerIds }: Body) => readerIds), [["eve", "mallory"]]);
});

testOnEngines("a fact is for those who can see one of its sources", async (environment) => {
  const { fixture, eve } = await openFixture(environment);
  await using _ = fixture;
  const { alice, agentId, gateway } = fixture;
  const [open, own] = [
    await createRoom(alice, ["bob", "eve", agentId]),
    ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: [agentId] })).id,
  ];
  const source = await sendMessage(alice, open, "Dinner is on Friday");
  const hidden = await sendMessage(alice, own, "Remember dinner");
  const scope = { type: "agent", id: agentId };
  const fact = { scope, text: "swordfish", subjectIds: ["eve"], sourceMessageIds: [source.id] };
  assert.equal((await ask(fixture, "memory_create", fact)).status, "waiting_approval");
  assert.equal((await decide(fixture, { decision: "deny" })).targetRoomId, open);
  await ended(fixture);
  assert.deepEqual(ok(await eve.get("/v1/collaboration/me/memories")).items, []);
  // Alone with its owner it may use both; from the room it no longer changes who reads the fact as it is then.
  fixture.answer(({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? "Noted"
      : callTools(["memory_create", { scope, text: "Dinner", sourceMessageIds: [source.id, hidden.id] }])
  );
  await sendMessage(alice, own, "Note this");
  await gateway.runJobs();
  const created = resultOf(await approveAs(alice, own));
  const run = await ask(fixture, "memory_update", { id: created.id, text: "swordfish" });
  assert.deepEqual([run.status, resultOf(run).error], ["succeeded", "forbidden"]);
  assert.equal(ok(await alice.get(`${FACTS}/${created.id}`)).text, "Dinner");
});

/** Alice approves what the newest run of a room asks; resolves to the run after it. */
async function approveAs(alice: Caller, roomId: string): Promise<Body> {
  return await eventually(async () => {
    const [approval] = ok(await alice.get(`${APPROVALS}?roomId=${roomId}&status=pending`)).items;
    if (approval !== undefined) ok(await alice.post(`${APPROVALS}/${approval.id}/decision`, { decision: "approve" }));
    const [last] = ok(await alice.get(`/v1/collaboration/ai/runs?roomId=${roomId}`)).items;
    assert.equal(last?.status, "succeeded");
    return ok(await alice.get(`/v1/collaboration/ai/runs/${last.id}`));
  });
}
