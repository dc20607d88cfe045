// Events through the API: create, read, update by scope, rights, responses, free/busy.
import assert from "node:assert/strict";
import type { ApiResponse, Caller } from "../../harness.ts";
import {
  CALENDAR,
  type CalendarFixture,
  expectStatus,
  listEvents,
  listStarts,
  openCalendarFixture,
  readStreamEvents,
} from "./calendar_fixture.ts";
import { assertProblem, completeSearch, createRoom } from "../fixtures.ts";

const MARCH = ["2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"] as const;

/** A meeting on each of five days, 9:00 in Vienna. */
async function createSeries(fixture: CalendarFixture, more: Record<string, unknown> = {}) {
  return expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, {
      roomId: fixture.roomId,
      title: "Stand-up",
      start: { dateTime: "2026-03-09T09:00:00", timeZone: "europe/vienna" },
      end: { dateTime: "2026-03-09T09:15:00", timeZone: "Europe/Vienna" },
      rrule: "FREQ=DAILY;COUNT=5",
      ...more,
    }),
    201,
  ).body;
}

async function listTitles(fixture: CalendarFixture): Promise<string[]> {
  return (await listEvents(fixture.alice, ...MARCH)).map((item) => `${item.startAt.slice(5, 16)} ${item.title}`);
}

Deno.test("event.create returns what event.read returns, with wall time, instants and a uid", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createSeries(fixture, {
    location: "Room 1",
    attendees: [{ principalId: "bob" }, { email: "Eve@Example.org" }],
  });
  assert.deepEqual(event.start, { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" });
  assert.deepEqual([event.startAt, event.endAt], ["2026-03-09T08:00:00.000Z", "2026-03-09T08:15:00.000Z"]);
  assert.equal(event.attendees[1].email, "eve@example.org");
  assert.ok(event.uid.length > 10);
  const read = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${event.id}`));
  assert.deepEqual(read.body, event);
  const one = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${event.id}?occurrence=2026-03-11T08:00:00Z`));
  assert.deepEqual([one.body.occurrence, one.body.startAt], ["2026-03-11T09:00:00", "2026-03-11T08:00:00.000Z"]);
  assertProblem(
    await fixture.alice.get(`${CALENDAR}/events/${event.id}?occurrence=2026-03-11T08:30:00Z`),
    404,
    "not_found",
  );
});

Deno.test("an event with a meeting schedules it in its room, and both are created or neither", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createSeries(fixture, { rrule: null, meeting: { create: true } });
  const { body: meeting } = expectStatus(await fixture.bob.get(`/v1/collaboration/meetings/${event.meetingId}`));
  assert.deepEqual([meeting.roomId, meeting.title, meeting.scheduledFor], [fixture.roomId, "Stand-up", event.startAt]);
  const meetings = async () =>
    expectStatus(await fixture.bob.get(`/v1/collaboration/meetings?roomId=${fixture.roomId}`)).body.items.length;
  assert.equal(await meetings(), 1);
  const clash = await fixture.alice.post(`${CALENDAR}/events`, {
    roomId: fixture.roomId,
    title: "Clash",
    start: event.start,
    meeting: { create: true },
    ifFree: true,
  });
  assertProblem(clash, 409, "time_conflict");
  assert.equal(await meetings(), 1);
});

Deno.test("event.create refuses contradictory input and names the field", async () => {
  await using fixture = await openCalendarFixture();
  const start = { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" };
  const wrong: [Record<string, unknown>, string][] = [
    [{ end: { dateTime: "2026-03-09T08:00:00", timeZone: "Europe/Vienna" } }, "/end"],
    [{ end: { date: "2026-03-10" } }, "/end"],
    [{ durationMinutes: 5, end: start }, "/durationMinutes"],
    [{ start: { date: "2026-03-09" }, durationMinutes: 90 }, "/durationMinutes"],
    [{ exDates: ["2026-03-10T09:00:00"] }, "/exDates"],
    [{ attendees: [{ principalId: "nobody" }] }, "/attendees/0/principalId"],
    [{ attendees: [{ principalId: "bob" }, { principalId: "bob" }] }, "/attendees/1"],
    [{ start: { date: "2026-03-09" }, rrule: "FREQ=DAILY;BYHOUR=9" }, "/rrule"],
    [{ meeting: { create: true } }, "/meeting"],
    [
      {
        roomId: fixture.roomId,
        meeting: { create: true },
        start: { dateTime: "2026-02-09T09:00:00", timeZone: "UTC" },
      },
      "/start",
    ],
    [{ uid: "a\r\nATTENDEE:mailto:eve@example.org" }, "/uid"],
    [{ start: { dateTime: "2026-02-30T09:00:00", timeZone: "UTC" } }, "/start"],
  ];
  for (const [more, pointer] of wrong) {
    const response = await fixture.alice.post(`${CALENDAR}/events`, { title: "x", start, ...more });
    assert.equal(response.status, 422, JSON.stringify(more));
    assert.ok(response.body.errors[0].pointer.startsWith(pointer), `${JSON.stringify(more)}: ${response.body.detail}`);
  }
});

Deno.test("event.create reports the problem of the time format nearest to the input", async () => {
  await using fixture = await openCalendarFixture();
  const wrong: [unknown, string, RegExp][] = [
    [{ dateTime: "2026-03-09T09:00:00Z", timeZone: "UTC" }, "/start/dateTime", /without offset/],
    [{ date: "9 March" }, "/start/date", /such as 2026-03-29/],
    ["2026-03-09", "/start", /expected object/],
  ];
  for (const [start, pointer, detail] of wrong) {
    const { body } = await fixture.alice.post(`${CALENDAR}/events`, { title: "x", start });
    assert.equal(body.errors[0].pointer, pointer, body.detail);
    assert.match(body.errors[0].detail, detail);
  }
});

Deno.test("event.update with scope this changes one occurrence and leaves the others", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const changed = expectStatus(
    await fixture.bob.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      title: "Retro",
      start: { dateTime: "2026-03-12T15:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual([changed.body.title, changed.body.occurrence, changed.body.version], [
    "Retro",
    "2026-03-10T09:00:00",
    2,
  ]);
  assert.deepEqual(await listTitles(fixture), [
    "03-09T08:00 Stand-up",
    "03-11T08:00 Stand-up",
    "03-12T08:00 Stand-up",
    "03-12T14:00 Retro",
    "03-13T08:00 Stand-up",
  ]);
  // The edit is found by the name of the occurrence, wherever it was moved.
  const again = expectStatus(
    await fixture.bob.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      durationMinutes: 60,
    }),
  );
  assert.deepEqual([again.body.title, again.body.endAt], ["Retro", "2026-03-12T15:00:00.000Z"]);
  const field = await fixture.bob.patch(`${CALENDAR}/events/${id}`, {
    scope: "this",
    occurrence: "2026-03-10T09:00:00",
    rrule: null,
  });
  assertProblem(field, 422, "validation_failed");
  assertProblem(
    await fixture.bob.patch(`${CALENDAR}/events/${id}`, { scope: "this", title: "x" }),
    422,
    "validation_failed",
  );
});

