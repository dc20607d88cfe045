// agentPolicy: read-only access, the list of allowed agents, and notifications.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller, Harness } from "../../harness.ts";
import { FakeSocket, sendCommand } from "../../transport/ws_harness.ts";
import { ok, RoomFixture } from "../room/room_fixture.ts";
import { assertProblem, createCaller } from "../fixtures.ts";

/** An agent of the owner, in the room as a moderator. */
async function addAgent(fixture: RoomFixture, name: string): Promise<Caller> {
  const agent = await createCaller(fixture.gateway, name, { kind: "agent", owner: "owner" });
  ok(await fixture.as("owner").put(`/v1/rooms/${fixture.roomId}/members/${name}`, { role: "moderator" }), 201);
  return agent;
}

async function connect(gateway: Harness, who: Caller) {
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  assert.ok((await sendCommand(peer, 1, { connect: { token: who.token } })).connect);
  return peer;
}

async function assertOffIsReadOnly(environment: Record<string, string>): Promise<void> {
  await using fixture = await RoomFixture.open({ environment });
  const { roomId, gateway } = fixture;
  const agent = await addAgent(fixture, "robo");
  const room = `/v1/rooms/${roomId}`;
  const { id } = ok(await agent.post("/v1/messages", { roomId, text: "beep" }), 201);
  const task = ok(await agent.post("/v1/collaboration/tasks", { roomId, title: "x" }), 201);
  ok(await fixture.as("owner").patch(room, { agentPolicy: { mode: "off" } }));
  const later = "2026-03-02T00:00:00.000Z";
  for (
    const attempt of [
      agent.post("/v1/messages", { roomId, text: "beep" }),
      agent.post("/v1/messages", { roomId, text: "beep", sendAt: later }),
      agent.patch(`/v1/messages/${id}`, { text: "boop" }),
      agent.delete(`/v1/messages/${id}`),
      agent.put(`/v1/messages/${id}/reactions/${encodeURIComponent("👍")}`),
      agent.put(`/v1/messages/${id}/pin`),
      agent.patch(room, { agentPolicy: { mode: "all" } }),
      agent.put(`${room}/members/outsider`),
      agent.delete(`${room}/members/observer`),
      agent.post("/v1/collaboration/tasks", { roomId, title: "y" }),
      agent.patch(`/v1/collaboration/tasks/${task.id}`, { title: "y" }),
      agent.post("/v1/collaboration/documents", { roomId, title: "y" }),
    ]
  ) assertProblem(await attempt, 403, "agent_muted");
  const peer = await connect(gateway, agent);
  assert.ok((await sendCommand(peer, 2, { subscribe: { channel: `room:${roomId}` } })).subscribe);
  const typing = { channel: `room:${roomId}`, data: { type: "typing", data: { typing: true } } };
  assert.ok((await sendCommand(peer, 3, { publish: typing })).error);
  const may = async (action: string): Promise<string> =>
    ok(
      await agent.post("/v1/collaboration/permissions/check", {
        checks: [{ action, resource: { type: "room", id: roomId } }],
      }),
    )
      .results[0].reason;
  assert.deepEqual([await may("message.send"), await may("message.list")], ["agent_muted", "allowed"]);
  ok(await agent.get(`/v1/messages?roomId=${roomId}`));
  ok(await agent.get(room));
  ok(await agent.put(`${room}/read`, { seq: 1 }));
  ok(await fixture.as("member").post("/v1/messages", { roomId, text: "quiet here" }), 201);
  ok(await agent.delete(`${room}/members/me`), 204);
}

const OFF = "mode off lets an agent read, leave and mark as read, and nothing else; people are not affected";
testOnEngines(OFF, assertOffIsReadOnly);

Deno.test("allowedAgentIds lists the agents with more than read-only access", async () => {
  await using fixture = await RoomFixture.open();
  const { roomId } = fixture;
  const [one, two] = [await addAgent(fixture, "one"), await addAgent(fixture, "two")];
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { allowedAgentIds: ["one"] } }));
  ok(await one.post("/v1/messages", { roomId, text: "beep" }), 201);
  assertProblem(await two.post("/v1/messages", { roomId, text: "beep" }), 403, "agent_muted");
  ok(await two.get(`/v1/messages?roomId=${roomId}`));
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { allowedAgentIds: null } }));
  ok(await two.post("/v1/messages", { roomId, text: "beep" }), 201);
});

