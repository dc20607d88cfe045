// iCalendar files: feeds read by another library, imports of files of real programs, and hostile files.
// Runs alone: it compares work of its thread, which takes less where similar work was done before.
import assert from "node:assert/strict";
// What calendar programs wrote, out of the test data of the package `ical`.
import apple from "npm:ical@0.8.0/test/test2.ics" with { type: "text" };
import exchange from "npm:ical@0.8.0/test/test15.ics" with { type: "text" };
import google from "npm:ical@0.8.0/test/test13.ics" with { type: "text" };
import googleSeries from "npm:ical@0.8.0/test/test14.ics" with { type: "text" };
import lanyrd from "npm:ical@0.8.0/test/test1.ics" with { type: "text" };
import meetup from "npm:ical@0.8.0/test/test5.ics" with { type: "text" };
import ownCloud from "npm:ical@0.8.0/test/test7.ics" with { type: "text" };
import series from "npm:ical@0.8.0/test/test12.ics" with { type: "text" };
import tvCountdown from "npm:ical@0.8.0/test/test3.ics" with { type: "text" };
import ICAL from "ical.js";
import nodeIcal from "npm:node-ical@0.27.2";
import { writeCalendar } from "@/modules/calendar/ics/writer.ts";
import { parseGroups } from "@/modules/calendar/ics/grouping.ts";
import { type EventGroup, type ParsedFile, parseFile } from "@/modules/calendar/ics/parsing.ts";
import type { EventRow } from "@/modules/calendar/store.ts";
import { cpuTimeMs, measureMinCpuMs } from "../../cpu_time.ts";
import { allEnded } from "../../wait.ts";
import {
  CALENDAR,
  type CalendarFixture,
  expectStatus,
  listEvents,
  listStarts,
  openCalendarFixture,
  readStreamEvents,
} from "./calendar_fixture.ts";
import { assertProblem, createCallers, createRoom, openWithLimits } from "../fixtures.ts";

const YEAR = ["2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z"] as const;

async function importFile(fixture: CalendarFixture, text: string, roomId: string | undefined = fixture.roomId) {
  const started = expectStatus(
    await fixture.alice.post(`${CALENDAR}/import`, { text, ...(roomId === undefined ? {} : { roomId }) }),
    202,
  );
  await fixture.gateway.runJobs();
  const { body } = expectStatus(await fixture.alice.get(`${CALENDAR}/import/${started.body.id}`));
  assert.equal(body.state, "done");
  return body.report;
}

function calendarOf(...lines: string[]): string {
  return ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", ...lines, "END:VCALENDAR", ""].join("\r\n");
}

async function feedOf(
  fixture: CalendarFixture,
  more: Record<string, unknown> = {},
): Promise<{ id: string; path: string }> {
  return expectStatus(
    await fixture.alice.post(`${CALENDAR}/feeds`, { name: "Ours", roomId: fixture.roomId, ...more }),
    201,
  )
    .body;
}

Deno.test("another library reads a feed with the same occurrences, edits and exceptions", async () => {
  await using fixture = await openCalendarFixture();
  const zones = ["Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"];
  for (const timeZone of zones) {
    const { body } = expectStatus(
      await fixture.alice.post(`${CALENDAR}/events`, {
        roomId: fixture.roomId,
        title: `Stand-up; in ${timeZone}, daily`,
        description: "BEGIN:VEVENT\r\nnot an event",
        start: { dateTime: "2026-03-20T09:00:00", timeZone },
        rrule: "FREQ=WEEKLY;BYDAY=MO,FR;COUNT=20",
        exDates: ["2026-03-23T09:00:00"],
      }),
      201,
    );
    expectStatus(
      await fixture.alice.patch(`${CALENDAR}/events/${body.id}`, {
        scope: "this",
        occurrence: "2026-03-27T09:00:00",
        title: "Moved",
        start: { dateTime: "2026-03-28T12:00:00", timeZone },
      }),
    );
  }
  expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, {
      roomId: fixture.roomId,
      title: "Trip",
      start: { date: "2026-04-01" },
      end: { date: "2026-04-04" },
    }),
    201,
  );
  const { path } = await feedOf(fixture);
  const response = expectStatus(await fixture.gateway.withToken(undefined).get(path));
  assert.match(response.headers.get("content-type") ?? "", /^text\/calendar/);
  const parsed = Object.values(nodeIcal.sync.parseICS(response.body)).filter((part) => part?.type === "VEVENT");
  assert.equal(parsed.length, zones.length + 1);
  const read: string[] = [];
  for (const event of parsed) {
    if (event?.type !== "VEVENT") continue;
    const instances = nodeIcal.expandRecurringEvent(event, { from: new Date(YEAR[0]), to: new Date(YEAR[1]) });
    if (event.datetype === "date") {
      assert.deepEqual([event.summary, instances.length], ["Trip", 1]);
      continue;
    }
    read.push(...instances.map((instance) => instance.start.toISOString()));
  }
  const ours = (await listEvents(fixture.alice, ...YEAR)).filter((item) => !item.allDay).map((item) => item.startAt);
  assert.equal(ours.length, 19 * zones.length);
  assert.deepEqual(read.sort(), ours.sort());
  const texts = parsed.map((event) => event?.type === "VEVENT" ? String(event.summary) : "");
  assert.ok(texts.includes("Stand-up; in Europe/Vienna, daily"));
});

