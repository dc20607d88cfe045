// Recurrence through the API: golden against ical.js with the zones' own VTIMEZONEs, gaps and folds, and hostile rules.
// Measures the work of its thread.
import assert from "node:assert/strict";
import ICAL from "ical.js";
import { tzlib_get_ical_block } from "timezones-ical-library";
import { CALENDAR, expectStatus, listStarts, openCalendarFixture } from "./calendar_fixture.ts";
import { measureMinCpuMs, measureReferenceMs } from "../../cpu_time.ts";
import { assertProblem } from "../fixtures.ts";

const ZONES = ["Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"];
const RULES = [
  "FREQ=DAILY",
  "FREQ=DAILY;INTERVAL=3;COUNT=90",
  "FREQ=WEEKLY;BYDAY=MO,WE,FR",
  "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,MO;UNTIL=20261115T080000Z",
  "FREQ=MONTHLY;BYDAY=-1SU",
  "FREQ=MONTHLY;BYMONTHDAY=31",
  "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
  "FREQ=YEARLY;BYMONTH=3,10,11;BYDAY=SU",
  // Not at one or two: of a repeated hour ical.js takes the second, RFC 5545 3.3.5 the first; see below.
  "FREQ=WEEKLY;BYDAY=SU;BYHOUR=4,9,23;BYMINUTE=0,30",
];
const [FROM, TO] = ["2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z"];

/** Starts of a series in the range as ical.js expands them. */
function expandByIcal(zone: string, start: string, rrule: string): string[] {
  const [block] = tzlib_get_ical_block(zone);
  const stamp = start.replaceAll(/[-:]/g, "");
  const text =
    `BEGIN:VCALENDAR\r\n${block}\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART;TZID=${zone}:${stamp}\r\nRRULE:${rrule}\r\n` +
    "END:VEVENT\r\nEND:VCALENDAR";
  const calendar = new ICAL.Component(ICAL.parse(text));
  const timezone = new ICAL.Timezone(calendar.getFirstSubcomponent("vtimezone") ?? undefined);
  ICAL.TimezoneService.register(timezone);
  const component = calendar.getFirstSubcomponent("vevent");
  assert.ok(component !== null);
  const iterator = new ICAL.Event(component).iterator();
  const starts: string[] = [];
  for (let next = iterator.next(); next !== undefined && next !== null; next = iterator.next()) {
    const at = new Date(next.convertToZone(ICAL.Timezone.utcTimezone).toString()).toISOString();
    if (at >= new Date(TO).toISOString()) break;
    if (at >= new Date(FROM).toISOString()) starts.push(at);
  }
  return starts;
}

for (const zone of ZONES) {
  Deno.test(`event.list expands like ical.js across a year in ${zone}`, async () => {
    for (const rrule of RULES) {
      await using fixture = await openCalendarFixture();
      const start = firstOf(rrule);
      expectStatus(
        await fixture.alice.post(`${CALENDAR}/events`, {
          title: rrule,
          start: { dateTime: start, timeZone: zone },
          durationMinutes: 0,
          rrule,
        }),
        201,
      );
      const expected = expandByIcal(zone, start, rrule);
      assert.ok(expected.length > 3, rrule);
      assert.deepEqual(await listStarts(fixture.alice, FROM, TO), expected, `${zone} ${rrule}`);
    }
  });
}

/** A start that the rule itself generates. */
function firstOf(rrule: string): string {
  if (rrule.includes("BYSETPOS")) return "2025-12-31T09:00:00";
  if (rrule.includes("BYDAY=-1SU")) return "2025-11-30T09:00:00";
  if (rrule.includes("BYMONTHDAY=31")) return "2025-12-31T09:00:00";
  if (rrule.includes("BYMONTH=3")) return "2025-11-02T09:00:00";
  if (rrule.includes("BYHOUR")) return "2026-01-04T04:00:00";
  if (rrule.includes("BYDAY=SU,MO")) return "2026-01-04T09:00:00";
  return "2026-01-02T09:00:00";
}

