// Organizers and attendees: names and responses in feeds without a mail address, and responses after removal from the room.
import assert from "node:assert/strict";
import ICAL from "ical.js";
import nodeIcal from "npm:node-ical@0.27.2";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { writeCalendar } from "@/modules/calendar/ics/writer.ts";
import type { AttendeeRow, EventRow } from "@/modules/calendar/store.ts";
import { CALENDAR, expectStatus, listEvents, openCalendarFixture } from "./calendar_fixture.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";

type Line = [cn: string | undefined, role: string, answer: string, kind: string, address: string];

async function feedOf(caller: Caller, more: Record<string, unknown>): Promise<string> {
  const { path } = expectStatus(await caller.post(`${CALENDAR}/feeds`, { name: "Ours", ...more }), 201).body;
  return expectStatus(await caller.get(path)).body;
}

function eventsIn(text: string): ICAL.Component[] {
  return new ICAL.Component(ICAL.parse(text)).getAllSubcomponents("vevent");
}

function attendeesOf(event: ICAL.Component | undefined): Line[] {
  return (event?.getAllProperties("attendee") ?? []).map((line) => {
    const of = (name: string) => line.getFirstParameter(name);
    assert.deepEqual([of("rsvp"), of("schedule-agent")], [undefined, "NONE"]);
    return [of("cn"), of("role"), of("partstat"), of("cutype") ?? "INDIVIDUAL", String(line.getFirstValue())];
  });
}

const EVENT = {
  title: "Review",
  start: { dateTime: "2026-03-04T09:00:00", timeZone: "Europe/Vienna" },
  durationMinutes: 30,
};

testOnEngines(
  "a feed names organizer and attendees with their responses, and only attendees by email with an address",
  async (environment) => {
    await using fixture = await openCalendarFixture(environment);
    const { gateway, alice, bob, roomId } = fixture;
    const name = 'Robo "The\u2028Builder"; Łęcki, of a firm with a long name in the first district';
    const agent = await gateway.as("robo", { kind: "agent", owner: "alice", name });
    expectStatus(await agent.get("/v1/collaboration/me"));
    const attendees = [
      { email: "eve@example.org", role: "optional" },
      { principalId: "bob", role: "chair" },
      { principalId: "robo" },
    ];
    const series = { ...EVENT, roomId, rrule: "FREQ=DAILY;COUNT=3", description: "END:VEVENT", attendees };
    const { id, title } = expectStatus(await alice.post(`${CALENDAR}/events`, series), 201).body;
    assert.equal(title, "Review");
    expectStatus(await alice.post(`${CALENDAR}/events`, { ...EVENT, roomId, title: "Alone" }), 201);
    expectStatus(await bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "accepted" }));
    const occurrence = "2026-03-05T09:00:00";
    expectStatus(await alice.patch(`${CALENDAR}/events/${id}`, { scope: "this", occurrence, title: "Short one" }));
    expectStatus(await bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "declined", occurrence }));
    const last = { status: "tentative", occurrence: "2026-03-06T09:00:00" };
    expectStatus(await bob.put(`${CALENDAR}/events/${id}/rsvp`, last));

    const text = await feedOf(alice, { roomId });
    assert.ok(text.split("\r\n").every((line) => new TextEncoder().encode(line).length <= 75));
    // A client that takes the file for an invitation would offer to respond.
    assert.doesNotMatch(text, /^METHOD/m);
    const events = eventsIn(text);
    const by = (name: string) => events.find((event) => event.getFirstPropertyValue("summary") === name);
    const robos = "Robo 'The Builder'; Łęcki, of a firm with a long name in the first district";
    const expected = (response: string): Line[] => [
      [undefined, "OPT-PARTICIPANT", "NEEDS-ACTION", "INDIVIDUAL", "mailto:eve@example.org"],
      ["bob", "CHAIR", response, "INDIVIDUAL", "invalid:nomail"],
      [robos, "REQ-PARTICIPANT", "NEEDS-ACTION", "UNKNOWN", "invalid:nomail"],
    ];
    assert.deepEqual(attendeesOf(by("Review")), expected("ACCEPTED"));
    assert.deepEqual(attendeesOf(by("Short one")), expected("DECLINED"));
    const unedited = events.find((event) =>
      String(event.getFirstPropertyValue("recurrence-id")).startsWith("2026-03-06")
    );
    assert.equal(unedited?.getFirstPropertyValue("summary"), "Review");
    assert.deepEqual(attendeesOf(unedited), expected("TENTATIVE"));
    const organizer = by("Review")?.getFirstProperty("organizer");
    assert.deepEqual([organizer?.getFirstParameter("cn"), organizer?.getFirstValue()], ["alice", "invalid:nomail"]);
    // Without attendees there is no organizer.
    assert.deepEqual([by("Alone")?.hasProperty("organizer"), attendeesOf(by("Alone"))], [false, []]);

    // Taken back, it still follows its series.
    expectStatus(await alice.post(`${CALENDAR}/import`, { roomId, text }), 202);
    await gateway.runJobs();
    expectStatus(await alice.patch(`${CALENDAR}/events/${id}`, { title: "Big review" }));
    const titles = await listEvents(alice, "2026-03-04T00:00:00Z", "2026-03-07T00:00:00Z", `&roomId=${roomId}`);
    assert.deepEqual(titles.map((one) => one.title).sort(), ["Alone", "Big review", "Big review", "Short one"]);

    const other = Object.values(nodeIcal.sync.parseICS(text)).find((one) =>
      one?.type === "VEVENT" && one.summary === "Review"
    );
    assert.ok(other?.type === "VEVENT");
    const lines = [other.attendee ?? []].flat().map((one) =>
      typeof one === "string" ? one : [one.params.PARTSTAT, one.val]
    );
    assert.deepEqual(lines, [
      ["NEEDS-ACTION", "mailto:eve@example.org"],
      ["ACCEPTED", "invalid:nomail"],
      ["NEEDS-ACTION", "invalid:nomail"],
    ]);
  },
);

