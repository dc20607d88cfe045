// Participation is a lease: it expires once without heartbeats, and counts are always right.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { createApp } from "@/app.ts";
import { readConfig } from "@/config/config.ts";
import { Harness, SECRET, TestClock } from "../../harness.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { until } from "../../wait.ts";
import { MeetingFixture, openMeetingFixture, PATH } from "./meeting_fixture.ts";
import { ok } from "../room/room_fixture.ts";

Deno.test("a participant expires 45 s after the last heartbeat, not before, and this is published once", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  const [stays, vanishes] = [await fixture.join(meeting, "member"), await fixture.join(meeting, "other")];
  assert.deepEqual([stays.leaseSeconds, stays.heartbeatSeconds], [45, 15]);
  await fixture.advance(15);
  for (const [name, seat] of [["member", stays], ["other", vanishes]] as const) {
    ok(await fixture.call(meeting, name, "heartbeat", seat.participantId));
  }
  for (const seconds of [15, 15]) {
    await fixture.advance(seconds);
    ok(await fixture.call(meeting, "member", "heartbeat", stays.participantId));
  }
  await fixture.advance(14.999);
  assert.equal((await fixture.read(meeting)).participantCount, 2);
  fixture.gateway.clock.advance(1);
  // By expiry alone, before any job has run.
  assert.equal((await fixture.read(meeting)).participantCount, 1);
  assert.equal((await fixture.call(meeting, "other", "heartbeat", vanishes.participantId)).status, 404);
  await fixture.gateway.runJobs();
  await fixture.gateway.runJobs();
  ok(await fixture.call(meeting, "member", "heartbeat", stays.participantId));
  assert.deepEqual((await fixture.summarizeEvents()).slice(1), [
    "participant_joined 1",
    "participant_joined 2",
    "participant_left 1 expired",
  ]);
  assert.equal((await fixture.call(meeting, "other", "leave", vanishes.participantId)).status, 404);
});

Deno.test("a short lease has a matching heartbeat interval, also in the capabilities", async () => {
  await using fixture = await openMeetingFixture({ SVC_LIMIT_MEETING_LEASE_SECONDS: "15" });
  const { leaseSeconds, heartbeatSeconds } = await fixture.join(await fixture.start(), "member");
  assert.deepEqual([leaseSeconds, heartbeatSeconds], [15, 5]);
  const { limits } = ok(await fixture.as("member").get("/v1/collaboration/capabilities")).modules.meeting;
  assert.deepEqual([limits.leaseSeconds, limits.heartbeatSeconds], [15, 5]);
});

Deno.test("heartbeats renew a participation indefinitely", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  const seat = await fixture.join(meeting, "member");
  for (let beat = 0; beat < 100; beat++) {
    await fixture.advance(30);
    ok(await fixture.call(meeting, "member", "heartbeat", seat.participantId));
  }
  assert.equal((await fixture.read(meeting)).participantCount, 1);
  assert.deepEqual((await fixture.summarizeEvents()).slice(1), ["participant_joined 1"]);
});