Deno.test("a daily event remains at its hour when clocks change in Vienna", async () => {
  await using fixture = await openCalendarFixture();
  await fixture.alice.post(`${CALENDAR}/events`, {
    title: "Stand-up",
    start: { dateTime: "2026-03-27T09:00:00", timeZone: "Europe/Vienna" },
    rrule: "FREQ=DAILY",
  });
  assert.deepEqual(await listStarts(fixture.alice, "2026-03-27T00:00:00Z", "2026-03-31T00:00:00Z"), [
    "2026-03-27T08:00:00.000Z",
    "2026-03-28T08:00:00.000Z",
    "2026-03-29T07:00:00.000Z",
    "2026-03-30T07:00:00.000Z",
  ]);
});

Deno.test("a start at a skipped wall time is left out of a series, and not counted (RFC 5545 3.3.10)", async () => {
  await using fixture = await openCalendarFixture();
  const { body } = expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, {
      title: "Backup",
      start: { dateTime: "2026-03-28T02:30:00", timeZone: "Europe/Vienna" },
      rrule: "FREQ=DAILY;COUNT=3",
    }),
    201,
  );
  assert.equal(body.rrule, "FREQ=DAILY;COUNT=3");
  assert.deepEqual(await listStarts(fixture.alice, "2026-03-01T00:00:00Z", "2026-05-01T00:00:00Z"), [
    "2026-03-28T01:30:00.000Z",
    "2026-03-30T00:30:00.000Z",
    "2026-03-31T00:30:00.000Z",
  ]);
});

Deno.test("a single event at a skipped wall time has the offset before the gap, at a repeated one the first", async () => {
  await using fixture = await openCalendarFixture();
  const at = async (dateTime: string, timeZone: string): Promise<string> =>
    expectStatus(await fixture.alice.post(`${CALENDAR}/events`, { title: "x", start: { dateTime, timeZone } }), 201)
      .body
      .startAt;
  assert.equal(await at("2026-03-29T02:30:00", "Europe/Vienna"), "2026-03-29T01:30:00.000Z");
  assert.equal(await at("2026-10-25T02:30:00", "Europe/Vienna"), "2026-10-25T00:30:00.000Z");
  assert.equal(await at("2026-10-04T02:10:00", "Australia/Lord_Howe"), "2026-10-03T15:40:00.000Z");
  assert.equal(await at("2026-04-05T01:45:00", "Australia/Lord_Howe"), "2026-04-04T14:45:00.000Z");
});

Deno.test("a start at a repeated wall time is the first of both, once", async () => {
  await using fixture = await openCalendarFixture();
  await fixture.alice.post(`${CALENDAR}/events`, {
    title: "Night shift",
    start: { dateTime: "2026-10-31T01:30:00", timeZone: "America/New_York" },
    rrule: "FREQ=DAILY;COUNT=3",
  });
  assert.deepEqual(await listStarts(fixture.alice, "2026-10-31T00:00:00Z", "2026-11-05T00:00:00Z"), [
    "2026-10-31T05:30:00.000Z",
    "2026-11-01T05:30:00.000Z",
    "2026-11-02T06:30:00.000Z",
  ]);
});

Deno.test("all-day series recur by date in every zone", async () => {
  await using fixture = await openCalendarFixture();
  await fixture.alice.post(`${CALENDAR}/events`, {
    title: "Pay day",
    start: { date: "2026-01-31" },
    rrule: "FREQ=MONTHLY;BYMONTHDAY=-1",
  });
  const { body } = await fixture.alice.get(`${CALENDAR}/events?from=2026-02-01T00:00:00Z&to=2026-05-01T00:00:00Z`);
  assert.deepEqual(body.items.map((item: { start: unknown; end: unknown }) => [item.start, item.end]), [
    [{ date: "2026-02-28" }, { date: "2026-03-01" }],
    [{ date: "2026-03-31" }, { date: "2026-04-01" }],
    [{ date: "2026-04-30" }, { date: "2026-05-01" }],
  ]);
});