Deno.test("messages of agents notify agents only by mentions, unless the mode is all", async () => {
  await using fixture = await RoomFixture.open();
  const { roomId, gateway } = fixture;
  const [one, two] = [await addAgent(fixture, "one"), await addAgent(fixture, "two")];
  const { id } = ok(await two.post("/v1/messages", { roomId, text: "start" }), 201);
  const countNotices = async (): Promise<number> => {
    await gateway.runJobs();
    return ok(await two.get("/v1/collaboration/notifications")).items
      .filter((item: { kind: string }) => item.kind !== "invitation").length;
  };
  const reply = async (who: Caller, more = {}): Promise<number> => {
    ok(await who.post("/v1/messages", { roomId, text: "re", replyToId: id, ...more }), 201);
    return await countNotices();
  };
  assert.equal(await reply(one), 0);
  assert.equal(await reply(fixture.as("member")), 1);
  assert.equal(await reply(one, { mentions: { principalIds: ["two"] } }), 2);
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "all" } }));
  assert.equal(await reply(one), 3);
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "off" } }));
  assert.equal(await reply(fixture.as("member"), { mentions: { principalIds: ["two"] } }), 3);
  const named = { roomId, text: "@two, are you there?", parseMentions: true };
  const { mentions } = ok(await fixture.as("member").post("/v1/messages", named), 201);
  const ignored = [{ name: "two", reason: "agent_muted" }];
  assert.deepEqual(mentions, { principalIds: [], room: false, ignored }, "who names it learns that");
  assert.equal(await countNotices(), 3);
});

const TURNS = "agents notify each other up to maxAgentTurns times, and again after a message of a person or some time";
testOnEngines(TURNS, async (environment) => {
  await using fixture = await RoomFixture.open({ environment });
  const { roomId, gateway } = fixture;
  const [one, two] = [await addAgent(fixture, "one"), await addAgent(fixture, "two")];
  const mentions = { principalIds: ["two"] };
  const countNotices = async (who: Caller, times: number): Promise<number> => {
    for (let time = 0; time < times; time++) {
      ok(await who.post("/v1/messages", { roomId, text: "your turn", mentions }), 201);
      await gateway.runJobs();
    }
    return ok(await two.get("/v1/collaboration/notifications?kind=mention&limit=200")).items.length;
  };
  assert.equal(await countNotices(one, 5), 3);
  assert.equal(await countNotices(fixture.as("member"), 1), 4);
  assert.equal(await countNotices(one, 4), 7);
  gateway.clock.advance(4 * 60_000);
  assert.equal(await countNotices(one, 1), 7);
  gateway.clock.advance(61_000);
  assert.equal(await countNotices(one, 5), 10);
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "all", maxAgentTurns: 4 } }));
  assert.equal(await countNotices(one, 3), 11);
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { maxAgentTurns: 0 } }));
  assert.equal(await countNotices(fixture.as("member"), 1), 12);
  assert.equal(await countNotices(one, 2), 12);
  // Of another agent, and in another room, it is another count.
  ok(await one.post("/v1/messages", { roomId, text: "beep" }), 201);
  ok(await fixture.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { maxAgentTurns: 1 } }));
  ok(await two.post("/v1/messages", { roomId, text: "one?", mentions: { principalIds: ["one"] } }), 201);
  await gateway.runJobs();
  assert.equal(ok(await one.get("/v1/collaboration/notifications?kind=mention")).items.length, 1);
});

Deno.test("a muted agent cannot restore a room, whatever its role", async () => {
  await using fixture = await RoomFixture.open();
  const agent = await addAgent(fixture, "robo");
  const [owner, room] = [fixture.as("owner"), `/v1/rooms/${fixture.roomId}`];
  ok(await owner.put(`${room}/members/robo`, { role: "owner" }));
  ok(await owner.patch(room, { agentPolicy: { mode: "off" } }));
  ok(await owner.delete(room), 204);
  assertProblem(await agent.post(`${room}/restore`), 403, "agent_muted");
  ok(await owner.post(`${room}/restore`));
});

