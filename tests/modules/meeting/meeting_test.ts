// Meetings through the API: start, ringing, schedule, lock, moderation, end, and the rights to each.
import assert from "node:assert/strict";
import type { ApiResponse } from "../../harness.ts";
import { type MeetingFixture, openMeetingFixture, PATH } from "./meeting_fixture.ts";
import { ok } from "../room/room_fixture.ts";

async function startDirectMeeting(fixture: MeetingFixture): Promise<ApiResponse["body"]> {
  const room = { name: "Alice and Bob", kind: "direct", memberIds: ["other"] };
  return ok(await fixture.as("member").post("/v1/rooms", room), 201);
}

/** Types and data of meeting events on a principal's own stream. */
async function readEventsOf(fixture: MeetingFixture, name: string): Promise<ApiResponse["body"][]> {
  const events = await fixture.gateway.app.store.log.read("default", `principal:${name}`, 0, 100);
  return events.filter(({ type }) => type.startsWith("meeting.")).map(({ json }) => JSON.parse(json));
}

Deno.test("meeting.start refuses a second meeting of the room with 409, until the first has ended", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ title: "Standup" });
  assert.deepEqual([meeting.state, meeting.hostId, meeting.maxParticipants], ["active", "member", 8]);
  const second = await fixture.as("other").post(PATH, { roomId: fixture.roomId });
  assert.deepEqual([second.status, second.body.code], [409, "meeting_active"]);
  ok(await fixture.call(meeting, "member", "end"));
  assert.equal((await fixture.start()).state, "active");
});

Deno.test("of concurrent starts of meetings in a room one succeeds", async () => {
  await using fixture = await openMeetingFixture();
  const responses = await Promise.all(
    ["owner", "moderator", "member", "other"].map((name) => fixture.as(name).post(PATH, { roomId: fixture.roomId })),
  );
  assert.deepEqual(responses.map(({ status }) => status).sort(), [201, 409, 409, 409]);
});

Deno.test("a call in a direct room rings for 90 seconds or until it is answered", async () => {
  await using fixture = await openMeetingFixture();
  const room = await startDirectMeeting(fixture);
  const meeting = ok(await fixture.as("member").post(PATH, { roomId: room.id, kind: "audio" }), 201);
  assert.deepEqual([meeting.state, meeting.ringExpiresAt], ["ringing", "2026-03-01T12:01:30.000Z"]);
  await fixture.join(meeting, "member");
  assert.equal((await fixture.read(meeting, "member")).state, "ringing");
  const [rung] = await readEventsOf(fixture, "other");
  assert.deepEqual([rung.type, rung.data.ring], [
    "meeting.started",
    { callerId: "member", expiresAt: "2026-03-01T12:01:30.000Z" },
  ]);
  const { meeting: answered } = await fixture.join(meeting, "other");
  assert.deepEqual([answered.state, answered.participantCount, answered.ringExpiresAt], ["active", 2, null]);
  assert.deepEqual((await readEventsOf(fixture, "other")).map(({ type }) => type), [
    "meeting.started",
    "meeting.participant_joined",
  ]);
  assert.deepEqual(await readEventsOf(fixture, "member"), []);
});

Deno.test("an unanswered call ends after 90 seconds with a notification of the missed call", async () => {
  await using fixture = await openMeetingFixture();
  const room = await startDirectMeeting(fixture);
  const meeting = ok(await fixture.as("member").post(PATH, { roomId: room.id }), 201);
  const seat = await fixture.join(meeting, "member");
  for (const seconds of [40, 40]) {
    await fixture.advance(seconds);
    ok(await fixture.call(meeting, "member", "heartbeat", seat.participantId));
  }
  await fixture.advance(9);
  assert.equal((await fixture.read(meeting, "member")).state, "ringing");
  await fixture.advance(1);
  const ended = await fixture.read(meeting, "member");
  assert.deepEqual([ended.state, ended.endReason, ended.participantCount], ["ended", "unanswered", 0]);
  assert.deepEqual((await readEventsOf(fixture, "other")).map(({ type }) => type), [
    "meeting.started",
    "meeting.ended",
  ]);
  const { body } = await fixture.as("other").get("/v1/collaboration/notifications?kind=missed_call");
  assert.deepEqual(
    body.items.map((item: { kind: string; resource: { id: string } }) => [item.kind, item.resource.id]),
    [
      ["missed_call", meeting.id],
    ],
  );
});