Deno.test("at most 1000 occurrences of a series are returned, with truncated set", async () => {
  await using fixture = await openCalendarFixture();
  await fixture.alice.post(`${CALENDAR}/events`, {
    title: "Probe",
    start: { dateTime: "2001-01-01T00:00:00", timeZone: "UTC" },
    durationMinutes: 5,
    rrule: "FREQ=HOURLY",
  });
  const { body } = expectStatus(
    await fixture.alice.get(`${CALENDAR}/events?from=2026-01-01T00:00:00Z&to=2027-01-02T00:00:00Z&limit=5000`),
  );
  assert.deepEqual([body.items.length, body.truncated, body.hasMore], [1000, true, false]);
  assert.equal(body.items[0].startAt, "2026-01-01T00:00:00.000Z");
});

Deno.test("the pages of a range together are the whole range", async () => {
  await using fixture = await openCalendarFixture();
  for (const hour of ["08", "09"]) {
    await fixture.alice.post(`${CALENDAR}/events`, {
      title: hour,
      start: { dateTime: `2026-03-01T${hour}:00:00`, timeZone: "UTC" },
      rrule: "FREQ=DAILY",
    });
  }
  const query = `${CALENDAR}/events?from=2026-03-01T00:00:00Z&to=2026-03-11T00:00:00Z`;
  const { body: whole } = await fixture.alice.get(query);
  assert.equal(whole.items.length, 20);
  const seen: unknown[] = [];
  for (let cursor = ""; cursor !== "end";) {
    const { body } = expectStatus(await fixture.alice.get(`${query}&limit=7${cursor}`));
    seen.push(...body.items);
    cursor = body.nextCursor === null ? "end" : `&cursor=${body.nextCursor}`;
  }
  assert.deepEqual(seen, whole.items);
});

Deno.test("a series may have 2500 starts, however far apart", async () => {
  await using fixture = await openCalendarFixture();
  const starts = ["DAILY", "WEEKLY", "WEEKLY;BYDAY=MO,TU,WE,TH,FR", "MONTHLY", "DAILY;BYHOUR=8,10,12,14,16,18"];
  for (const often of starts) {
    const { body } = expectStatus(
      await fixture.alice.post(`${CALENDAR}/events`, {
        title: "x",
        start: { dateTime: "2026-01-01T08:00:00", timeZone: "Europe/Vienna" },
        rrule: `FREQ=${often};COUNT=${often === "MONTHLY" ? 2400 : 2500}`,
      }),
      201,
    );
    assert.match(body.rrule, /COUNT=2[45]00$/);
  }
});

