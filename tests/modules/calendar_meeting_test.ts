// The meeting of a calendar event: moved with it, named as it is, cancelled with it.
import assert from "node:assert/strict";
import type { Answer, Caller } from "../harness.ts";
import { CALENDAR, eventsOf, ok, openWorld, type World } from "./calendar_world.ts";
import { refused } from "./team.ts";

const MEETINGS = "/v1/collaboration/meetings";
const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });

/** An event of alice with a meeting, at nine on the ninth of March. */
async function planned(world: World, more: Record<string, unknown> = {}): Promise<Answer["body"]> {
  const event = { roomId: world.roomId, title: "Review", start: at("2026-03-09T09:00:00"), meeting: { create: true } };
  return ok(await world.alice.post(`${CALENDAR}/events`, { ...event, ...more }), 201).body;
}

async function change(who: Caller, event: { id: string }, input: Record<string, unknown>): Promise<Answer["body"]> {
  return ok(await who.patch(`${CALENDAR}/events/${event.id}`, input)).body;
}

async function meetingOf(world: World, { meetingId }: { meetingId: string }): Promise<Answer["body"]> {
  return ok(await world.bob.get(`${MEETINGS}/${meetingId}`)).body;
}

/** Time, name and state of a meeting. */
async function facts(world: World, event: { meetingId: string }): Promise<unknown[]> {
  const { scheduledFor, title, state, endReason } = await meetingOf(world, event);
  return [scheduledFor?.slice(5, 16) ?? null, title, endReason ?? state];
}

/** Meeting events of the room so far, with who did it. */
async function story(world: World): Promise<string[]> {
  const told = await Promise.all(
    ["updated", "started", "ended"].map((type) => eventsOf(world.gateway, `room:${world.roomId}`, `meeting.${type}`)),
  );
  return told.flat().map(({ type, actor }) => `${type} ${actor?.id}`);
}

Deno.test("event.update moves and renames its meeting, whoever of the room does it, and the room hears of it", async () => {
  await using world = await openWorld();
  const event = await planned(world);
  const before = await meetingOf(world, event);
  const moved = await change(world.bob, event, { start: at("2026-03-10T14:30:00"), title: "Big review" });
  assert.equal(moved.meetingId, event.meetingId);
  assert.deepEqual(await facts(world, moved), ["03-10T13:30", "Big review", "scheduled"]);
  assert.equal((await meetingOf(world, moved)).version, before.version + 1);
  assert.equal((await meetingOf(world, moved)).hostId, "alice");
  assert.deepEqual(await story(world), ["meeting.updated alice", "meeting.updated bob"]);
  await change(world.bob, event, { description: "Bring figures", durationMinutes: 90, location: "Room 1" });
  assert.equal((await story(world)).length, 2);
  refused(
    await world.carol.patch(`${CALENDAR}/events/${event.id}`, { start: at("2026-03-11T09:00:00") }),
    404,
    "not_found",
  );
  ok(await world.alice.put(`/v1/rooms/${world.roomId}/members/carol`, { role: "observer" }), 201);
  refused(await world.carol.patch(`${CALENDAR}/events/${event.id}`, { title: "x" }), 403, "forbidden");
  assert.deepEqual(await facts(world, moved), ["03-10T13:30", "Big review", "scheduled"]);
});

Deno.test("a meeting that its host has renamed keeps its name and still moves", async () => {
  await using world = await openWorld();
  const event = await planned(world);
  ok(await world.alice.patch(`${MEETINGS}/${event.meetingId}`, { title: "Ask Alice" }));
  await change(world.alice, event, { title: "Big review", start: at("2026-03-10T09:00:00") });
  assert.deepEqual(await facts(world, event), ["03-10T08:00", "Ask Alice", "scheduled"]);
});

Deno.test("a move that is refused leaves the meeting where it was", async () => {
  await using world = await openWorld();
  const event = await planned(world);
  await planned(world, { start: at("2026-03-10T09:00:00"), meeting: undefined });
  const answer = await world.alice.patch(`${CALENDAR}/events/${event.id}`, {
    start: at("2026-03-10T09:30:00"),
    ifFree: true,
  });
  refused(answer, 409, "busy_conflict");
  assert.deepEqual(await facts(world, event), ["03-09T08:00", "Review", "scheduled"]);
  assert.equal((await story(world)).length, 1);
});

