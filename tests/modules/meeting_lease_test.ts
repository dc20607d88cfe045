// Taking part is a lease: who is silent goes when it ends, once, whatever else happens; and counts are always right.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { createApp } from "@/app.ts";
import { readConfig } from "@/config.ts";
import { Harness, SECRET, TestClock } from "../harness.ts";
import { until } from "../wait.ts";
import { MeetingWorld, openWorld, PATH } from "./meeting_world.ts";
import { ok } from "./room_world.ts";

Deno.test("a participant who vanishes is gone 45 s after the last heartbeat, not before, and told once", async () => {
  await using world = await openWorld();
  const meeting = await world.start();
  const [stays, vanishes] = [await world.join(meeting, "member"), await world.join(meeting, "other")];
  assert.deepEqual([stays.leaseSeconds, stays.heartbeatSeconds], [45, 15]);
  await world.pass(15);
  for (const [name, seat] of [["member", stays], ["other", vanishes]] as const) {
    ok(await world.call(meeting, name, "heartbeat", seat.participantId));
  }
  for (const seconds of [15, 15]) {
    await world.pass(seconds);
    ok(await world.call(meeting, "member", "heartbeat", stays.participantId));
  }
  await world.pass(14.999);
  assert.equal((await world.read(meeting)).participantCount, 2);
  world.gateway.clock.advance(1);
  // By time alone, before any job has run.
  assert.equal((await world.read(meeting)).participantCount, 1);
  assert.equal((await world.call(meeting, "other", "heartbeat", vanishes.participantId)).status, 404);
  await world.gateway.runJobs();
  await world.gateway.runJobs();
  ok(await world.call(meeting, "member", "heartbeat", stays.participantId));
  assert.deepEqual((await world.story()).slice(1), [
    "participant_joined 1",
    "participant_joined 2",
    "participant_left 1 expired",
  ]);
  assert.equal((await world.call(meeting, "other", "leave", vanishes.participantId)).status, 404);
});

Deno.test("a short lease has heartbeats to match, and the capabilities say so", async () => {
  await using world = await openWorld({ SVC_LIMIT_MEETING_LEASE_SECONDS: "15" });
  const { leaseSeconds, heartbeatSeconds } = await world.join(await world.start(), "member");
  assert.deepEqual([leaseSeconds, heartbeatSeconds], [15, 5]);
  const { limits } = ok(await world.as("member").get("/v1/collaboration/capabilities")).modules.meeting;
  assert.deepEqual([limits.leaseSeconds, limits.heartbeatSeconds], [15, 5]);
});

Deno.test("heartbeats keep a participant for as long as they come", async () => {
  await using world = await openWorld();
  const meeting = await world.start();
  const seat = await world.join(meeting, "member");
  for (let beat = 0; beat < 100; beat++) {
    await world.pass(30);
    ok(await world.call(meeting, "member", "heartbeat", seat.participantId));
  }
  assert.equal((await world.read(meeting)).participantCount, 1);
  assert.deepEqual((await world.story()).slice(1), ["participant_joined 1"]);
});