Deno.test("event.update with scope following ends the series before and starts another there", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { attendees: [{ principalId: "bob" }], exDates: ["2026-03-13T09:00:00"] });
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-12T09:00:00",
      title: "Demo",
    }),
  );
  const tail = expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "following",
      occurrence: "2026-03-11T09:00:00",
      start: { dateTime: "2026-03-11T10:00:00", timeZone: "Europe/Vienna" },
      title: "Late stand-up",
    }),
  );
  assert.notEqual(tail.body.id, id);
  assert.deepEqual([tail.body.rrule, tail.body.attendees.length], ["FREQ=DAILY;COUNT=3", 1]);
  assert.deepEqual(
    await listTitles(fixture),
    [
      "03-09T08:00 Stand-up",
      "03-10T08:00 Stand-up",
      "03-11T09:00 Late stand-up",
      "03-12T08:00 Demo",
    ].map((line) => line.replace("03-12T08:00", "03-12T09:00")),
  );
  const head = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${id}`));
  assert.equal(head.body.rrule, "FREQ=DAILY;UNTIL=20260310T080000Z");
});

Deno.test("event.update with scope all moves the series by as much as the given occurrence", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { exDates: ["2026-03-10T09:00:00"] });
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-13T09:00:00",
      title: "Last",
    }),
  );
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      occurrence: "2026-03-11T09:00:00",
      start: { dateTime: "2026-03-11T11:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual(await listTitles(fixture), [
    "03-09T10:00 Stand-up",
    "03-11T10:00 Stand-up",
    "03-12T10:00 Stand-up",
    "03-13T10:00 Last",
  ]);
  const stale = await fixture.alice.patch(`${CALENDAR}/events/${id}`, { title: "x" }, { "if-match": '"1"' });
  assertProblem(stale, 412, "version_mismatch");
});

Deno.test("event.update with scope all applies an end without a start to the given occurrence", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const { body } = expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      occurrence: "2026-03-12T09:00:00",
      end: { dateTime: "2026-03-12T10:30:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual([body.start.dateTime, body.end.dateTime], ["2026-03-09T09:00:00", "2026-03-09T10:30:00"]);
});

Deno.test("event.update with the same rule in another notation retains the exceptions", async () => {
  await using fixture = await openCalendarFixture();
  const rrule = "freq=daily;count=5;interval=1";
  const { id } = await createSeries(fixture, { rrule, exDates: ["2026-03-10T09:00:00"] });
  const rename = { scope: "this", occurrence: "2026-03-12T09:00:00", title: "Special" };
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, rename));
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { title: "Daily", rrule }));
  assert.deepEqual(await listTitles(fixture), [
    "03-09T08:00 Daily",
    "03-11T08:00 Daily",
    "03-12T08:00 Special",
    "03-13T08:00 Daily",
  ]);
});

Deno.test("of concurrent updates of the same version one succeeds", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const responses = await Promise.all(
    Array.from(
      { length: 5 },
      (_, index) => fixture.alice.patch(`${CALENDAR}/events/${id}`, { title: `Title ${index}` }, { "if-match": '"1"' }),
    ),
  );
  assert.deepEqual(responses.map(({ status }) => status).sort(), [200, 412, 412, 412, 412]);
});

Deno.test("event.delete cancels one occurrence, all following, or the series", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const remove = (query: string) => fixture.alice.delete(`${CALENDAR}/events/${id}${query}`);
  expectStatus(await remove("?scope=this&occurrence=2026-03-10T09:00:00"), 204);
  assertProblem(await remove("?scope=this&occurrence=2026-03-10T09:00:00"), 404, "not_found");
  assert.equal((await listStarts(fixture.alice, ...MARCH)).length, 4);
  expectStatus(await remove("?scope=following&occurrence=2026-03-12T09:00:00"), 204);
  assert.deepEqual(await listStarts(fixture.alice, ...MARCH), ["2026-03-09T08:00:00.000Z", "2026-03-11T08:00:00.000Z"]);
  expectStatus(await remove(""), 204);
  assertProblem(await remove(""), 404, "not_found");
  const cancelled = await readStreamEvents(fixture.gateway, `room:${fixture.roomId}`, "calendar.event.cancelled");
  assert.deepEqual(cancelled.map(({ data }) => [data.scope, data.occurrence]), [
    ["this", "2026-03-10T09:00:00"],
    ["following", "2026-03-12T09:00:00"],
    ["all", null],
  ]);
});

Deno.test("event.delete of the last remaining occurrence deletes the event", async () => {
  await using fixture = await openCalendarFixture();
  const remove = (id: string, scope: string, day: string) =>
    fixture.alice.delete(`${CALENDAR}/events/${id}?scope=${scope}&occurrence=2026-03-${day}T09:00:00`);
  const one = await createSeries(fixture, { rrule: "FREQ=DAILY;COUNT=2" });
  const moved = { start: { dateTime: "2026-03-20T09:00:00", timeZone: "Europe/Vienna" } };
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${one.id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      ...moved,
    }),
  );
  expectStatus(await remove(one.id, "this", "09"), 204);
  assert.deepEqual(await listStarts(fixture.alice, ...MARCH), ["2026-03-20T08:00:00.000Z"]);
  expectStatus(await remove(one.id, "this", "10"), 204);
  assertProblem(await fixture.alice.get(`${CALENDAR}/events/${one.id}`), 404, "not_found");
  // Occurrences before the day are excluded already.
  const other = await createSeries(fixture, { exDates: ["2026-03-09T09:00:00"] });
  expectStatus(await remove(other.id, "following", "10"), 204);
  assertProblem(await fixture.alice.get(`${CALENDAR}/events/${other.id}`), 404, "not_found");
  const cancelled = await readStreamEvents(fixture.gateway, `room:${fixture.roomId}`, "calendar.event.cancelled");
  assert.deepEqual(cancelled.map(({ data }) => data.scope), ["this", "all", "all"]);
});

Deno.test("the capabilities state the limits of a calendar, and one more is refused", async () => {
  await using fixture = await openCalendarFixture();
  const { limits } = expectStatus(await fixture.alice.get("/v1/collaboration/capabilities")).body.modules.calendar;
  assert.deepEqual([limits.rangeDays, limits.occurrencesPerSeries, limits.importBytes], [366, 1000, 1024 * 1024]);
  const many = (count: number) => ({
    roomId: fixture.roomId,
    title: "x",
    start: { date: "2026-03-09" },
    reminders: Array.from({ length: count }, (_, minutesBefore) => ({ minutesBefore })),
  });
  expectStatus(await fixture.alice.post(`${CALENDAR}/events`, many(limits.reminders)), 201);
  assertProblem(await fixture.alice.post(`${CALENDAR}/events`, many(limits.reminders + 1)), 422, "validation_failed");
});

Deno.test("members may change an event of the room, but not take it or its occurrences away from the others", async () => {
  await using fixture = await openCalendarFixture();
  const event = await createSeries(fixture, {});
  const path = `${CALENDAR}/events/${event.id}`;
  const { items: [first] } =
    expectStatus(await fixture.bob.get(`${CALENDAR}/events?from=${MARCH[0]}&to=${MARCH[1]}`)).body;
  const exDates = [first.start.dateTime];
  for (const change of [{ visibility: "private" }, { visibility: "busy_only" }, { exDates }]) {
    assertProblem(await fixture.bob.patch(path, change), 403, "forbidden");
  }
  expectStatus(await fixture.bob.patch(path, { title: "Changed", visibility: "room", exDates: [] }));
  expectStatus(await fixture.alice.patch(path, { exDates }));
  expectStatus(await fixture.bob.patch(path, { title: "Again", exDates }));
  expectStatus(await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/bob`, { role: "moderator" }));
  expectStatus(await fixture.bob.patch(path, { visibility: "busy_only" }));
});