Deno.test("an occurrence moved to another zone, or to a whole day, replaces its original also for clients that compare names as text", async () => {
  await using fixture = await openCalendarFixture();
  for (const timeZone of ["Europe/Vienna", "UTC"]) {
    const { body } = expectStatus(
      await fixture.alice.post(`${CALENDAR}/events`, {
        roomId: fixture.roomId,
        title: timeZone,
        start: { dateTime: "2026-03-02T09:00:00", timeZone },
        rrule: "FREQ=DAILY;COUNT=3",
      }),
      201,
    );
    const moves = {
      "03": { dateTime: "2026-03-03T11:00:00", timeZone: "America/New_York" },
      "04": { date: "2026-03-05" },
    };
    for (const [day, start] of Object.entries(moves)) {
      const occurrence = `2026-03-${day}T09:00:00`;
      expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${body.id}`, { scope: "this", occurrence, start }));
    }
  }
  const { path } = await feedOf(fixture);
  const file = new ICAL.Component(ICAL.parse(expectStatus(await fixture.gateway.withToken(undefined).get(path)).body));
  for (
    const [uid, parts] of Map.groupBy(file.getAllSubcomponents("vevent"), (part) => part.getFirstPropertyValue("uid"))
  ) {
    const isEdit = (part: ICAL.Component): boolean => part.hasProperty("recurrence-id");
    const [series] = parts.filter((part) => !isEdit(part)).map((part) => new ICAL.Event(part));
    assert.ok(series !== undefined, String(uid));
    for (const part of parts.filter(isEdit)) series.relateException(part);
    const read: string[] = [];
    const starts = series.iterator();
    for (let start = starts.next(); start; start = starts.next()) {
      read.push(series.getOccurrenceDetails(start).startDate.toString());
    }
    const first = series.summary === "UTC" ? "2026-03-02T09:00:00Z" : "2026-03-02T09:00:00";
    assert.deepEqual(read, [first, "2026-03-03T11:00:00", "2026-03-05"]);
  }
});

Deno.test("a feed defines every zone that it names, in any spelling, and has no control characters", async () => {
  await using fixture = await openCalendarFixture();
  expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, {
      roomId: fixture.roomId,
      title: "Bell, escape",
      description: "Bell\u0007, escape\u001b and\ttab",
      start: { dateTime: "2026-03-20T09:00:00", timeZone: "europe/vienna" },
    }),
    201,
  );
  const { path } = await feedOf(fixture);
  const { body: text } = expectStatus(await fixture.gateway.withToken(undefined).get(path));
  assert.match(text, /^BEGIN:VTIMEZONE\r\nTZID:Europe\/Vienna\r\n/m);
  assert.match(text, /^DESCRIPTION:Bell\\, escape and\ttab\r$/m);
});

Deno.test("no text can inject a line into a feed, whatever line ends a program accepts", async () => {
  await using fixture = await openCalendarFixture();
  const breaks = ["\r\n", "\n", "\r", "\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c"];
  const start = { dateTime: "2026-03-20T09:00:00", timeZone: "Europe/Vienna" };
  for (const end of breaks) {
    const text = `Tea${end}ATTACH:https://example.com/`;
    const event = { roomId: fixture.roomId, title: "Tea", location: text, description: text, start };
    expectStatus(await fixture.alice.post(`${CALENDAR}/events`, event), 201);
  }
  const { path } = await feedOf(fixture);
  const { body } = expectStatus(await fixture.gateway.withToken(undefined).get(path));
  const lines = breaks.reduce((found, end) => found.flatMap((line) => line.split(end)), [String(body)]);
  assert.equal(lines.filter((line) => line.startsWith("SUMMARY:")).length, breaks.length);
  assert.deepEqual(lines.filter((line) => line.startsWith("ATTACH")), []);
});

Deno.test("a client that has a feed as it is gets a 304, and another file after a change", async () => {
  await using fixture = await openCalendarFixture();
  const { alice, roomId, gateway } = fixture;
  const add = (title: string) => alice.post(`${CALENDAR}/events`, { title, roomId, start: { date: "2026-03-09" } });
  expectStatus(await add("first"), 201);
  const { path } = await feedOf(fixture);
  const poll = async (etag?: string) => {
    const request = new Request(
      `http://gateway.test${path}`,
      etag === undefined ? {} : { headers: { "If-None-Match": etag } },
    );
    const response = await gateway.app.fetch(request, "127.0.0.1");
    return { status: response.status, etag: response.headers.get("ETag") ?? "", text: await response.text() };
  };
  const first = await poll();
  gateway.clock.advance(60_000);
  assert.deepEqual(await poll(first.etag), { status: 304, etag: first.etag, text: "" });
  expectStatus(await add("second"), 201);
  const second = await poll(first.etag);
  assert.equal(second.status, 200);
  assert.match(second.text, /SUMMARY:second/);
  assert.notEqual(second.etag, first.etag);
});

Deno.test("a feed shows what its creator may see now, and nothing after it is revoked or the creator is disabled", async () => {
  await using fixture = await openCalendarFixture();
  const anyone = fixture.gateway.withToken(undefined);
  expectStatus(
    await fixture.alice.post(`${CALENDAR}/events`, {
      roomId: fixture.roomId,
      title: "Planning",
      start: { date: "2026-03-09" },
    }),
    201,
  );
  const feed = expectStatus(await fixture.bob.post(`${CALENDAR}/feeds`, {}), 201).body;
  assert.ok(feed.path.split("/").at(-1).length > 22);
  assert.match(expectStatus(await anyone.get(feed.path)).body, /SUMMARY:Planning/);
  const { body: listed } = expectStatus(await fixture.bob.get(`${CALENDAR}/feeds`));
  assert.deepEqual(listed.items.map((item: Record<string, unknown>) => [item.id, item.path]), [[feed.id, undefined]]);
  expectStatus(await fixture.alice.delete(`/v1/rooms/${fixture.roomId}/members/bob`), 204);
  assert.doesNotMatch(expectStatus(await anyone.get(feed.path)).body, /Planning/);
  assertProblem(await fixture.alice.delete(`${CALENDAR}/feeds/${feed.id}`), 404, "not_found");
  expectStatus(await fixture.bob.delete(`${CALENDAR}/feeds/${feed.id}`), 204);
  for (const path of [feed.path, `${CALENDAR}/feeds/none.ics`, `${CALENDAR}/feeds/${"A".repeat(43)}.ics`]) {
    assertProblem(await anyone.get(path), 404, "not_found");
  }
  assertProblem(await fixture.carol.post(`${CALENDAR}/feeds`, { roomId: fixture.roomId }), 404, "not_found");
  const { path } = await feedOf(fixture);
  const root = await fixture.gateway.as("root", { role: "owner" });
  expectStatus(await root.delete("/v1/collaboration/principals/alice"), 204);
  assertProblem(await anyone.get(path), 404, "not_found");
});

Deno.test("files of known programs import, and importing them again changes nothing", async (t) => {
  // Program, file, imported events, events with a problem: a start «Next Year», a uid used twice.
  const files: [string, string, number, number][] = [
    ["Lanyrd", lanyrd, 8, 1],
    ["Apple iCal", apple, 3, 0],
    ["tvcountdown", tvCountdown, 26, 1],
    ["Meetup", meetup, 1, 0],
    ["ownCloud", ownCloud, 1, 0],
    ["a series with an edit", series, 1, 0],
    ["Google Calendar", google, 1, 0],
    ["Google Calendar, two series", googleSeries, 2, 0],
    ["Microsoft Exchange", exchange, 1, 0],
  ];
  for (const [program, text, count, problems] of files) {
    await t.step(program, async () => {
      await using fixture = await openCalendarFixture();
      const first = await importFile(fixture, text);
      assert.deepEqual(
        [first.created, first.updated, first.problems.length],
        [count, 0, problems],
        JSON.stringify(first),
      );
      const again = await importFile(fixture, text);
      assert.deepEqual([again.created, again.updated, again.unchanged], [0, 0, count], JSON.stringify(again));
    });
  }
});

Deno.test("a Google series keeps its zone, its end and its edited occurrence", async () => {
  await using fixture = await openCalendarFixture();
  await importFile(fixture, google);
  const items = await listEvents(fixture.alice, "2016-08-01T00:00:00Z", "2016-10-01T00:00:00Z");
  assert.deepEqual(items.map((item) => `${item.startAt} ${item.title}`), [
    "2016-08-25T11:00:00.000Z repeated",
    "2016-08-26T11:00:00.000Z bla bla",
    "2016-08-27T11:00:00.000Z repeated",
    "2016-08-28T11:00:00.000Z repeated",
  ]);
  assert.equal(items[0].start.timeZone, "Europe/Kiev");
});

Deno.test("zone names of Outlook, Exchange and Mozilla are resolved", async () => {
  await using fixture = await openCalendarFixture();
  const event = (uid: string, tzid: string): string[] => [
    "BEGIN:VEVENT",
    `UID:${uid}`,
    "SUMMARY:Call",
    `DTSTART;TZID=${tzid}:20260701T090000`,
    `DTEND;TZID=${tzid}:20260701T100000`,
    "END:VEVENT",
  ];
  const report = await importFile(
    fixture,
    calendarOf(
      ...event("a", "W. Europe Standard Time"),
      ...event("b", "/mozilla.org/20070129_1/America/New_York"),
      ...event("c", '"(UTC+07:00) Bangkok, Hanoi, Jakarta"'),
      ...event("d", "Middle Earth"),
    ),
  );
  assert.deepEqual([report.created, report.problems.length, report.problems[0].uid], [3, 1, "d"]);
  assert.deepEqual(await listStarts(fixture.alice, "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z"), [
    "2026-07-01T02:00:00.000Z",
    "2026-07-01T07:00:00.000Z",
    "2026-07-01T13:00:00.000Z",
  ]);
});

Deno.test("a zone with an unknown name is found by its definition in the file", async () => {
  await using fixture = await openCalendarFixture();
  const observance = (kind: string, from: string, to: string, more: string[]): string[] => [
    `BEGIN:${kind}`,
    `TZOFFSETFROM:${from}`,
    `TZOFFSETTO:${to}`,
    ...more,
    `END:${kind}`,
  ];
  const yearly = (start: string, by: string): string[] => [`DTSTART:${start}`, `RRULE:FREQ=YEARLY;${by}`];
  const zones: Record<string, string[]> = {
    '"(UTC-05:00) Eastern Time (US & Canada)"': [
      ...observance("STANDARD", "-0400", "-0500", yearly("16010101T020000", "INTERVAL=1;BYDAY=1SU;BYMONTH=11")),
      ...observance("DAYLIGHT", "-0500", "-0400", yearly("16010101T020000", "INTERVAL=1;BYDAY=2SU;BYMONTH=3")),
    ],
    "Customized Time Zone": [
      ...observance(
        "DAYLIGHT",
        "+0100",
        "+0200",
        yearly("19700329T020000", "BYMONTH=3;BYMONTHDAY=25,26,27,28,29,30,31;BYDAY=SU"),
      ),
      ...observance("STANDARD", "+0200", "+0100", yearly("19701025T030000", "BYMONTH=10;BYDAY=-1SU")),
      ...observance(
        "STANDARD",
        "+0200",
        "+0100",
        yearly("19500925T030000", "BYMONTH=9;BYDAY=-1SU;UNTIL=19690101T000000Z"),
      ),
    ],
    "This year": [
      ...observance("DAYLIGHT", "+1030", "+1100", ["DTSTART:20261004T020000"]),
      ...observance("STANDARD", "+1100", "+1030", ["DTSTART:20260405T020000"]),
    ],
    India: observance("STANDARD", "+0530", "+0530", ["DTSTART:19700101T000000"]),
    '"(UTC+01:00) Nowhere"': observance(
      "DAYLIGHT",
      "+0100",
      "+0300",
      yearly("19700329T020000", "BYMONTH=3;BYDAY=-1SU"),
    ),
    "Day by day": observance("STANDARD", "+0000", "+0000", ["DTSTART:19700101T000000", "RDATE:20260101T000000"]),
  };
  const lines = Object.entries(zones).flatMap(([name, rules], at) => [
    "BEGIN:VTIMEZONE",
    `TZID:${name.replaceAll('"', "")}`,
    ...rules,
    "END:VTIMEZONE",
    "BEGIN:VEVENT",
    `UID:${at}`,
    `DTSTART;TZID=${name}:20260701T090000`,
    "END:VEVENT",
  ]);
  const report = await importFile(fixture, calendarOf(...lines));
  assert.deepEqual(report.problems.map(({ detail }: { detail: string }) => detail), [
    "unknown time zone (UTC+01:00) Nowhere",
    "unknown time zone Day by day",
  ]);
  const items = await listEvents(fixture.alice, "2026-06-30T00:00:00Z", "2026-07-02T00:00:00Z");
  assert.deepEqual(items.map(({ start, startAt }) => `${start.timeZone} ${startAt}`).sort(), [
    "America/New_York 2026-07-01T13:00:00.000Z",
    "Asia/Calcutta 2026-07-01T03:30:00.000Z",
    "Australia/Lord_Howe 2026-06-30T22:30:00.000Z",
    "Europe/Berlin 2026-07-01T07:00:00.000Z",
  ]);
});

Deno.test("an occurrence of a timed series named by its day alone is the one on that day", async () => {
  await using fixture = await openCalendarFixture();
  const series = ["BEGIN:VEVENT", "UID:s", "DTSTART;TZID=Europe/Vienna:20260302T100000", "RRULE:FREQ=DAILY;COUNT=4"];
  const edit = [
    "BEGIN:VEVENT",
    "UID:s",
    "RECURRENCE-ID;VALUE=DATE:20260305",
    "DTSTART;TZID=Europe/Vienna:20260305T150000",
  ];
  const cancelled = ["BEGIN:VEVENT", "UID:s", "RECURRENCE-ID;VALUE=DATE:20260304", "DTSTART:20260304T090000Z"];
  const file = calendarOf(
    ...[...series, "EXDATE;VALUE=DATE:20260303", "END:VEVENT"],
    ...[...edit, "END:VEVENT"],
    ...[...cancelled, "STATUS:CANCELLED", "END:VEVENT"],
  );
  assert.deepEqual((await importFile(fixture, file)).problems, []);
  assert.deepEqual(await listStarts(fixture.alice, "2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z"), [
    "2026-03-02T09:00:00.000Z",
    "2026-03-05T14:00:00.000Z",
  ]);
});

Deno.test("an import updates what changed in the file, and retains attendees invited here", async () => {
  await using fixture = await openCalendarFixture();
  const file = (title: string, hour: string): string =>
    calendarOf(
      "BEGIN:VEVENT",
      "UID:one@example.org",
      `SUMMARY:${title}`,
      `DTSTART:20260310T${hour}0000Z`,
      "DURATION:PT45M",
      "ATTENDEE;ROLE=OPT-PARTICIPANT;PARTSTAT=ACCEPTED:mailto:eve@example.org",
      "BEGIN:VALARM",
      "ACTION:DISPLAY",
      "TRIGGER:-PT15M",
      "END:VALARM",
      "END:VEVENT",
    );
  await importFile(fixture, file("First", "08"));
  const [{ id }] = await listEvents(fixture.alice, ...YEAR);
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${id}`, {
      attendees: [{ principalId: "bob" }, { email: "eve@example.org", role: "optional" }],
    }),
  );
  const report = await importFile(fixture, file("Second", "09"));
  assert.deepEqual([report.created, report.updated], [0, 1]);
  const { body } = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${id}`));
  assert.deepEqual([body.title, body.startAt, body.endAt], [
    "Second",
    "2026-03-10T09:00:00.000Z",
    "2026-03-10T09:45:00.000Z",
  ]);
  assert.deepEqual(body.reminders, [{ minutesBefore: 15 }]);
  assert.deepEqual(body.attendees.map((one: Record<string, unknown>) => [one.principalId, one.email, one.status]), [
    ["bob", null, "needs_action"],
    [null, "eve@example.org", "accepted"],
  ]);
});