Deno.test("hostile rules are refused at little cost", async () => {
  await using fixture = await openCalendarFixture();
  const many = (from: number, to: number): string =>
    Array.from({ length: to - from + 1 }, (_, i) => from + i).join(",");
  const post = (rrule: string) =>
    fixture.alice.post(`${CALENDAR}/events`, {
      title: "x",
      start: { dateTime: "2026-01-01T09:00:00", timeZone: "Europe/Vienna" },
      rrule,
    });
  expectStatus(await post("FREQ=DAILY"), 201);
  const dense = [
    "FREQ=SECONDLY",
    "FREQ=MINUTELY;INTERVAL=999",
    `FREQ=DAILY;BYHOUR=${many(0, 23)};BYMINUTE=${many(0, 59)}`,
    `FREQ=YEARLY;BYMONTH=${many(1, 12)};BYMONTHDAY=${many(1, 31)};BYHOUR=${many(0, 23)}`,
    `FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=${many(0, 23)};BYMINUTE=${many(0, 59)};BYSETPOS=-1`,
    "FREQ=DAILY;COUNT=999999999",
  ];
  const senseless = [
    "FREQ=YEARLY;BYYEARDAY=1,2,3;BYWEEKNO=30",
    "FREQ=DAILY;BYSETPOS=5;BYHOUR=1,2",
    "FREQ=DAILY;BYMONTHDAY=31;BYMONTH=2,4,6,9,11;BYDAY=MO",
    "FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;BYSETPOS=7",
    "FREQ=HOURLY;INTERVAL=999;BYHOUR=3;BYMONTHDAY=13;BYDAY=FR",
    "FREQ=HOURLY;BYYEARDAY=366;BYMONTH=1",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=YEARLY;BYDAY=53MO",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=31",
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;COUNT=3;UNTIL=20270101",
    "FREQ=DAILY;FREQ=DAILY",
    "FREQ=DAILY;RSCALE=HEBREW",
    "FREQ=DAILY;INTERVAL=0",
    "FREQ=DAILY\r\nEXDATE:20260101T090000Z",
    "FREQ=DAILY;UNTIL=20250101T000000Z",
    "__proto__=1",
    `FREQ=DAILY;BYDAY=${"MO,".repeat(300)}`,
  ];
  const affordable = await measureReferenceMs();
  for (const rrule of [...dense, ...senseless]) {
    let response = await post(rrule);
    const ms = await measureMinCpuMs(async () => response = await post(rrule), 3);
    // Rules refused by expansion may have either code: no occurrences, or a search that takes too long.
    assert.equal(response.status, 422, rrule);
    assert.ok(["recurrence_too_complex", "validation_failed"].includes(response.body.code), rrule);
    if (dense.includes(rrule)) assert.equal(response.body.code, "recurrence_too_complex", rrule);
    assert.ok(ms < affordable, `${rrule.slice(0, 60)} took ${ms} ms`);
  }
});

Deno.test("event.list refuses a range over 366 days, and unknown zones are named", async () => {
  await using fixture = await openCalendarFixture();
  assertProblem(
    await fixture.alice.get(`${CALENDAR}/events?from=2026-01-01T00:00:00Z&to=2027-01-03T00:00:00Z`),
    422,
    "validation_failed",
  );
  // PST is a zone to Intl, but not to Temporal.
  for (const timeZone of ["Europe/Atlantis", "PST"]) {
    const response = await fixture.alice.post(`${CALENDAR}/events`, {
      title: "x",
      start: { dateTime: "2026-01-01T09:00:00", timeZone },
    });
    assertProblem(response, 422, "invalid_time_zone");
    assert.equal(response.body.errors[0].pointer, "/start/timeZone");
  }
});

Deno.test("a stored series with a rule that is refused now still recurs", async () => {
  await using fixture = await openCalendarFixture();
  const start = { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" };
  const { body } = expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, { title: "x", start, rrule: "FREQ=YEARLY;BYDAY=52MO" }),
    201,
  );
  await fixture.gateway.app.store.write((tx) =>
    tx.db.updateTable("calendar_event").set({ rrule: "FREQ=YEARLY;BYDAY=53MO" }).where("id", "=", body.id).execute()
  );
  assert.deepEqual(await listStarts(fixture.alice, FROM, TO), ["2026-03-02T09:00:00.000Z"]);
  const path = `${CALENDAR}/events/${body.id}?scope=this&occurrence=${start.dateTime}`;
  expectStatus(await fixture.alice.patch(path, { title: "y" }));
});

Deno.test("a series that starts at a skipped wall time has its first occurrence by name and by instant", async () => {
  await using fixture = await openCalendarFixture();
  const start = { dateTime: "2026-03-29T02:30:00", timeZone: "Europe/Vienna" };
  const { body } = expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, { title: "Backup", start, rrule: "FREQ=DAILY;COUNT=2" }),
    201,
  );
  for (const name of ["2026-03-29T02:30:00", "2026-03-29T01:30:00Z"]) {
    const found = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${body.id}?occurrence=${name}`)).body;
    assert.deepEqual([found.startAt, found.occurrence], ["2026-03-29T01:30:00.000Z", "2026-03-29T02:30:00"]);
  }
});
