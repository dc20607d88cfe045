// What queries of a calendar read: the events in the range, not the calendars of the whole tenant.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { assertNoTenantScan, recordQueries } from "../query_log.ts";
import { CALENDAR, expectStatus, listEvents, openCalendarFixture } from "./calendar_fixture.ts";

const DAY = ["2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z"] as const;

Deno.test("no query of a calendar scans the events of the whole tenant", async () => {
  await using fixture = await openCalendarFixture();
  const { alice, roomId, gateway } = fixture;
  for (let n = 0; n < 12; n++) {
    const start = { dateTime: `2026-03-04T${String(n + 8).padStart(2, "0")}:00:00`, timeZone: "Europe/Vienna" };
    expectStatus(
      await alice.post(`${CALENDAR}/events`, {
        title: "x",
        start,
        durationMinutes: 30,
        ...(n % 2 === 0 ? { roomId } : {}),
        attendees: [{ principalId: "bob" }],
      }),
      201,
    );
  }
  const feed = expectStatus(await alice.post(`${CALENDAR}/feeds`, { name: "x" }), 201).body.path;
  const statements = await recordQueries(async () => {
    assert.equal((await listEvents(alice, ...DAY)).length, 12);
    assert.equal((await listEvents(alice, ...DAY, `&roomId=${roomId}`)).length, 6);
    assert.equal((await listEvents(alice, ...DAY, "&attendeeId=bob")).length, 12);
    const ask = { principalIds: ["alice", "bob"], from: DAY[0], to: DAY[1] };
    assert.ok(expectStatus(await alice.post(`${CALENDAR}/freebusy`, ask)).body.busy.length > 0);
    expectStatus(await alice.get(feed));
  });
  const questions = statements.filter(({ sql }) => sql.startsWith("select") && sql.includes("calendar_event"));
  assert.ok(questions.length > 8);
  for (const question of questions) await assertNoTenantScan(gateway, question, "calendar_event");
});

Deno.test("a series without occurrences in the range is not loaded, unless an edit moved one there", async () => {
  await using fixture = await openCalendarFixture();
  const start = { dateTime: "2026-01-05T09:00:00", timeZone: "Europe/Vienna" };
  const series = { title: "x", start, durationMinutes: 30, rrule: "FREQ=WEEKLY" };
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    ids.push(expectStatus(await fixture.alice.post(`${CALENDAR}/events`, series), 201).body.id);
  }
  const moved = { start: { dateTime: "2026-03-04T10:00:00", timeZone: "Europe/Vienna" }, scope: "this" };
  expectStatus(await fixture.alice.patch(`${CALENDAR}/events/${ids[0]}?occurrence=2026-03-02T09:00:00`, moved));
  const statements = await recordQueries(async () => {
    assert.deepEqual((await listEvents(fixture.alice, ...DAY)).map(({ id }) => id), [ids[0]]);
  });
  const read = statements.find(({ sql }) => sql.startsWith('select * from "calendar_event"'));
  assert.deepEqual(read?.parameters.filter((value) => ids.includes(String(value))), [ids[0]]);
});

testOnEngines(
  "a personal feed has the events the principal created, attends, or shares a room with",
  async (environment) => {
    await using fixture = await openCalendarFixture(environment);
    const { alice, bob, carol, roomId, gateway } = fixture;
    const start = { dateTime: "2026-03-04T09:00:00", timeZone: "Europe/Vienna" };
    const make = (who: typeof alice, title: string, more = {}) =>
      who.post(`${CALENDAR}/events`, { title, start, ...more }).then((response) => expectStatus(response, 201));
    await make(bob, "made");
    await make(alice, "shared", { roomId });
    await make(carol, "attended", {
      rrule: "FREQ=DAILY",
      attendees: [{ principalId: "bob" }, { principalId: "alice" }],
    });
    await make(carol, "hers");
    const { path } = expectStatus(await bob.post(`${CALENDAR}/feeds`, {}), 201).body;
    const text: string = expectStatus(await gateway.withToken(undefined).get(path)).body;
    assert.deepEqual([...text.matchAll(/SUMMARY:(\w+)/g)].map(([, title]) => title).sort(), [
      "attended",
      "made",
      "shared",
    ]);
  },
);
