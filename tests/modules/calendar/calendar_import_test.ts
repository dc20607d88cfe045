// Imports of several batches: the result of each event does not depend on the others.
import assert from "node:assert/strict";
import { EventWriter } from "@/modules/calendar/writer.ts";
import { testOnEngines } from "../../engines.ts";
import {
  CALENDAR,
  type CalendarFixture,
  expectStatus,
  openCalendarFixture,
  readStreamEvents,
} from "./calendar_fixture.ts";
import { replace } from "../../replace.ts";

const EVENTS = 100;

function fileOf(...events: readonly (readonly string[])[]): string {
  const lines = events.flatMap((event) => ["BEGIN:VEVENT", ...event, "END:VEVENT"]);
  return ["BEGIN:VCALENDAR", "VERSION:2.0", ...lines, "END:VCALENDAR"].join("\r\n");
}

const numbered = (more: readonly string[] = []): string[][] =>
  Array.from({ length: EVENTS }, (_, n) => [
    ...[`UID:event-${n}`, "DTSTART:20260310T080000Z", `SUMMARY:Event ${n}`, "RRULE:FREQ=DAILY;COUNT=3", ...more],
  ]);

async function startImport({ roomId, ...fixture }: CalendarFixture, text: string, by = fixture.alice): Promise<string> {
  return expectStatus(await by.post(`${CALENDAR}/import`, { roomId, text }), 202).body.id;
}

async function reportOf(fixture: CalendarFixture, id: string, by = fixture.alice) {
  const { state, report } = expectStatus(await by.get(`${CALENDAR}/import/${id}`)).body;
  assert.equal(state, "done");
  return report;
}

async function importFile(fixture: CalendarFixture, text: string, by = fixture.alice) {
  const id = await startImport(fixture, text, by);
  await fixture.gateway.runJobs();
  return await reportOf(fixture, id, by);
}

testOnEngines("a principal has a bounded number of imports that wait", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const { alice, bob, roomId } = fixture;
  const text = fileOf(["UID:one", "DTSTART:20260310T080000Z", "SUMMARY:One"]);
  const answers = await Promise.all(
    Array.from({ length: 12 }, () => alice.post(`${CALENDAR}/import`, { roomId, text })),
  );
  const refused = answers.filter(({ status }) => status !== 202);
  assert.deepEqual(refused.map(({ status, body }) => [status, body.code]), Array(2).fill([409, "limit_reached"]));
  expectStatus(await bob.post(`${CALENDAR}/import`, { roomId, text }), 202);
  await fixture.gateway.runJobs();
  expectStatus(await alice.post(`${CALENDAR}/import`, { roomId, text }), 202);
});

Deno.test("a file hides no event of another, and none of its occurrences, unless a moderator imports it", async () => {
  await using fixture = await openCalendarFixture();
  const event = ["UID:shared", "DTSTART:20260310T080000Z", "SUMMARY:Shared", "RRULE:FREQ=DAILY;COUNT=3"];
  assert.equal((await importFile(fixture, fileOf(event))).created, 1);
  const hiding = [["CLASS:PRIVATE"], ["EXDATE:20260311T080000Z"]].map((more) => fileOf([...event, ...more]));
  for (const file of hiding) {
    const { updated, problems } = await importFile(fixture, file, fixture.bob);
    assert.equal(updated, 0);
    assert.match(problems[0].detail, /hides an event of another/);
  }
  assert.equal((await importFile(fixture, fileOf([...event, "LOCATION:Here"]), fixture.bob)).updated, 1);
  expectStatus(await fixture.alice.put(`/v1/rooms/${fixture.roomId}/members/bob`, { role: "moderator" }));
  assert.equal((await importFile(fixture, hiding[1] ?? "", fixture.bob)).updated, 1);
});

