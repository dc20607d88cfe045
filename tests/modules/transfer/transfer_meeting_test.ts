// Meetings are exported and imported: participants, consent to recordings, transcripts; what is in progress
// has ended there; once, by rights, and from an archive that is not believed.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { slowTest } from "../../tier.ts";
import { createCaller, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";
import {
  type Any,
  assertNothingAdded,
  assertSurvivesCrashes,
  comparableRecords,
  exportRoom,
  exportTenant,
  importAgain,
  importArchive,
  importPartly,
  IMPORTS,
  importWhole,
  parseRecords,
  recordsOfType,
  toArchive,
  uploadArchive,
} from "./transfer_fixture.ts";

const MEETINGS = "/v1/collaboration/meetings";
const SFU = {
  SVC_LIVEKIT_URL: "ws://127.0.0.1:1",
  SVC_LIVEKIT_API_KEY: "key-of-livekit",
  SVC_LIVEKIT_API_SECRET: "secret-of-livekit-that-is-long-enough",
};

/** A meeting that is over, with a recording asked for and words, a future one, and one in progress. */
async function createContent(gateway: Harness) {
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const { ann, bob } = await createCallers(gateway, "ann", "bob", "cyd");
  const roomId = await createRoom(ann, ["bob"], { name: "Team" });
  const otherId = await createRoom(ann, ["bob"], { name: "Other" });
  const start = async (more: Any = {}): Promise<Any> => {
    gateway.clock.advance(1000);
    return ok(await ann.post(MEETINGS, { roomId, ...more }));
  };
  const past = await start({ title: "Planning", kind: "audio" });
  ok(await ann.post(`${MEETINGS}/${past.id}/join`, { deviceId: "desk" }));
  ok(await bob.post(`${MEETINGS}/${past.id}/join`));
  ok(await ann.post(`${MEETINGS}/${past.id}/recording`, { consentText: "All right?" }));
  const say = async (who: Caller, speakerId: string, startMs: number, text: string): Promise<void> => {
    const segments = [{ speakerId, startMs, endMs: startMs + 500, text }];
    ok(await who.post(`${MEETINGS}/${past.id}/transcript`, { segments }));
  };
  await say(ann, "ann", 2000, "second");
  await say(bob, "bob", 1000, "first 上海");
  gateway.clock.advance(1000);
  ok(await ann.post(`${MEETINGS}/${past.id}/end`));
  const coming = await start({ title: "Review", scheduledFor: "2026-03-02T09:00:00Z", lobby: true });
  const live = await start({ title: "Now" });
  ok(await ann.post(`${MEETINGS}/${live.id}/join`));
  ok(await bob.post(`${MEETINGS}/${live.id}/join`));
  ok(await ann.post(`${MEETINGS}/${live.id}/recording`, { consentText: "This too?" }));
  return { boss, ann, bob, roomId, otherId, past, coming, live };
}

/** What a reader sees of a room's meetings, without ids. */
async function readContent(who: Caller, roomId: string): Promise<Any[]> {
  const { items } = ok(await who.get(`${MEETINGS}?roomId=${roomId}`));
  const result: Any[] = [];
  for (const { id, roomId: _roomId, ...meeting } of items) {
    const said = ok(await who.get(`${MEETINGS}/${id}/transcript`)).items.map(({ id: _id, ...rest }: Any) => rest);
    result.push({ ...meeting, said });
  }
  return result.sort((a, b) => a.title < b.title ? -1 : 1);
}

testOnEngines(
  "meetings are imported as they were exported, under other ids where theirs are taken, and have ended",
  async (engine) => {
    await using gateway = await openGateway({ ...SFU, ...engine });
    const { boss, ann, roomId, past, live } = await createContent(gateway);
    const out = await exportTenant(gateway, boss);
    const { counts } = parseRecords(out).at(-1);
    assert.deepEqual([counts.meetings, counts.participants, counts.segments], [3, 4, 2]);
    assert.ok(!/egress|lease|token|livekit/i.test(out));
    const now = parseRecords(out).find(({ id }) => id === live.id);
    assert.deepEqual([now.state, now.endReason, now.recording.state], ["ended", "ended", "stopped"]);
    assert.equal(ok(await ann.get(`${MEETINGS}/${live.id}`)).state, "active", "here it goes on");

    const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
    const done = await importWhole(gateway, twin, "gateway", out);
    const { meetings, participants, segments } = done.progress.added;
    assert.deepEqual([meetings, participants, segments], [3, 4, 2]);
    const reader = await gateway.as("ann", { tenant: "twin" });
    const [{ id: here }] = ok(await reader.get("/v1/rooms?limit=100")).items.filter((one: Any) => one.name === "Team");
    const [before, after] = [await readContent(ann, roomId), await readContent(reader, here)];
    const ofPast = (all: Any[]): Any => all.find(({ title }) => title === "Planning");
    assert.deepEqual(ofPast(after), ofPast(before));
    assert.deepEqual(ofPast(after).said.map(({ text }: Any) => text), ["first 上海", "second"]);
    assert.deepEqual(ofPast(after).recording.consentedIds, ["ann"]);
    const told = (await readRoomEvents(reader, here)).filter(({ type }) => type.startsWith("meeting."));
    assert.deepEqual(told.map(({ type }) => type), Array(3).fill("meeting.updated"));

    await importAgain(gateway, twin, "gateway", out);
    // The room has no meeting now, so another may begin; the one to come is joined, or missed in its time.
    const copies = ok(await reader.get(`${MEETINGS}?roomId=${here}`)).items;
    const copyOf = (title: string): Any => copies.find((one: Any) => one.title === title);
    assert.notEqual(copyOf("Planning").id, past.id);
    const { id } = ok(await reader.post(MEETINGS, { roomId: here }));
    ok(await reader.post(`${MEETINGS}/${id}/end`));
    const more = [{ speakerId: "bob", startMs: 3000, endMs: 3000, text: "third" }];
    ok(await reader.post(`${MEETINGS}/${copyOf("Planning").id}/transcript`, { segments: more }));
    gateway.clock.advance(Date.parse("2026-03-03T09:00:00Z") - gateway.clock.now());
    await gateway.runJobs();
    const missed = ok(await (await gateway.as("ann", { tenant: "twin" })).get(`${MEETINGS}/${copyOf("Review").id}`));
    assert.deepEqual([missed.state, missed.endReason], ["ended", "missed"]);
    assert.deepEqual(
      ok(await (await gateway.as("bob", { tenant: "twin" })).get("/v1/collaboration/notifications")).items,
      [],
    );
  },
);

Deno.test("imported meetings are exported again without a difference, and what an older archive lacks is completed", async () => {
  await using gateway = await openGateway(SFU);
  const { boss, ann, roomId } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  const [before] = [await readContent(ann, roomId)];
  const home = await importArchive(gateway, boss, "gateway", out);
  assertNothingAdded(home);
  assert.deepEqual([home.report, await readContent(ann, roomId)], [[], before]);
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const lines = parseRecords(out);
  const bare = toArchive(lines.filter(({ type }) => !type.startsWith("meeting_")));
  const first = await importArchive(empty, newBoss, "gateway", bare);
  assert.deepEqual([first.report, first.progress.added.meetings], [[], 3]);
  const done = await importArchive(empty, newBoss, "gateway", out);
  const { meetings, participants, segments } = done.progress.added;
  assert.deepEqual([done.report, meetings, participants, segments], [[], 0, 4, 2]);
  // What was one too many for peers on their own is fewer here, and that is all.
  const scaled = (archive: string): string[] =>
    comparableRecords(archive).map((line) =>
      line.replace(/"state":"scheduled"(.*)"maxParticipants":\d+/, '"state":"scheduled"$1')
    );
  assert.deepEqual(scaled(await exportTenant(empty, newBoss)), scaled(out));
  assert.equal(ok(await (await empty.as("ann")).get(`${MEETINGS}?state=scheduled`)).items[0].maxParticipants, 8);
});

Deno.test("an export of a room has its meetings, and no others", async () => {
  await using gateway = await openGateway(SFU);
  const { ann, otherId, past } = await createContent(gateway);
  ok(await ann.post(MEETINGS, { roomId: otherId, title: "Elsewhere" }));
  const out = await exportRoom(gateway, ann, past.roomId);
  assert.equal(recordsOfType(out, "meeting").length, 3);
  assert.ok(!out.includes("Elsewhere") && out.includes("上海"));
});

testOnEngines("lines of meetings are not believed", async (engine) => {
  await using gateway = await openGateway(SFU);
  const { boss, ann, past, live, roomId } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const meeting = lines.find(({ id }) => id === past.id);
  const [participant] = lines.filter(({ type }) => type === "meeting_participant");
  const [segment] = lines.filter(({ type }) => type === "meeting_segment");
  const [consent] = lines.filter(({ type }) => type === "meeting_consent");
  const other = (more: Any): Any => ({ ...meeting, id: "mtg_x", ...more });
  const invalid: Any[] = [
    other({ state: "active", endedAt: null, endReason: null }),
    other({ endedAt: null }),
    other({ endReason: "bored" }),
    other({ state: "scheduled", endedAt: null, endReason: null, scheduledFor: null }),
    other({ maxParticipants: 2 ** 31 }),
    other({ version: 2 ** 31 }),
    other({ recording: { ...meeting.recording, state: "recording" } }),
    other({ agentIds: Array.from({ length: 21 }, (_, n) => `a${n}`) }),
    { ...participant, id: "part_x", role: "king" },
    { ...participant, id: "part_x", deviceId: "../.." },
    { ...participant, id: "part_x", capabilities: { audio: true, video: true, screen: true, root: true } },
    { ...segment, id: "seg_x", startMs: 2 ** 40, endMs: 2 ** 40 },
    { ...segment, id: "seg_x", startMs: 5, endMs: 4 },
    { ...segment, id: "seg_x", text: "x".repeat(4001) },
    { ...consent, recordingId: "" },
  ];
  const extra: Any[] = [
    { ...segment, id: "seg_1", meetingId: "mtg_nowhere" },
    { ...participant, id: "part_1", meetingId: "mtg_nowhere" },
    { ...consent, meetingId: "mtg_nowhere" },
    other({ roomId: "room_nowhere" }),
    { ...participant, id: "part_2", principalId: "ghost", leftAt: null, leftReason: null },
    consent,
    segment,
    { ...segment, meetingId: live.id }, // The same in another meeting is another.
    ...Array.from({ length: 20_001 }, (_, n) => ({ ...segment, id: `seg_n${n}`, meetingId: live.id })),
  ];
  const at = lines.findLastIndex((line) => line.type === "meeting_participant") + 1;
  const bad = [...lines.slice(0, at), ...invalid, ...extra, ...lines.slice(at)];
  {
    await using empty = await openGateway(engine);
    const newBoss = await empty.as("boss", { role: "owner" });
    const done = await importPartly(empty, newBoss, toArchive(bad), {
      invalid_record: invalid.length,
      unknown_meeting: 3,
      unknown_room: 1,
      unknown_author: 1,
      too_many_segments: 2,
    });
    const record = done.report.find(({ code }: Any) => code === "invalid_record");
    assert.match(record.examples[0], new RegExp(`^line ${at + 1}: `));
    const reader = await empty.as("ann");
    assert.deepEqual((await readContent(reader, roomId)).map(({ state }) => state), ["ended", "ended", "scheduled"]);
    ok(await reader.post(MEETINGS, { roomId }));
    const id = await uploadArchive(newBoss, "gateway", toArchive(bad));
    await empty.app.jobs.stop();
    const statements = await recordQueries(() => empty.runJobs());
    assertNothingAdded(ok(await newBoss.get(`${IMPORTS}/${id}`)));
    const erased = statements.filter(({ sql }) => sql.includes('from "erased_principal"')).length;
    assert.ok(erased < bad.length / 100, `${erased} statements look for people who were erased`);
  }
  assert.equal(ok(await ann.get(`${MEETINGS}/${live.id}`)).state, "active");
});

slowTest("an import of meetings that crashes at every turn ends as one that does not", async () => {
  await using gateway = await openGateway(SFU);
  const { boss, past } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const at = lines.findIndex(({ type }) => type === "meeting_segment");
  // More than are imported at a time.
  const more = Array.from(
    { length: 510 },
    (_, n) => ({ ...lines[at], id: `seg_${n}`, meetingId: past.id, startMs: n }),
  );
  lines.splice(at, 0, ...more.map((one) => ({ ...one, endMs: one.startMs })));
  const out = toArchive(lines);
  await assertSurvivesCrashes(out, 8);
});