testOnEngines("attendees are in the feeds of those who see them, and nowhere else", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const { alice, bob, roomId } = fixture;
  const attendees = [{ email: "eve@example.org" }, { principalId: "alice" }];
  for (const visibility of ["room", "busy_only", "private"]) {
    expectStatus(
      await alice.post(`${CALENDAR}/events`, { ...EVENT, title: visibility, visibility, roomId, attendees }),
      201,
    );
  }
  const seen = async (caller: Caller) => {
    const text = await feedOf(caller, { roomId });
    return [
      eventsIn(text).map((event) => event.getFirstPropertyValue("summary")).sort(),
      text.split("eve@example.org").length - 1,
    ];
  };
  assert.deepEqual(await seen(alice), [["busy_only", "private", "room"], 3]);
  assert.deepEqual(await seen(bob), [["room"], 1]);
});

testOnEngines("an import reverts what a feed said of attendees, and removes none", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const { gateway, alice, bob, roomId } = fixture;
  const attendees = [{ email: "eve@example.org", role: "chair" }, { principalId: "bob", role: "optional" }];
  const { id } = expectStatus(await alice.post(`${CALENDAR}/events`, { ...EVENT, roomId, attendees }), 201).body;
  expectStatus(await bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "tentative", comment: "perhaps" }));
  const whole = async () => expectStatus(await alice.get(`${CALENDAR}/events/${id}`)).body;
  const before = await whole();
  const bring = async (text: string, more: Record<string, unknown>) => {
    const { body } = expectStatus(await alice.post(`${CALENDAR}/import`, { text, ...more }), 202);
    await gateway.runJobs();
    const { created, updated, unchanged, problems } =
      expectStatus(await alice.get(`${CALENDAR}/import/${body.id}`)).body.report;
    assert.deepEqual(problems, []);
    return [created, updated, unchanged];
  };
  const text = await feedOf(alice, { roomId });
  assert.deepEqual(await bring(text, { roomId }), [0, 0, 1]);
  assert.deepEqual(await whole(), before);
  assert.deepEqual(await bring(text.replace("SUMMARY:Review", "SUMMARY:Retro"), { roomId }), [0, 1, 0]);
  const after = await whole();
  const responses = (event: typeof before) =>
    event.attendees.map((
      one: Record<string, unknown>,
    ) => [one.principalId, one.email, one.role, one.status, one.comment])
      .sort();
  assert.deepEqual([after.title, responses(after)], ["Retro", responses(before)]);
  // In another calendar it is another event, without attendees from here.
  assert.deepEqual(await bring(text, {}), [1, 0, 0]);
  const [own] = expectStatus(await alice.get(`${CALENDAR}/events?from=2026-03-04T00:00:00Z&to=2026-03-05T00:00:00Z`))
    .body.items
    .filter((one: { roomId: string | null }) => one.roomId === null);
  const { attendees: mine } = expectStatus(await alice.get(`${CALENDAR}/events/${own.id}`)).body;
  assert.deepEqual(mine.map((one: Record<string, unknown>) => [one.email, one.role]), [["eve@example.org", "chair"]]);
});

