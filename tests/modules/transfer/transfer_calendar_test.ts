// Calendars are exported and imported: series with their exceptions, attendees, and reminders of what
// is still to come; once, by rights, and from an archive that is not believed.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { slowTest } from "../../tier.ts";
import { listEvents } from "../calendar/calendar_fixture.ts";
import { completeSearch, createCaller, createCallers, createRoom, ok } from "../fixtures.ts";
import {
  type Any,
  assertIdempotent,
  assertNothingAdded,
  assertSurvivesCrashes,
  comparableRecords,
  exportRoom,
  exportTenant,
  importAgain,
  importArchive,
  importPartly,
  importWhole,
  parseRecords,
  recordsOfType,
  toArchive,
} from "./transfer_fixture.ts";

/** The first event that is found. */
async function searchEvent(caller: Caller, query: string): Promise<Any> {
  const { items: [hit] } = await completeSearch(() => caller.get(`/v1/search?q=${query}&types=event`));
  return hit.event;
}

const EVENTS = "/v1/collaboration/calendar/events";
const [FROM, TO] = ["2026-02-01T00:00:00Z", "2026-06-01T00:00:00Z"];
const RANGE = `from=${FROM}&to=${TO}`;

/** A series with everything, an event of the day, one for its guests only, one that only shows time, and a personal one. */
async function createContent(gateway: Harness) {
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const { ann, bob, cyd } = await createCallers(gateway, "ann", "bob", "cyd");
  const roomId = await createRoom(ann, ["bob"], { name: "Team" });
  const make = async (who: Caller, title: string, more: Any = {}): Promise<Any> => {
    gateway.clock.advance(1000);
    const start = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
    return ok(await who.post(EVENTS, { title, start, durationMinutes: 30, ...more }));
  };
  const series = await make(ann, "Stand-up", {
    roomId,
    description: "上海",
    location: "Room 1",
    rrule: "FREQ=WEEKLY;BYDAY=MO;COUNT=10",
    exDates: ["2026-03-23T09:00:00"],
    attendees: [{ principalId: "bob", role: "chair" }, { principalId: "cyd" }, { email: "eve@example.org" }],
    reminders: [{ minutesBefore: 10 }, { minutesBefore: 60 }],
  });
  const path = `${EVENTS}/${series.id}`;
  ok(await bob.put(`${path}/rsvp`, { status: "accepted", comment: "sure" }));
  ok(await cyd.put(`${path}/rsvp`, { status: "declined", occurrence: "2026-03-09T09:00:00" }));
  ok(
    await ann.patch(path, {
      scope: "this",
      occurrence: "2026-03-16T09:00:00",
      title: "Late one",
      start: { dateTime: "2026-03-17T16:00:00", timeZone: "America/New_York" },
    }),
  );
  const day = await make(bob, "Holiday", { roomId, start: { date: "2026-03-05" }, durationMinutes: undefined });
  const secret = await make(ann, "Review", {
    roomId,
    visibility: "private",
    attendees: [{ principalId: "cyd" }],
  });
  const busy = await make(ann, "Dentist", { roomId, visibility: "busy_only", transparent: true });
  const own = await make(cyd, "Gym", {
    start: { dateTime: "2026-03-01T12:30:00", timeZone: "UTC" },
    rrule: "FREQ=DAILY;COUNT=3",
    reminders: [{ minutesBefore: 60 }],
  });
  const call = await make(bob, "Call", {
    roomId,
    start: { dateTime: "2026-03-20T09:00:00", timeZone: "UTC" },
    meeting: { create: true },
  });
  const gone = await make(ann, "Off", { roomId });
  ok(await ann.delete(`${EVENTS}/${gone.id}`));
  return { boss, ann, bob, cyd, roomId, series, day, secret, busy, own, call };
}

/** What somebody sees of calendars, without ids. */
async function readContent(who: Caller): Promise<Any[]> {
  const items = await listEvents(who, FROM, TO);
  const result: Any[] = [];
  for (const { id, occurrence } of items) {
    const query = occurrence === null ? "" : `?occurrence=${occurrence}`;
    const { id: _id, uid, roomId, meetingId, ...event } = ok(await who.get(`${EVENTS}/${id}${query}`));
    result.push({ ...event, hasRoom: roomId !== null, hasMeeting: meetingId !== null, uid: uid === id ? null : uid });
  }
  return result.map((one) => JSON.stringify(one)).sort();
}