Deno.test("a principal who leaves a direct room while it rings gets no further events of the call", async () => {
  await using fixture = await openMeetingFixture();
  const [caller, leaver] = [fixture.as("member"), fixture.as("moderator")];
  const { id: roomId } = ok(await caller.post("/v1/rooms", { kind: "direct", memberIds: ["other", "moderator"] }), 201);
  const start = async () => ok(await caller.post(PATH, { roomId }), 201);
  const first = await start();
  ok(await leaver.delete(`/v1/rooms/${roomId}/members/me`), 204);
  ok(await caller.patch(`${PATH}/${first.id}`, { title: "About who left" }));
  await fixture.advance(91);
  const tell = async (name: string) => (await readEventsOf(fixture, name)).map(({ type }) => type);
  assert.deepEqual(await tell("other"), ["meeting.started", "meeting.ended"]);
  assert.deepEqual(await tell("moderator"), ["meeting.started"]);
  assert.deepEqual(ok(await leaver.get("/v1/collaboration/notifications?kind=missed_call")).items, []);
});

Deno.test("the callee declines by ending; an answered call is ended by a host", async () => {
  await using fixture = await openMeetingFixture();
  const room = await startDirectMeeting(fixture);
  const first = ok(await fixture.as("member").post(PATH, { roomId: room.id }), 201);
  assert.equal(ok(await fixture.call(first, "other", "end")).endReason, "declined");
  const second = ok(await fixture.as("member").post(PATH, { roomId: room.id }), 201);
  await fixture.join(second, "other");
  assert.equal((await fixture.call(second, "other", "end")).status, 403);
  assert.equal(ok(await fixture.call(second, "member", "end")).endReason, "ended");
});

Deno.test("a scheduled meeting opens 15 minutes early with the first to join, and remains open if left before its time", async () => {
  await using fixture = await openMeetingFixture();
  const scheduledFor = "2026-03-01T12:30:00.000Z";
  const meeting = await fixture.start({ scheduledFor });
  assert.deepEqual([meeting.state, meeting.scheduledFor], ["scheduled", scheduledFor]);
  assert.equal((await fixture.start({ scheduledFor }, "other")).state, "scheduled");
  assert.equal((await fixture.tryJoin(meeting, "member")).status, 409);
  await fixture.advance(15 * 60);
  const seat = await fixture.join(meeting, "other");
  assert.equal(seat.meeting.state, "active");
  ok(await fixture.call(meeting, "other", "leave", seat.participantId), 204);
  await fixture.advance(15 * 60 + 299);
  assert.equal((await fixture.read(meeting)).state, "active");
  await fixture.advance(1);
  assert.equal((await fixture.read(meeting)).state, "ended");
  const past = { roomId: fixture.roomId, scheduledFor: "2026-03-01T12:00:00.000Z" };
  assert.equal((await fixture.as("member").post(PATH, past)).status, 422);
});

Deno.test("a scheduled meeting that nobody joins ends a day later", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ scheduledFor: "2026-03-01T12:30:00.000Z" });
  await fixture.advance(1800 + 86_400);
  const owner = await fixture.gateway.as("owner");
  assert.equal((await owner.get(`${PATH}/${meeting.id}`)).body.endReason, "missed");
});

Deno.test("a meeting scheduled for the last supported time causes no work until then", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ scheduledFor: "9999-12-31T23:59:59.999Z" });
  const jobs = await fixture.gateway.app.store.db.selectFrom("job").select("run_at").where(
    "kind",
    "=",
    "meeting.upkeep",
  )
    .execute();
  assert.deepEqual(jobs.map(({ run_at }) => run_at), ["9999-12-31T23:59:59.999Z"]);
  assert.equal((await fixture.read(meeting)).state, "scheduled");
});

