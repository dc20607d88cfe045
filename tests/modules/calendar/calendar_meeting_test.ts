// The meeting of a calendar event: moved, renamed and cancelled with it.
import assert from "node:assert/strict";
import type { ApiResponse, Caller } from "../../harness.ts";
import {
  CALENDAR,
  type CalendarFixture,
  expectStatus,
  openCalendarFixture,
  readStreamEvents,
} from "./calendar_fixture.ts";
import { assertProblem } from "../fixtures.ts";

const MEETINGS = "/v1/collaboration/meetings";
const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });

/** An event of alice with a meeting, at nine on the ninth of March. */
async function createEventWithMeeting(
  fixture: CalendarFixture,
  more: Record<string, unknown> = {},
): Promise<ApiResponse["body"]> {
  const event = {
    roomId: fixture.roomId,
    title: "Review",
    start: at("2026-03-09T09:00:00"),
    meeting: { create: true },
  };
  return expectStatus(await fixture.alice.post(`${CALENDAR}/events`, { ...event, ...more }), 201).body;
}

async function updateEvent(
  who: Caller,
  event: { id: string },
  input: Record<string, unknown>,
): Promise<ApiResponse["body"]> {
  return expectStatus(await who.patch(`${CALENDAR}/events/${event.id}`, input)).body;
}

async function meetingOf(fixture: CalendarFixture, { meetingId }: { meetingId: string }): Promise<ApiResponse["body"]> {
  return expectStatus(await fixture.bob.get(`${MEETINGS}/${meetingId}`)).body;
}

/** Time, name and state of a meeting. */
async function summarizeMeeting(fixture: CalendarFixture, event: { meetingId: string }): Promise<unknown[]> {
  const { scheduledFor, title, state, endReason } = await meetingOf(fixture, event);
  return [scheduledFor?.slice(5, 16) ?? null, title, endReason ?? state];
}

/** Meeting events of the room so far, with their actor. */
async function summarizeEvents(fixture: CalendarFixture): Promise<string[]> {
  const received = await Promise.all(
    ["updated", "started", "ended"].map((type) =>
      readStreamEvents(fixture.gateway, `room:${fixture.roomId}`, `meeting.${type}`)
    ),
  );
  return received.flat().map(({ type, actor }) => `${type} ${actor?.id}`);
}

