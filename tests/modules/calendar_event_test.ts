// Events through the door: made, read, edited as this, following and all; rights, answers, free and busy.
import assert from "node:assert/strict";
import type { Answer, Caller } from "../harness.ts";
import { CALENDAR, eventsOf, list, ok, openWorld, startsIn, type World } from "./calendar_world.ts";
import { refused, roomOf } from "./team.ts";

const MARCH = ["2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"] as const;

/** A meeting on each of five days, 9:00 in Vienna. */
async function series(world: World, more: Record<string, unknown> = {}) {
  return ok(
    await world.alice.post(`${CALENDAR}/events`, {
      roomId: world.roomId,
      title: "Stand-up",
      start: { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" },
      end: { dateTime: "2026-03-09T09:15:00", timeZone: "Europe/Vienna" },
      rrule: "FREQ=DAILY;COUNT=5",
      ...more,
    }),
    201,
  ).body;
}

async function titles(world: World): Promise<string[]> {
  return (await list(world.alice, ...MARCH)).map((item) => `${item.startAt.slice(5, 16)} ${item.title}`);
}

Deno.test("event.create answers what event.read answers, with wall time, instants and a uid", async () => {
  await using world = await openWorld();
  const event = await series(world, {
    location: "Room 1",
    attendees: [{ principalId: "bob" }, { email: "Eve@Example.org" }],
  });
  assert.deepEqual(event.start, { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" });
  assert.deepEqual([event.startAt, event.endAt], ["2026-03-09T08:00:00.000Z", "2026-03-09T08:15:00.000Z"]);
  assert.equal(event.attendees[1].email, "eve@example.org");
  assert.ok(event.uid.length > 10);
  const read = ok(await world.alice.get(`${CALENDAR}/events/${event.id}`));
  assert.deepEqual(read.body, event);
  const one = ok(await world.alice.get(`${CALENDAR}/events/${event.id}?occurrence=2026-03-11T08:00:00Z`));
  assert.deepEqual([one.body.occurrence, one.body.startAt], ["2026-03-11T09:00:00", "2026-03-11T08:00:00.000Z"]);
  refused(await world.alice.get(`${CALENDAR}/events/${event.id}?occurrence=2026-03-11T08:30:00Z`), 404, "not_found");
});

Deno.test("an event with a meeting schedules one in its room, and both are there or neither", async () => {
  await using world = await openWorld();
  const event = await series(world, { rrule: null, meeting: { create: true } });
  const { body: meeting } = ok(await world.bob.get(`/v1/collaboration/meetings/${event.meetingId}`));
  assert.deepEqual([meeting.roomId, meeting.title, meeting.scheduledFor], [world.roomId, "Stand-up", event.startAt]);
  const meetings = async () =>
    ok(await world.bob.get(`/v1/collaboration/meetings?roomId=${world.roomId}`)).body.items.length;
  assert.equal(await meetings(), 1);
  const clash = await world.alice.post(`${CALENDAR}/events`, {
    roomId: world.roomId,
    title: "Clash",
    start: event.start,
    meeting: { create: true },
    ifFree: true,
  });
  refused(clash, 409, "busy_conflict");
  assert.equal(await meetings(), 1);
});

Deno.test("event.create refuses what makes no sense and names the field", async () => {
  await using world = await openWorld();
  const start = { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" };
  const wrong: [Record<string, unknown>, string][] = [
    [{ end: { dateTime: "2026-03-09T08:00:00", timeZone: "Europe/Vienna" } }, "/end"],
    [{ end: { date: "2026-03-10" } }, "/end"],
    [{ durationMinutes: 5, end: start }, "/durationMinutes"],
    [{ start: { date: "2026-03-09" }, durationMinutes: 90 }, "/durationMinutes"],
    [{ exDates: ["2026-03-10T09:00:00"] }, "/exDates"],
    [{ attendees: [{ principalId: "nobody" }] }, "/attendees/0"],
    [{ attendees: [{ principalId: "bob" }, { principalId: "bob" }] }, "/attendees/1"],
    [{ start: { date: "2026-03-09" }, rrule: "FREQ=DAILY;BYHOUR=9" }, "/rrule"],
    [{ meeting: { create: true } }, "/meeting"],
    [
      { roomId: world.roomId, meeting: { create: true }, start: { dateTime: "2026-02-09T09:00:00", timeZone: "UTC" } },
      "/start",
    ],
    [{ uid: "a\r\nATTENDEE:mailto:eve@example.org" }, "/uid"],
    [{ start: { dateTime: "2026-02-30T09:00:00", timeZone: "UTC" } }, "/start"],
  ];
  for (const [more, pointer] of wrong) {
    const answer = await world.alice.post(`${CALENDAR}/events`, { title: "x", start, ...more });
    assert.equal(answer.status, 422, JSON.stringify(more));
    assert.ok(answer.body.errors[0].pointer.startsWith(pointer), `${JSON.stringify(more)}: ${answer.body.detail}`);
  }
});

Deno.test("event.create says what is wrong with the form of time that is nearest to what was given", async () => {
  await using world = await openWorld();
  const wrong: [unknown, string, RegExp][] = [
    [{ dateTime: "2026-03-09T09:00:00Z", timeZone: "UTC" }, "/start/dateTime", /without offset/],
    [{ date: "9 March" }, "/start/date", /such as 2026-03-29/],
    ["2026-03-09", "/start", /expected object/],
  ];
  for (const [start, pointer, detail] of wrong) {
    const { body } = await world.alice.post(`${CALENDAR}/events`, { title: "x", start });
    assert.equal(body.errors[0].pointer, pointer, body.detail);
    assert.match(body.errors[0].detail, detail);
  }
});

Deno.test("event.update with scope this changes one occurrence and leaves the others", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const changed = ok(
    await world.bob.patch(`${CALENDAR}/events/${id}`, {
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
  assert.deepEqual(await titles(world), [
    "03-09T08:00 Stand-up",
    "03-11T08:00 Stand-up",
    "03-12T08:00 Stand-up",
    "03-12T14:00 Retro",
    "03-13T08:00 Stand-up",
  ]);
  // The edit is found by the name of the occurrence, wherever it went.
  const again = ok(
    await world.bob.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      durationMinutes: 60,
    }),
  );
  assert.deepEqual([again.body.title, again.body.endAt], ["Retro", "2026-03-12T15:00:00.000Z"]);
  const field = await world.bob.patch(`${CALENDAR}/events/${id}`, {
    scope: "this",
    occurrence: "2026-03-10T09:00:00",
    rrule: null,
  });
  refused(field, 422, "validation_failed");
  refused(await world.bob.patch(`${CALENDAR}/events/${id}`, { scope: "this", title: "x" }), 422, "validation_failed");
});

Deno.test("event.update with scope following ends the series before and begins another there", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { attendees: [{ principalId: "bob" }], exDates: ["2026-03-13T09:00:00"] });
  ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-12T09:00:00",
      title: "Demo",
    }),
  );
  const tail = ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "following",
      occurrence: "2026-03-11T09:00:00",
      start: { dateTime: "2026-03-11T10:00:00", timeZone: "Europe/Vienna" },
      title: "Late stand-up",
    }),
  );
  assert.notEqual(tail.body.id, id);
  assert.deepEqual([tail.body.rrule, tail.body.attendees.length], ["FREQ=DAILY;COUNT=3", 1]);
  assert.deepEqual(
    await titles(world),
    [
      "03-09T08:00 Stand-up",
      "03-10T08:00 Stand-up",
      "03-11T09:00 Late stand-up",
      "03-12T08:00 Demo",
    ].map((line) => line.replace("03-12T08:00", "03-12T09:00")),
  );
  const head = ok(await world.alice.get(`${CALENDAR}/events/${id}`));
  assert.equal(head.body.rrule, "FREQ=DAILY;UNTIL=20260310T080000Z");
});