Deno.test("an event of the calendar schedules its meeting in the same transaction", async () => {
  await using fixture = await openMeetingFixture();
  const event = ok(
    await fixture.as("member").post("/v1/collaboration/calendar/events", {
      roomId: fixture.roomId,
      title: "Planning",
      start: { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" },
      durationMinutes: 60,
      meeting: { create: true },
    }),
    201,
  );
  const meeting = await fixture.read({ id: event.meetingId });
  assert.deepEqual([meeting.title, meeting.scheduledFor, meeting.state], [
    "Planning",
    "2026-03-02T08:00:00.000Z",
    "scheduled",
  ]);
});

Deno.test("a full meeting returns 409 meeting_full, also on admission; the same device can join again", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ maxParticipants: 2, lobby: true });
  const host = await fixture.join(meeting, "member");
  const [first, second] = [
    await fixture.join(meeting, "other"),
    await fixture.join(meeting, "other", { deviceId: "phone" }),
  ];
  const admit = (seat: { participantId: string }) =>
    fixture.as("member").patch(`${PATH}/${meeting.id}/participants/${seat.participantId}`, { admitted: true });
  ok(await admit(first));
  for (const response of [await admit(second), await fixture.tryJoin(meeting, "moderator")]) {
    assert.deepEqual([response.status, response.body.code], [409, "meeting_full"]);
  }
  assert.equal((await fixture.join(meeting, "member")).participantId, host.participantId);
  assert.equal((await fixture.tryJoin(meeting, "owner")).status, 409);
  const tooMany = await fixture.as("member").post(PATH, { roomId: fixture.roomId, maxParticipants: 9 });
  assert.equal(tooMany.status, 422);
});

Deno.test("participants in the lobby have no media until admitted; a locked meeting cannot be joined", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ lobby: true });
  await fixture.join(meeting, "member");
  const waiting = await fixture.join(meeting, "other");
  assert.deepEqual([waiting.participant.state, waiting.media.mode, waiting.participants], ["waiting", "none", []]);
  assert.deepEqual([waiting.meeting.participantCount, waiting.meeting.waitingCount], [1, 1]);
  const seatPath = `${PATH}/${meeting.id}/participants/${waiting.participantId}`;
  assert.equal((await fixture.as("other").patch(seatPath, { admitted: true })).status, 403);
  assert.equal(ok(await fixture.as("moderator").patch(seatPath, { admitted: true })).state, "joined");
  const joined = await fixture.join(meeting, "other");
  assert.deepEqual([joined.participantId, joined.media.mode, joined.participants.length], [
    waiting.participantId,
    "relay",
    2,
  ]);
  ok(await fixture.as("member").patch(`${PATH}/${meeting.id}`, { locked: true, lobby: false }));
  assert.equal((await fixture.tryJoin(meeting, "other", { deviceId: "phone" })).status, 403);
  await fixture.join(meeting, "other");
  assert.equal((await fixture.join(meeting, "moderator")).participant.role, "moderator");
});

Deno.test("a removed participant can return only through the lobby", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  await fixture.join(meeting, "member");
  const seat = await fixture.join(meeting, "other");
  const path = (id: string) => `${PATH}/${meeting.id}/participants/${id}`;
  ok(await fixture.as("member").delete(path(seat.participantId)), 204);
  assert.equal((await fixture.call(meeting, "other", "heartbeat", seat.participantId)).status, 404);
  const back = await fixture.join(meeting, "other");
  assert.equal(back.participant.state, "waiting");
  ok(await fixture.as("member").delete(path(back.participantId)), 204);
  assert.deepEqual((await fixture.summarizeEvents()).slice(1), [
    "participant_joined 1",
    "participant_joined 2",
    "participant_left 1 removed",
    "updated 1",
    "updated 1",
  ]);
});