Deno.test("a participant who vanished while the gateway was down is told once after the restart", async () => {
  const folder = await Deno.makeTempDir({ prefix: "gateway-meeting-" });
  const clock = new TestClock();
  const settings: Record<string, string> = {
    SVC_DATABASE_URL: `sqlite:${folder}/gateway.db`,
    SVC_DATA_DIR: folder,
    SVC_JWT_SECRET: SECRET,
    SVC_RATE_LIMIT: "off",
  };
  const config = readConfig({ get: (name) => settings[name], readFile: Deno.readTextFileSync });
  const open = async () => new Harness(await createApp(config, { clock }), clock);
  try {
    let roomId = "";
    let meetingId = "";
    {
      await using gateway = await open();
      const owner = await gateway.as("owner");
      roomId = ok(await owner.post("/v1/rooms", { name: "Night shift" }), 201).id;
      meetingId = ok(await owner.post(PATH, { roomId }), 201).id;
      ok(await owner.post(`${PATH}/${meetingId}/join`, { deviceId: "laptop" }));
      ok(await owner.post(`${PATH}/${meetingId}/join`, { deviceId: "phone" }));
    }
    clock.advance(60_000);
    for (let start = 0; start < 2; start++) {
      await using gateway = await open();
      await gateway.runJobs();
      const world = new MeetingWorld(gateway, roomId, new Map([["owner", await gateway.as("owner")]]));
      assert.deepEqual((await world.story()).slice(3), ["participant_left 1 expired", "participant_left 0 expired"]);
    }
    clock.advance(30_000);
    await using gateway = await open();
    await gateway.runJobs();
    const world = new MeetingWorld(gateway, roomId, new Map([["owner", await gateway.as("owner")]]));
    assert.equal((await world.story()).at(-1), "ended 0 empty");
    assert.equal((await world.read({ id: meetingId })).state, "ended");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a meeting nobody joins closes after 300 s, one everybody left after 30 s", async () => {
  await using world = await openWorld();
  const unjoined = await world.start();
  await world.pass(299);
  assert.equal((await world.read(unjoined)).state, "active");
  await world.pass(1);
  assert.equal((await world.read(unjoined)).endReason, "empty");
  const deserted = await world.start();
  const seat = await world.join(deserted, "member");
  ok(await world.call(deserted, "member", "leave", seat.participantId), 204);
  await world.pass(29);
  const back = await world.join(deserted, "member");
  for (let beat = 0; beat < 4; beat++) {
    await world.pass(15);
    ok(await world.call(deserted, "member", "heartbeat", back.participantId));
  }
  assert.equal((await world.read(deserted)).state, "active");
  ok(await world.call(deserted, "member", "leave", back.participantId), 204);
  await world.pass(30);
  assert.equal((await world.read(deserted)).state, "ended");
  assert.equal((await world.call(deserted, "member", "heartbeat", back.participantId)).status, 410);
  assert.equal((await world.tryJoin(deserted, "member")).status, 410);
});

Deno.test("who is removed from the room is out of its meeting at once, with the agents they own", async () => {
  await using world = await openWorld();
  const meeting = await world.start({ agentIds: ["scribe"] });
  const scribe = await world.gateway.as("scribe", { kind: "agent", owner: "other" });
  ok(await scribe.get("/v1/collaboration/me"));
  ok(await world.as("owner").put(`/v1/rooms/${world.roomId}/members/scribe`, { role: "member" }), 201);
  await world.join(meeting, "member");
  const seat = await world.join(meeting, "other");
  ok(await scribe.post(`${PATH}/${meeting.id}/join`));
  assert.equal((await world.read(meeting)).participantCount, 3);
  ok(await world.as("owner").delete(`/v1/rooms/${world.roomId}/members/other`), 204);
  assert.equal((await world.call(meeting, "other", "heartbeat", seat.participantId)).status, 404);
  await until(async () => (await world.read(meeting)).participantCount === 1, "both are out");
  assert.deepEqual((await world.story()).slice(-2), ["participant_left 2 no_access", "participant_left 1 no_access"]);
});

Deno.test("a member turned observer, or disabled, is out; an archived room ends its meeting", async () => {
  await using world = await openWorld();
  const meeting = await world.start();
  for (const name of ["member", "other", "moderator"]) await world.join(meeting, name);
  ok(await world.as("owner").put(`/v1/rooms/${world.roomId}/members/other`, { role: "observer" }));
  await until(async () => (await world.read(meeting)).participantCount === 2, "the observer is out");
  const admin = await world.gateway.as("admin", { role: "admin" });
  ok(await admin.patch("/v1/collaboration/principals/moderator", { disabled: true }));
  await until(async () => (await world.read(meeting)).participantCount === 1, "the disabled one is out");
  ok(await world.as("owner").patch(`/v1/rooms/${world.roomId}`, { state: "archived" }));
  await until(async () => (await world.read(meeting)).state === "ended", "the meeting has ended");
  assert.equal((await world.story()).at(-1), "ended 0 room_closed");
});

Deno.test("joins at the same moment fill exactly the seats there are, and each is counted", async () => {
  await using world = await openWorld();
  const meeting = await world.start();
  const names = ["owner", "moderator", "member", "other"];
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, at) => world.tryJoin(meeting, names[at % 4] ?? "", { deviceId: `device-${at}` })),
  );
  assert.equal(answers.filter(({ status }) => status === 200).length, 8);
  assert.deepEqual([...new Set(answers.filter(({ status }) => status !== 200).map(({ body }) => body.code))], [
    "meeting_full",
  ]);
  assert.deepEqual(
    (await world.story()).slice(1),
    [1, 2, 3, 4, 5, 6, 7, 8].map((count) => `participant_joined ${count}`),
  );
  const twice = await Promise.all([1, 2, 3].map(() => world.tryJoin(meeting, "owner", { deviceId: "device-0" })));
  assert.equal(new Set(twice.map(({ body }) => body.participantId)).size, 1);
});

