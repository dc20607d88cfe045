// What a list of a calendar reads: what stands in it then, and not the calendars of the whole tenant.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import { asked, readsNoTenant } from "./asked.ts";
import { CALENDAR, list, ok, openWorld } from "./calendar_world.ts";

const DAY = ["2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z"] as const;

Deno.test("no question to a calendar reads the events of the whole tenant", async () => {
  await using world = await openWorld();
  const { alice, roomId, gateway } = world;
  for (let n = 0; n < 12; n++) {
    const start = { dateTime: `2026-03-04T${String(n + 8).padStart(2, "0")}:00:00`, timeZone: "Europe/Vienna" };
    ok(
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
  const feed = ok(await alice.post(`${CALENDAR}/feeds`, { name: "x" }), 201).body.path;
  const statements = await asked(async () => {
    assert.equal((await list(alice, ...DAY)).length, 12);
    assert.equal((await list(alice, ...DAY, `&roomId=${roomId}`)).length, 6);
    assert.equal((await list(alice, ...DAY, "&attendeeId=bob")).length, 12);
    const ask = { principalIds: ["alice", "bob"], from: DAY[0], to: DAY[1] };
    assert.ok(ok(await alice.post(`${CALENDAR}/freebusy`, ask)).body.busy.length > 0);
    ok(await alice.get(feed));
  });
  const questions = statements.filter(({ sql }) => sql.startsWith("select") && sql.includes("calendar_event"));
  assert.ok(questions.length > 8);
  for (const question of questions) await readsNoTenant(gateway, question, "calendar_event");
});

Deno.test("of a series that has nothing then no more is read than that, unless an edit put something there", async () => {
  await using world = await openWorld();
  const start = { dateTime: "2026-01-05T09:00:00", timeZone: "Europe/Vienna" };
  const series = { title: "x", start, durationMinutes: 30, rrule: "FREQ=WEEKLY" };
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) ids.push(ok(await world.alice.post(`${CALENDAR}/events`, series), 201).body.id);
  const moved = { start: { dateTime: "2026-03-04T10:00:00", timeZone: "Europe/Vienna" }, scope: "this" };
  ok(await world.alice.patch(`${CALENDAR}/events/${ids[0]}?occurrence=2026-03-02T09:00:00`, moved));
  const statements = await asked(async () => {
    assert.deepEqual((await list(world.alice, ...DAY)).map(({ id }) => id), [ids[0]]);
  });
  const read = statements.find(({ sql }) => sql.startsWith('select * from "calendar_event"'));
  assert.deepEqual(read?.parameters.filter((value) => ids.includes(String(value))), [ids[0]]);
});

onEngines(
  "a feed of a calendar of one's own has what one made, attends, and shares a room with",
  async (environment) => {
    await using world = await openWorld(environment);
    const { alice, bob, carol, roomId, gateway } = world;
    const start = { dateTime: "2026-03-04T09:00:00", timeZone: "Europe/Vienna" };
    const make = (who: typeof alice, title: string, more = {}) =>
      who.post(`${CALENDAR}/events`, { title, start, ...more }).then((answer) => ok(answer, 201));
    await make(bob, "made");
    await make(alice, "shared", { roomId });
    await make(carol, "attended", {
      rrule: "FREQ=DAILY",
      attendees: [{ principalId: "bob" }, { principalId: "alice" }],
    });
    await make(carol, "hers");
    const { path } = ok(await bob.post(`${CALENDAR}/feeds`, {}), 201).body;
    const text: string = ok(await gateway.withToken(undefined).get(path)).body;
    assert.deepEqual([...text.matchAll(/SUMMARY:(\w+)/g)].map(([, title]) => title).sort(), [
      "attended",
      "made",
      "shared",
    ]);
  },
);