Deno.test("members of the room see its events according to their visibility; others see nothing", async () => {
  await using fixture = await openCalendarFixture();
  const open = await createSeries(fixture, { rrule: null });
  const busyOnly = await createSeries(fixture, { rrule: null, visibility: "busy_only", title: "Interview" });
  const secret = await createSeries(fixture, {
    rrule: null,
    visibility: "private",
    title: "Surprise",
    attendees: [{ principalId: "carol" }],
  });
  const read = (caller: CalendarFixture["bob"], id: string) => caller.get(`${CALENDAR}/events/${id}`);
  assert.equal(expectStatus(await read(fixture.bob, open.id)).body.title, "Stand-up");
  const seen = expectStatus(await read(fixture.bob, busyOnly.id)).body;
  assert.deepEqual([seen.busyOnly, seen.title, seen.createdBy, seen.attendees], [true, null, null, []]);
  assertProblem(await read(fixture.bob, secret.id), 404, "not_found");
  // An invitation is enough, also outside of the room.
  assert.equal(expectStatus(await read(fixture.carol, secret.id)).body.title, "Surprise");
  assertProblem(await read(fixture.carol, open.id), 404, "not_found");
  assert.deepEqual((await listEvents(fixture.bob, ...MARCH)).map((item) => item.title), ["Stand-up", null]);
  assert.ok(!JSON.stringify(await listEvents(fixture.bob, ...MARCH)).includes("Interview"));
  assertProblem(
    await fixture.carol.get(`${CALENDAR}/events?from=${MARCH[0]}&to=${MARCH[1]}&roomId=${fixture.roomId}`),
    404,
    "not_found",
  );
  // Hidden events are on no stream of the others.
  const received = await fixture.gateway.app.store.log.read("default", `room:${fixture.roomId}`, 0, 100);
  assert.ok(!received.some(({ json }) => json.includes("Interview") || json.includes("Surprise")));
  const elsewhere = await fixture.gateway.as("alice", { tenant: "elsewhere", role: "owner" });
  assertProblem(await read(elsewhere, open.id), 404, "not_found");
});

