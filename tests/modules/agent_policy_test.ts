// What a room's agentPolicy does: the switch that lets agents only read, the list of those that may do more, and who is told.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import type { Caller, Harness } from "../harness.ts";
import { ask, FakeSocket } from "../transport/ws_rig.ts";
import { ok, RoomWorld } from "./room_world.ts";
import { refused } from "./team.ts";

/** An agent of the owner, in the room as a moderator. */
async function robot(world: RoomWorld, name: string): Promise<Caller> {
  const agent = await world.gateway.as(name, { kind: "agent", owner: "owner" });
  ok(await agent.get("/v1/collaboration/me"));
  ok(await world.as("owner").put(`/v1/rooms/${world.roomId}/members/${name}`, { role: "moderator" }), 201);
  return agent;
}

async function connect(gateway: Harness, who: Caller) {
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  assert.ok((await ask(peer, 1, { connect: { token: who.token } })).connect);
  return peer;
}

async function offMutes(environment: Record<string, string>): Promise<void> {
  await using world = await RoomWorld.open({ environment });
  const { roomId, gateway } = world;
  const agent = await robot(world, "robo");
  const room = `/v1/rooms/${roomId}`;
  const { id } = ok(await agent.post("/v1/messages", { roomId, text: "beep" }), 201);
  const task = ok(await agent.post("/v1/collaboration/tasks", { roomId, title: "x" }), 201);
  ok(await world.as("owner").patch(room, { agentPolicy: { mode: "off" } }));
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
  ) refused(await attempt, 403, "agent_muted");
  const peer = await connect(gateway, agent);
  assert.ok((await ask(peer, 2, { subscribe: { channel: `room:${roomId}` } })).subscribe);
  const typing = { channel: `room:${roomId}`, data: { type: "typing", data: { isTyping: true } } };
  assert.ok((await ask(peer, 3, { publish: typing })).error);
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
  ok(await world.as("member").post("/v1/messages", { roomId, text: "quiet here" }), 201);
  ok(await agent.delete(`${room}/members/me`), 204);
}

const OFF = "mode off lets an agent read, leave and say what it has read, and nothing else; people go on";
onEngines(OFF, offMutes);

Deno.test("allowedAgentIds names the agents that may do more than read", async () => {
  await using world = await RoomWorld.open();
  const { roomId } = world;
  const [one, two] = [await robot(world, "one"), await robot(world, "two")];
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { allowedAgentIds: ["one"] } }));
  ok(await one.post("/v1/messages", { roomId, text: "beep" }), 201);
  refused(await two.post("/v1/messages", { roomId, text: "beep" }), 403, "agent_muted");
  ok(await two.get(`/v1/messages?roomId=${roomId}`));
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { allowedAgentIds: null } }));
  ok(await two.post("/v1/messages", { roomId, text: "beep" }), 201);
});

Deno.test("agents hear of agents only when mentioned, unless the room is of mode all", async () => {
  await using world = await RoomWorld.open();
  const { roomId, gateway } = world;
  const [one, two] = [await robot(world, "one"), await robot(world, "two")];
  const { id } = ok(await two.post("/v1/messages", { roomId, text: "start" }), 201);
  const told = async (): Promise<number> => {
    await gateway.runJobs();
    return ok(await two.get("/v1/collaboration/notifications")).items
      .filter((item: { kind: string }) => item.kind !== "invitation").length;
  };
  const reply = async (who: Caller, more = {}): Promise<number> => {
    ok(await who.post("/v1/messages", { roomId, text: "re", replyToId: id, ...more }), 201);
    return await told();
  };
  assert.equal(await reply(one), 0);
  assert.equal(await reply(world.as("member")), 1);
  assert.equal(await reply(one, { mentions: { principalIds: ["two"] } }), 2);
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "all" } }));
  assert.equal(await reply(one), 3);
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "off" } }));
  assert.equal(await reply(world.as("member"), { mentions: { principalIds: ["two"] } }), 3);
});