Deno.test("event.update with scope all moves the series by as much as the occurrence that was moved", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { exDates: ["2026-03-10T09:00:00"] });
  ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-13T09:00:00",
      title: "Last",
    }),
  );
  ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      occurrence: "2026-03-11T09:00:00",
      start: { dateTime: "2026-03-11T11:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual(await titles(world), [
    "03-09T10:00 Stand-up",
    "03-11T10:00 Stand-up",
    "03-12T10:00 Stand-up",
    "03-13T10:00 Last",
  ]);
  const stale = await world.alice.patch(`${CALENDAR}/events/${id}`, { title: "x" }, { "if-match": '"1"' });
  refused(stale, 412, "version_mismatch");
});

Deno.test("event.update with scope all takes an end alone as that of the occurrence named", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const { body } = ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      occurrence: "2026-03-12T09:00:00",
      end: { dateTime: "2026-03-12T10:30:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual([body.start.dateTime, body.end.dateTime], ["2026-03-09T09:00:00", "2026-03-09T10:30:00"]);
});

Deno.test("event.update with the rule that the series has, in other words, keeps its exceptions", async () => {
  await using world = await openWorld();
  const rrule = "freq=daily;count=5;interval=1";
  const { id } = await series(world, { rrule, exDates: ["2026-03-10T09:00:00"] });
  const rename = { scope: "this", occurrence: "2026-03-12T09:00:00", title: "Special" };
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, rename));
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { title: "Daily", rrule }));
  assert.deepEqual(await titles(world), [
    "03-09T08:00 Daily",
    "03-11T08:00 Daily",
    "03-12T08:00 Special",
    "03-13T08:00 Daily",
  ]);
});

Deno.test("of those who change the same version at once, one does", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const answers = await Promise.all(
    Array.from(
      { length: 5 },
      (_, index) => world.alice.patch(`${CALENDAR}/events/${id}`, { title: `Title ${index}` }, { "if-match": '"1"' }),
    ),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412, 412, 412, 412]);
});