Deno.test("event.delete cancels the meeting, and nobody joins it any more", async () => {
  await using world = await openWorld();
  const event = await planned(world);
  ok(await world.alice.delete(`${CALENDAR}/events/${event.id}`), 204);
  assert.deepEqual(await facts(world, event), ["03-09T08:00", "Review", "cancelled"]);
  assert.deepEqual(await story(world), ["meeting.updated alice", "meeting.ended alice"]);
  refused(await world.bob.post(`${MEETINGS}/${event.meetingId}/join`), 410, "gone");
});

Deno.test("the meeting of a series is that of its first occurrence, whatever becomes of the others", async () => {
  await using world = await openWorld();
  const event = await planned(world, { rrule: "FREQ=DAILY;COUNT=4" });
  const path = `${CALENDAR}/events/${event.id}`;
  await change(world.bob, event, {
    scope: "this",
    occurrence: "2026-03-10T09:00:00",
    start: at("2026-03-10T11:00:00"),
  });
  assert.equal((await story(world)).length, 1);
  const first = { scope: "this", occurrence: "2026-03-09T09:00:00" };
  await change(world.bob, event, { ...first, start: at("2026-03-09T10:00:00"), title: "First review" });
  assert.deepEqual(await facts(world, event), ["03-09T09:00", "First review", "scheduled"]);
  ok(await world.alice.delete(`${path}?scope=this&occurrence=2026-03-09T09:00:00`), 204);
  assert.deepEqual(await facts(world, event), ["03-10T10:00", "Review", "scheduled"]);
  ok(await world.alice.delete(`${path}?scope=following&occurrence=2026-03-11T09:00:00`), 204);
  assert.deepEqual(await facts(world, event), ["03-10T10:00", "Review", "scheduled"]);
  ok(await world.alice.delete(`${path}?scope=this&occurrence=2026-03-10T09:00:00`), 204);
  assert.deepEqual(await facts(world, event), ["03-10T10:00", "Review", "cancelled"]);
});

Deno.test("a series that is split has two meetings, and each goes its way", async () => {
  await using world = await openWorld();
  const head = await planned(world, { rrule: "FREQ=DAILY;COUNT=4" });
  const tail = await change(world.bob, head, {
    scope: "following",
    occurrence: "2026-03-11T09:00:00",
    start: at("2026-03-11T15:00:00"),
    title: "Late review",
  });
  assert.notEqual(tail.meetingId, head.meetingId);
  assert.deepEqual(await facts(world, tail), ["03-11T14:00", "Late review", "scheduled"]);
  assert.deepEqual(await facts(world, head), ["03-09T08:00", "Review", "scheduled"]);
  assert.equal((await meetingOf(world, tail)).hostId, "alice");
  ok(await world.alice.delete(`${CALENDAR}/events/${tail.id}`), 204);
  assert.deepEqual(await facts(world, tail), ["03-11T14:00", "Late review", "cancelled"]);
  assert.deepEqual(await facts(world, head), ["03-09T08:00", "Review", "scheduled"]);
});

Deno.test("people who came early keep their meeting when the event is moved; the event has another", async () => {
  await using world = await openWorld();
  const event = await planned(world, { start: at("2026-03-01T13:10:00") });
  const { participantId } = ok(await world.bob.post(`${MEETINGS}/${event.meetingId}/join`)).body;
  const moved = await change(world.alice, event, { start: at("2026-03-01T13:14:00") });
  assert.notEqual(moved.meetingId, event.meetingId);
  assert.deepEqual(await facts(world, moved), ["03-01T12:14", "Review", "scheduled"]);
  assert.deepEqual(await facts(world, event), [null, "Review", "active"]);
  ok(await world.bob.post(`${MEETINGS}/${event.meetingId}/leave`, { participantId }), 204);
  world.gateway.clock.advance(30_000);
  await world.gateway.runJobs();
  assert.deepEqual(await facts(world, event), [null, "Review", "empty"]);
  ok(await world.bob.post(`${MEETINGS}/${moved.meetingId}/join`));

  // Moved once more while nobody is in it: the one that was opened early is over.
  const again = ok(await world.bob.get(`${MEETINGS}/${moved.meetingId}/participants`)).body.items[0];
  ok(await world.bob.post(`${MEETINGS}/${moved.meetingId}/leave`, { participantId: again.id }), 204);
  const last = await change(world.alice, event, { start: at("2026-03-01T17:00:00") });
  assert.deepEqual(await facts(world, moved), ["03-01T12:14", "Review", "cancelled"]);
  assert.deepEqual(await facts(world, last), ["03-01T16:00", "Review", "scheduled"]);
});