Deno.test("a viewer of a public room who is not a member sees busy time only", async () => {
  await using fixture = await openCalendarFixture();
  const { body: room } = await fixture.alice.post("/v1/rooms", { name: "Lobby", visibility: "public" });
  const { id } = await createSeries(fixture, { roomId: room.id, title: "Board", rrule: null });
  const seen =
    expectStatus(await fixture.carol.get(`${CALENDAR}/events?from=${MARCH[0]}&to=${MARCH[1]}&roomId=${room.id}`)).body
      .items;
  assert.deepEqual(seen.map((item: Record<string, unknown>) => [item.busyOnly, item.title]), [[true, null]]);
  assert.equal(expectStatus(await fixture.carol.get(`${CALENDAR}/events/${id}`)).body.title, null);
  const received = await fixture.gateway.app.store.log.read("default", `room:${room.id}`, 0, 100);
  assert.ok(
    received.some(({ type }) => type === "calendar.event.created") &&
      !received.some(({ json }) => json.includes("Board")),
  );
});

Deno.test("members edit, observers read, creators and moderators delete; personal events are their creator's", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  expectStatus(await fixture.bob.patch(`${CALENDAR}/events/${id}`, { title: "Bob was here" }));
  assertProblem(await fixture.bob.delete(`${CALENDAR}/events/${id}`), 403, "forbidden");
  await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/bob`, { role: "observer" });
  assertProblem(await fixture.bob.patch(`${CALENDAR}/events/${id}`, { title: "x" }), 403, "forbidden");
  await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/bob`, { role: "moderator" });
  expectStatus(await fixture.bob.delete(`${CALENDAR}/events/${id}`), 204);
  const own = await createSeries(fixture, { roomId: undefined, attendees: [{ principalId: "bob" }] });
  assertProblem(await fixture.bob.patch(`${CALENDAR}/events/${own.id}`, { title: "x" }), 403, "forbidden");
  assertProblem(await fixture.carol.patch(`${CALENDAR}/events/${own.id}`, { title: "x" }), 404, "not_found");
  await fixture.alice.patch(`/v1/rooms/${fixture.roomId}`, { state: "archived" });
  const late = await fixture.alice.post(`${CALENDAR}/events`, {
    roomId: fixture.roomId,
    title: "x",
    start: { date: "2026-03-09" },
  });
  assertProblem(late, 409, "room_archived");
});

Deno.test("an agent does not see an event that its owner may not see", async () => {
  await using fixture = await openCalendarFixture();
  const bot = await fixture.gateway.as("bot", { kind: "agent", owner: "carol" });
  assert.equal(expectStatus(await bot.get("/v1/collaboration/me")).body.principal.ownerId, "carol");
  const { id } = await createSeries(fixture, { attendees: [{ principalId: "bot" }] });
  assertProblem(await bot.get(`${CALENDAR}/events/${id}`), 404, "not_found");
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      attendees: [{ principalId: "bot" }, { principalId: "carol" }],
    }),
  );
  assert.equal(expectStatus(await bot.get(`${CALENDAR}/events/${id}`)).body.title, "Stand-up");
  const note =
    expectStatus(await bot.post(`${CALENDAR}/events`, { title: "Retry", start: { date: "2026-03-09" } }), 201).body;
  assert.equal(
    expectStatus(await bot.patch(`${CALENDAR}/events/${note.id}`, { title: "Retry later" })).body.title,
    "Retry later",
  );
});