Deno.test("importing a feed gives the same calendar", async () => {
  await using fixture = await openCalendarFixture();
  const { body: event } = await fixture.alice.post(`${CALENDAR}/events`, {
    roomId: fixture.roomId,
    title: "Rota",
    start: { date: "2026-03-02" },
    rrule: "FREQ=WEEKLY;COUNT=5",
    exDates: ["2026-03-16"],
  });
  expectStatus(
    await fixture.alice.patch(`${CALENDAR}/events/${event.id}`, {
      scope: "this",
      occurrence: "2026-03-09",
      title: "Rota (Bob)",
    }),
  );
  const before = await listEvents(fixture.alice, ...YEAR);
  const { path } = await feedOf(fixture);
  const { body: text } = await fixture.gateway.withToken(undefined).get(path);
  const { body: other } = await fixture.alice.post("/v1/rooms", { name: "Copy" });
  const report = await importFile(fixture, text, other.id);
  assert.deepEqual([report.created, report.problems], [1, []]);
  const after = await listEvents(fixture.alice, ...YEAR, `&roomId=${other.id}`);
  const shape = (item: Record<string, unknown>) => [item.title, item.startAt, item.endAt, item.occurrence, item.uid];
  assert.deepEqual(after.map(shape), before.map(shape));
});