type Step =
  | { do: "join" | "heartbeat" | "leave" | "remove" | "rejoin"; device: number }
  | { do: "pass"; seconds: number }
  | { do: "jobs" };

const NAMES = ["owner", "moderator", "member", "other"];
const LEASE_MS = 45_000;
const device = fc.nat(7);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("join" as const), device }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("heartbeat" as const), device }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("leave" as const, "remove" as const), device }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), seconds: fc.integer({ min: 1, max: 50 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("jobs" as const) }) },
);

Deno.test("counts are right and nobody leaves twice, whatever order of joining, leaving, vanishing and late calls", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await using world = await openWorld();
      const meeting = await world.start({}, "owner");
      // One seat stays, so that the meeting does; its heartbeat goes with each passing of time.
      const anchor = await world.join(meeting, "owner", { deviceId: "anchor" });
      const leases = new Map<string, number>([[anchor.participantId, Infinity]]);
      const seats = new Map<number, string>();
      const now = () => world.gateway.clock.now();
      const isLive = (id: string | undefined) => id !== undefined && (leases.get(id) ?? 0) > now();
      const liveCount = () => [...leases.values()].filter((end) => end > now()).length;
      for (const step of steps) {
        if (step.do === "pass") {
          for (let left = step.seconds; left > 0; left -= 20) {
            world.gateway.clock.advance(Math.min(left, 20) * 1000);
            ok(await world.call(meeting, "owner", "heartbeat", anchor.participantId));
          }
        } else if (step.do === "jobs") await world.gateway.runJobs();
        else {
          const name = NAMES[step.device % NAMES.length] ?? "owner";
          const seat = seats.get(step.device);
          if (step.do === "join") {
            const answer = await world.tryJoin(meeting, name, { deviceId: `device-${step.device}` });
            if (answer.status === 409) assert.ok(!isLive(seat) && liveCount() === 8);
            else {
              const joined = ok(answer);
              if (isLive(seat)) assert.equal(joined.participantId, seat);
              else assert.notEqual(joined.participantId, seat);
              if (joined.participant.state === "joined") {
                seats.set(step.device, joined.participantId);
                leases.set(joined.participantId, now() + LEASE_MS);
                assert.ok(liveCount() <= 8);
                assert.equal(joined.meeting.participantCount, liveCount());
                assert.equal(joined.participants.length, liveCount());
              }
            }
          } else if (seat !== undefined) {
            const status = step.do === "remove"
              ? (await world.as("owner").delete(`${PATH}/${meeting.id}/participants/${seat}`)).status
              : (await world.call(meeting, name, step.do, seat)).status;
            assert.equal(status, isLive(seat) ? step.do === "heartbeat" ? 200 : 204 : 404);
            if (step.do === "heartbeat" && isLive(seat)) leases.set(seat, now() + LEASE_MS);
            else if (isLive(seat)) leases.set(seat, 0);
          }
        }
        assert.equal((await world.read(meeting)).participantCount, liveCount());
      }
      await world.gateway.runJobs();
      // Told again from the events alone: each change is by one, each participant comes and goes once.
      const present = new Set<string>();
      const gone = new Set<string>();
      for (const { type, data } of await world.events()) {
        const id = data.participant?.id;
        if (type === "meeting.participant_joined") {
          assert.ok(!present.has(id) && !gone.has(id));
          present.add(id);
        } else if (type === "meeting.participant_left") {
          assert.ok(present.delete(id));
          gone.add(id);
        }
        assert.equal(data.meeting.participantCount, present.size);
      }
      assert.equal(present.size, liveCount());
      for (const id of present) assert.ok(isLive(id));
    }),
    { numRuns: 25 },
  );
});