Deno.test("event.rsvp stores the caller's response to the series or to one occurrence, and publishes it", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, {
    attendees: [{ principalId: "bob" }, { principalId: "carol", role: "optional" }],
  });
  const rsvp = (caller: CalendarFixture["bob"], body: Record<string, unknown>) =>
    caller.put(`${CALENDAR}/events/${id}/rsvp`, body);
  const accepted = expectStatus(await rsvp(fixture.bob, { status: "accepted", comment: "Gladly" }));
  assert.deepEqual([accepted.body.myStatus, accepted.body.attendees[0].comment], ["accepted", "Gladly"]);
  expectStatus(await rsvp(fixture.bob, { status: "declined", occurrence: "2026-03-11T09:00:00" }));
  assert.deepEqual((await listEvents(fixture.bob, ...MARCH)).map((item) => item.myStatus), [
    "accepted",
    "accepted",
    "declined",
    "accepted",
    "accepted",
  ]);
  assertProblem(await rsvp(fixture.alice, { status: "accepted" }), 403, "forbidden");
  const received = await readStreamEvents(fixture.gateway, `room:${fixture.roomId}`, "calendar.event.rsvp");
  assert.deepEqual(received.map(({ data }) => [data.principalId, data.status, data.occurrence, data.comment]), [
    ["bob", "accepted", null, "Gladly"],
    ["bob", "declined", "2026-03-11T09:00:00", null],
  ]);
  // The events carry the version that an update has to name.
  const { version } = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${id}`)).body;
  assert.deepEqual(received.map(({ data }) => data.version), [version - 1, version]);
  // A move resets the responses.
  const moved = expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      start: { dateTime: "2026-03-09T17:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual(moved.body.attendees.map((one: { status: string }) => one.status), ["needs_action", "needs_action"]);
});

Deno.test("a removed attendee gets the event as cancelled and no longer sees it", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { roomId: undefined, attendees: [{ principalId: "carol" }] });
  assert.equal((await readStreamEvents(fixture.gateway, "principal:carol", "calendar.event.created")).length, 1);
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { attendees: [] }));
  assert.equal((await readStreamEvents(fixture.gateway, "principal:carol", "calendar.event.cancelled")).length, 1);
  assertProblem(await fixture.carol.get(`${CALENDAR}/events/${id}`), 404, "not_found");
});

Deno.test("an attendee who is invited again has no response, to any occurrence", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { attendees: [{ principalId: "bob" }] });
  const rsvp = { status: "declined", occurrence: "2026-03-11T09:00:00" };
  expectStatus(await fixture.bob.put(`${CALENDAR}/events/${id}/rsvp`, rsvp));
  for (const attendees of [[], [{ principalId: "bob" }]]) {
    expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { attendees }));
  }
  const responses = (await listEvents(fixture.bob, ...MARCH)).map((item) => item.myStatus);
  assert.deepEqual(new Set(responses), new Set(["needs_action"]));
});

Deno.test("freebusy.read merges many series, a thousand times at a time", async () => {
  await using fixture = await openCalendarFixture();
  // Each day of some series is one time, from 8:00 to 11:25; of others each is one of its own, from 20:00 on.
  const startsOf = (n: number): string => n < 20 ? `${8 + Math.floor(n / 6)}:${n % 6}0`.padStart(5, "0") : `${n}:00`;
  for (const n of [...Array(20).keys(), 20, 21, 22, 23]) {
    await createSeries(fixture, {
      rrule: "FREQ=DAILY",
      start: { dateTime: `2026-01-01T${startsOf(n)}:00`, timeZone: "UTC" },
      end: undefined,
      durationMinutes: 15,
    });
  }
  const from = Date.parse("2026-02-01T00:00:00Z");
  const days = 59;
  const { busy, truncated } = expectStatus(
    await fixture.carol.post(`${CALENDAR}/freebusy`, {
      principalIds: ["alice"],
      from: new Date(from).toISOString(),
      to: new Date(from + days * 86_400_000).toISOString(),
      timeZone: "UTC",
    }),
  ).body;
  const expected = Array.from({ length: days }, (_, day) => {
    const at = (time: string): string =>
      `${new Date(from + day * 86_400_000).toISOString().slice(0, 11)}${time}:00.000Z`;
    const late = [20, 21, 22, 23].map((hour) => [at(`${hour}:00`), at(`${hour}:15`)]);
    return [[at("08:00"), at("11:25")], ...late];
  }).flat();
  assert.deepEqual(busy.map(({ start, end }: { start: string; end: string }) => [start, end]), expected);
  assert.equal(truncated, false);
});

Deno.test("freebusy.read returns times, never titles, without declined and transparent events", async () => {
  await using fixture = await openCalendarFixture();
  await createSeries(fixture, { roomId: undefined, title: "Doctor", rrule: null, visibility: "private" });
  const overlapping = await createSeries(fixture, {
    title: "Review",
    rrule: null,
    start: { dateTime: "2026-03-09T09:10:00", timeZone: "Europe/Vienna" },
    end: undefined,
    durationMinutes: 60,
    attendees: [{ principalId: "bob" }],
  });
  await createSeries(fixture, {
    title: "Birthday",
    rrule: null,
    start: { date: "2026-03-09" },
    end: undefined,
    transparent: true,
  });
  const ask = async (timeZone = "UTC") =>
    expectStatus(
      await fixture.carol.post(`${CALENDAR}/freebusy`, {
        principalIds: ["alice", "bob"],
        from: MARCH[0],
        to: MARCH[1],
        timeZone,
      }),
    ).body;
  assert.deepEqual(await ask(), {
    busy: [
      { principalId: "alice", start: "2026-03-09T08:00:00.000Z", end: "2026-03-09T09:10:00.000Z" },
      { principalId: "bob", start: "2026-03-09T08:10:00.000Z", end: "2026-03-09T09:10:00.000Z" },
    ],
    truncated: false,
  });
  expectStatus(await fixture.bob.put(`${CALENDAR}/events/${overlapping.id}/rsvp`, { status: "declined" }));
  await createSeries(fixture, {
    roomId: undefined,
    title: "Away",
    rrule: null,
    start: { date: "2026-03-20" },
    end: undefined,
  });
  const busy = (await ask("America/New_York")).busy;
  assert.deepEqual(busy.filter((time: { principalId: string }) => time.principalId === "bob"), []);
  assert.deepEqual(busy.at(-1), {
    principalId: "alice",
    start: "2026-03-20T04:00:00.000Z",
    end: "2026-03-21T04:00:00.000Z",
  });
  const unknown = await fixture.carol.post(`${CALENDAR}/freebusy`, {
    principalIds: ["nobody"],
    from: MARCH[0],
    to: MARCH[1],
  });
  assertProblem(unknown, 422, "validation_failed");
});

Deno.test("ifFree lets exactly one of ten concurrent requests have the same hour", async () => {
  await using fixture = await openCalendarFixture();
  const responses = await Promise.all(
    Array.from(
      { length: 10 },
      (_, index) =>
        (index % 2 === 0 ? fixture.alice : fixture.carol).post(`${CALENDAR}/events`, {
          title: `Booking ${index}`,
          start: { dateTime: "2026-03-09T09:00:00", timeZone: "europe/vienna" },
          rrule: "FREQ=WEEKLY;COUNT=4",
          attendees: [{ principalId: "bob" }],
          ifFree: true,
        }),
    ),
  );
  assert.deepEqual(responses.map(({ status }) => status).sort(), [201, ...Array.from({ length: 9 }, () => 409)]);
  assert.deepEqual(
    new Set(responses.flatMap(({ status, body }) => status === 409 ? [body.code] : [])),
    new Set(["time_conflict"]),
  );
  const later = {
    title: "x",
    start: { dateTime: "2026-03-23T08:30:00", timeZone: "Europe/Vienna" },
    attendees: [{ principalId: "bob" }],
  };
  assertProblem(await fixture.alice.post(`${CALENDAR}/events`, { ...later, ifFree: true }), 409, "time_conflict");
  expectStatus(await fixture.alice.post(`${CALENDAR}/events`, { ...later, durationMinutes: 30, ifFree: true }), 201);
});

Deno.test("ifFree checks a year of a daily series, to its last day", async () => {
  await using fixture = await openCalendarFixture();
  const taken = {
    title: "Christmas",
    start: { dateTime: "2026-12-24T09:15:00", timeZone: "UTC" },
    durationMinutes: 30,
  };
  expectStatus(await fixture.alice.post(`${CALENDAR}/events`, taken), 201);
  const daily = (count: number) =>
    fixture.alice.post(`${CALENDAR}/events`, {
      title: "Stand-up",
      start: { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" },
      durationMinutes: 30,
      rrule: `FREQ=DAILY;COUNT=${count}`,
      ifFree: true,
    });
  assertProblem(await daily(298), 409, "time_conflict");
  expectStatus(await daily(297), 201);
});

Deno.test("ifFree refuses an event if a calendar has more events than it checks", async () => {
  await using fixture = await openCalendarFixture();
  const hours = Array.from({ length: 23 }, (_, hour) => hour).join();
  const shift = {
    title: "On call",
    start: { dateTime: "2026-03-02T00:00:00", timeZone: "Europe/Vienna" },
    durationMinutes: 30,
    rrule: `FREQ=DAILY;BYHOUR=${hours};BYMINUTE=0,30`,
  };
  expectStatus(await fixture.alice.post(`${CALENDAR}/events`, shift), 201);
  // Free at a quarter past eleven, until summer time makes that a quarter past midnight, a thousand shifts later.
  const weekly = { title: "Backup", durationMinutes: 10, start: { dateTime: "2026-03-03T22:15:00", timeZone: "UTC" } };
  const booking = (count: number) =>
    fixture.alice.post(`${CALENDAR}/events`, { ...weekly, rrule: `FREQ=WEEKLY;COUNT=${count}`, ifFree: true });
  assertProblem(await booking(8), 422, "recurrence_too_complex");
  expectStatus(await booking(1), 201);
});

Deno.test("a guest or a token without access to busy times cannot use ifFree", async () => {
  await using fixture = await openCalendarFixture();
  const start = { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" };
  expectStatus(await fixture.bob.post(`${CALENDAR}/events`, { title: "Dentist", start }), 201);
  const guest = await fixture.gateway.as("guest", { role: "guest" });
  expectStatus(await guest.get("/v1/collaboration/me"));
  await createRoom(fixture.bob, ["guest"]);
  const wish = { title: "x", start, attendees: [{ principalId: "bob" }] };
  assertProblem(await guest.post(`${CALENDAR}/events`, { ...wish, ifFree: true }), 403, "forbidden");
  const { body } = expectStatus(await guest.post(`${CALENDAR}/events`, wish), 201);
  assertProblem(await guest.patch(`${CALENDAR}/events/${body.id}`, { ifFree: true }), 403, "forbidden");
  const writer = await fixture.gateway.as("alice", { scope: "calendar.write" });
  assertProblem(await writer.post(`${CALENDAR}/events`, { ...wish, ifFree: true }), 403, "scope_missing");
});

Deno.test("search finds events until they are deleted", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { title: "Quarterly fireworks" });
  const find = async (caller: CalendarFixture["bob"]) =>
    (await completeSearch(() => caller.get("/v1/search?q=fireworks&types=event"))).items.map((
      item: { event: { id: string } },
    ) => item.event.id);
  assert.deepEqual(await find(fixture.bob), [id]);
  assert.deepEqual(await find(fixture.carol), []);
  expectStatus(await fixture.alice.delete(`${CALENDAR}/events/${id}`), 204);
  assert.deepEqual(await find(fixture.bob), []);
});

Deno.test("purging a room deletes its calendar", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { attendees: [{ principalId: "carol" }] });
  const admin = await fixture.gateway.as("alice", { role: "admin" });
  expectStatus(await admin.delete(`/v1/rooms/${fixture.roomId}?purge=true`), 204);
  await fixture.gateway.runJobs();
  assertProblem(await fixture.carol.get(`${CALENDAR}/events/${id}`), 404, "not_found");
});

Deno.test("an agent whose owner may not see an event gets no events about it, also after a response", async () => {
  await using fixture = await openCalendarFixture();
  const bot = await fixture.gateway.as("bot", { kind: "agent", owner: "bob" });
  expectStatus(await bot.get("/v1/collaboration/me"));
  expectStatus(await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/bot`, { role: "member" }), 201);
  const { id } = await createSeries(fixture, {
    title: "Interview",
    visibility: "busy_only",
    attendees: [{ principalId: "bot" }, { principalId: "carol" }],
  });
  assert.equal(expectStatus(await bot.get(`${CALENDAR}/events/${id}`)).body.title, null);
  assert.equal(expectStatus(await bot.put(`${CALENDAR}/events/${id}/rsvp`, { status: "accepted" })).body.title, null);
  const received = async (who: string) =>
    (await readStreamEvents(fixture.gateway, `principal:${who}`, "calendar.event.created")).map(({ data }) =>
      data.event.title
    );
  assert.deepEqual([await received("carol"), await received("bot")], [["Interview"], []]);
});