testOnEngines(
  "events are imported as they were exported, under other ids where theirs are taken, and can be changed",
  async (engine) => {
    await using gateway = await openGateway(engine);
    const { boss, ann, bob, cyd, series } = await createContent(gateway);
    const out = await exportTenant(gateway, boss);
    assert.equal(parseRecords(out).at(-1).counts.events, 6);
    assert.ok(!out.includes('"Off"'));
    const parts = recordsOfType(out, "event_override", "event_response");
    assert.deepEqual(parts.map(({ type, eventId }) => [type, eventId === series.id]), [
      ["event_override", true],
      ["event_response", true],
    ]);

    const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
    const done = await importWhole(gateway, twin, "gateway", out);
    assert.equal(done.progress.added.events, 6);
    const [newAnn, newBob, newCyd] = await Promise.all(
      ["ann", "bob", "cyd"].map((name) => gateway.as(name, { tenant: "twin" })),
    );
    assert.ok(newAnn !== undefined && newBob !== undefined && newCyd !== undefined);
    for (const [copy, original] of [[newAnn, ann], [newBob, bob], [newCyd, cyd]] as const) {
      const expected = (await readContent(original)).map((one) => JSON.parse(one));
      const found = (await readContent(copy)).map((one) => JSON.parse(one));
      assert.deepEqual(found.map(({ uid: _uid, ...one }) => one), expected.map(({ uid: _uid, ...one }) => one));
    }
    assert.ok(
      !(await readContent(newBob)).join("").includes("Review") &&
        !(await readContent(newBob)).join("").includes("Dentist"),
    );
    const found = await searchEvent(newBob, "Stand");
    assert.notEqual(found.id, series.id);
    assert.equal(found.uid, series.uid);

    await importAgain(gateway, twin, "gateway", out);

    // Only future events cause reminders, once each: the gym of today was due before the import.
    const reminded = async (name: string): Promise<string[]> =>
      (await gateway.app.store.log.read("twin", `principal:${name}`, 0, 1000))
        .filter(({ type }) => type === "calendar.event.reminder").map(({ json }) => JSON.parse(json).data)
        .map(({ event, minutesBefore }) => `${event.startAt.slice(5, 16)} -${minutesBefore}`);
    await gateway.runJobs();
    assert.deepEqual(await reminded("cyd"), []);
    assert.deepEqual(ok(await newBob.get("/v1/collaboration/notifications")).items, [], "nobody is invited anew");
    // Reminders that are long past when a gateway checks again are dropped.
    for (
      const at of ["2026-03-02T07:00:00Z", "2026-03-02T07:50:00Z", "2026-03-02T11:30:00Z", "2026-03-09T07:50:00Z"]
    ) {
      gateway.clock.advance(Date.parse(at) - gateway.clock.now());
      await gateway.runJobs();
      await gateway.runJobs();
    }
    assert.deepEqual((await reminded("bob")).sort(), [
      "03-02T08:00 -10",
      "03-02T08:00 -60",
      "03-09T08:00 -10",
      "03-09T08:00 -60",
    ]);
    assert.deepEqual((await reminded("cyd")).sort(), [
      "03-02T08:00 -10",
      "03-02T08:00 -60",
      "03-02T12:30 -60",
    ]);
    // The meeting of an event moves along with it.
    const later = await gateway.as("ann", { tenant: "twin" });
    const call = await searchEvent(later, "Call");
    const start = { dateTime: "2026-03-21T09:00:00", timeZone: "UTC" };
    ok(await later.patch(`${EVENTS}/${call.id}`, { start }));
    const meeting = ok(await later.get(`/v1/collaboration/meetings/${call.meetingId}`));
    assert.deepEqual([meeting.state, meeting.scheduledFor], ["scheduled", "2026-03-21T09:00:00.000Z"]);
    // The series can still be changed.
    const change = { scope: "following", occurrence: "2026-04-06T09:00:00", title: "Sit-down" };
    ok(await later.patch(`${EVENTS}/${found.id}`, change));
    const titles = ok(await later.get(`${EVENTS}?${RANGE}`)).items.map(({ title }: Any) => title);
    assert.deepEqual([titles.filter((one: string) => one === "Sit-down").length, titles.includes("Late one")], [
      5,
      true,
    ]);
  },
);