Deno.test("calendar_import.create accepts a file as the body, with the room in the query", async (t) => {
  await using fixture = await openCalendarFixture();
  const text = calendarOf("BEGIN:VEVENT", "UID:raw", "DTSTART:20260310T080000Z", "SUMMARY:Café", "END:VEVENT");
  const post = (body: string, query = `?roomId=${fixture.roomId}`, type = "text/calendar; charset=utf-8") =>
    fixture.alice.post(`${CALENDAR}/import${query}`, body, { "content-type": type });

  await t.step("into the room, repeatedly", async () => {
    const { status, body } = await post(text);
    assert.deepEqual([status, body.roomId], [202, fixture.roomId]);
    await fixture.gateway.runJobs();
    const { report } = expectStatus(await fixture.alice.get(`${CALENDAR}/import/${body.id}`)).body;
    assert.deepEqual([report.created, report.problems], [1, []]);
    assert.deepEqual(
      (await listEvents(fixture.alice, ...YEAR, `&roomId=${fixture.roomId}`)).map(({ title }) => title),
      [
        "Café",
      ],
    );
  });

  await t.step("with a JSON body, which must not name another room", async () => {
    const { roomId } = fixture;
    for (const body of [{ text }, { text, roomId }]) {
      assert.equal(
        expectStatus(await fixture.alice.post(`${CALENDAR}/import?roomId=${roomId}`, body), 202).body.roomId,
        roomId,
      );
    }
    assertProblem(
      await fixture.alice.post(`${CALENDAR}/import?roomId=room_other`, { text, roomId }),
      400,
      "bad_request",
    );
  });

  await t.step("without a room: into the personal calendar", async () => {
    const { body } = expectStatus(await post(text, ""), 202);
    assert.equal(body.roomId, null);
  });

  await t.step("an invalid file, one that is too large, or another type is refused", async () => {
    assertProblem(await post("hello"), 422, "validation_failed");
    assertProblem(await post(text.replace("Café", "\0")), 422, "validation_failed");
    assertProblem(await post(`BEGIN:VCALENDAR\r\n${"x".repeat(1024 * 1024)}`), 422, "validation_failed");
    assertProblem(await post("x".repeat(3 * 1024 * 1024)), 413, "payload_too_large");
    assertProblem(await post(text, `?roomId=${fixture.roomId}&text=x`), 400, "unknown_parameter");
    assertProblem(await post(text, "", "text/calendar; charset=iso-8859-1"), 415, "unsupported_media_type");
    assertProblem(await post(text, "", "text/plain"), 415, "unsupported_media_type");
    const title = { method: "POST", headers: { "content-type": "text/calendar" } };
    assertProblem(
      await fixture.alice.call(title.method, "/v1/rooms", text, title.headers),
      415,
      "unsupported_media_type",
    );
  });

  await t.step("the document names both types", async () => {
    const { body } = await fixture.alice.get("/openapi.json");
    const { requestBody, parameters } = body.paths[`${CALENDAR}/import`].post;
    assert.deepEqual(Object.keys(requestBody.content), ["application/json", "text/calendar"]);
    assert.ok(parameters.some(({ name, in: where }: Record<string, string>) => name === "roomId" && where === "query"));
  });
});

