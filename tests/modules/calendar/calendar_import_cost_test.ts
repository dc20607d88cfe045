// What an import of a large calendar may cost other callers.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { RRuleTemporal } from "rrule-temporal";
import { SqlStore } from "@/adapters/store/sql_store.ts";
import { AgendaStore } from "@/modules/calendar/agenda_store.ts";
import { parseIcs } from "@/modules/calendar/ics/file.ts";
import { assertYields } from "../../cpu_time.ts";
import { testOnEngines } from "../../engines.ts";
import { allEnded, countTicks, slowTime, until } from "../../wait.ts";
import { createCaller } from "../fixtures.ts";
import { CALENDAR, expectStatus, openCalendarFixture } from "./calendar_fixture.ts";

/** The maximum of a file. */
const EVENTS = 2000;

function seriesFile(count: number, more: readonly string[] = []): string {
  const events = Array.from({ length: count }, (_, n) => [
    ...["BEGIN:VEVENT", `UID:series-${n}`, `DTSTART:20260101T${`${n % 24}`.padStart(2, "0")}0000Z`],
    ...["RRULE:FREQ=DAILY", `SUMMARY:Series ${n}`, ...more, "END:VEVENT"],
  ]);
  return ["BEGIN:VCALENDAR", "VERSION:2.0", ...events.flat(), "END:VCALENDAR"].join("\r\n");
}

Deno.test("splitting a file yields to other requests, whatever its lines are", async () => {
  const files = [seriesFile(EVENTS, Array(40).fill("X:y")), `${seriesFile(EVENTS)}${"\n".repeat(900_000)}`];
  for (const text of files) {
    await assertYields(async () => {
      for (let run = 0; run < 5; run++) assert.equal((await parseIcs(text)).events.length, EVENTS);
    });
  }
});

testOnEngines("events of a file share commits", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const { roomId, gateway } = fixture;
  const text = seriesFile(400);
  const { body: { id } } = expectStatus(await fixture.alice.post(`${CALENDAR}/import`, { roomId, text }), 202);
  const before = commitsOf(gateway.app.store);
  await gateway.runJobs();
  const commits = commitsOf(gateway.app.store) - before;
  assert.equal(expectStatus(await fixture.alice.get(`${CALENDAR}/import/${id}`)).body.report.created, 400);
  assert.ok(commits < 60, `${commits} commits`);
});

Deno.test("ifFree with a full calendar yields to other requests", async () => {
  await using fixture = await openCalendarFixture();
  const { alice, gateway } = fixture;
  expectStatus(await alice.post(`${CALENDAR}/import`, { text: seriesFile(250, ["DURATION:PT1H"]) }), 202);
  await gateway.runJobs();
  const start = { dateTime: "2026-03-04T08:30:00", timeZone: "UTC" };
  const series = { title: "Daily", start, durationMinutes: 10, rrule: "FREQ=DAILY;COUNT=360", ifFree: true };
  await assertYields(async () => void expectStatus(await alice.post(`${CALENDAR}/events`, series), 409));
});

Deno.test("an import expands a series once, to check its rule", async () => {
  await using fixture = await openCalendarFixture();
  const { alice, gateway } = fixture;
  const text = seriesFile(50).replaceAll("FREQ=DAILY", "FREQ=WEEKLY;BYHOUR=9;COUNT=3");
  expectStatus(await alice.post(`${CALENDAR}/import`, { text }), 202);
  const { between } = RRuleTemporal.prototype;
  let asked = 0;
  RRuleTemporal.prototype.between = function (...range: Parameters<typeof between>) {
    asked++;
    return between.apply(this, range);
  };
  using _between = { [Symbol.dispose]: () => void (RRuleTemporal.prototype.between = between) };
  await gateway.runJobs();
  assert.equal(asked, 50);
});

Deno.test("occurrences of a series are found in slices, for a list and for free/busy times", async () => {
  await using fixture = await openCalendarFixture();
  const { alice } = fixture;
  const start = { dateTime: "2026-01-05T09:00:00", timeZone: "UTC" };
  const rrule = "FREQ=HOURLY;BYDAY=MO";
  expectStatus(await alice.post(`${CALENDAR}/events`, { title: "Often", start, durationMinutes: 15, rrule }), 201);
  const range = { from: "2026-01-01T00:00:00Z", to: "2026-10-01T00:00:00Z" };
  // A slice of time passes with every step.
  using _slow = slowTime(4);
  for (
    const read of [
      () => alice.get(`${CALENDAR}/events?${new URLSearchParams(range)}`),
      () => alice.post(`${CALENDAR}/freebusy`, { ...range, principalIds: ["me"] }),
    ]
  ) {
    using ticks = countTicks();
    expectStatus(await read());
    // Each step looks at twelve days.
    assert.ok(ticks.count > 20, `${ticks.count} ticks`);
  }
});

Deno.test("few lists and free/busy times of a tenant are made at once, one of each member", async () => {
  await using fixture = await openCalendarFixture();
  const { gateway, alice } = fixture;
  const people = await Promise.all(Array.from({ length: 6 }, (_, n) => createCaller(gateway, `person${n}`)));
  const other = await createCaller(gateway, "other", { tenant: "other" });
  const range = { from: "2026-01-01T00:00:00Z", to: "2026-10-01T00:00:00Z" };
  const { findEarliest } = AgendaStore.prototype;
  const gate = Promise.withResolvers<void>();
  const running: string[] = [];
  AgendaStore.prototype.findEarliest = async function (...query) {
    running.push(query[2].principalId);
    await gate.promise;
    return findEarliest.apply(this, query);
  };
  using _findEarliest = { [Symbol.dispose]: () => void (AgendaStore.prototype.findEarliest = findEarliest) };
  const list = (by: typeof alice) => by.get(`${CALENDAR}/events?${new URLSearchParams(range)}`);
  const lists = [list(alice), list(alice), ...people.map(list), list(other)];
  await until(() => running.includes("other"), "the other tenant has its turn");
  assert.deepEqual(running, ["alice", "person0", "person1", "person2", "other"]);
  gate.resolve();
  for (const answer of await allEnded(lists)) expectStatus(answer);
});

Deno.test("freebusy.read returns a bounded number of times", async () => {
  await using fixture = await openCalendarFixture();
  const { alice, gateway } = fixture;
  await Promise.all(Array.from({ length: 30 }, (_, n) => createCaller(gateway, `person${n}`)));
  const attendees = Array.from({ length: 30 }, (_, n) => ({ principalId: `person${n}` }));
  for (const hour of ["08", "12"]) {
    const start = { dateTime: `2026-01-01T${hour}:00:00`, timeZone: "UTC" };
    const daily = { title: "Daily", start, durationMinutes: 15, rrule: "FREQ=DAILY", attendees };
    expectStatus(await alice.post(`${CALENDAR}/events`, daily), 201);
  }
  const { busy, truncated } = expectStatus(
    await alice.post(`${CALENDAR}/freebusy`, {
      from: "2026-01-01T00:00:00Z",
      to: "2027-01-01T00:00:00Z",
      principalIds: attendees.map(({ principalId }) => principalId),
    }),
  ).body;
  assert.equal(busy.length, 20_000);
  assert.equal(truncated, true);
});

function commitsOf(store: unknown): number {
  assert.ok(store instanceof SqlStore);
  return store.commits.batches;
}
