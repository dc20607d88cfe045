// Reminders through the job runner: on the principals' streams, once each, moved by edits, kept over restarts.
import assert from "node:assert/strict";
import { openGateway } from "../harness.ts";
import { CALENDAR, eventsOf, ok, openWorld, type World } from "./calendar_world.ts";
import { refused } from "./team.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Tomorrow at 9:00 in Vienna; the clock of tests stands at 2026-03-01 12:00 UTC. */
async function tomorrow(world: World, more: Record<string, unknown> = {}): Promise<string> {
  const answer = await world.alice.post(`${CALENDAR}/events`, {
    roomId: world.roomId,
    title: "Stand-up",
    start: { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" },
    durationMinutes: 30,
    attendees: [{ principalId: "bob" }],
    reminders: [{ minutesBefore: 10 }],
    ...more,
  });
  return ok(answer, 201).body.id;
}

/** Goes on to an instant, running the jobs that are due then. */
async function goTo(world: World, at: string): Promise<void> {
  world.gateway.clock.advance(Date.parse(at) - world.gateway.clock.now());
  await world.gateway.runJobs();
}

async function remindersOf(world: World, who: string): Promise<string[]> {
  const events = await eventsOf(world.gateway, `principal:${who}`, "calendar.event.reminder");
  return events.map(({ at, data }) => `${at.slice(5, 16)} -${data.minutesBefore} ${data.event.startAt.slice(5, 16)}`);
}

Deno.test("a reminder arrives on the streams of the creator and the attendees, once, and as a notification", async () => {
  await using world = await openWorld();
  const id = await tomorrow(world, {
    attendees: [{ principalId: "bob" }, { principalId: "carol" }, { email: "eve@example.org" }],
  });
  await goTo(world, "2026-03-02T07:49:00Z");
  assert.deepEqual(await remindersOf(world, "bob"), []);
  await goTo(world, "2026-03-02T07:50:00Z");
  await world.gateway.runJobs();
  for (const who of ["alice", "bob", "carol"]) {
    assert.deepEqual(await remindersOf(world, who), ["03-02T07:50 -10 03-02T08:00"], who);
  }
  const bob = await world.gateway.as("bob");
  const { body } = ok(await bob.get("/v1/collaboration/notifications"));
  const found = body.items.find((item: { kind: string }) => item.kind === "reminder");
  assert.deepEqual([found?.title, found?.resource], ["Stand-up", { type: "event", id }]);
});

Deno.test("a series reminds of each occurrence, less those that are cancelled or declined", async () => {
  await using world = await openWorld();
  const id = await tomorrow(world, {
    rrule: "FREQ=DAILY;COUNT=4",
    reminders: [{ minutesBefore: 10 }, { minutesBefore: 60 }],
  });
  ok(await world.alice.delete(`${CALENDAR}/events/${id}?scope=this&occurrence=2026-03-03T09:00:00`), 204);
  ok(await world.bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "declined", occurrence: "2026-03-04T09:00:00" }));
  for (let hour = 0; hour < 5 * 24 * 6; hour++) {
    world.gateway.clock.advance(10 * MINUTE);
    await world.gateway.runJobs();
  }
  assert.deepEqual(await remindersOf(world, "alice"), [
    "03-02T07:00 -60 03-02T08:00",
    "03-02T07:50 -10 03-02T08:00",
    "03-04T07:00 -60 03-04T08:00",
    "03-04T07:50 -10 03-04T08:00",
    "03-05T07:00 -60 03-05T08:00",
    "03-05T07:50 -10 03-05T08:00",
  ]);
  assert.deepEqual(await remindersOf(world, "bob"), [
    "03-02T07:00 -60 03-02T08:00",
    "03-02T07:50 -10 03-02T08:00",
    "03-05T07:00 -60 03-05T08:00",
    "03-05T07:50 -10 03-05T08:00",
  ]);
});