Deno.test("an invalid event is reported, and the others are imported", async () => {
  await using fixture = await openCalendarFixture();
  const event = (uid: string, ...lines: string[]): string[] => ["BEGIN:VEVENT", `UID:${uid}`, ...lines, "END:VEVENT"];
  const report = await importFile(
    fixture,
    calendarOf(
      ...event("dense", "DTSTART:20260310T080000Z", "RRULE:FREQ=SECONDLY"),
      ...event("startless", "SUMMARY:When?"),
      ...event("ancient", "DTSTART:15821004T080000Z"),
      ...event("wordy", "DTSTART:20260310T080000Z", `SUMMARY:${"x".repeat(300)}`),
      ...event("off", "DTSTART:20260310T080000Z", "STATUS:CANCELLED"),
      ...event("broken", "DTSTART:20260310T080000Z", "no colon here"),
      ...event("zoneless", "DTSTART;TZID=PST:20260310T080000"),
      ...event("good", "DTSTART:20260310T080000Z"),
    ),
  );
  assert.equal(report.created, 1, JSON.stringify(report));
  assert.deepEqual(report.problems.map((one: { uid: string }) => one.uid).sort(), [
    "ancient",
    "broken",
    "dense",
    "off",
    "startless",
    "wordy",
    "zoneless",
  ]);
});

Deno.test("an edited occurrence that its series does not have is imported, and can be edited and deleted", async () => {
  await using fixture = await openCalendarFixture();
  const event = (...lines: string[]): string[] => ["BEGIN:VEVENT", "UID:a", ...lines, "END:VEVENT"];
  await importFile(
    fixture,
    calendarOf(
      ...event("DTSTART:20260310T080000Z", "RRULE:FREQ=DAILY;COUNT=2", "SUMMARY:Daily"),
      ...event("DTSTART:20260410T090000Z", "RECURRENCE-ID:20260410T080000Z", "SUMMARY:Extra"),
    ),
  );
  const [extra] = (await listEvents(fixture.alice, ...YEAR)).filter((item) => item.title === "Extra");
  const path = `${CALENDAR}/events/${extra?.id}?scope=this&occurrence=${extra?.occurrence}`;
  expectStatus(await fixture.alice.patch(path, { title: "Renamed" }));
  assert.deepEqual((await listEvents(fixture.alice, ...YEAR)).map((item) => item.title), ["Daily", "Daily", "Renamed"]);
  expectStatus(await fixture.alice.delete(path), 204);
  assert.deepEqual((await listEvents(fixture.alice, ...YEAR)).map((item) => item.title), ["Daily", "Daily"]);
});

Deno.test("invalid dates are problems of an import, and are not converted to other days", async () => {
  await using fixture = await openCalendarFixture();
  const event = (uid: string, ...lines: string[]): string[] => ["BEGIN:VEVENT", `UID:${uid}`, ...lines, "END:VEVENT"];
  const report = await importFile(
    fixture,
    calendarOf(
      ...event("february", "DTSTART;VALUE=DATE:20260230"),
      ...event("month", "DTSTART:20261301T080000Z"),
      ...event("zero", "DTSTART:20260300T080000Z"),
      ...event("hour", "DTSTART;TZID=Europe/Vienna:20260310T250000"),
      ...event("end", "DTSTART:20260228T080000Z", "DTEND:20260230T080000Z"),
      ...event(
        "without",
        "DTSTART:20260310T080000Z",
        "RRULE:FREQ=DAILY;COUNT=3",
        "EXDATE:20260310T080000Z,20260332T080000Z",
      ),
      ...event("until", "DTSTART:20260310T080000Z", "RRULE:FREQ=DAILY;UNTIL=20260332T080000Z"),
      ...event("leap day", "DTSTART;VALUE=DATE:20280229"),
      ...event("leap second", "DTSTART:20261231T235960Z"),
    ),
  );
  assert.deepEqual(report.problems.map((one: { uid: string }) => one.uid), [
    ...["february", "month", "zero", "hour", "end", "without", "until"],
  ]);
  assert.equal(report.created, 2);
  assert.match(report.problems[0].detail, /dtstart.*2026-02-30/);
});