Deno.test("rights: who may change, mute, remove, promote, record and end", async (t) => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ maxParticipants: 8 });
  const seats = new Map<string, string>();
  for (const name of ["owner", "moderator", "member", "other"]) {
    seats.set(name, (await fixture.join(meeting, name)).participantId);
  }
  const of = (name: string) => `${PATH}/${meeting.id}/participants/${seats.get(name)}`;
  const patch = async (name: string, path: string, body: unknown) => (await fixture.as(name).patch(path, body)).status;
  const consent = { consentText: "May we record?" };
  const matrix: [string, (name: string) => Promise<number>, Record<string, number>][] = [
    ["read", async (name) => (await fixture.as(name).get(`${PATH}/${meeting.id}`)).status, {
      member: 200,
      moderator: 200,
      owner: 200,
      other: 200,
      observer: 200,
      outsider: 404,
    }],
    ["participants", async (name) => (await fixture.as(name).get(`${PATH}/${meeting.id}/participants`)).status, {
      observer: 200,
      outsider: 404,
    }],
    ["join", async (name) => (await fixture.tryJoin(meeting, name)).status, { observer: 403, outsider: 404 }],
    ["rename", (name) => patch(name, `${PATH}/${meeting.id}`, { title: name }), {
      member: 200,
      moderator: 200,
      owner: 200,
      other: 403,
      observer: 403,
      outsider: 404,
    }],
    ["mute a participant", (name) => patch(name, of("other"), { muted: true }), {
      member: 200,
      moderator: 200,
      owner: 200,
      other: 200,
      observer: 403,
      outsider: 404,
    }],
    ["mute the host", (name) => patch(name, of("member"), { muted: true }), { moderator: 403, other: 403, owner: 200 }],
    ["unmute somebody else", (name) => patch(name, of("other"), { muted: false }), {
      member: 403,
      owner: 403,
      other: 200,
    }],
    ["take the moderator's role", (name) => patch(name, of(name), { role: "moderator" }), { other: 403 }],
    ["keep a role", (name) => patch(name, of("other"), { role: "participant" }), { member: 200, other: 200 }],
    ["become host", (name) => patch(name, of(name), { role: "host" }), { other: 403, moderator: 403 }],
    ["record", async (name) => (await fixture.as(name).post(`${PATH}/${meeting.id}/recording`, consent)).status, {
      other: 403,
      member: 409,
      observer: 403,
      outsider: 404,
    }],
    ["leave for another", async (name) => (await fixture.call(meeting, name, "leave", seats.get("other"))).status, {
      member: 404,
      owner: 404,
      outsider: 404,
    }],
    ["beat for another", async (name) => (await fixture.call(meeting, name, "heartbeat", seats.get("other"))).status, {
      member: 404,
      owner: 404,
      outsider: 404,
    }],
    ["remove the host", async (name) => (await fixture.as(name).delete(of("member"))).status, {
      other: 403,
      moderator: 403,
    }],
    ["end", async (name) => (await fixture.call(meeting, name, "end")).status, {
      other: 403,
      observer: 403,
      outsider: 404,
    }],
  ];
  for (const [what, act, expected] of matrix) {
    await t.step(what, async () => {
      for (const [name, status] of Object.entries(expected)) {
        assert.equal(await act(name), status, `${what} as ${name}`);
      }
    });
  }
  ok(await fixture.as("member").patch(of("other"), { role: "moderator" }));
  assert.equal(await patch("other", `${PATH}/${meeting.id}`, { title: "By a moderator" }), 200);
  ok(await fixture.as("member").patch(of("other"), { role: "host" }));
  const handed = await fixture.read(meeting);
  assert.equal(handed.hostId, "other");
  assert.deepEqual(
    ok(await fixture.as("owner").get(`${PATH}/${meeting.id}/participants`)).items
      .map(({ principalId, role }: { principalId: string; role: string }) => `${principalId} ${role}`).sort(),
    ["member moderator", "moderator moderator", "other host", "owner moderator"],
  );
  assert.equal(ok(await fixture.call(meeting, "other", "end")).state, "ended");
  assert.equal(await patch("other", `${PATH}/${meeting.id}`, { title: "Late" }), 410);
});