Deno.test("cancelling an event puts nobody out of its meeting", async () => {
  await using world = await openWorld();
  const event = await planned(world, { start: at("2026-03-01T13:10:00") });
  const { participantId } = ok(await world.bob.post(`${MEETINGS}/${event.meetingId}/join`)).body;
  ok(await world.alice.delete(`${CALENDAR}/events/${event.id}`), 204);
  assert.deepEqual(await facts(world, event), [null, "Review", "active"]);
  ok(await world.bob.post(`${MEETINGS}/${event.meetingId}/leave`, { participantId }), 204);
  world.gateway.clock.advance(30_000);
  await world.gateway.runJobs();
  assert.deepEqual(await facts(world, event), [null, "Review", "empty"]);
});

Deno.test("a meeting that was cancelled stays so when the event moves; a past time brings no other", async () => {
  await using world = await openWorld();
  const event = await planned(world);
  ok(await world.alice.post(`${MEETINGS}/${event.meetingId}/end`));
  const moved = await change(world.alice, event, { start: at("2026-03-10T09:00:00") });
  assert.equal(moved.meetingId, event.meetingId);
  assert.deepEqual(await facts(world, moved), ["03-09T08:00", "Review", "cancelled"]);

  const past = await planned(world, { title: "Past" });
  assert.equal((await change(world.alice, past, { start: at("2026-02-20T09:00:00") })).meetingId, past.meetingId);
  await world.gateway.runJobs();
  assert.deepEqual(await facts(world, past), ["02-20T08:00", "Past", "missed"]);
  const back = await change(world.alice, past, { start: at("2026-03-12T09:00:00") });
  assert.deepEqual(await facts(world, back), ["03-12T08:00", "Past", "scheduled"]);
});

Deno.test("an import that moves an event moves its meeting", async () => {
  await using world = await openWorld();
  const event = await planned(world, { uid: "review@example.org" });
  const text = [
    ...["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", "BEGIN:VEVENT", "UID:review@example.org"],
    ...["DTSTAMP:20260301T000000Z", "DTSTART:20260312T100000Z", "DTEND:20260312T110000Z", "SUMMARY:Moved review"],
    ...["END:VEVENT", "END:VCALENDAR", ""],
  ].join("\r\n");
  ok(await world.alice.post(`${CALENDAR}/import`, { roomId: world.roomId, text }), 202);
  await world.gateway.runJobs();
  assert.deepEqual(await facts(world, event), ["03-12T10:00", "Moved review", "scheduled"]);
});

Deno.test("the meeting of an event that the room may not read has no name, and gets one when it may", async () => {
  await using world = await openWorld();
  const event = await planned(world, { title: "Dismissal", visibility: "private" });
  assert.equal((await meetingOf(world, event)).title, null);
  await change(world.alice, event, { visibility: "room" });
  assert.equal((await meetingOf(world, event)).title, "Dismissal");
  await change(world.alice, event, { visibility: "busy_only" });
  assert.equal((await meetingOf(world, event)).title, null);
});

Deno.test("the meeting of a series whose first start is left out is at the first that is not", async () => {
  await using world = await openWorld();
  const event = await planned(world, { rrule: "FREQ=DAILY;COUNT=3", exDates: ["2026-03-09T09:00:00"] });
  assert.deepEqual(await facts(world, event), ["03-10T08:00", "Review", "scheduled"]);
});

Deno.test("an event with a meeting takes a token that may make meetings", async () => {
  await using world = await openWorld();
  const narrow = await world.gateway.as("alice", { scope: "calendar.*" });
  const event = { roomId: world.roomId, title: "Review", start: at("2026-03-09T09:00:00") };
  refused(await narrow.post(`${CALENDAR}/events`, { ...event, meeting: { create: true } }), 403, "scope_missing");
  ok(await narrow.post(`${CALENDAR}/events`, event), 201);
});