Deno.test("a feed of events with very many attendees still has all events", async () => {
  const now = "2026-03-01T12:00:00.000Z";
  const of = (event_id: string, position: number): AttendeeRow => ({
    ...{ tenant_id: "t", event_id, position, principal_id: `somebody-${position}`, email: null, role: "required" },
    ...{ status: "accepted", comment: null, responded_at: null },
  });
  const row = (id: string): EventRow => ({
    ...{ tenant_id: "t", id, calendar: "room:r", uid: id, room_id: "r", visibility: "room", title: `Event ${id}` },
    ...{ description: null, location: null, is_transparent: 0, start_local: "2026-03-09T09:00:00", time_zone: "UTC" },
    ...{ duration_seconds: 3600, rrule: null, last_local: null, ex_dates_json: "[]", from_at: now, to_at: now },
    ...{ reminders_json: "[]", reminded_at: now, meeting_id: null, version: 1, created_by: "alice" },
    ...{ created_at: now, updated_at: now },
  });
  const events = Array.from({ length: 2000 }, (_, at) => ({
    row: row(`${at}`),
    overrides: [],
    attendees: Array.from({ length: 200 }, (_, position) => of(`${at}`, position)),
    rsvps: [],
  }));
  const read = eventsIn(await writeCalendar("Ours", events));
  assert.equal(read.length, 2000);
  assert.equal(attendeesOf(read[0]).length, 200);
  assert.equal(attendeesOf(read.at(-1)).length, 0);
});

Deno.test("an attendee removed from the room can respond, which is not published to the room", async () => {
  await using gateway = await openGateway();
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  const attendees = ["bob", "carol"].map((principalId) => ({ principalId }));
  const { id } = ok(
    await alice.post(`${CALENDAR}/events`, { roomId, title: "Review", start: { date: "2026-04-01" }, attendees }),
  );
  ok(await carol.put(`${CALENDAR}/events/${id}/rsvp`, { status: "accepted" }));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  ok(await bob.put(`${CALENDAR}/events/${id}/rsvp`, { status: "declined" }));
  const received = (await readRoomEvents(alice, roomId)).filter(({ type }) => type === "calendar.event.rsvp");
  assert.deepEqual(received.map(({ data }) => data.principalId), ["carol"]);
  const { attendees: responses } = ok(await alice.get(`${CALENDAR}/events/${id}`));
  assert.deepEqual(
    responses.map(({ principalId, status }: { principalId: string; status: string }) => [principalId, status]).sort(),
    [["bob", "declined"], ["carol", "accepted"]],
  );
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  assertProblem(await carol.put(`${CALENDAR}/events/${id}/rsvp`, { status: "declined" }), 409, "room_archived");
});