Deno.test("an edit moves the reminder, a cancelled event has none", async () => {
  await using world = await openWorld();
  const moved = await tomorrow(world);
  const gone = await tomorrow(world, { title: "Off" });
  ok(
    await world.alice.patch(`${CALENDAR}/events/${moved}`, {
      start: { dateTime: "2026-03-02T11:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  ok(await world.alice.delete(`${CALENDAR}/events/${gone}`), 204);
  await goTo(world, "2026-03-02T08:30:00Z");
  assert.deepEqual(await remindersOf(world, "bob"), []);
  await goTo(world, "2026-03-02T09:50:00Z");
  assert.deepEqual(await remindersOf(world, "bob"), ["03-02T09:50 -10 03-02T10:00"]);
});

Deno.test("an edit between the time of a reminder and its job does not lose it", async () => {
  await using world = await openWorld();
  const id = await tomorrow(world);
  world.gateway.clock.advance(Date.parse("2026-03-02T07:50:00Z") - world.gateway.clock.now());
  const alice = await world.gateway.as("alice");
  ok(await alice.patch(`${CALENDAR}/events/${id}`, { location: "Room 2" }));
  await world.gateway.runJobs();
  assert.deepEqual(await remindersOf(world, "bob"), ["03-02T07:50 -10 03-02T08:00"]);
});

Deno.test("who left the room, or was disabled, is not reminded", async () => {
  await using world = await openWorld();
  await tomorrow(world, { attendees: [{ principalId: "carol" }] });
  await world.alice.put(`/v1/rooms/${world.roomId}/members/bob`, { role: "owner" });
  ok(await world.bob.delete(`/v1/rooms/${world.roomId}/members/alice`), 204);
  const admin = await world.gateway.as("root", { role: "owner" });
  ok(await admin.delete("/v1/collaboration/principals/carol"), 204);
  await goTo(world, "2026-03-02T07:55:00Z");
  assert.deepEqual([await remindersOf(world, "alice"), await remindersOf(world, "carol")], [[], []]);
});

Deno.test("reminders survive a restart, and what is over by then is not sent", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const environment = { SVC_DATABASE_URL: `sqlite:${folder}/gateway.db` };
    {
      await using world = await openWorld(environment);
      await tomorrow(world, { rrule: "FREQ=DAILY" });
    }
    await using gateway = await openGateway(environment);
    gateway.clock.advance(3 * DAY + 20 * 60 * MINUTE);
    await gateway.runJobs();
    const sent = async () =>
      (await eventsOf(gateway, "principal:bob", "calendar.event.reminder")).map(({ data }) => data.event.startAt);
    assert.deepEqual(await sent(), ["2026-03-05T08:00:00.000Z"]);
    gateway.clock.advance(DAY);
    await gateway.runJobs();
    assert.deepEqual(await sent(), ["2026-03-05T08:00:00.000Z", "2026-03-06T08:00:00.000Z"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a reminder of something many years away arrives, be it a single event or a series of decades", async () => {
  await using world = await openWorld();
  await tomorrow(world, { start: { dateTime: "2036-05-01T09:00:00", timeZone: "UTC" } });
  await tomorrow(world, {
    start: { dateTime: "2037-05-01T09:00:00", timeZone: "UTC" },
    rrule: "FREQ=YEARLY;INTERVAL=20",
  });
  await goTo(world, "2036-05-01T08:50:00Z");
  await goTo(world, "2037-05-01T08:50:00Z");
  await goTo(world, "2057-05-01T08:50:00Z");
  const starts = (await eventsOf(world.gateway, "principal:bob", "calendar.event.reminder"))
    .map(({ data }) => data.event.startAt.slice(0, 4));
  assert.deepEqual(starts, ["2036", "2037", "2057"]);
});

Deno.test("reminders are bounded", async () => {
  await using world = await openWorld();
  const many = Array.from({ length: 6 }, (_, minutesBefore) => ({ minutesBefore }));
  const answer = await world.alice.post(`${CALENDAR}/events`, {
    title: "x",
    start: { date: "2026-03-09" },
    reminders: many,
  });
  refused(answer, 422, "validation_failed");
});

Deno.test("the notification of a reminder keeps no words of an event that is gone, or hidden from its reader", async () => {
  await using world = await openWorld();
  const id = await tomorrow(world, { attendees: [{ principalId: "bob" }, { principalId: "carol" }] });
  await goTo(world, "2026-03-02T07:50:00Z");
  const titleFor = async (who: "alice" | "bob" | "carol"): Promise<string | null> => {
    const caller = await world.gateway.as(who);
    return ok(await caller.get("/v1/collaboration/notifications?kinds=reminder")).body.items[0].title;
  };
  assert.deepEqual([await titleFor("bob"), await titleFor("carol")], ["Stand-up", "Stand-up"]);
  const alice = await world.gateway.as("alice");
  ok(await alice.patch(`${CALENDAR}/events/${id}`, { attendees: [{ principalId: "bob" }] }));
  assert.deepEqual([await titleFor("alice"), await titleFor("bob"), await titleFor("carol")], [
    "Stand-up",
    "Stand-up",
    null,
  ]);
  ok(await alice.delete(`${CALENDAR}/events/${id}`), 204);
  assert.equal(await titleFor("bob"), null);
});

Deno.test("a reminder that is added is for what is still to come", async () => {
  await using world = await openWorld();
  const id = await tomorrow(world, { rrule: "FREQ=DAILY", reminders: [] });
  await goTo(world, "2026-03-03T08:45:00Z");
  const alice = await world.gateway.as("alice");
  ok(await alice.patch(`${CALENDAR}/events/${id}`, { reminders: [{ minutesBefore: 10 }] }));
  await world.gateway.runJobs();
  assert.deepEqual(await remindersOf(world, "bob"), []);
  await goTo(world, "2026-03-04T07:50:00Z");
  assert.deepEqual(await remindersOf(world, "bob"), ["03-04T07:50 -10 03-04T08:00"]);
});