Deno.test("an import reports the properties of a series that are not supported", async () => {
  await using fixture = await openCalendarFixture();
  const event = (uid: string, ...lines: string[]): string[] => [
    ...["BEGIN:VEVENT", `UID:${uid}`, "RRULE:FREQ=DAILY;COUNT=5", "DTSTART:20260310T080000Z"],
    ...lines,
    "END:VEVENT",
  ];
  const report = await importFile(
    fixture,
    calendarOf(
      ...event("dates", "RDATE:20260320T080000Z"),
      ...event("exrule", "EXRULE:FREQ=DAILY;INTERVAL=2"),
      ...event("rules", "RRULE:FREQ=WEEKLY"),
      ...event("future"),
      ...["BEGIN:VEVENT", "UID:future", "RECURRENCE-ID;RANGE=THISANDFUTURE:20260312T080000Z"],
      ...["DTSTART:20260312T090000Z", "SUMMARY:Later", "END:VEVENT"],
      ...event("plain"),
    ),
  );
  assert.equal(report.created, 5);
  assert.deepEqual(
    report.problems.map((one: { uid: string; detail: string }) => `${one.uid}: ${one.detail}`).sort(),
    [
      "dates: additional dates (RDATE) are not supported and were ignored",
      "exrule: exclusion rules (EXRULE) are not supported and were ignored",
      "future: a change of all following occurrences (RANGE) is not supported and was applied to a single one",
      "rules: only one rule is supported; further ones were ignored",
    ],
  );
});

Deno.test("hostile files are refused or parsed quickly", async () => {
  await using fixture = await openCalendarFixture();
  const post = (text: string) => fixture.alice.post(`${CALENDAR}/import`, { text });
  const deep = calendarOf(...Array(50).fill("BEGIN:X"), ...Array(50).fill("END:X"));
  const crowd = calendarOf(...Array(2001).fill("BEGIN:VEVENT\r\nEND:VEVENT"));
  for (const text of ["hello", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT", deep, crowd, calendarOf("END:VEVENT")]) {
    assertProblem(await post(text), 422, "validation_failed");
  }
  assertProblem(await post(`BEGIN:VCALENDAR\r\n${"x".repeat(1024 * 1024)}`), 422, "validation_failed");
  const costly = [
    // Parameters, escapes, folds and alarms by the ten thousand.
    ["BEGIN:VEVENT", "DTSTART:20260310T080000Z", `SUMMARY${";A=B".repeat(60_000)}:x`, "END:VEVENT"],
    ["BEGIN:VEVENT", "DTSTART:20260310T080000Z", `DESCRIPTION:${"\\n".repeat(120_000)}`, "END:VEVENT"],
    ["BEGIN:VEVENT", "DTSTART:20260310T080000Z", `DESCRIPTION:x${"\r\n y".repeat(60_000)}`, "END:VEVENT"],
    ["BEGIN:VEVENT", "DTSTART:20260310T080000Z", ...Array(9000).fill("BEGIN:VALARM\r\nEND:VALARM"), "END:VEVENT"],
    [
      "BEGIN:VEVENT",
      "DTSTART:20260310T080000Z",
      "RRULE:FREQ=DAILY",
      `EXDATE:${Array(15_000).fill("20260311T080000Z").join(",")}`,
      "END:VEVENT",
    ],
    ["BEGIN:VEVENT", "DTSTART:20260310T080000Z", `RRULE:${"BYDAY=MO;".repeat(20_000)}FREQ=DAILY`, "END:VEVENT"],
    ["BEGIN:VEVENT", `DTSTART;TZID=${"/a".repeat(100_000)}:20260310T080000`, "END:VEVENT"],
  ];
  for (const lines of costly) {
    const startedAt = cpuTimeMs();
    await importFile(fixture, calendarOf(...lines));
    assert.ok(cpuTimeMs() - startedAt < 2000, lines[2]?.slice(0, 40));
  }
});

Deno.test("names of time zones of 200 kB are unknown at no cost", async () => {
  await using fixture = await openCalendarFixture();
  const zone = "A".repeat(200_000);
  const file = (tzid: string, more: string[]) =>
    calendarOf(...more, "BEGIN:VEVENT", "UID:one", `DTSTART${tzid}:20260301T090000`, "SUMMARY:One", "END:VEVENT");
  for (const text of [file(`;TZID=${zone}`, []), file("", [`X-WR-TIMEZONE:${zone}`])]) {
    const startedAt = cpuTimeMs();
    const report = await importFile(fixture, text);
    assert.match(report.problems[0].detail, /^unknown time zone (A{60}|of the file)$/);
    // Searching a name in it once took half a minute.
    assert.ok(cpuTimeMs() - startedAt < 5000);
  }
});

Deno.test("an import is visible to its creator only, and requires membership in the room", async () => {
  await using fixture = await openCalendarFixture();
  const text = calendarOf("BEGIN:VEVENT", "UID:a", "DTSTART:20260310T080000Z", "END:VEVENT");
  assertProblem(await fixture.carol.post(`${CALENDAR}/import`, { text, roomId: fixture.roomId }), 404, "not_found");
  const { body } = expectStatus(await fixture.alice.post(`${CALENDAR}/import`, { text }), 202);
  assertProblem(await fixture.bob.get(`${CALENDAR}/import/${body.id}`), 404, "not_found");
  // Removed from the room before the job runs: nothing is imported.
  const late = expectStatus(await fixture.bob.post(`${CALENDAR}/import`, { text, roomId: fixture.roomId }), 202);
  await fixture.alice.delete(`/v1/rooms/${fixture.roomId}/members/bob`);
  await fixture.gateway.runJobs();
  const { report } = expectStatus(await fixture.bob.get(`${CALENDAR}/import/${late.body.id}`)).body;
  // The job may have run before the removal; in any case Bob wrote nothing after it.
  assert.equal(report.created + report.problems.length, 1);
});

Deno.test("an event that was hidden here remains hidden when its file is imported again, unless the file sets a class", async () => {
  await using fixture = await openCalendarFixture();
  const event = (uid: string, ...lines: string[]): string[] => [
    ...["BEGIN:VEVENT", `UID:${uid}`, "DTSTART:20260310T080000Z", `SUMMARY:${uid}`],
    ...lines,
    "END:VEVENT",
  ];
  const file = calendarOf(...event("plain"), ...event("open", "CLASS:PUBLIC"), ...event("odd", "CLASS:X-SECRET"));
  await importFile(fixture, file);
  const visibilities = async () =>
    Object.fromEntries((await listEvents(fixture.alice, ...YEAR)).map(({ title, visibility }) => [title, visibility]));
  assert.deepEqual(await visibilities(), { plain: "room", open: "room", odd: "private" });
  for (const { id } of await listEvents(fixture.alice, ...YEAR)) {
    expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { visibility: "busy_only" }));
  }
  await importFile(fixture, file);
  assert.deepEqual(await visibilities(), { plain: "busy_only", open: "room", odd: "private" });
  const { path } = await feedOf(fixture);
  const { body: text } = await fixture.gateway.withToken(undefined).get(path);
  const { body: other } = await fixture.alice.post("/v1/rooms", { name: "Copy" });
  await importFile(fixture, text, other.id);
  const copies = await listEvents(fixture.alice, ...YEAR, `&roomId=${other.id}`);
  assert.deepEqual(
    Object.fromEntries(copies.map(({ title, visibility }) => [title, visibility])),
    { plain: "busy_only", open: "room", odd: "private" },
  );
});