Deno.test("a principal banned from the room gets no further events of it, invited or not", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { attendees: [{ principalId: "bob" }] });
  expectStatus(await fixture.alice.delete(`/v1/rooms/${fixture.roomId}/members/bob?ban=true`), 204);
  assertProblem(await fixture.bob.get(`${CALENDAR}/events/${id}`), 404, "not_found");
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { title: "Secret" }));
  assert.deepEqual(await readStreamEvents(fixture.gateway, "principal:bob", "calendar.event.updated"), []);
});

Deno.test("events on the stream of a room contain no responses", async () => {
  await using fixture = await openCalendarFixture();
  await createSeries(fixture, { attendees: [{ email: "eve@example.org" }, { principalId: "bob" }] });
  const statuses = async (stream: string) =>
    (await readStreamEvents(fixture.gateway, stream, "calendar.event.created")).map(({ data }) => data.event.myStatus);
  assert.deepEqual(await statuses(`room:${fixture.roomId}`), [null]);
  assert.deepEqual(await statuses("principal:bob"), ["needs_action"]);
});

Deno.test("a series that was extended again can be split at the same occurrence again", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const split = () =>
    fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "following",
      occurrence: "2026-03-11T09:00:00",
      title: "Tail",
    });
  const first = expectStatus(await split()).body;
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { rrule: "FREQ=DAILY;COUNT=5" }));
  const second = expectStatus(await split()).body;
  assert.equal(new Set([id, first.id, second.id]).size, 3);
  assert.notEqual(first.uid, second.uid);
});