testOnEngines("the creator of an event is notified once when an attendee declines it", async (environment) => {
  await using fixture = await openCalendarFixture(environment);
  const { gateway, alice, bob, carol, roomId } = fixture;
  const declined = async (): Promise<unknown[]> => {
    const { items } = ok(await alice.get("/v1/collaboration/notifications?kind=event_declined"));
    return items.reverse().map((one: ApiResponse["body"]) => [one.title, one.actor.id, one.data.startAt]);
  };
  const event = {
    ...EVENT,
    roomId,
    attendees: [{ principalId: "alice" }, { principalId: "bob" }, { principalId: "carol" }],
    rrule: "FREQ=DAILY;COUNT=3",
  };
  const { id } = expectStatus(await alice.post(`${CALENDAR}/events`, event), 201).body;
  const rsvp = async (who: Caller, body: Record<string, unknown>) =>
    ok(await who.put(`${CALENDAR}/events/${id}/rsvp`, body));
  await rsvp(alice, { status: "declined" });
  await rsvp(carol, { status: "tentative" });
  await rsvp(bob, { status: "declined", comment: "On holiday" });
  await rsvp(bob, { status: "declined", comment: "On holiday until May" });
  await rsvp(bob, { status: "declined", occurrence: "2026-03-05T09:00:00" });
  await rsvp(carol, { status: "declined", occurrence: "2026-03-06T09:00:00" });
  const expected = [
    ["Review", "bob", "2026-03-04T08:00:00.000Z"],
    ["Review", "carol", "2026-03-06T08:00:00.000Z"],
  ];
  assert.deepEqual(await declined(), expected);
  gateway.clock.advance(30 * 24 * 3_600_000);
  await rsvp(await gateway.as("carol"), { status: "declined" });
  const later = await gateway.as("alice");
  const { items } = ok(await later.get("/v1/collaboration/notifications?kind=event_declined"));
  assert.equal(items.length, expected.length);
});

Deno.test("attendees are notified when an event is moved or cancelled, and of nothing that is over", async () => {
  await using fixture = await openCalendarFixture();
  const { gateway, alice, bob, carol, roomId } = fixture;
  const noticesOf = async (who: Caller): Promise<unknown[]> => {
    const { items } = ok(await who.get("/v1/collaboration/notifications?kind=event_moved&kind=event_cancelled"));
    return items.reverse().map((
      one: ApiResponse["body"],
    ) => [one.kind, one.title, one.actor.id, one.resource?.type ?? null, one.data.startAt]);
  };
  const attendees = [{ principalId: "bob" }, { principalId: "carol" }];
  const event = { ...EVENT, roomId, attendees, rrule: "FREQ=DAILY;COUNT=3" };
  const { id } = expectStatus(await alice.post(`${CALENDAR}/events`, event), 201).body;
  const path = `${CALENDAR}/events/${id}`;
  ok(await alice.patch(path, { title: "Big review" }));
  ok(await bob.patch(path, { start: { dateTime: "2026-03-04T10:00:00", timeZone: "Europe/Vienna" } }));
  const one = { scope: "this", occurrence: "2026-03-05T10:00:00" };
  ok(await alice.patch(path, { ...one, start: { dateTime: "2026-03-05T15:00:00", timeZone: "Europe/Vienna" } }));
  expectStatus(await alice.delete(`${path}?scope=this&occurrence=2026-03-06T10:00:00`), 204);
  expectStatus(await alice.delete(path), 204);
  const expected = [
    // Their event is deleted: it no longer has a title.
    ["event_moved", null, "bob", "event", undefined],
    ["event_moved", null, "alice", "event", undefined],
    ["event_cancelled", "Big review", "alice", null, "2026-03-06T09:00:00.000Z"],
    ["event_cancelled", "Big review", "alice", null, "2026-03-04T09:00:00.000Z"],
  ];
  assert.deepEqual(await noticesOf(carol), expected);
  assert.deepEqual(await noticesOf(bob), expected.slice(1));
  assert.deepEqual(await noticesOf(alice), expected.slice(0, 1));

  const past = expectStatus(await alice.post(`${CALENDAR}/events`, { ...EVENT, attendees }), 201).body;
  gateway.clock.advance(30 * 24 * 3_600_000);
  expectStatus(await (await gateway.as("alice")).delete(`${CALENDAR}/events/${past.id}`), 204);
  assert.deepEqual(await noticesOf(await gateway.as("carol")), expected);
});