testOnEngines(
  "an import preserves the order of its file, and a repeated one counts each event once",
  async (environment) => {
    await using fixture = await openCalendarFixture(environment);
    const titles = async (type: string): Promise<string[]> =>
      (await readStreamEvents(fixture.gateway, `room:${fixture.roomId}`, type)).map(({ data }) => data.event.title);
    const expected = Array.from({ length: EVENTS }, (_, n) => `Event ${n}`);
    const counts = async (text: string) => {
      const { created, updated, unchanged, problems } = await importFile(fixture, text);
      assert.deepEqual(problems, []);
      return [created, updated, unchanged];
    };
    assert.deepEqual(await counts(fileOf(...numbered())), [EVENTS, 0, 0]);
    assert.deepEqual(await titles("calendar.event.created"), expected);
    assert.deepEqual(await counts(fileOf(...numbered())), [0, 0, EVENTS]);
    const half = numbered(["LOCATION:Here"]).map((event, n) => n % 2 === 0 ? event : numbered()[n] ?? []);
    assert.deepEqual(await counts(fileOf(...half)), [0, EVENTS / 2, EVENTS / 2]);
    assert.deepEqual(await titles("calendar.event.updated"), expected.filter((_, n) => n % 2 === 0));
  },
);

testOnEngines("an invalid event does not affect others in its commit", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const bad = numbered().map((event, n) => n % 7 === 3 ? [...event.slice(0, 3), "RRULE:FREQ=SECONDLY"] : event);
  const { created, problems } = await importFile(fixture, fileOf(...bad));
  const uids = Array.from({ length: EVENTS }, (_, n) => n).filter((n) => n % 7 === 3).map((n) => `event-${n}`);
  assert.equal(created, EVENTS - uids.length);
  assert.deepEqual(problems.map(({ uid }: { uid: string }) => uid), uids);
});

testOnEngines("two edits of one occurrence without their series are one event", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const edit = (title: string) => [
    ...["UID:lost", "DTSTART:20260310T080000Z", "RECURRENCE-ID:20260310T080000Z", `SUMMARY:${title}`],
  ];
  const { created, updated, problems } = await importFile(fixture, fileOf(edit("One"), edit("Two")));
  assert.deepEqual([created, updated, problems], [1, 1, []]);
});

testOnEngines("an import into a room archived meanwhile reports each event", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  // Its commit would wake the job, before the room is archived.
  await fixture.gateway.app.jobs.stop();
  const id = await startImport(fixture, fileOf(...numbered().slice(0, 3)));
  expectStatus(await fixture.alice.patch(`/v1/rooms/${fixture.roomId}`, { state: "archived" }));
  await fixture.gateway.runJobs();
  const { created, problems } = await reportOf(fixture, id);
  assert.equal(created, 0);
  assert.deepEqual(problems.map(({ detail }: { detail: string }) => detail), Array(3).fill("The room is archived"));
});

testOnEngines("an interrupted import resumes", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const { gateway: { app: { store, jobs }, clock } } = fixture;
  // Its commit would wake the job, before anything here can interrupt that.
  await jobs.stop();
  const id = await startImport(fixture, fileOf(...numbered()));
  const { onCommit } = store;
  const room = `room:${fixture.roomId}`;
  let received = 0;
  store.onCommit = (committed) => {
    received += committed.events.filter(({ stream, type }) =>
      stream === room && type === "calendar.event.created"
    ).length;
    onCommit(committed);
  };
  // The import's own write is cut off: others, such as those of the index of search, come when they will.
  const { putAll } = EventWriter.prototype;
  let isBroken = false;
  using _replaced = replace(EventWriter.prototype, "putAll", async function (this: EventWriter, ...batch) {
    if (isBroken || received === 0) return await putAll.apply(this, batch);
    isBroken = true;
    throw new Error("no more");
  });
  await fixture.gateway.runJobs();
  assert.ok(isBroken && received > 0 && received < EVENTS, `${received} before it was interrupted`);
  const before = received;
  clock.advance(60_000);
  await fixture.gateway.runJobs();
  const { created, unchanged, problems } = await reportOf(fixture, id);
  assert.deepEqual([created, unchanged, problems], [EVENTS - before, before, []]);
});