Deno.test("a series with UNTIL retains its last occurrence when it is moved", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { rrule: "FREQ=DAILY;UNTIL=20260311T080000Z" });
  const at = (dateTime: string, timeZone = "Europe/Vienna") => ({ dateTime, timeZone });
  const starts = async () =>
    (await listEvents(fixture.alice, ...MARCH)).map((item) => item.start.dateTime.slice(8, 16));
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { start: at("2026-03-09T11:00:00") }));
  assert.deepEqual(await starts(), ["09T11:00", "10T11:00", "11T11:00"]);
  const moved = { occurrence: "2026-03-10T11:00:00", start: at("2026-03-12T08:00:00") };
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, moved));
  assert.deepEqual(await starts(), ["11T08:00", "12T08:00", "13T08:00"]);
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, { start: at("2026-03-11T20:00:00", "America/New_York") }),
  );
  assert.deepEqual(await starts(), ["11T20:00", "12T20:00", "13T20:00"]);
  const tail = {
    scope: "following",
    occurrence: "2026-03-12T20:00:00",
    start: at("2026-03-12T22:00:00", "America/New_York"),
  };
  const { body } = expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, tail));
  assert.deepEqual(await starts(), ["11T20:00", "12T22:00", "13T22:00"]);
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${body.id}`, {
      start: { date: "2026-03-14" },
      occurrence: "2026-03-12T22:00:00",
    }),
  );
  const days = (await listEvents(fixture.alice, ...MARCH)).flatMap((item) => item.start.date ?? []);
  assert.deepEqual(days, ["2026-03-14", "2026-03-15"]);
});

Deno.test("weekdays of a series move when one of its occurrences is moved with all others", async () => {
  await using fixture = await openCalendarFixture();
  const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });
  const starts = async () =>
    (await listEvents(fixture.alice, ...MARCH)).map((item) => item.start.dateTime.slice(8, 13));
  const rrule = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;COUNT=4";
  const { id } = await createSeries(fixture, { rrule, exDates: ["2026-03-15T09:00:00"] });
  assert.deepEqual(await starts(), ["09T09", "23T09", "29T09"]);
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      occurrence: "2026-03-23T09:00:00",
      start: at("2026-03-24T10:00:00"),
    }),
  );
  assert.deepEqual(await starts(), ["10T10", "24T10", "30T10"]);
  const tail = expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "following",
      occurrence: "2026-03-24T10:00:00",
      start: at("2026-03-23T10:00:00"),
    }),
  ).body;
  assert.deepEqual(await starts(), ["10T10", "23T10", "29T10"]);
  assert.equal(tail.rrule, "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=MO;COUNT=2");
  // The new day of the month is ambiguous, so the caller must give it.
  const monthly = await createSeries(fixture, { rrule: "FREQ=MONTHLY;BYMONTHDAY=9" });
  const move = { occurrence: "2026-03-09T09:00:00", start: at("2026-03-10T09:00:00") };
  const response = await fixture.alice.patch(`${CALENDAR}/events/${monthly.id}`, move);
  assertProblem(response, 422, "validation_failed");
  assert.equal(response.body.errors[0].pointer, "/rrule");
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${monthly.id}`, { ...move, rrule: "FREQ=MONTHLY;BYMONTHDAY=10" }),
  );
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${monthly.id}`, { start: at("2026-04-10T10:00:00") }));
});

Deno.test("a series with many responses to single occurrences accepts responses and updates", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture, { rrule: "FREQ=DAILY", attendees: [{ principalId: "bob" }] });
  const first = Temporal.PlainDate.from("2026-03-09");
  const rows = Array.from({ length: 10_000 }, (_, at) => ({
    tenant_id: "default",
    event_id: id,
    principal_id: "bob",
    occurrence: `${first.add({ days: at + 1 })}T09:00:00`,
    status: "declined",
    comment: null,
    responded_at: "2026-03-01T12:00:00.000Z",
  }));
  await fixture.gateway.app.store.write((tx) => tx.insertMany("calendar_rsvp", rows));
  const response = { status: "accepted", occurrence: "2026-03-10T09:00:00" };
  assert.equal(
    expectStatus(await fixture.bob.put(`${CALENDAR}/events/${id}/rsvp`, response)).body.myStatus,
    "accepted",
  );
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { title: "Daily" }));
  assert.deepEqual((await listEvents(fixture.bob, ...MARCH)).slice(0, 3).map((item) => item.myStatus), [
    "needs_action",
    "accepted",
    "declined",
  ]);
});

Deno.test("ifFree for one occurrence checks its time only", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const taken = { title: "Dentist", start: { dateTime: "2026-03-12T09:00:00", timeZone: "Europe/Vienna" } };
  expectStatus(await fixture.alice.post(`${CALENDAR}/events`, taken), 201);
  const move = (dateTime: string) =>
    fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      start: { dateTime, timeZone: "Europe/Vienna" },
      ifFree: true,
    });
  expectStatus(await move("2026-03-10T15:00:00"));
  assertProblem(await move("2026-03-12T09:30:00"), 409, "time_conflict");
});

Deno.test("an event on the last supported day ends on the day after", async () => {
  await using fixture = await openCalendarFixture();
  const { body } = expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, { title: "End", start: { date: "2199-12-31" } }),
    201,
  );
  assert.deepEqual(body.end, { date: "2200-01-01" });
});

Deno.test("an occurrence at an invalid time is not found", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  for (const occurrence of ["-271821-04-20T00:00:00", "%2B275760-09-13T00:00:00Z", "9999-12-31T23:59:59", "soon"]) {
    assertProblem(await fixture.alice.get(`${CALENDAR}/events/${id}?occurrence=${occurrence}`), 404, "not_found");
  }
});

Deno.test("an occurrence with a time of its own moves with the series", async () => {
  await using fixture = await openCalendarFixture();
  const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });
  const starts = async () =>
    (await listEvents(fixture.alice, ...MARCH)).map((item) => item.start.dateTime.slice(8, 13));
  const { id } = await createSeries(fixture);
  const change = (occurrence: string, start: string, scope: string) =>
    fixture.alice.patch(`${CALENDAR}/events/${id}`, { scope, occurrence, start: at(start) });
  expectStatus(await change("2026-03-10T09:00:00", "2026-03-10T15:00:00", "this"));
  expectStatus(await change("2026-03-10T09:00:00", "2026-03-10T16:00:00", "all"));
  assert.deepEqual(await starts(), ["09T10", "10T16", "11T10", "12T10", "13T10"]);
  expectStatus(await change("2026-03-12T10:00:00", "2026-03-12T18:00:00", "this"));
  expectStatus(await change("2026-03-10T10:00:00", "2026-03-10T17:00:00", "following"));
  assert.deepEqual(await starts(), ["09T10", "10T17", "11T17", "12T19", "13T17"]);
});

Deno.test("an occurrence with a time of its own that moves the series to another zone has the requested time", async () => {
  await using fixture = await openCalendarFixture();
  const { id } = await createSeries(fixture);
  const occurrence = "2026-03-10T09:00:00";
  const move = (scope: string, dateTime: string, timeZone: string) =>
    fixture.alice.patch(`${CALENDAR}/events/${id}`, { scope, occurrence, start: { dateTime, timeZone } });
  expectStatus(await move("this", "2026-03-12T15:00:00", "Europe/Vienna"));
  expectStatus(await move("all", "2026-03-11T07:00:00", "UTC"));
  assert.deepEqual(
    (await listStarts(fixture.alice, ...MARCH)).map((start) => start.slice(8, 13)),
    ["10T07", "11T07", "12T07", "13T07", "14T07"],
  );
});

Deno.test("a series with named days that starts on another day retains its exceptions and edits", async () => {
  await using fixture = await openCalendarFixture();
  const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });
  const rrule = "FREQ=WEEKLY;BYDAY=MO;COUNT=4";
  const { id } = await createSeries(fixture, { rrule, exDates: ["2026-03-16T09:00:00"] });
  const edit = { scope: "this", occurrence: "2026-03-23T09:00:00", title: "Demo" };
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, edit));
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { start: at("2026-03-10T10:00:00") }));
  assert.deepEqual(await listTitles(fixture), ["03-10T09:00 Stand-up", "03-23T09:00 Demo", "03-30T08:00 Stand-up"]);
  const byHour = await createSeries(fixture, {
    title: "Walk",
    rrule: "FREQ=DAILY;BYHOUR=9;COUNT=3",
    exDates: ["2026-03-10T09:00:00"],
  });
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${byHour.id}`, { start: at("2026-03-09T08:30:00") }));
  const walks = (await listTitles(fixture)).filter((one) => one.includes("Walk"));
  assert.deepEqual(walks, ["03-09T07:30 Walk", "03-09T08:30 Walk"]);
});