Deno.test("an import that moves an event resets the responses", async () => {
  await using fixture = await openCalendarFixture();
  const file = (hour: string) =>
    calendarOf("BEGIN:VEVENT", "UID:a", `DTSTART:20260310T${hour}0000Z`, "RRULE:FREQ=DAILY;COUNT=3", "END:VEVENT");
  await importFile(fixture, file("08"));
  const [{ id }] = await listEvents(fixture.alice, ...YEAR);
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { attendees: [{ principalId: "bob" }] }));
  expectStatus(await fixture.bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "accepted" }));
  const rsvp = { status: "declined", occurrence: "2026-03-11T08:00:00" };
  expectStatus(await fixture.bob.put(`${CALENDAR}/events/${id}/rsvp`, rsvp));
  const responses = async () => (await listEvents(fixture.bob, ...YEAR)).map(({ myStatus }) => myStatus);
  await importFile(fixture, file("08"));
  assert.deepEqual(await responses(), ["accepted", "declined", "accepted"]);
  await importFile(fixture, file("09"));
  assert.deepEqual(await responses(), ["needs_action", "needs_action", "needs_action"]);
});

Deno.test("an import ends if its creator no longer exists, or an event has too many attendees", async () => {
  await using fixture = await openCalendarFixture();
  const crowd = (from: number) =>
    calendarOf(
      ...["BEGIN:VEVENT", "UID:a", "DTSTART:20260310T080000Z"],
      ...Array.from({ length: 200 }, (_, at) => `ATTENDEE:mailto:guest${from + at}@example.org`),
      "END:VEVENT",
    );
  await importFile(fixture, crowd(0));
  const [{ id }] = await listEvents(fixture.alice, ...YEAR);
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${id}`, { attendees: [{ principalId: "bob" }] }));
  const { problems } = await importFile(fixture, crowd(0));
  assert.match(problems[0].detail, /200 attendees/);

  const { store } = fixture.gateway.app;
  const text = calendarOf("BEGIN:VEVENT", "UID:b", "DTSTART:20260310T080000Z", "END:VEVENT");
  const row = { tenant_id: "default", room_id: fixture.roomId, state: "waiting", report_json: null, finished_at: null };
  const late = { ...row, id: "imp_late", principal_id: "gone", text, created_at: "2026-03-01T12:00:00.000Z" };
  await store.write(async (tx) => {
    await tx.insertMany("calendar_import", [late]);
    await tx.enqueue({ tenantId: "default", kind: "calendar.import", payload: { importId: late.id } });
  });
  await fixture.gateway.runJobs();
  const ended = await store.db.selectFrom("calendar_import").selectAll().where("id", "=", late.id)
    .executeTakeFirstOrThrow();
  assert.deepEqual([ended.state, ended.text], ["done", null]);
});

Deno.test("a feed over its limit has the latest events", async () => {
  await using fixture = await openCalendarFixture();
  const events = Array.from({ length: 1999 }, (_, at) => [
    ...["BEGIN:VEVENT", `UID:past ${at}`, "DTSTART:20260101T080000Z", "END:VEVENT"],
  ]);
  await importFile(fixture, calendarOf(...events.flat()));
  const start = { dateTime: "2026-03-20T09:00:00", timeZone: "UTC" };
  for (const title of ["Soon", "Later"]) {
    expectStatus(await fixture.alice.post(`${CALENDAR}/events`, { roomId: fixture.roomId, title, start }), 201);
  }
  const daily = { dateTime: "2025-01-01T09:00:00", timeZone: "UTC" };
  const weekly = { roomId: fixture.roomId, title: "Always", start: daily, rrule: "FREQ=WEEKLY" };
  expectStatus(await fixture.alice.post(`${CALENDAR}/events`, weekly), 201);
  const { path } = await feedOf(fixture);
  const { body } = expectStatus(await fixture.gateway.withToken(undefined).get(path));
  for (const title of ["Soon", "Later", "Always"]) assert.match(body, new RegExp(`^SUMMARY:${title}`, "m"));
});

Deno.test("a series with UNTIL in any notation ends on the same day in a feed", async () => {
  await using fixture = await openCalendarFixture();
  const timed = { start: { dateTime: "2026-03-09T23:30:00", timeZone: "America/New_York" }, durationMinutes: 15 };
  const ends = { "20260311": timed, "20260311T233000": timed, "20260312T033000Z": timed };
  const series = [
    ...Object.entries(ends),
    ["20260311T120000Z", { start: { date: "2026-03-09" } }] as const,
  ];
  for (const [until, when] of series) {
    const rrule = `FREQ=DAILY;UNTIL=${until}`;
    expectStatus(
      await fixture.alice.post(`${CALENDAR}/events`, { roomId: fixture.roomId, title: until, ...when, rrule }),
      201,
    );
  }
  const { path } = await feedOf(fixture);
  const { body } = expectStatus(await fixture.gateway.withToken(undefined).get(path));
  assert.deepEqual(
    [...body.matchAll(/UNTIL=(\w+)/g)].map(([, until]) => until).sort(),
    ["20260311", "20260312T033000Z", "20260312T033000Z", "20260312T035959Z"],
  );
  for (const event of Object.values(nodeIcal.sync.parseICS(body))) {
    if (event?.type !== "VEVENT") continue;
    const instances = nodeIcal.expandRecurringEvent(event, { from: new Date(YEAR[0]), to: new Date(YEAR[1]) });
    assert.equal(instances.length, 3, String(event.summary));
  }
});

Deno.test("a feed of long texts is written in slices and has a maximum size", async () => {
  const now = "2026-03-01T12:00:00.000Z";
  const row = (at: number): EventRow => ({
    ...{ tenant_id: "t", id: `${at}`, calendar: "room:r", uid: `${at}`, room_id: "r", visibility: "room" },
    ...{ title: `Event ${at}`, description: "ü".repeat(16_000), location: null, is_transparent: 0 },
    ...{ start_local: "2026-03-09T09:00:00", time_zone: at % 2 === 0 ? "Europe/Vienna" : "Asia/Kathmandu" },
    ...{ duration_seconds: 3600, rrule: null, last_local: null, ex_dates_json: "[]", from_at: now, to_at: now },
    ...{ reminders_json: "[]", reminded_at: now, meeting_id: null, version: 1, created_by: "alice" },
    ...{ created_at: now, updated_at: now },
  });
  const events = Array.from({ length: 2000 }, (_, at) => ({ row: row(at), overrides: [], attendees: [], rsvps: [] }));
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  const text = await writeCalendar("Ours", events);
  clearInterval(timer);
  // As many as a fast machine needs slices.
  assert.ok(turns > 5, `${turns} turns of others`);
  assert.ok(text.length < 8_100_000 && text.endsWith("END:VEVENT\r\nEND:VCALENDAR"));
  const file = new ICAL.Component(ICAL.parse(text));
  assert.equal(file.getAllSubcomponents("vtimezone").length, 2);
  assert.ok(file.getAllSubcomponents("vevent").length > 400);
  assert.equal(file.getFirstPropertyValue("x-wr-calname"), "Ours");
});

Deno.test("a reminder added by a file applies to future occurrences only", async () => {
  await using fixture = await openCalendarFixture();
  const file = (...alarm: string[]): string =>
    calendarOf("BEGIN:VEVENT", "UID:r@example.org", "SUMMARY:Soon", "DTSTART:20260301T122000Z", ...alarm, "END:VEVENT");
  await importFile(fixture, file());
  const alarm = ["BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT15M", "END:VALARM"];
  fixture.gateway.clock.advance(10 * 60_000);
  assert.equal((await importFile(fixture, file(...alarm))).updated, 1);
  await fixture.gateway.runJobs();
  assert.deepEqual(await readStreamEvents(fixture.gateway, "principal:alice", "calendar.event.reminder"), []);
});

Deno.test("feed requests are charged to the creator of the feed, and rate-limited by client address", async () => {
  const { gateway, accountOf } = await openWithLimits();
  await using opened = gateway;
  const { alice } = await createCallers(opened, "alice");
  const roomId = await createRoom(alice, []);
  const event = { roomId, title: "Review", start: { dateTime: "2026-03-10T09:00:00", timeZone: "Europe/Vienna" } };
  expectStatus(await alice.post(`${CALENDAR}/events`, event), 201);
  const { path } = expectStatus(await alice.post(`${CALENDAR}/feeds`, { name: "Ours", roomId }), 201).body;
  const nobody = opened.withToken(undefined);
  const before = accountOf("alice").consumedMs;
  // At once: the limit is refilled as time passes.
  const answers = await allEnded(Array.from({ length: 101 }, () => nobody.get(path)));
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 429]));
  assert.ok(accountOf("alice").consumedMs > before);
});

Deno.test("a file without reminders, such as our own feeds, leaves existing ones unchanged", async () => {
  await using fixture = await openCalendarFixture();
  const event = {
    roomId: fixture.roomId,
    title: "Review",
    start: { dateTime: "2026-03-10T09:00:00", timeZone: "Europe/Vienna" },
    reminders: [{ minutesBefore: 10 }],
    attendees: [{ principalId: "bob" }],
  };
  const { body: { id } } = expectStatus(await fixture.alice.post(`${CALENDAR}/events`, event), 201);
  const { path } = await feedOf(fixture);
  const { body: text } = await fixture.gateway.withToken(undefined).get(path);
  const { updated, unchanged, problems } = await importFile(fixture, text);
  assert.deepEqual([updated, unchanged, problems], [0, 1, []]);
  const { body } = expectStatus(await fixture.alice.get(`${CALENDAR}/events/${id}`));
  assert.deepEqual([body.reminders, body.attendees.length], [[{ minutesBefore: 10 }], 1]);
});

Deno.test("a token without calendar.read cannot create a feed", async () => {
  await using fixture = await openCalendarFixture();
  const writer = await fixture.gateway.as("alice", { scope: "calendar.write" });
  assertProblem(await writer.post(`${CALENDAR}/feeds`, { name: "Ours" }), 403, "scope_missing");
});

Deno.test("a large file is parsed outside of the main thread", async () => {
  const description = `DESCRIPTION:${"x".repeat(500)}`;
  // They take much longer to read than a worker takes to start.
  const alarms = Array.from({ length: 14 }, () => ["BEGIN:VALARM", "TRIGGER:-PT15M", "END:VALARM"]).flat();
  const events = Array.from({ length: 2000 }, (_, n) => [
    ...["BEGIN:VEVENT", `UID:one-${n % 2}`, "DTSTART:20260301T090000Z", description, ...alarms, "END:VEVENT"],
  ]);
  const text = calendarOf(...events.flat());
  const order = { text, homeZone: "UTC", problemsMax: 1 };
  const [here, beside] = [parseGroups, parseFile].map((read) => async () => {
    const { batches } = await read(order) as ParsedFile;
    const groups = batches.flatMap((json): EventGroup[] => JSON.parse(json));
    assert.deepEqual(groups.map(({ master }) => master.uid), ["one-0", "one-1"]);
  });
  assert.ok(here && beside);
  // Once before measuring: the first run loads the library.
  await here();
  const [hereMs, besideMs] = [await measureMinCpuMs(here, 3), await measureMinCpuMs(beside, 3)];
  assert.ok(besideMs < hereMs / 2, `${besideMs} ms of this thread, ${hereMs} ms when read here`);
});