const TURNS = "agents wake each other as often as maxAgentTurns says, and again when a person wrote or time has passed";
onEngines(TURNS, async (environment) => {
  await using world = await RoomWorld.open({ environment });
  const { roomId, gateway } = world;
  const [one, two] = [await robot(world, "one"), await robot(world, "two")];
  const mentions = { principalIds: ["two"] };
  const told = async (who: Caller, times: number): Promise<number> => {
    for (let time = 0; time < times; time++) {
      ok(await who.post("/v1/messages", { roomId, text: "your turn", mentions }), 201);
      await gateway.runJobs();
    }
    return ok(await two.get("/v1/collaboration/notifications?kinds=mention&limit=200")).items.length;
  };
  assert.equal(await told(one, 5), 3);
  assert.equal(await told(world.as("member"), 1), 4);
  assert.equal(await told(one, 4), 7);
  gateway.clock.advance(4 * 60_000);
  assert.equal(await told(one, 1), 7);
  gateway.clock.advance(61_000);
  assert.equal(await told(one, 5), 10);
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "all", maxAgentTurns: 4 } }));
  assert.equal(await told(one, 3), 11);
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { maxAgentTurns: 0 } }));
  assert.equal(await told(world.as("member"), 1), 12);
  assert.equal(await told(one, 2), 12);
  // Of another agent, and in another room, it is another count.
  ok(await one.post("/v1/messages", { roomId, text: "beep" }), 201);
  ok(await world.as("owner").patch(`/v1/rooms/${roomId}`, { agentPolicy: { maxAgentTurns: 1 } }));
  ok(await two.post("/v1/messages", { roomId, text: "one?", mentions: { principalIds: ["one"] } }), 201);
  await gateway.runJobs();
  assert.equal(ok(await one.get("/v1/collaboration/notifications?kinds=mention")).items.length, 1);
});

Deno.test("a muted agent brings no room back either, whatever its role", async () => {
  await using world = await RoomWorld.open();
  const agent = await robot(world, "robo");
  const [owner, room] = [world.as("owner"), `/v1/rooms/${world.roomId}`];
  ok(await owner.put(`${room}/members/robo`, { role: "owner" }));
  ok(await owner.patch(room, { agentPolicy: { mode: "off" } }));
  ok(await owner.delete(room), 204);
  refused(await agent.post(`${room}/restore`), 403, "agent_muted");
  ok(await owner.post(`${room}/restore`));
});

const CALENDAR = "/v1/collaboration/calendar/events";
const TASKS = "/v1/collaboration/tasks";
const START = { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" };

/** What somebody was told of: kinds of notifications, and what came on their own line besides room and read state. */
async function toldTo(gateway: Harness, id: string): Promise<[kinds: string[], lines: string[]]> {
  const rows = await gateway.app.store.log.read("default", `principal:${id}`, 0, 1000);
  const lines = rows.map(({ type }) => type).filter((type) => type === "task.assigned" || type.endsWith(".reminder"));
  const kinds = rows.filter(({ type }) => type === "notification.created")
    .map(({ json }) => JSON.parse(json).data.notification.kind);
  return [kinds.sort(), lines.sort()];
}

for (const agentPolicy of [{ mode: "off" }, { allowedAgentIds: ["other"] }]) {
  const [rule] = Object.keys(agentPolicy);
  onEngines(
    `no message, task, event or reminder is brought to an agent that may only read by ${rule}`,
    async (environment) => {
      await using world = await RoomWorld.open({ environment: { ...environment, SVC_SEARCH: "off" } });
      const { roomId, gateway } = world;
      const [owner, member, room] = [world.as("owner"), world.as("member"), `/v1/rooms/${roomId}`];
      ok(await owner.patch(room, { agentPolicy }));
      await robot(world, "robo");
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
      assert.deepEqual(await toldTo(gateway, "robo"), [[], []]);
      const kinds = ["invitation", "invitation", "invitation", "mention", "reminder", "reminder"];
      const lines = ["calendar.event.reminder", "calendar.event.reminder", "task.assigned", "task.assigned"];
      assert.deepEqual(await toldTo(gateway, "observer"), [
        [...kinds, "task_assigned", "task_assigned", "task_due", "task_due"],
        lines,
      ]);

      // It is invited and assigned all the same, as it may read, and is told once the room lets it do more.
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
      assert.deepEqual(await toldTo(gateway, "robo"), [["invitation", "task_assigned"], ["task.assigned"]]);
    },
  );
}

onEngines("a room that mutes an agent from its beginning does not call it in either", async (environment) => {
  await using world = await RoomWorld.open({ environment });
  const { gateway } = world;
  await robot(world, "robo");
  const before = await toldTo(gateway, "robo");
  const owner = world.as("owner");
  const room = { name: "Quiet", memberIds: ["robo", "member"], agentPolicy: { mode: "off" } };
  const { id } = ok(await owner.post("/v1/rooms", room), 201);
  assert.deepEqual(await toldTo(gateway, "robo"), before);
  assert.deepEqual((await toldTo(gateway, "member"))[0], ["invitation", "invitation"]);
  assert.ok(ok(await owner.get(`/v1/rooms/${id}/members`)).items.length === 3);
  ok(await owner.post("/v1/rooms", { name: "Loud", memberIds: ["robo"] }), 201);
  assert.deepEqual((await toldTo(gateway, "robo"))[0], [...before[0], "invitation"]);
});
