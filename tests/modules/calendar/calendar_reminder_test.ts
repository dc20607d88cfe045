// Reminders through the job runner: on the principals' streams, once each, moved by edits, stored over restarts.
import assert from "node:assert/strict";
import { ReminderSender } from "@/modules/calendar/reminders.ts";
import { openGateway } from "../../harness.ts";
import {
  CALENDAR,
  type CalendarFixture,
  expectStatus,
  openCalendarFixture,
  readStreamEvents,
} from "./calendar_fixture.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { assertProblem } from "../fixtures.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Tomorrow at 9:00 in Vienna; the clock of tests is at 2026-03-01 12:00 UTC. */
async function createTomorrow(fixture: CalendarFixture, more: Record<string, unknown> = {}): Promise<string> {
  const response = await fixture.alice.post(`${CALENDAR}/events`, {
    roomId: fixture.roomId,
    title: "Stand-up",
    start: { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" },
    durationMinutes: 30,
    attendees: [{ principalId: "bob" }],
    reminders: [{ minutesBefore: 10 }],
    ...more,
  });
  return expectStatus(response, 201).body.id;
}

/** Advances to an instant and runs the jobs due then. */
async function advanceTo(fixture: CalendarFixture, at: string): Promise<void> {
  fixture.gateway.clock.advance(Date.parse(at) - fixture.gateway.clock.now());
  await fixture.gateway.runJobs();
}

async function remindersOf(fixture: CalendarFixture, who: string): Promise<string[]> {
  const events = await readStreamEvents(fixture.gateway, `principal:${who}`, "calendar.event.reminder");
  return events.map(({ at, data }) => `${at.slice(5, 16)} -${data.minutesBefore} ${data.event.startAt.slice(5, 16)}`);
}

Deno.test("a reminder is published once to the creator and the attendees, and as a notification", async () => {
  await using fixture = await openCalendarFixture();
  const id = await createTomorrow(fixture, {
    attendees: [{ principalId: "bob" }, { principalId: "carol" }, { email: "eve@example.org" }],
  });
  await advanceTo(fixture, "2026-03-02T07:49:00Z");
  assert.deepEqual(await remindersOf(fixture, "bob"), []);
  await advanceTo(fixture, "2026-03-02T07:50:00Z");
  await fixture.gateway.runJobs();
  for (const who of ["alice", "bob", "carol"]) {
    assert.deepEqual(await remindersOf(fixture, who), ["03-02T07:50 -10 03-02T08:00"], who);
  }
  const bob = await fixture.gateway.as("bob");
  const { body } = expectStatus(await bob.get("/v1/collaboration/notifications"));
  const found = body.items.find((item: { kind: string }) => item.kind === "reminder");
  assert.deepEqual([found?.title, found?.resource], ["Stand-up", { type: "event", id }]);
});

Deno.test("reminders of one time are sent in one write, ten of an event at most", async () => {
  await using fixture = await openCalendarFixture();
  const { store } = fixture.gateway.app;
  const notified: string[][] = [];
  const sender = new ReminderSender({
    store: store as unknown as ConstructorParameters<typeof ReminderSender>[0]["store"],
    clock: fixture.gateway.clock,
    notify: (...drafts) => Promise.resolve(void notified.push(drafts.flatMap(({ principalIds }) => principalIds))),
    advanceMeeting: (_tx, event) => Promise.resolve(event),
  });
  const id = await createTomorrow(fixture, {
    rrule: "FREQ=DAILY;COUNT=12",
    reminders: [{ minutesBefore: 10 }, { minutesBefore: 60 }],
  });
  for (let day = 3; day < 14; day++) {
    const occurrence = `2026-03-${String(day).padStart(2, "0")}T09:00:00`;
    const start = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
    expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}?scope=this&occurrence=${occurrence}`, { start }));
  }
  // What is sent here enqueues the next reminder. The job must not send any of these meanwhile.
  await fixture.gateway.app.jobs.stop();
  fixture.gateway.clock.advance(Date.parse("2026-03-02T07:50:00Z") - fixture.gateway.clock.now());
  await sender.send("default", id);
  assert.deepEqual(notified.map((who) => who.length), [20, 20]);
  assert.deepEqual([...new Set(notified.flat())].sort(), ["alice", "bob"]);
  await sender.send("default", id);
  assert.deepEqual(notified.slice(2).flat(), []);
});

Deno.test("a series sends a reminder for each occurrence that is not cancelled or declined", async () => {
  await using fixture = await openCalendarFixture();
  const id = await createTomorrow(fixture, {
    rrule: "FREQ=DAILY;COUNT=4",
    reminders: [{ minutesBefore: 10 }, { minutesBefore: 60 }],
  });
  expectStatus(await fixture.alice.delete(`${CALENDAR}/events/${id}?scope=this&occurrence=2026-03-03T09:00:00`), 204);
  expectStatus(
    await fixture.bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "declined", occurrence: "2026-03-04T09:00:00" }),
  );
  for (let hour = 0; hour < 5 * 24 * 6; hour++) {
    fixture.gateway.clock.advance(10 * MINUTE);
    await fixture.gateway.runJobs();
  }
  assert.deepEqual(await remindersOf(fixture, "alice"), [
    "03-02T07:00 -60 03-02T08:00",
    "03-02T07:50 -10 03-02T08:00",
    "03-04T07:00 -60 03-04T08:00",
    "03-04T07:50 -10 03-04T08:00",
    "03-05T07:00 -60 03-05T08:00",
    "03-05T07:50 -10 03-05T08:00",
  ]);
  assert.deepEqual(await remindersOf(fixture, "bob"), [
    "03-02T07:00 -60 03-02T08:00",
    "03-02T07:50 -10 03-02T08:00",
    "03-05T07:00 -60 03-05T08:00",
    "03-05T07:50 -10 03-05T08:00",
  ]);
});

Deno.test("an edit moves the reminder, a cancelled event has none", async () => {
  await using fixture = await openCalendarFixture();
  const moved = await createTomorrow(fixture);
  const gone = await createTomorrow(fixture, { title: "Off" });
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${moved}`, {
      start: { dateTime: "2026-03-02T11:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  expectStatus(await fixture.alice.delete(`${CALENDAR}/events/${gone}`), 204);
  await advanceTo(fixture, "2026-03-02T08:30:00Z");
  assert.deepEqual(await remindersOf(fixture, "bob"), []);
  await advanceTo(fixture, "2026-03-02T09:50:00Z");
  assert.deepEqual(await remindersOf(fixture, "bob"), ["03-02T09:50 -10 03-02T10:00"]);
});

Deno.test("an edit between the time of a reminder and its job does not lose it", async () => {
  await using fixture = await openCalendarFixture();
  const id = await createTomorrow(fixture);
  fixture.gateway.clock.advance(Date.parse("2026-03-02T07:50:00Z") - fixture.gateway.clock.now());
  const alice = await fixture.gateway.as("alice");
  expectStatus(await alice.patch(`${CALENDAR}/events/${id}`, { location: "Room 2" }));
  await fixture.gateway.runJobs();
  assert.deepEqual(await remindersOf(fixture, "bob"), ["03-02T07:50 -10 03-02T08:00"]);
});

Deno.test("former members and disabled principals get no reminder", async () => {
  await using fixture = await openCalendarFixture();
  await createTomorrow(fixture, { attendees: [{ principalId: "carol" }] });
  await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/bob`, { role: "owner" });
  expectStatus(await fixture.bob.delete(`/v1/rooms/${fixture.roomId}/members/alice`), 204);
  const admin = await fixture.gateway.as("root", { role: "owner" });
  expectStatus(await admin.delete("/v1/collaboration/principals/carol"), 204);
  await advanceTo(fixture, "2026-03-02T07:55:00Z");
  assert.deepEqual([await remindersOf(fixture, "alice"), await remindersOf(fixture, "carol")], [[], []]);
});

Deno.test("reminders survive a restart, and those of past events are not sent", async () => {
  await using folder = await createTemporaryFolder();
  const environment = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db` };
  {
    await using fixture = await openCalendarFixture(environment);
    await createTomorrow(fixture, { rrule: "FREQ=DAILY" });
  }
  await using gateway = await openGateway(environment);
  gateway.clock.advance(3 * DAY + 20 * 60 * MINUTE);
  await gateway.runJobs();
  const sent = async () =>
    (await readStreamEvents(gateway, "principal:bob", "calendar.event.reminder")).map(({ data }) => data.event.startAt);
  assert.deepEqual(await sent(), ["2026-03-05T08:00:00.000Z"]);
  gateway.clock.advance(DAY);
  await gateway.runJobs();
  assert.deepEqual(await sent(), ["2026-03-05T08:00:00.000Z", "2026-03-06T08:00:00.000Z"]);
});

Deno.test("a reminder of an event many years ahead is sent, for a single event and a series", async () => {
  await using fixture = await openCalendarFixture();
  await createTomorrow(fixture, { start: { dateTime: "2036-05-01T09:00:00", timeZone: "UTC" } });
  await createTomorrow(fixture, {
    start: { dateTime: "2037-05-01T09:00:00", timeZone: "UTC" },
    rrule: "FREQ=YEARLY;INTERVAL=20",
  });
  await advanceTo(fixture, "2036-05-01T08:50:00Z");
  await advanceTo(fixture, "2037-05-01T08:50:00Z");
  await advanceTo(fixture, "2057-05-01T08:50:00Z");
  const starts = (await readStreamEvents(fixture.gateway, "principal:bob", "calendar.event.reminder"))
    .map(({ data }) => data.event.startAt.slice(0, 4));
  assert.deepEqual(starts, ["2036", "2037", "2057"]);
});

Deno.test("the number of reminders is limited", async () => {
  await using fixture = await openCalendarFixture();
  const many = Array.from({ length: 6 }, (_, minutesBefore) => ({ minutesBefore }));
  const response = await fixture.alice.post(`${CALENDAR}/events`, {
    title: "x",
    start: { date: "2026-03-09" },
    reminders: many,
  });
  assertProblem(response, 422, "validation_failed");
});

Deno.test("the notification of a reminder contains no text of an event that is deleted or hidden from its reader", async () => {
  await using fixture = await openCalendarFixture();
  const id = await createTomorrow(fixture, { attendees: [{ principalId: "bob" }, { principalId: "carol" }] });
  await advanceTo(fixture, "2026-03-02T07:50:00Z");
  const titleFor = async (who: "alice" | "bob" | "carol"): Promise<string | null> => {
    const caller = await fixture.gateway.as(who);
    return expectStatus(await caller.get("/v1/collaboration/notifications?kind=reminder")).body.items[0].title;
  };
  assert.deepEqual([await titleFor("bob"), await titleFor("carol")], ["Stand-up", "Stand-up"]);
  const alice = await fixture.gateway.as("alice");
  expectStatus(await alice.patch(`${CALENDAR}/events/${id}`, { attendees: [{ principalId: "bob" }] }));
  assert.deepEqual([await titleFor("alice"), await titleFor("bob"), await titleFor("carol")], [
    "Stand-up",
    "Stand-up",
    null,
  ]);
  expectStatus(await alice.delete(`${CALENDAR}/events/${id}`), 204);
  assert.equal(await titleFor("bob"), null);
});

Deno.test("an added reminder applies to future occurrences only", async () => {
  await using fixture = await openCalendarFixture();
  const id = await createTomorrow(fixture, { rrule: "FREQ=DAILY", reminders: [] });
  await advanceTo(fixture, "2026-03-03T08:45:00Z");
  const alice = await fixture.gateway.as("alice");
  expectStatus(await alice.patch(`${CALENDAR}/events/${id}`, { reminders: [{ minutesBefore: 10 }] }));
  await fixture.gateway.runJobs();
  assert.deepEqual(await remindersOf(fixture, "bob"), []);
  await advanceTo(fixture, "2026-03-04T07:50:00Z");
  assert.deepEqual(await remindersOf(fixture, "bob"), ["03-04T07:50 -10 03-04T08:00"]);
});