Deno.test("an agent participates if the meeting names it, and moderates only if given the role", async () => {
  await using fixture = await openMeetingFixture();
  const bot = await fixture.gateway.as("bot", { kind: "agent", owner: "owner" });
  ok(await bot.get("/v1/collaboration/me"));
  ok(await fixture.as("owner").put(`/v1/rooms/${fixture.roomId}/members/bot`, { role: "moderator" }), 201);
  assert.equal((await bot.post(PATH, { roomId: fixture.roomId })).status, 403);
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}`;
  assert.equal((await bot.post(`${path}/join`)).status, 403);
  ok(await fixture.as("member").patch(path, { agentIds: ["bot"] }));
  const seat = ok(await bot.post(`${path}/join`));
  assert.deepEqual([seat.participant.role, seat.participant.kind], ["participant", "agent"]);
  assert.equal((await bot.patch(path, { locked: true })).status, 403);
  ok(await fixture.as("member").patch(`${path}/participants/${seat.participantId}`, { role: "moderator" }));
  ok(await bot.patch(path, { locked: true }));
  assert.equal((await bot.patch(path, { agentIds: ["bot", "friend"] })).status, 403);
  assert.equal(
    (await fixture.as("owner").patch(`${path}/participants/${seat.participantId}`, { role: "host" })).status,
    409,
  );
  ok(await fixture.as("member").patch(path, { agentIds: [] }));
  assert.equal((await bot.post(`${path}/heartbeat`, { participantId: seat.participantId })).status, 404);
  ok(await fixture.as("member").patch(path, { agentIds: ["bot"] }));
  ok(await fixture.as("owner").patch(`/v1/rooms/${fixture.roomId}`, { agentPolicy: { mode: "off" } }));
  assert.equal((await bot.post(`${path}/join`)).body.code, "agent_muted");
});

Deno.test("meeting.list returns the meetings of the caller's rooms, filters by state and pages without a gap", async () => {
  await using fixture = await openMeetingFixture();
  const ids: string[] = [];
  for (let round = 0; round < 5; round++) {
    const meeting = await fixture.start();
    ids.unshift(meeting.id);
    if (round < 4) ok(await fixture.call(meeting, "member", "end"));
  }
  await fixture.join({ id: ids[0] ?? "" }, "other");
  const seen: string[] = [];
  let cursor = "";
  do {
    const { body } = await fixture.as("other").get(`${PATH}?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
    seen.push(...body.items.map(({ id }: { id: string }) => id));
    cursor = body.nextCursor ?? "";
  } while (cursor !== "");
  assert.deepEqual(seen, ids);
  const active = ok(await fixture.as("observer").get(`${PATH}?roomId=${fixture.roomId}&state=active`));
  assert.deepEqual(active.items.map((item: { participantCount: number }) => item.participantCount), [1]);
  assert.deepEqual(ok(await fixture.as("outsider").get(PATH)).items, []);
  assert.equal((await fixture.as("outsider").get(`${PATH}?roomId=${fixture.roomId}`)).status, 404);
  const stranger = await fixture.gateway.as("member", { tenant: "elsewhere" });
  assert.equal((await stranger.get(`${PATH}/${ids[0]}`)).status, 404);
});