Deno.test("imported events are exported again without a difference, an older archive has none, and the source is unchanged", async () => {
  await using gateway = await openGateway();
  const { boss, ann, series } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  {
    await using empty = await openGateway();
    const newBoss = await empty.as("boss", { role: "owner" });
    const old = toArchive(parseRecords(out).filter(({ type }) => !/^(event|meeting)/.test(type)));
    const first = await importArchive(empty, newBoss, "gateway", old);
    assert.deepEqual([first.report, first.progress.added.events], [[], 0]);
    const done = await importArchive(empty, newBoss, "gateway", out);
    assert.deepEqual([done.report, done.progress.added.events], [[], 6], JSON.stringify(done));
    assert.deepEqual(comparableRecords(await exportTenant(empty, newBoss)), comparableRecords(out));
  }
  ok(await ann.patch(`${EVENTS}/${series.id}`, { title: "Renamed" }));
  ok(await ann.delete(`${EVENTS}/${series.id}?scope=this&occurrence=2026-03-16T09:00:00`));
  const before = await readContent(ann);
  const again = await importArchive(gateway, boss, "gateway", out);
  assert.deepEqual([again.report, again.progress.added.events], [[], 0]);
  assert.deepEqual(await readContent(ann), before);
});

Deno.test("an export of a room has the events that all of it may see, and no others", async () => {
  await using gateway = await openGateway();
  const { ann, roomId, series, day, secret, busy, own, call } = await createContent(gateway);
  const out = await exportRoom(gateway, ann, roomId);
  assert.deepEqual(recordsOfType(out, "event").map(({ id }) => id), [series.id, day.id, call.id]);
  for (const { id, title } of [secret, busy, own]) assert.ok(!out.includes(id) && !out.includes(title), title);
  const named = new Set(recordsOfType(out, "principal").map((one) => one.id));
  for (const name of ["ann", "bob", "cyd"]) assert.ok(named.has(name), name);
  // On its own it is imported as well.
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const done = await importArchive(empty, newBoss, "gateway", out);
  assert.deepEqual([done.report, done.progress.added.events], [[], 3]);
});

testOnEngines("lines of events are not believed", async (engine) => {
  await using gateway = await openGateway();
  const { boss, roomId, series, own } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const event = { ...lines.find(({ id }) => id === series.id), parts: 0 };
  const override = lines.find(({ type }) => type === "event_override");
  const response = lines.find(({ type }) => type === "event_response");
  let count = 0;
  const other = (more: Any): Any => ({ ...event, id: `cal_${++count}`, uid: `u${count}`, ...more });
  const invalid: Any[] = [
    other({ version: 2 ** 31 }),
    other({ durationSeconds: 2 ** 40 }),
    other({ start: { dateTime: "2026-03-02T09:00:00", timeZone: "Mars/Olympus" } }),
    other({ start: { dateTime: "2026-03-02T09:00:00", timeZone: "+02:00" } }),
    other({ start: { dateTime: "2026-02-30T09:00:00", timeZone: "UTC" } }),
    other({ start: { dateTime: "0026-02-20T09:00:00", timeZone: "UTC" } }),
    other({ start: { date: "2026-03-02" }, exDates: [] }),
    other({ rrule: "FREQ=SOMETIMES" }),
    other({ rrule: "FREQ=SECONDLY" }),
    other({ rrule: "FREQ=DAILY;COUNT=999999999" }),
    other({ rrule: "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=31" }),
    other({ rrule: "FREQ=DAILY;UNTIL=20200101T000000Z" }),
    other({ rrule: null }),
    other({ exDates: ["2026-03-23"] }),
    other({ uid: "two\nlines" }),
    other({ title: "" }),
    other({ attendees: [{ ...event.attendees[0], email: "both@example.org" }] }),
    other({ attendees: [event.attendees[0], event.attendees[0]] }),
    other({ attendees: Array.from({ length: 201 }, (_, n) => ({ ...event.attendees[0], principalId: `p${n}` })) }),
    other({ reminders: [{ minutesBefore: 2 ** 40 }] }),
    other({ visibility: "public" }),
    other({ parts: 1 }), // And none comes.
  ];
  const extra: Any[] = [
    { ...event, id: "cal_uid" }, // The uid of another in the calendar.
    other({ roomId: "room_nowhere" }),
    other({
      meetingId: "mtg_nowhere",
      createdBy: "ghost",
      attendees: [{ ...event.attendees[0], principalId: "phantom" }],
    }),
    { ...override, eventId: "cal_nowhere" },
    { ...response, eventId: series.id }, // Of another than the one before it.
    // Parts that do not fit their event take it along.
    other({ id: "cal_bad1" }),
    { ...override, eventId: "cal_bad1", patch: { timeZone: "Mars/Olympus" } },
    other({ id: "cal_bad2" }),
    { ...override, eventId: "cal_bad2", patch: { startLocal: "2026-03-17" } },
    other({ id: "cal_bad3" }),
    { ...response, eventId: "cal_bad3", occurrence: "2026-03-17" },
    other({ id: "cal_bad4", rrule: null, exDates: [] }),
    { ...override, eventId: "cal_bad4" },
    // And those that cannot be read are left out.
    other({ id: "cal_good" }),
    { ...override, eventId: "cal_good", patch: { durationSeconds: 2 ** 40 } },
    { ...override, eventId: "cal_good", patch: { isAdmin: true } },
    { ...response, eventId: "cal_good", status: "maybe" },
    { ...override, eventId: "cal_good" },
    { ...override, eventId: "cal_good", patch: { title: "Again" } },
    other({ id: "cal_many" }),
    ...Array.from({ length: 503 }, (_, n) => ({
      ...override,
      eventId: "cal_many",
      occurrence: new Date(Date.UTC(2026, 2, 1 + n, 9)).toISOString().slice(0, 19),
    })),
    ...Array.from({ length: 4002 }, (_, n) => ({ ...response, eventId: "cal_many", principalId: `p${n}` })),
  ];
  const at = lines.findIndex(({ id }) => id === own.id);
  const bad = [...lines.slice(0, at), ...invalid, ...extra, ...lines.slice(at)];
  await using empty = await openGateway(engine);
  const newBoss = await empty.as("boss", { role: "owner" });
  const done = await importPartly(empty, newBoss, toArchive(bad), {
    invalid_record: invalid.length + 4 + 3,
    unknown_room: 1,
    unknown_event: 2,
    uid_taken: 1,
    meeting_missing: 1,
    too_many_exceptions: 3,
    too_many_responses: 2,
    unknown_author: 4002,
  });
  const record = done.report.find(({ code }: Any) => code === "invalid_record");
  assert.match(record.examples[0], new RegExp(`^line ${at + 1}: version`));
  assert.equal(done.progress.added.events, 9);
  const ann = await empty.as("ann");
  const { items } = ok(await ann.get(`${EVENTS}?${RANGE}&roomId=${roomId}`));
  const late = items.filter(({ id, title }: Any) => id === "cal_good" && title === "Late one");
  assert.equal(late.length, 1);
  ok(await ann.patch(`${EVENTS}/cal_many`, { title: "Still" }));
  assertNothingAdded(await importArchive(empty, newBoss, "gateway", toArchive(bad)));
});