Deno.test("an attendee gets one notification of an invitation, and others none", async () => {
  await using fixture = await openCalendarFixture();
  const { gateway, alice, bob, carol, roomId } = fixture;
  const inbox = async (who: Caller): Promise<unknown[]> => {
    await gateway.runJobs();
    const { body } = await who.get("/v1/collaboration/notifications");
    return body.items.filter((item: ApiResponse["body"]) => item.resource?.type === "event")
      .map((item: ApiResponse["body"]) => [item.kind, item.resource.id, item.title, item.roomId]);
  };
  const attendees = [{ principalId: "alice" }, { principalId: "bob" }];
  const start = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
  const { body: event } = expectStatus(
    await alice.post(`${CALENDAR}/events`, {
      roomId,
      title: "Stand-up",
      start,
      durationMinutes: 15,
      rrule: "FREQ=DAILY;COUNT=5",
      attendees,
    }),
    201,
  );
  const path = `${CALENDAR}/events/${event.id}`;
  assert.deepEqual(await inbox(bob), [["invitation", event.id, "Stand-up", roomId]]);
  assert.deepEqual(await inbox(alice), []);
  expectStatus(await alice.patch(path, { attendees: [...attendees, { principalId: "carol" }] }));
  assert.deepEqual(await inbox(carol), [["invitation", event.id, "Stand-up", roomId]]);
  expectStatus(await alice.patch(path, { title: "Daily" }));
  expectStatus(await alice.patch(path, { scope: "this", occurrence: "2026-03-03T09:00:00", title: "Other" }));
  expectStatus(await alice.patch(path, { scope: "following", occurrence: "2026-03-04T09:00:00", title: "Later" }));
  assert.equal((await inbox(bob)).length, 1);
  expectStatus(await alice.delete(path), 204);
  assert.deepEqual(await inbox(bob), [["invitation", event.id, null, roomId]]);
});