Deno.test("event.update by any member moves and renames its meeting, and publishes this to the room", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture);
  const before = await meetingOf(fixture, event);
  const moved = await updateEvent(fixture.bob, event, { start: at("2026-03-10T14:30:00"), title: "Big review" });
  assert.equal(moved.meetingId, event.meetingId);
  assert.deepEqual(await summarizeMeeting(fixture, moved), ["03-10T13:30", "Big review", "scheduled"]);
  assert.equal((await meetingOf(fixture, moved)).version, before.version + 1);
  assert.equal((await meetingOf(fixture, moved)).hostId, "alice");
  assert.deepEqual(await summarizeEvents(fixture), ["meeting.updated alice", "meeting.updated bob"]);
  await updateEvent(fixture.bob, event, { description: "Bring figures", durationMinutes: 90, location: "Room 1" });
  assert.equal((await summarizeEvents(fixture)).length, 2);
  assertProblem(
    await fixture.carol.patch(`${CALENDAR}/events/${event.id}`, { start: at("2026-03-11T09:00:00") }),
    404,
    "not_found",
  );
  expectStatus(await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/carol`, { role: "observer" }), 201);
  assertProblem(await fixture.carol.patch(`${CALENDAR}/events/${event.id}`, { title: "x" }), 403, "forbidden");
  assert.deepEqual(await summarizeMeeting(fixture, moved), ["03-10T13:30", "Big review", "scheduled"]);
});

Deno.test("a meeting renamed by its host retains its title and still moves", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture);
  expectStatus(await fixture.alice.patch(`${MEETINGS}/${event.meetingId}`, { title: "Ask Alice" }));
  await updateEvent(fixture.alice, event, { title: "Big review", start: at("2026-03-10T09:00:00") });
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-10T08:00", "Ask Alice", "scheduled"]);
});

Deno.test("a refused move leaves the meeting unchanged", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture);
  await createEventWithMeeting(fixture, { start: at("2026-03-10T09:00:00"), meeting: undefined });
  const response = await fixture.alice.patch(`${CALENDAR}/events/${event.id}`, {
    start: at("2026-03-10T09:30:00"),
    ifFree: true,
  });
  assertProblem(response, 409, "time_conflict");
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-09T08:00", "Review", "scheduled"]);
  assert.equal((await summarizeEvents(fixture)).length, 1);
});

Deno.test("event.delete cancels the meeting, which cannot be joined then", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture);
  expectStatus(await fixture.alice.delete(`${CALENDAR}/events/${event.id}`), 204);
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-09T08:00", "Review", "cancelled"]);
  assert.deepEqual(await summarizeEvents(fixture), ["meeting.updated alice", "meeting.ended alice"]);
  assertProblem(await fixture.bob.post(`${MEETINGS}/${event.meetingId}/join`), 410, "gone");
});

Deno.test("the meeting of a series belongs to its first occurrence, whatever happens to the others", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture, { rrule: "FREQ=DAILY;COUNT=4" });
  const path = `${CALENDAR}/events/${event.id}`;
  await updateEvent(fixture.bob, event, {
    scope: "this",
    occurrence: "2026-03-10T09:00:00",
    start: at("2026-03-10T11:00:00"),
  });
  assert.equal((await summarizeEvents(fixture)).length, 1);
  const first = { scope: "this", occurrence: "2026-03-09T09:00:00" };
  await updateEvent(fixture.bob, event, { ...first, start: at("2026-03-09T10:00:00"), title: "First review" });
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-09T09:00", "First review", "scheduled"]);
  expectStatus(await fixture.alice.delete(`${path}?scope=this&occurrence=2026-03-09T09:00:00`), 204);
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-10T10:00", "Review", "scheduled"]);
  expectStatus(await fixture.alice.delete(`${path}?scope=following&occurrence=2026-03-11T09:00:00`), 204);
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-10T10:00", "Review", "scheduled"]);
  expectStatus(await fixture.alice.delete(`${path}?scope=this&occurrence=2026-03-10T09:00:00`), 204);
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-10T10:00", "Review", "cancelled"]);
});

Deno.test("a series that is split has two independent meetings", async () => {
  await using fixture = await openCalendarFixture();
  const head = await createEventWithMeeting(fixture, { rrule: "FREQ=DAILY;COUNT=4" });
  const tail = await updateEvent(fixture.bob, head, {
    scope: "following",
    occurrence: "2026-03-11T09:00:00",
    start: at("2026-03-11T15:00:00"),
    title: "Late review",
  });
  assert.notEqual(tail.meetingId, head.meetingId);
  assert.deepEqual(await summarizeMeeting(fixture, tail), ["03-11T14:00", "Late review", "scheduled"]);
  assert.deepEqual(await summarizeMeeting(fixture, head), ["03-09T08:00", "Review", "scheduled"]);
  assert.equal((await meetingOf(fixture, tail)).hostId, "alice");
  expectStatus(await fixture.alice.delete(`${CALENDAR}/events/${tail.id}`), 204);
  assert.deepEqual(await summarizeMeeting(fixture, tail), ["03-11T14:00", "Late review", "cancelled"]);
  assert.deepEqual(await summarizeMeeting(fixture, head), ["03-09T08:00", "Review", "scheduled"]);
});

Deno.test("participants who joined early remain in their meeting when the event is moved; the event gets another", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture, { start: at("2026-03-01T13:10:00") });
  const { participantId } = expectStatus(await fixture.bob.post(`${MEETINGS}/${event.meetingId}/join`)).body;
  const moved = await updateEvent(fixture.alice, event, { start: at("2026-03-01T13:14:00") });
  assert.notEqual(moved.meetingId, event.meetingId);
  assert.deepEqual(await summarizeMeeting(fixture, moved), ["03-01T12:14", "Review", "scheduled"]);
  assert.deepEqual(await summarizeMeeting(fixture, event), [null, "Review", "active"]);
  expectStatus(await fixture.bob.post(`${MEETINGS}/${event.meetingId}/leave`, { participantId }), 204);
  fixture.gateway.clock.advance(30_000);
  await fixture.gateway.runJobs();
  assert.deepEqual(await summarizeMeeting(fixture, event), [null, "Review", "empty"]);
  expectStatus(await fixture.bob.post(`${MEETINGS}/${moved.meetingId}/join`));

  // Moved again while it is empty: the meeting that was opened early ends.
  const again = expectStatus(await fixture.bob.get(`${MEETINGS}/${moved.meetingId}/participants`)).body.items[0];
  expectStatus(await fixture.bob.post(`${MEETINGS}/${moved.meetingId}/leave`, { participantId: again.id }), 204);
  const last = await updateEvent(fixture.alice, event, { start: at("2026-03-01T17:00:00") });
  assert.deepEqual(await summarizeMeeting(fixture, moved), ["03-01T12:14", "Review", "cancelled"]);
  assert.deepEqual(await summarizeMeeting(fixture, last), ["03-01T16:00", "Review", "scheduled"]);
});

Deno.test("cancelling an event removes no participants from its meeting", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture, { start: at("2026-03-01T13:10:00") });
  const { participantId } = expectStatus(await fixture.bob.post(`${MEETINGS}/${event.meetingId}/join`)).body;
  expectStatus(await fixture.alice.delete(`${CALENDAR}/events/${event.id}`), 204);
  assert.deepEqual(await summarizeMeeting(fixture, event), [null, "Review", "active"]);
  expectStatus(await fixture.bob.post(`${MEETINGS}/${event.meetingId}/leave`, { participantId }), 204);
  fixture.gateway.clock.advance(30_000);
  await fixture.gateway.runJobs();
  assert.deepEqual(await summarizeMeeting(fixture, event), [null, "Review", "empty"]);
});

Deno.test("a cancelled meeting remains so when the event moves; a past time creates no other", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture);
  expectStatus(await fixture.alice.post(`${MEETINGS}/${event.meetingId}/end`));
  const moved = await updateEvent(fixture.alice, event, { start: at("2026-03-10T09:00:00") });
  assert.equal(moved.meetingId, event.meetingId);
  assert.deepEqual(await summarizeMeeting(fixture, moved), ["03-09T08:00", "Review", "cancelled"]);

  const past = await createEventWithMeeting(fixture, { title: "Past" });
  assert.equal(
    (await updateEvent(fixture.alice, past, { start: at("2026-02-20T09:00:00") })).meetingId,
    past.meetingId,
  );
  await fixture.gateway.runJobs();
  assert.deepEqual(await summarizeMeeting(fixture, past), ["02-20T08:00", "Past", "missed"]);
  const back = await updateEvent(fixture.alice, past, { start: at("2026-03-12T09:00:00") });
  assert.deepEqual(await summarizeMeeting(fixture, back), ["03-12T08:00", "Past", "scheduled"]);
});

Deno.test("an import that moves an event moves its meeting", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture, { uid: "review@example.org" });
  const text = [
    ...["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", "BEGIN:VEVENT", "UID:review@example.org"],
    ...["DTSTAMP:20260301T000000Z", "DTSTART:20260312T100000Z", "DTEND:20260312T110000Z", "SUMMARY:Moved review"],
    ...["END:VEVENT", "END:VCALENDAR", ""],
  ].join("\r\n");
  expectStatus(await fixture.alice.post(`${CALENDAR}/import`, { roomId: fixture.roomId, text }), 202);
  await fixture.gateway.runJobs();
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-12T10:00", "Moved review", "scheduled"]);
});

Deno.test("the meeting of an event hidden from the room has no title until the event is visible", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture, { title: "Dismissal", visibility: "private" });
  assert.equal((await meetingOf(fixture, event)).title, null);
  await updateEvent(fixture.alice, event, { visibility: "room" });
  assert.equal((await meetingOf(fixture, event)).title, "Dismissal");
  await updateEvent(fixture.alice, event, { visibility: "busy_only" });
  assert.equal((await meetingOf(fixture, event)).title, null);
});

Deno.test("the meeting of a series whose first start is excluded is at the first remaining one", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createEventWithMeeting(fixture, {
    rrule: "FREQ=DAILY;COUNT=3",
    exDates: ["2026-03-09T09:00:00"],
  });
  assert.deepEqual(await summarizeMeeting(fixture, event), ["03-10T08:00", "Review", "scheduled"]);
});

Deno.test("an event with a meeting requires a token with meeting.write", async () => {
  await using fixture = await openCalendarFixture();
  const narrow = await fixture.gateway.as("alice", { scope: "calendar.*" });
  const event = { roomId: fixture.roomId, title: "Review", start: at("2026-03-09T09:00:00") };
  assertProblem(await narrow.post(`${CALENDAR}/events`, { ...event, meeting: { create: true } }), 403, "scope_missing");
  expectStatus(await narrow.post(`${CALENDAR}/events`, event), 201);
});

Deno.test("each occurrence of a series has a meeting that can be joined", async () => {
  await using fixture = await openCalendarFixture();
  const { gateway } = fixture;
  const event = await createEventWithMeeting(fixture, { rrule: "FREQ=DAILY;COUNT=3", durationMinutes: 30 });
  const path = `${CALENDAR}/events/${event.id}`;
  const advanceTo = async (time: string): Promise<ApiResponse["body"]> => {
    gateway.clock.advance(Date.parse(time) - gateway.clock.now());
    await gateway.runJobs();
    [fixture.alice, fixture.bob] = [await gateway.as("alice"), await gateway.as("bob")];
    return expectStatus(await fixture.bob.get(path)).body;
  };

  assert.equal((await advanceTo("2026-03-09T08:00:00Z")).meetingId, event.meetingId);
  expectStatus(await fixture.bob.post(`${MEETINGS}/${event.meetingId}/join`));
  // It runs late. Then it has ended, and the event has the meeting of the next day.
  assert.equal((await advanceTo("2026-03-09T09:29:00Z")).meetingId, event.meetingId);
  const second = await advanceTo("2026-03-09T09:30:00Z");
  assert.notEqual(second.meetingId, event.meetingId);
  assert.deepEqual(await summarizeMeeting(fixture, second), ["03-10T08:00", "Review", "scheduled"]);
  await advanceTo("2026-03-10T08:00:00Z");
  expectStatus(await fixture.bob.post(`${MEETINGS}/${second.meetingId}/join`));
  expectStatus(await fixture.bob.post(`${MEETINGS}/${second.meetingId}/end`), 403);
  expectStatus(await fixture.alice.post(`${MEETINGS}/${second.meetingId}/end`));

  // Nobody joins the last one, which is moved: it remains the last meeting.
  const third = await advanceTo("2026-03-10T09:30:00Z");
  await updateEvent(fixture.alice, event, {
    scope: "this",
    occurrence: "2026-03-11T09:00:00",
    start: at("2026-03-11T11:00:00"),
  });
  assert.deepEqual(await summarizeMeeting(fixture, third), ["03-11T10:00", "Review", "scheduled"]);
  const last = await advanceTo("2026-03-13T08:00:00Z");
  assert.equal(last.meetingId, third.meetingId);
  assert.deepEqual(await summarizeMeeting(fixture, last), ["03-11T10:00", "Review", "missed"]);
  const updates = await readStreamEvents(gateway, `room:${fixture.roomId}`, "calendar.event.updated");
  assert.deepEqual(updates.map(({ actor }) => actor?.id ?? null), [null, null, "alice"]);
});