slowTest("an import of events that crashes at every turn ends as one that does not", async () => {
  await using gateway = await openGateway();
  const { boss, series } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const at = lines.findIndex(({ id }) => id === series.id);
  const event = { ...lines[at], parts: 0, attendees: lines[at].attendees.slice(0, 1) };
  // More than are imported at a time, in an archive so small that it is read without a thread: to start one takes long.
  lines.splice(at, 0, ...Array.from({ length: 70 }, (_, n) => ({ ...event, id: `cal_${n}`, uid: `u${n}` })));
  const out = toArchive(lines);
  await assertSurvivesCrashes(out, 8);
});

Deno.test("an import of events and meetings whose transactions are run twice counts and publishes everything once", async () => {
  await using gateway = await openGateway();
  const { boss, roomId } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  await assertIdempotent(out, roomId);
});

Deno.test("a rule from a file, longer than any that the API accepts, is exported and imported", async () => {
  await using gateway = await openGateway();
  const { boss, ann, roomId } = await createContent(gateway);
  const days = Array.from({ length: 330 }, (_, n) => n + 1).join(",");
  const text = [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "BEGIN:VEVENT",
    "UID:long",
    "SUMMARY:Nearly daily",
    "DTSTART:20260302T090000Z",
    "DTEND:20260302T093000Z",
    `RRULE:FREQ=YEARLY;BYYEARDAY=${days}`,
    "END:VEVENT",
    "END:VCALENDAR",
  ].join("\r\n");
  ok(await ann.post("/v1/collaboration/calendar/import", { roomId, text }));
  await gateway.runJobs();
  const out = await exportTenant(gateway, boss);
  assert.ok(recordsOfType(out, "event").some(({ uid }) => uid === "long"));
  await using empty = await openGateway();
  const done = await importArchive(empty, await empty.as("boss", { role: "owner" }), "gateway", out);
  assert.deepEqual([done.report, done.progress.added.events], [[], 7]);
});