Deno.test("event.delete cancels one occurrence, all that follow, or the series", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const remove = (query: string) => world.alice.delete(`${CALENDAR}/events/${id}${query}`);
  ok(await remove("?scope=this&occurrence=2026-03-10T09:00:00"), 204);
  refused(await remove("?scope=this&occurrence=2026-03-10T09:00:00"), 404, "not_found");
  assert.equal((await startsIn(world.alice, ...MARCH)).length, 4);
  ok(await remove("?scope=following&occurrence=2026-03-12T09:00:00"), 204);
  assert.deepEqual(await startsIn(world.alice, ...MARCH), ["2026-03-09T08:00:00.000Z", "2026-03-11T08:00:00.000Z"]);
  ok(await remove(""), 204);
  refused(await remove(""), 404, "not_found");
  const cancelled = await eventsOf(world.gateway, `room:${world.roomId}`, "calendar.event.cancelled");
  assert.deepEqual(cancelled.map(({ data }) => [data.scope, data.occurrence]), [
    ["this", "2026-03-10T09:00:00"],
    ["following", "2026-03-12T09:00:00"],
    ["all", null],
  ]);
});

Deno.test("event.delete of the last occurrence that is left deletes the event", async () => {
  await using world = await openWorld();
  const remove = (id: string, scope: string, day: string) =>
    world.alice.delete(`${CALENDAR}/events/${id}?scope=${scope}&occurrence=2026-03-${day}T09:00:00`);
  const one = await series(world, { rrule: "FREQ=DAILY;COUNT=2" });
  const moved = { start: { dateTime: "2026-03-20T09:00:00", timeZone: "Europe/Vienna" } };
  ok(
    await world.alice.patch(`${CALENDAR}/events/${one.id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      ...moved,
    }),
  );
  ok(await remove(one.id, "this", "09"), 204);
  assert.deepEqual(await startsIn(world.alice, ...MARCH), ["2026-03-20T08:00:00.000Z"]);
  ok(await remove(one.id, "this", "10"), 204);
  refused(await world.alice.get(`${CALENDAR}/events/${one.id}`), 404, "not_found");
  // What comes before the day is left out already.
  const other = await series(world, { exDates: ["2026-03-09T09:00:00"] });
  ok(await remove(other.id, "following", "10"), 204);
  refused(await world.alice.get(`${CALENDAR}/events/${other.id}`), 404, "not_found");
  const cancelled = await eventsOf(world.gateway, `room:${world.roomId}`, "calendar.event.cancelled");
  assert.deepEqual(cancelled.map(({ data }) => data.scope), ["this", "all", "all"]);
});

Deno.test("the capabilities say what a calendar holds, and one more is refused", async () => {
  await using world = await openWorld();
  const { limits } = ok(await world.alice.get("/v1/collaboration/capabilities")).body.modules.calendar;
  assert.deepEqual([limits.rangeDays, limits.occurrencesPerSeries, limits.importBytes], [366, 1000, 1024 * 1024]);
  const many = (count: number) => ({
    roomId: world.roomId,
    title: "x",
    start: { date: "2026-03-09" },
    reminders: Array.from({ length: count }, (_, minutesBefore) => ({ minutesBefore })),
  });
  ok(await world.alice.post(`${CALENDAR}/events`, many(limits.reminders)), 201);
  refused(await world.alice.post(`${CALENDAR}/events`, many(limits.reminders + 1)), 422, "validation_failed");
});

Deno.test("members of the room see its events; visibility decides what; strangers see nothing", async () => {
  await using world = await openWorld();
  const open = await series(world, { rrule: null });
  const busyOnly = await series(world, { rrule: null, visibility: "busy_only", title: "Interview" });
  const secret = await series(world, {
    rrule: null,
    visibility: "private",
    title: "Surprise",
    attendees: [{ principalId: "carol" }],
  });
  const read = (caller: World["bob"], id: string) => caller.get(`${CALENDAR}/events/${id}`);
  assert.equal(ok(await read(world.bob, open.id)).body.title, "Stand-up");
  const seen = ok(await read(world.bob, busyOnly.id)).body;
  assert.deepEqual([seen.busyOnly, seen.title, seen.createdBy, seen.attendees], [true, null, null, []]);
  refused(await read(world.bob, secret.id), 404, "not_found");
  // An invitation is enough, also for somebody outside of the room.
  assert.equal(ok(await read(world.carol, secret.id)).body.title, "Surprise");
  refused(await read(world.carol, open.id), 404, "not_found");
  assert.deepEqual((await list(world.bob, ...MARCH)).map((item) => item.title), ["Stand-up", null]);
  assert.ok(!JSON.stringify(await list(world.bob, ...MARCH)).includes("Interview"));
  refused(
    await world.carol.get(`${CALENDAR}/events?from=${MARCH[0]}&to=${MARCH[1]}&roomId=${world.roomId}`),
    404,
    "not_found",
  );
  // Nobody hears of what they may not know, on no stream.
  const told = await world.gateway.app.store.log.read("default", `room:${world.roomId}`, 0, 100);
  assert.ok(!told.some(({ json }) => json.includes("Interview") || json.includes("Surprise")));
  const elsewhere = await world.gateway.as("alice", { tenant: "elsewhere", role: "owner" });
  refused(await read(elsewhere, open.id), 404, "not_found");
});

Deno.test("who looks into a public room without being a member sees that time is taken", async () => {
  await using world = await openWorld();
  const { body: room } = await world.alice.post("/v1/rooms", { name: "Lobby", visibility: "public" });
  const { id } = await series(world, { roomId: room.id, title: "Board", rrule: null });
  const seen =
    ok(await world.carol.get(`${CALENDAR}/events?from=${MARCH[0]}&to=${MARCH[1]}&roomId=${room.id}`)).body.items;
  assert.deepEqual(seen.map((item: Record<string, unknown>) => [item.busyOnly, item.title]), [[true, null]]);
  assert.equal(ok(await world.carol.get(`${CALENDAR}/events/${id}`)).body.title, null);
  const told = await world.gateway.app.store.log.read("default", `room:${room.id}`, 0, 100);
  assert.ok(
    told.some(({ type }) => type === "calendar.event.created") && !told.some(({ json }) => json.includes("Board")),
  );
});

Deno.test("members edit, observers read, creators and moderators delete; personal events are their creator's", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  ok(await world.bob.patch(`${CALENDAR}/events/${id}`, { title: "Bob was here" }));
  refused(await world.bob.delete(`${CALENDAR}/events/${id}`), 403, "forbidden");
  await world.alice.put(`/v1/rooms/${world.roomId}/members/bob`, { role: "observer" });
  refused(await world.bob.patch(`${CALENDAR}/events/${id}`, { title: "x" }), 403, "forbidden");
  await world.alice.put(`/v1/rooms/${world.roomId}/members/bob`, { role: "moderator" });
  ok(await world.bob.delete(`${CALENDAR}/events/${id}`), 204);
  const own = await series(world, { roomId: undefined, attendees: [{ principalId: "bob" }] });
  refused(await world.bob.patch(`${CALENDAR}/events/${own.id}`, { title: "x" }), 403, "forbidden");
  refused(await world.carol.patch(`${CALENDAR}/events/${own.id}`, { title: "x" }), 404, "not_found");
  await world.alice.patch(`/v1/rooms/${world.roomId}`, { state: "archived" });
  const late = await world.alice.post(`${CALENDAR}/events`, {
    roomId: world.roomId,
    title: "x",
    start: { date: "2026-03-09" },
  });
  refused(late, 409, "room_archived");
});

Deno.test("an agent does not learn of an event that its owner may not know", async () => {
  await using world = await openWorld();
  const bot = await world.gateway.as("bot", { kind: "agent", owner: "carol" });
  assert.equal(ok(await bot.get("/v1/collaboration/me")).body.principal.ownerId, "carol");
  const { id } = await series(world, { attendees: [{ principalId: "bot" }] });
  refused(await bot.get(`${CALENDAR}/events/${id}`), 404, "not_found");
  ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      attendees: [{ principalId: "bot" }, { principalId: "carol" }],
    }),
  );
  assert.equal(ok(await bot.get(`${CALENDAR}/events/${id}`)).body.title, "Stand-up");
  const note = ok(await bot.post(`${CALENDAR}/events`, { title: "Retry", start: { date: "2026-03-09" } }), 201).body;
  assert.equal(
    ok(await bot.patch(`${CALENDAR}/events/${note.id}`, { title: "Retry later" })).body.title,
    "Retry later",
  );
});

Deno.test("event.rsvp records the caller's answer, to the series or to one occurrence, and tells the others", async () => {
  await using world = await openWorld();
  const { id } = await series(world, {
    attendees: [{ principalId: "bob" }, { principalId: "carol", role: "optional" }],
  });
  const rsvp = (caller: World["bob"], body: Record<string, unknown>) =>
    caller.put(`${CALENDAR}/events/${id}/rsvp`, body);
  const accepted = ok(await rsvp(world.bob, { status: "accepted", comment: "Gladly" }));
  assert.deepEqual([accepted.body.myStatus, accepted.body.attendees[0].comment], ["accepted", "Gladly"]);
  ok(await rsvp(world.bob, { status: "declined", occurrence: "2026-03-11T09:00:00" }));
  assert.deepEqual((await list(world.bob, ...MARCH)).map((item) => item.myStatus), [
    "accepted",
    "accepted",
    "declined",
    "accepted",
    "accepted",
  ]);
  refused(await rsvp(world.alice, { status: "accepted" }), 403, "forbidden");
  const heard = await eventsOf(world.gateway, `room:${world.roomId}`, "calendar.event.rsvp");
  assert.deepEqual(heard.map(({ data }) => [data.principalId, data.status, data.occurrence, data.comment]), [
    ["bob", "accepted", null, "Gladly"],
    ["bob", "declined", "2026-03-11T09:00:00", null],
  ]);
  // Whoever follows the events has the version that a change has to name.
  const { version } = ok(await world.alice.get(`${CALENDAR}/events/${id}`)).body;
  assert.deepEqual(heard.map(({ data }) => data.version), [version - 1, version]);
  // Another time is another question.
  const moved = ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      start: { dateTime: "2026-03-09T17:00:00", timeZone: "Europe/Vienna" },
    }),
  );
  assert.deepEqual(moved.body.attendees.map((one: { status: string }) => one.status), ["needs_action", "needs_action"]);
});

Deno.test("whoever is no longer invited hears that it is off, and sees it no more", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { roomId: undefined, attendees: [{ principalId: "carol" }] });
  assert.equal((await eventsOf(world.gateway, "principal:carol", "calendar.event.created")).length, 1);
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { attendees: [] }));
  assert.equal((await eventsOf(world.gateway, "principal:carol", "calendar.event.cancelled")).length, 1);
  refused(await world.carol.get(`${CALENDAR}/events/${id}`), 404, "not_found");
});

Deno.test("who is invited again has given no answer yet, to no occurrence", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { attendees: [{ principalId: "bob" }] });
  const rsvp = { status: "declined", occurrence: "2026-03-11T09:00:00" };
  ok(await world.bob.put(`${CALENDAR}/events/${id}/rsvp`, rsvp));
  for (const attendees of [[], [{ principalId: "bob" }]]) {
    ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { attendees }));
  }
  const answers = (await list(world.bob, ...MARCH)).map((item) => item.myStatus);
  assert.deepEqual(new Set(answers), new Set(["needs_action"]));
});

Deno.test("freebusy.read tells times, never titles, and leaves out what is declined or transparent", async () => {
  await using world = await openWorld();
  await series(world, { roomId: undefined, title: "Doctor", rrule: null, visibility: "private" });
  const overlapping = await series(world, {
    title: "Review",
    rrule: null,
    start: { dateTime: "2026-03-09T09:10:00", timeZone: "Europe/Vienna" },
    end: undefined,
    durationMinutes: 60,
    attendees: [{ principalId: "bob" }],
  });
  await series(world, {
    title: "Birthday",
    rrule: null,
    start: { date: "2026-03-09" },
    end: undefined,
    transparent: true,
  });
  const ask = async (timeZone = "UTC") =>
    ok(
      await world.carol.post(`${CALENDAR}/freebusy`, {
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
  ok(await world.bob.put(`${CALENDAR}/events/${overlapping.id}/rsvp`, { status: "declined" }));
  await series(world, { roomId: undefined, title: "Away", rrule: null, start: { date: "2026-03-20" }, end: undefined });
  const busy = (await ask("America/New_York")).busy;
  assert.deepEqual(busy.filter((time: { principalId: string }) => time.principalId === "bob"), []);
  assert.deepEqual(busy.at(-1), {
    principalId: "alice",
    start: "2026-03-20T04:00:00.000Z",
    end: "2026-03-21T04:00:00.000Z",
  });
  const unknown = await world.carol.post(`${CALENDAR}/freebusy`, {
    principalIds: ["nobody"],
    from: MARCH[0],
    to: MARCH[1],
  });
  refused(unknown, 422, "validation_failed");
});

Deno.test("ifFree lets exactly one of ten who want the same hour have it", async () => {
  await using world = await openWorld();
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      (index % 2 === 0 ? world.alice : world.carol).post(`${CALENDAR}/events`, {
        title: `Booking ${index}`,
        start: { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" },
        rrule: "FREQ=WEEKLY;COUNT=4",
        attendees: [{ principalId: "bob" }],
        ifFree: true,
      })),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array.from({ length: 9 }, () => 409)]);
  assert.deepEqual(
    new Set(answers.flatMap(({ status, body }) => status === 409 ? [body.code] : [])),
    new Set(["busy_conflict"]),
  );
  const later = {
    title: "x",
    start: { dateTime: "2026-03-23T08:30:00", timeZone: "Europe/Vienna" },
    attendees: [{ principalId: "bob" }],
  };
  refused(await world.alice.post(`${CALENDAR}/events`, { ...later, ifFree: true }), 409, "busy_conflict");
  ok(await world.alice.post(`${CALENDAR}/events`, { ...later, durationMinutes: 30, ifFree: true }), 201);
});

Deno.test("ifFree looks at a year of a daily series, to its last day", async () => {
  await using world = await openWorld();
  const taken = {
    title: "Christmas",
    start: { dateTime: "2026-12-24T09:15:00", timeZone: "UTC" },
    durationMinutes: 30,
  };
  ok(await world.alice.post(`${CALENDAR}/events`, taken), 201);
  const daily = (count: number) =>
    world.alice.post(`${CALENDAR}/events`, {
      title: "Stand-up",
      start: { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" },
      durationMinutes: 30,
      rrule: `FREQ=DAILY;COUNT=${count}`,
      ifFree: true,
    });
  refused(await daily(298), 409, "busy_conflict");
  ok(await daily(297), 201);
});

Deno.test("ifFree refuses what it cannot tell, where a calendar holds more than is looked at", async () => {
  await using world = await openWorld();
  const hours = Array.from({ length: 23 }, (_, hour) => hour).join();
  const shift = {
    title: "On call",
    start: { dateTime: "2026-03-02T00:00:00", timeZone: "Europe/Vienna" },
    durationMinutes: 30,
    rrule: `FREQ=DAILY;BYHOUR=${hours};BYMINUTE=0,30`,
  };
  ok(await world.alice.post(`${CALENDAR}/events`, shift), 201);
  // Free at a quarter past eleven, until summer time makes that a quarter past midnight, a thousand shifts later.
  const weekly = { title: "Backup", durationMinutes: 10, start: { dateTime: "2026-03-03T22:15:00", timeZone: "UTC" } };
  const booking = (count: number) =>
    world.alice.post(`${CALENDAR}/events`, { ...weekly, rrule: `FREQ=WEEKLY;COUNT=${count}`, ifFree: true });
  refused(await booking(8), 422, "recurrence_too_dense");
  ok(await booking(1), 201);
});

Deno.test("a guest, or a token, that may not ask when others are busy does not learn it from ifFree either", async () => {
  await using world = await openWorld();
  const start = { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" };
  ok(await world.bob.post(`${CALENDAR}/events`, { title: "Dentist", start }), 201);
  const guest = await world.gateway.as("guest", { role: "guest" });
  ok(await guest.get("/v1/collaboration/me"));
  await roomOf(world.bob, ["guest"]);
  const wish = { title: "x", start, attendees: [{ principalId: "bob" }] };
  refused(await guest.post(`${CALENDAR}/events`, { ...wish, ifFree: true }), 403, "forbidden");
  const { body } = ok(await guest.post(`${CALENDAR}/events`, wish), 201);
  refused(await guest.patch(`${CALENDAR}/events/${body.id}`, { ifFree: true }), 403, "forbidden");
  const writer = await world.gateway.as("alice", { scope: "calendar.write" });
  refused(await writer.post(`${CALENDAR}/events`, { ...wish, ifFree: true }), 403, "scope_missing");
});

Deno.test("events are found by search, and no longer when they are gone", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { title: "Quarterly fireworks" });
  const find = async (caller: World["bob"]) =>
    ok(await caller.get("/v1/search?q=fireworks&types=event")).body.items.map((item: { event: { id: string } }) =>
      item.event.id
    );
  assert.deepEqual(await find(world.bob), [id]);
  assert.deepEqual(await find(world.carol), []);
  ok(await world.alice.delete(`${CALENDAR}/events/${id}`), 204);
  assert.deepEqual(await find(world.bob), []);
});

Deno.test("a purged room takes its calendar along", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { attendees: [{ principalId: "carol" }] });
  const admin = await world.gateway.as("alice", { role: "admin" });
  ok(await admin.delete(`/v1/rooms/${world.roomId}?purge=true`), 204);
  await world.gateway.runJobs();
  refused(await world.carol.get(`${CALENDAR}/events/${id}`), 404, "not_found");
});

Deno.test("an agent whose owner may not know an event hears nothing of it, and answering tells it no more", async () => {
  await using world = await openWorld();
  const bot = await world.gateway.as("bot", { kind: "agent", owner: "bob" });
  ok(await bot.get("/v1/collaboration/me"));
  ok(await world.alice.put(`/v1/rooms/${world.roomId}/members/bot`, { role: "member" }), 201);
  const { id } = await series(world, {
    title: "Interview",
    visibility: "busy_only",
    attendees: [{ principalId: "bot" }, { principalId: "carol" }],
  });
  assert.equal(ok(await bot.get(`${CALENDAR}/events/${id}`)).body.title, null);
  assert.equal(ok(await bot.put(`${CALENDAR}/events/${id}/rsvp`, { status: "accepted" })).body.title, null);
  const heard = async (who: string) =>
    (await eventsOf(world.gateway, `principal:${who}`, "calendar.event.created")).map(({ data }) => data.event.title);
  assert.deepEqual([await heard("carol"), await heard("bot")], [["Interview"], []]);
});

Deno.test("who is banned from the room hears no more of its events, invited or not", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { attendees: [{ principalId: "bob" }] });
  ok(await world.alice.delete(`/v1/rooms/${world.roomId}/members/bob?ban=true`), 204);
  refused(await world.bob.get(`${CALENDAR}/events/${id}`), 404, "not_found");
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { title: "Secret" }));
  assert.deepEqual(await eventsOf(world.gateway, "principal:bob", "calendar.event.updated"), []);
});

Deno.test("what a room is told of an event has nobody's answer in it", async () => {
  await using world = await openWorld();
  await series(world, { attendees: [{ email: "eve@example.org" }, { principalId: "bob" }] });
  const statuses = async (stream: string) =>
    (await eventsOf(world.gateway, stream, "calendar.event.created")).map(({ data }) => data.event.myStatus);
  assert.deepEqual(await statuses(`room:${world.roomId}`), [null]);
  assert.deepEqual(await statuses("principal:bob"), ["needs_action"]);
});

Deno.test("a series that was made longer again is split once more where it was split before", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const split = () =>
    world.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "following",
      occurrence: "2026-03-11T09:00:00",
      title: "Tail",
    });
  const first = ok(await split()).body;
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { rrule: "FREQ=DAILY;COUNT=5" }));
  const second = ok(await split()).body;
  assert.equal(new Set([id, first.id, second.id]).size, 3);
  assert.notEqual(first.uid, second.uid);
});

Deno.test("a series that ends on a day keeps its last occurrence when it is moved", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { rrule: "FREQ=DAILY;UNTIL=20260311T080000Z" });
  const at = (dateTime: string, timeZone = "Europe/Vienna") => ({ dateTime, timeZone });
  const starts = async () => (await list(world.alice, ...MARCH)).map((item) => item.start.dateTime.slice(8, 16));
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { start: at("2026-03-09T11:00:00") }));
  assert.deepEqual(await starts(), ["09T11:00", "10T11:00", "11T11:00"]);
  const moved = { occurrence: "2026-03-10T11:00:00", start: at("2026-03-12T08:00:00") };
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, moved));
  assert.deepEqual(await starts(), ["11T08:00", "12T08:00", "13T08:00"]);
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { start: at("2026-03-11T20:00:00", "America/New_York") }));
  assert.deepEqual(await starts(), ["11T20:00", "12T20:00", "13T20:00"]);
  const tail = {
    scope: "following",
    occurrence: "2026-03-12T20:00:00",
    start: at("2026-03-12T22:00:00", "America/New_York"),
  };
  const { body } = ok(await world.alice.patch(`${CALENDAR}/events/${id}`, tail));
  assert.deepEqual(await starts(), ["11T20:00", "12T22:00", "13T22:00"]);
  ok(
    await world.alice.patch(`${CALENDAR}/events/${body.id}`, {
      start: { date: "2026-03-14" },
      occurrence: "2026-03-12T22:00:00",
    }),
  );
  const days = (await list(world.alice, ...MARCH)).flatMap((item) => item.start.date ?? []);
  assert.deepEqual(days, ["2026-03-14", "2026-03-15"]);
});

Deno.test("weekdays of a series go along when one of its occurrences is moved with all the others", async () => {
  await using world = await openWorld();
  const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });
  const starts = async () => (await list(world.alice, ...MARCH)).map((item) => item.start.dateTime.slice(8, 13));
  const rrule = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;COUNT=4";
  const { id } = await series(world, { rrule, exDates: ["2026-03-15T09:00:00"] });
  assert.deepEqual(await starts(), ["09T09", "23T09", "29T09"]);
  ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      occurrence: "2026-03-23T09:00:00",
      start: at("2026-03-24T10:00:00"),
    }),
  );
  assert.deepEqual(await starts(), ["10T10", "24T10", "30T10"]);
  const tail = ok(
    await world.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "following",
      occurrence: "2026-03-24T10:00:00",
      start: at("2026-03-23T10:00:00"),
    }),
  ).body;
  assert.deepEqual(await starts(), ["10T10", "23T10", "29T10"]);
  assert.equal(tail.rrule, "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=MO;COUNT=2");
  // Which day of a month should it be? That is for the caller to say.
  const monthly = await series(world, { rrule: "FREQ=MONTHLY;BYMONTHDAY=9" });
  const move = { occurrence: "2026-03-09T09:00:00", start: at("2026-03-10T09:00:00") };
  const answer = await world.alice.patch(`${CALENDAR}/events/${monthly.id}`, move);
  refused(answer, 422, "validation_failed");
  assert.equal(answer.body.errors[0].pointer, "/rrule");
  ok(await world.alice.patch(`${CALENDAR}/events/${monthly.id}`, { ...move, rrule: "FREQ=MONTHLY;BYMONTHDAY=10" }));
  ok(await world.alice.patch(`${CALENDAR}/events/${monthly.id}`, { start: at("2026-04-10T10:00:00") }));
});

Deno.test("a series of many answers to single occurrences is answered and changed like any other", async () => {
  await using world = await openWorld();
  const { id } = await series(world, { rrule: "FREQ=DAILY", attendees: [{ principalId: "bob" }] });
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
  await world.gateway.app.store.write((tx) => tx.insertMany("calendar_rsvp", rows));
  const answer = { status: "accepted", occurrence: "2026-03-10T09:00:00" };
  assert.equal(ok(await world.bob.put(`${CALENDAR}/events/${id}/rsvp`, answer)).body.myStatus, "accepted");
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { title: "Daily" }));
  assert.deepEqual((await list(world.bob, ...MARCH)).slice(0, 3).map((item) => item.myStatus), [
    "needs_action",
    "accepted",
    "declined",
  ]);
});

Deno.test("ifFree for one occurrence asks about its time, not about that of the others", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const taken = { title: "Dentist", start: { dateTime: "2026-03-12T09:00:00", timeZone: "Europe/Vienna" } };
  ok(await world.alice.post(`${CALENDAR}/events`, taken), 201);
  const move = (dateTime: string) =>
    world.alice.patch(`${CALENDAR}/events/${id}`, {
      scope: "this",
      occurrence: "2026-03-10T09:00:00",
      start: { dateTime, timeZone: "Europe/Vienna" },
      ifFree: true,
    });
  ok(await move("2026-03-10T15:00:00"));
  refused(await move("2026-03-12T09:30:00"), 409, "busy_conflict");
});

Deno.test("an event of the last day there is ends on the day after", async () => {
  await using world = await openWorld();
  const { body } = ok(
    await world.alice.post(`${CALENDAR}/events`, { title: "End", start: { date: "2199-12-31" } }),
    201,
  );
  assert.deepEqual(body.end, { date: "2200-01-01" });
});

Deno.test("an occurrence of a time that no calendar has is not found", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  for (const occurrence of ["-271821-04-20T00:00:00", "%2B275760-09-13T00:00:00Z", "9999-12-31T23:59:59", "soon"]) {
    refused(await world.alice.get(`${CALENDAR}/events/${id}?occurrence=${occurrence}`), 404, "not_found");
  }
});

Deno.test("an occurrence that has a time of its own goes along with the series, and is where it was put", async () => {
  await using world = await openWorld();
  const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });
  const starts = async () => (await list(world.alice, ...MARCH)).map((item) => item.start.dateTime.slice(8, 13));
  const { id } = await series(world);
  const change = (occurrence: string, start: string, scope: string) =>
    world.alice.patch(`${CALENDAR}/events/${id}`, { scope, occurrence, start: at(start) });
  ok(await change("2026-03-10T09:00:00", "2026-03-10T15:00:00", "this"));
  ok(await change("2026-03-10T09:00:00", "2026-03-10T16:00:00", "all"));
  assert.deepEqual(await starts(), ["09T10", "10T16", "11T10", "12T10", "13T10"]);
  ok(await change("2026-03-12T10:00:00", "2026-03-12T18:00:00", "this"));
  ok(await change("2026-03-10T10:00:00", "2026-03-10T17:00:00", "following"));
  assert.deepEqual(await starts(), ["09T10", "10T17", "11T17", "12T19", "13T17"]);
});

Deno.test("an occurrence with a time of its own that takes the series to another zone is where it was put", async () => {
  await using world = await openWorld();
  const { id } = await series(world);
  const occurrence = "2026-03-10T09:00:00";
  const move = (scope: string, dateTime: string, timeZone: string) =>
    world.alice.patch(`${CALENDAR}/events/${id}`, { scope, occurrence, start: { dateTime, timeZone } });
  ok(await move("this", "2026-03-12T15:00:00", "Europe/Vienna"));
  ok(await move("all", "2026-03-11T07:00:00", "UTC"));
  assert.deepEqual(
    (await startsIn(world.alice, ...MARCH)).map((start) => start.slice(8, 13)),
    ["10T07", "11T07", "12T07", "13T07", "14T07"],
  );
});

Deno.test("a series that begins on another day, and recurs on the days it names, keeps what was left out and edited", async () => {
  await using world = await openWorld();
  const at = (dateTime: string) => ({ dateTime, timeZone: "Europe/Vienna" });
  const rrule = "FREQ=WEEKLY;BYDAY=MO;COUNT=4";
  const { id } = await series(world, { rrule, exDates: ["2026-03-16T09:00:00"] });
  const edit = { scope: "this", occurrence: "2026-03-23T09:00:00", title: "Demo" };
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, edit));
  ok(await world.alice.patch(`${CALENDAR}/events/${id}`, { start: at("2026-03-10T10:00:00") }));
  assert.deepEqual(await titles(world), ["03-10T09:00 Stand-up", "03-23T09:00 Demo", "03-30T08:00 Stand-up"]);
  const byHour = await series(world, {
    title: "Walk",
    rrule: "FREQ=DAILY;BYHOUR=9;COUNT=3",
    exDates: ["2026-03-10T09:00:00"],
  });
  ok(await world.alice.patch(`${CALENDAR}/events/${byHour.id}`, { start: at("2026-03-09T08:30:00") }));
  const walks = (await titles(world)).filter((one) => one.includes("Walk"));
  assert.deepEqual(walks, ["03-09T07:30 Walk", "03-09T08:30 Walk"]);
});

Deno.test("who is invited to an event finds that in the inbox, once, and nobody else does", async () => {
  await using world = await openWorld();
  const { gateway, alice, bob, carol, roomId } = world;
  const inbox = async (who: Caller): Promise<unknown[]> => {
    await gateway.runJobs();
    const { body } = await who.get("/v1/collaboration/notifications");
    return body.items.filter((item: Answer["body"]) => item.resource?.type === "event")
      .map((item: Answer["body"]) => [item.kind, item.resource.id, item.title, item.roomId]);
  };
  const attendees = [{ principalId: "alice" }, { principalId: "bob" }];
  const start = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
  const { body: event } = ok(
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
  ok(await alice.patch(path, { attendees: [...attendees, { principalId: "carol" }] }));
  assert.deepEqual(await inbox(carol), [["invitation", event.id, "Stand-up", roomId]]);
  ok(await alice.patch(path, { title: "Daily" }));
  ok(await alice.patch(path, { scope: "this", occurrence: "2026-03-03T09:00:00", title: "Other" }));
  ok(await alice.patch(path, { scope: "following", occurrence: "2026-03-04T09:00:00", title: "Later" }));
  assert.equal((await inbox(bob)).length, 1);
  ok(await alice.delete(path), 204);
  assert.deepEqual(await inbox(bob), [["invitation", event.id, null, roomId]]);
});