Deno.test("meeting.update checks the version it is based on", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}`;
  const [one, two] = [
    await fixture.as("member").patch(path, { title: "One" }, { "if-match": `"${meeting.version}"` }),
    await fixture.as("member").patch(path, { title: "Two" }, { "if-match": `"${meeting.version}"` }),
  ];
  assert.deepEqual([one.status, two.status, two.body.code], [200, 412, "version_mismatch"]);
});

Deno.test("a transcript has segments in order; participants add their own only", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  for (const name of ["member", "other"]) await fixture.join(meeting, name);
  const path = `${PATH}/${meeting.id}/transcript`;
  const say = (speakerId: string, startMs: number, text = "yes") => ({
    speakerId,
    startMs,
    endMs: startMs + 500,
    text,
  });
  ok(await fixture.as("other").post(path, { segments: [say("other", 4000)] }), 201);
  assert.equal((await fixture.as("other").post(path, { segments: [say("member", 0)] })).status, 403);
  ok(
    await fixture.as("member").post(path, { segments: [say("member", 9000), say("other", 1000), say("member", 0)] }),
    201,
  );
  assert.equal((await fixture.as("member").post(path, { segments: [say("observer", 0)] })).status, 422);
  assert.equal((await fixture.as("member").post(path, { segments: [{ ...say("member", 5), endMs: 1 }] })).status, 422);
  const many = Array.from({ length: 100 }, (_, at) => say("member", 20_000 + at, "x".repeat(3000)));
  assert.equal((await fixture.as("member").post(path, { segments: many })).status, 413);
  ok(await fixture.call(meeting, "member", "end"));
  ok(await fixture.as("member").post(path, { segments: [say("member", 12_000)] }), 201);
  const first = ok(await fixture.as("observer").get(`${path}?limit=3`));
  const second = ok(await fixture.as("observer").get(`${path}?limit=3&cursor=${first.nextCursor}`));
  assert.deepEqual(
    [...first.items, ...second.items].map((item: { startMs: number }) => item.startMs),
    [0, 1000, 4000, 9000, 12_000],
  );
  assert.equal((await fixture.as("outsider").get(path)).status, 404);
});

Deno.test("purging a room removes its meetings", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  await fixture.join(meeting, "member");
  const owner = await fixture.gateway.as("owner", { role: "admin" });
  ok(await owner.delete(`/v1/rooms/${fixture.roomId}?purge=true`), 204);
  await fixture.advance(1);
  for (const table of ["meeting", "meeting_participant"]) {
    const rows = await fixture.gateway.app.store.db.selectFrom(table as never).selectAll().execute();
    assert.deepEqual(rows, [], table);
  }
});

Deno.test("a scheduled meeting in a direct room does not ring, and does not end because one joined early", async () => {
  await using fixture = await openMeetingFixture();
  const room = await startDirectMeeting(fixture);
  const scheduledFor = "2026-03-01T12:10:00.000Z";
  const meeting = ok(await fixture.as("member").post(PATH, { roomId: room.id, scheduledFor }), 201);
  const early = await fixture.join(meeting, "member");
  assert.equal(early.meeting.state, "active");
  assert.deepEqual(await readEventsOf(fixture, "other"), []);
  for (let beat = 0; beat < 4; beat++) {
    await fixture.advance(30);
    ok(await fixture.call(meeting, "member", "heartbeat", early.participantId));
  }
  assert.equal((await fixture.join(meeting, "other")).meeting.participantCount, 2);
});

Deno.test("an agent that joins a call does not response it for the callee", async () => {
  await using fixture = await openMeetingFixture();
  const scribe = await fixture.gateway.as("scribe", { kind: "agent", owner: "member" });
  ok(await scribe.get("/v1/collaboration/me"));
  const direct = { name: "With a scribe", kind: "direct", memberIds: ["other", "scribe"] };
  const room = ok(await fixture.as("member").post("/v1/rooms", direct), 201);
  const meeting = ok(await fixture.as("member").post(PATH, { roomId: room.id, agentIds: ["scribe"] }), 201);
  assert.equal(meeting.state, "ringing");
  assert.equal(ok(await scribe.post(`${PATH}/${meeting.id}/join`)).meeting.state, "ringing");
  assert.equal((await fixture.join(meeting, "other")).meeting.state, "active");
});

Deno.test("participants waiting in a lobby that is switched off join again if there are seats", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start({ lobby: true, maxParticipants: 2 });
  const path = `${PATH}/${meeting.id}`;
  await fixture.join(meeting, "member");
  const waiting = await fixture.join(meeting, "other");
  const second = await fixture.join(meeting, "other", { deviceId: "phone" });
  assert.deepEqual([waiting.participant.state, second.participant.state], ["waiting", "waiting"]);
  ok(await fixture.as("member").patch(path, { lobby: false }));
  const inside = await fixture.join(meeting, "other");
  assert.deepEqual([inside.participantId, inside.participant.state, inside.media.mode], [
    waiting.participantId,
    "joined",
    "relay",
  ]);
  assert.equal((await fixture.join(meeting, "other", { deviceId: "phone" })).participant.state, "waiting");
  // A removed participant must be admitted whether or not there is a lobby.
  ok(await fixture.as("member").delete(`${path}/participants/${inside.participantId}`), 204);
  for (const _ of [1, 2]) assert.equal((await fixture.join(meeting, "other")).participant.state, "waiting");
});