const CALENDAR = "/v1/collaboration/calendar/events";
const TASKS = "/v1/collaboration/tasks";
const START = { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" };

/** Kinds of notifications of a principal, and events on its own stream except those of rooms and read state. */
async function readNotices(gateway: Harness, id: string): Promise<[kinds: string[], lines: string[]]> {
  const rows = await gateway.app.store.log.read("default", `principal:${id}`, 0, 1000);
  const lines = rows.map(({ type }) => type).filter((type) => type === "task.assigned" || type.endsWith(".reminder"));
  const kinds = rows.filter(({ type }) => type === "notification.created")
    .map(({ json }) => JSON.parse(json).data.notification.kind);
  return [kinds.sort(), lines.sort()];
}

for (const agentPolicy of [{ mode: "off" }, { allowedAgentIds: ["outsider"] }]) {
  const [rule] = Object.keys(agentPolicy);
  testOnEngines(
    `no message, task, event or reminder is brought to an agent that may only read by ${rule}`,
    async (environment) => {
      await using fixture = await RoomFixture.open({ environment: { ...environment, SVC_SEARCH: "off" } });
      const { roomId, gateway } = fixture;
      const [owner, member, room] = [fixture.as("owner"), fixture.as("member"), `/v1/rooms/${roomId}`];
      ok(await owner.patch(room, { agentPolicy }));
      await addAgent(fixture, "robo");
      // An agent knows of a private event what its owner does.
      const attendees = ["robo", "observer", "owner"].map((principalId) => ({ principalId }));
      const event = { roomId, title: "Review", start: START, durationMinutes: 30, reminders: [{ minutesBefore: 10 }] };
      ok(await member.post(CALENDAR, { ...event, attendees }), 201);
      const { id } = ok(await member.post(CALENDAR, { ...event, visibility: "private" }), 201);
      ok(await member.patch(`${CALENDAR}/${id}`, { attendees }));
      const task = { roomId, title: "x", dueAt: "2026-03-02T09:00:00.000Z" };
      ok(await member.post(TASKS, { ...task, assigneeIds: ["robo", "observer"] }), 201);
      const { key } = ok(await member.post(TASKS, task), 201);
      ok(await member.patch(`${TASKS}/${key}`, { assigneeIds: ["observer", "robo"] }));
      const mentions = { principalIds: ["robo", "observer"] };
      ok(await member.post("/v1/messages", { roomId, text: "look", mentions }), 201);
      gateway.clock.advance(Date.parse("2026-03-02T08:55:00.000Z") - gateway.clock.now());
      await gateway.runJobs();
      assert.deepEqual(await readNotices(gateway, "robo"), [[], []]);
      const kinds = ["invitation", "invitation", "invitation", "mention", "reminder", "reminder"];
      const lines = ["calendar.event.reminder", "calendar.event.reminder", "task.assigned", "task.assigned"];
      assert.deepEqual(await readNotices(gateway, "observer"), [
        [...kinds, "task_assigned", "task_assigned", "task_due", "task_due"],
        lines,
      ]);

      // It is invited and assigned anyway, since it may read; it is notified once the policy allows more.
      const agent = await gateway.as("robo", { kind: "agent", owner: "owner" });
      assert.equal(ok(await agent.get(`${TASKS}?assigneeId=me`)).items.length, 2);
      assert.equal(ok(await agent.get(`${CALENDAR}/${id}`)).myStatus, "needs_action");
      const people = { owner: await gateway.as("owner"), member: await gateway.as("member") };
      ok(await people.owner.patch(room, { agentPolicy: { mode: "mention", allowedAgentIds: null } }));
      ok(await people.member.post(TASKS, { roomId, title: "y", assigneeIds: ["robo"] }), 201);
      ok(
        await people.member.post(CALENDAR, {
          ...event,
          start: { ...START, dateTime: "2026-03-03T09:00:00" },
          attendees,
        }),
        201,
      );
      assert.deepEqual(await readNotices(gateway, "robo"), [["invitation", "task_assigned"], ["task.assigned"]]);
    },
  );
}

testOnEngines("a room created with a muted agent does not invite it", async (environment) => {
  await using fixture = await RoomFixture.open({ environment });
  const { gateway } = fixture;
  await addAgent(fixture, "robo");
  const before = await readNotices(gateway, "robo");
  const owner = fixture.as("owner");
  const room = { name: "Quiet", memberIds: ["robo", "member"], agentPolicy: { mode: "off" } };
  const { id } = ok(await owner.post("/v1/rooms", room), 201);
  assert.deepEqual(await readNotices(gateway, "robo"), before);
  assert.deepEqual((await readNotices(gateway, "member"))[0], ["invitation", "invitation"]);
  assert.ok(ok(await owner.get(`/v1/rooms/${id}/members`)).items.length === 3);
  ok(await owner.post("/v1/rooms", { name: "Loud", memberIds: ["robo"] }), 201);
  assert.deepEqual((await readNotices(gateway, "robo"))[0], [...before[0], "invitation"]);
});