Deno.test("a participation that expired while the gateway was down is published once after the restart", async () => {
  await using folder = await createTemporaryFolder();
  const clock = new TestClock();
  const settings: Record<string, string> = {
    SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`,
    SVC_DATA_DIR: folder.path,
    SVC_JWT_SECRET: SECRET,
    SVC_RATE_LIMIT: "off",
  };
  const config = readConfig({ get: (name) => settings[name], readFile: Deno.readTextFileSync });
  const open = async () => new Harness(await createApp(config, { clock }), clock);
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
    const fixture = new MeetingFixture(gateway, roomId, new Map([["owner", await gateway.as("owner")]]));
    assert.deepEqual((await fixture.summarizeEvents()).slice(3), [
      "participant_left 1 expired",
      "participant_left 0 expired",
    ]);
  }
  clock.advance(30_000);
  await using gateway = await open();
  await gateway.runJobs();
  const fixture = new MeetingFixture(gateway, roomId, new Map([["owner", await gateway.as("owner")]]));
  assert.equal((await fixture.summarizeEvents()).at(-1), "ended 0 empty");
  assert.equal((await fixture.read({ id: meetingId })).state, "ended");
});

Deno.test("a meeting without participants ends after 300 s, one that all left after 30 s", async () => {
  await using fixture = await openMeetingFixture();
  const unjoined = await fixture.start();
  await fixture.advance(299);
  assert.equal((await fixture.read(unjoined)).state, "active");
  await fixture.advance(1);
  assert.equal((await fixture.read(unjoined)).endReason, "empty");
  const deserted = await fixture.start();
  const seat = await fixture.join(deserted, "member");
  ok(await fixture.call(deserted, "member", "leave", seat.participantId), 204);
  await fixture.advance(29);
  const back = await fixture.join(deserted, "member");
  for (let beat = 0; beat < 4; beat++) {
    await fixture.advance(15);
    ok(await fixture.call(deserted, "member", "heartbeat", back.participantId));
  }
  assert.equal((await fixture.read(deserted)).state, "active");
  ok(await fixture.call(deserted, "member", "leave", back.participantId), 204);
  await fixture.advance(30);
  assert.equal((await fixture.read(deserted)).state, "ended");
  assert.equal((await fixture.call(deserted, "member", "heartbeat", back.participantId)).status, 410);
  assert.equal((await fixture.tryJoin(deserted, "member")).status, 410);
});

Deno.test("a member removed from the room leaves its meeting at once, with the agents they own", async () => {
  await using fixture = await openMeetingFixture();
  const scribe = await fixture.gateway.as("scribe", { kind: "agent", owner: "other" });
  ok(await scribe.get("/v1/collaboration/me"));
  const meeting = await fixture.start({ agentIds: ["scribe"] });
  ok(await fixture.as("owner").put(`/v1/rooms/${fixture.roomId}/members/scribe`, { role: "member" }), 201);
  await fixture.join(meeting, "member");
  const seat = await fixture.join(meeting, "other");
  ok(await scribe.post(`${PATH}/${meeting.id}/join`));
  assert.equal((await fixture.read(meeting)).participantCount, 3);
  ok(await fixture.as("owner").delete(`/v1/rooms/${fixture.roomId}/members/other`), 204);
  assert.equal((await fixture.call(meeting, "other", "heartbeat", seat.participantId)).status, 404);
  await until(async () => (await fixture.read(meeting)).participantCount === 1, "both are out");
  assert.deepEqual((await fixture.summarizeEvents()).slice(-2), [
    "participant_left 2 no_access",
    "participant_left 1 no_access",
  ]);
});

Deno.test("a member who becomes observer or is disabled leaves the meeting; archiving the room ends it", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  for (const name of ["member", "other", "moderator"]) await fixture.join(meeting, name);
  ok(await fixture.as("owner").put(`/v1/rooms/${fixture.roomId}/members/other`, { role: "observer" }));
  await until(async () => (await fixture.read(meeting)).participantCount === 2, "the observer is out");
  const admin = await fixture.gateway.as("admin", { role: "admin" });
  ok(await admin.patch("/v1/collaboration/principals/moderator", { disabled: true }));
  await until(async () => (await fixture.read(meeting)).participantCount === 1, "the disabled one is out");
  ok(await fixture.as("owner").patch(`/v1/rooms/${fixture.roomId}`, { state: "archived" }));
  await until(async () => (await fixture.read(meeting)).state === "ended", "the meeting has ended");
  assert.equal((await fixture.summarizeEvents()).at(-1), "ended 0 room_closed");
});

Deno.test("concurrent joins fill exactly the free seats, and each is counted", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  const names = ["owner", "moderator", "member", "other"];
  const responses = await Promise.all(
    Array.from({ length: 12 }, (_, at) => fixture.tryJoin(meeting, names[at % 4] ?? "", { deviceId: `device-${at}` })),
  );
  assert.equal(responses.filter(({ status }) => status === 200).length, 8);
  assert.deepEqual([...new Set(responses.filter(({ status }) => status !== 200).map(({ body }) => body.code))], [
    "meeting_full",
  ]);
  assert.deepEqual(
    (await fixture.summarizeEvents()).slice(1),
    [1, 2, 3, 4, 5, 6, 7, 8].map((count) => `participant_joined ${count}`),
  );
  const twice = await Promise.all([1, 2, 3].map(() => fixture.tryJoin(meeting, "owner", { deviceId: "device-0" })));
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

Deno.test("counts are right and none leaves twice, in any order of joins, leaves, expiry and late calls", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await using fixture = await openMeetingFixture();
      const meeting = await fixture.start({}, "owner");
      // One participant remains so that the meeting does; it sends a heartbeat with each advance of time.
      const anchor = await fixture.join(meeting, "owner", { deviceId: "anchor" });
      const leases = new Map<string, number>([[anchor.participantId, Infinity]]);
      const seats = new Map<number, string>();
      const now = () => fixture.gateway.clock.now();
      const isLive = (id: string | undefined) => id !== undefined && (leases.get(id) ?? 0) > now();
      const liveCount = () => [...leases.values()].filter((end) => end > now()).length;
      for (const step of steps) {
        if (step.do === "pass") {
          for (let left = step.seconds; left > 0; left -= 20) {
            fixture.gateway.clock.advance(Math.min(left, 20) * 1000);
            ok(await fixture.call(meeting, "owner", "heartbeat", anchor.participantId));
          }
        } else if (step.do === "jobs") await fixture.gateway.runJobs();
        else {
          const name = NAMES[step.device % NAMES.length] ?? "owner";
          const seat = seats.get(step.device);
          if (step.do === "join") {
            const response = await fixture.tryJoin(meeting, name, { deviceId: `device-${step.device}` });
            if (response.status === 409) assert.ok(!isLive(seat) && liveCount() === 8);
            else {
              const joined = ok(response);
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
              ? (await fixture.as("owner").delete(`${PATH}/${meeting.id}/participants/${seat}`)).status
              : (await fixture.call(meeting, name, step.do, seat)).status;
            assert.equal(status, isLive(seat) ? step.do === "heartbeat" ? 200 : 204 : 404);
            if (step.do === "heartbeat" && isLive(seat)) leases.set(seat, now() + LEASE_MS);
            else if (isLive(seat)) leases.set(seat, 0);
          }
        }
        assert.equal((await fixture.read(meeting)).participantCount, liveCount());
      }
      await fixture.gateway.runJobs();
      // Replayed from the events: each change is by one, each participant joins and leaves once.
      const present = new Set<string>();
      const gone = new Set<string>();
      for (const { type, data } of await fixture.readEvents()) {
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
