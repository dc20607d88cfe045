// The copy of what there is of one person: all of theirs that they may have, nothing of others, and no secrets.
import assert from "node:assert/strict";
import { HOUR_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { listFiles, upload } from "../file/file_harness.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { downloadExport, EXPORTS, parseRecords } from "./transfer_fixture.ts";

const API = "/v1/collaboration";

/** A text that would be markup if it were not escaped. */
const HOSTILE = `Comment "of Alice" <script>alert('&amp;')</script>`;

type Line = Record<string, unknown> & { type: string };

testOnEngines("a person gets a copy of what is theirs, once a day", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(bob, ["alice"], { name: "Plans" });
  const leftId = await createRoom(bob, ["alice"], { name: "Left" });
  const own = await sendMessage(alice, roomId, "First of Alice");
  ok(await alice.patch(`/v1/messages/${own.id}`, { text: "Second of Alice" }));
  const others = await sendMessage(bob, roomId, "Words of Bob");
  ok(await alice.put(`/v1/messages/${others.id}/reactions/${encodeURIComponent("👍")}`));
  for (const who of [alice, bob]) ok(await who.put(`/v1/messages/${others.id}/saved`, {}));
  for (const [who, { id }] of [[alice, own], [bob, others]] as const) ok(await who.delete(`/v1/threads/${id}/follow`));
  ok(await bob.put(`/v1/messages/${own.id}/reactions/${encodeURIComponent("👎")}`));
  await sendMessage(alice, leftId, "Last of Alice");
  ok(await alice.delete(`/v1/rooms/${leftId}/members/alice`));
  const file = ok(await upload(gateway, alice, { name: "a.txt" }, "of Alice")).id;
  ok(await upload(gateway, bob, { name: "b.txt" }, "of Bob"));
  ok(await alice.post(`${API}/documents`, { roomId, title: "Alice's", text: "Text of Alice" }));
  const { id: documentId } = ok(await bob.post(`${API}/documents`, { roomId, title: "Bob's", text: "Text of Bob" }));
  const comments = `${API}/documents/${documentId}/comments`;
  ok(await alice.post(comments, { text: HOSTILE, anchor: { text: "Text of Bob" } }));
  ok(await bob.post(comments, { text: "Comment of the other" }));
  const meeting = ok(await bob.post(`${API}/meetings`, { roomId }));
  for (const [speaker, device] of [[alice, "laptop"], [bob, "phone"]] as const) {
    ok(await speaker.post(`${API}/meetings/${meeting.id}/join`, { deviceId: device }));
  }
  const segments = ["alice", "bob"].map((speakerId) => ({
    speakerId,
    startMs: 0,
    endMs: 9,
    text: `Said by ${speakerId}`,
  }));
  ok(await bob.post(`${API}/meetings/${meeting.id}/transcript`, { segments }));
  const admin = await gateway.as("admin", { role: "admin" });
  const { id: groupId } = ok(await admin.post(`${API}/groups`, { name: "On call" }));
  ok(await admin.post(`${API}/groups/${groupId}/members`, { principalIds: ["alice"] }));
  ok(await admin.post(`${API}/groups`, { name: "Others" }));
  ok(await bob.post(`${API}/tasks`, { roomId, title: "For Alice", assigneeIds: ["alice"] }));
  ok(await bob.post(`${API}/tasks`, { roomId, title: "For Bob", assigneeIds: ["bob"] }));
  const event = { roomId, start: { dateTime: "2026-03-02T10:00:00", timeZone: "UTC" }, durationMinutes: 30 };
  ok(
    await bob.post(`${API}/calendar/events`, { ...event, title: "With Alice", attendees: [{ principalId: "alice" }] }),
  );
  ok(await bob.post(`${API}/calendar/events`, { ...event, title: "Without Alice" }));
  const { token } = ok(
    await alice.post(`${API}/tokens`, { name: "laptop", scopes: ["room.read"], expiresInSeconds: 60 }),
  );
  ok(await alice.post(`${API}/calendar/feeds`, {}));

  const { id } = ok(await alice.post(EXPORTS, { kind: "principal" }));
  await gateway.runJobs();
  const done = ok(await alice.get(`${EXPORTS}/${id}`));
  assert.deepEqual([done.kind, done.state, done.counts.messages, done.counts.tasks], ["principal", "done", 2, 1]);
  const lines = parseRecords(await (await downloadExport(alice, id)).text()) as Line[];
  const of = (type: string): Line[] => lines.filter((line) => line.type === type);
  assert.deepEqual([lines[0]?.type, lines.at(-1)?.type], ["export", "end"]);
  assert.deepEqual(of("message").map(({ text, roomName }) => [text, roomName]).sort(), [
    ["Last of Alice", null],
    ["Second of Alice", "Plans"],
  ]);
  assert.match(JSON.stringify(of("message")), /First of Alice/);
  assert.deepEqual(of("reaction").map(({ messageId, key }) => [messageId, key]), [[others.id, "👍"]]);
  assert.deepEqual(of("saved_message").map(({ messageId, state }) => [messageId, state]), [[others.id, "open"]]);
  assert.deepEqual(of("thread_following").map(({ threadId, following }) => [threadId, following]), [[own.id, false]]);
  assert.deepEqual(of("room").map(({ name }) => name), ["Plans"]);
  assert.deepEqual(of("file").map((line) => line["id"]), [file]);
  assert.equal(of("content").length, 1);
  assert.deepEqual(of("document").map(({ title, text }) => [title, text]), [["Alice's", "Text of Alice"]]);
  assert.deepEqual(of("task").map(({ title }) => title), ["For Alice"]);
  assert.deepEqual(of("event").map(({ title }) => title), ["With Alice"]);
  assert.deepEqual(of("comment").map(({ text }) => text), [HOSTILE]);
  assert.deepEqual(of("segment").map(({ text, meetingId }) => [text, meetingId]), [["Said by alice", meeting.id]]);
  assert.deepEqual(of("group").map(({ name }) => name), ["On call"]);
  assert.deepEqual(of("token").map(({ name }) => name), ["laptop"]);
  for (const type of ["me", "feed", "notification"]) assert.ok(of(type).length > 0, type);
  const text = JSON.stringify(lines);
  for (const secret of [token, "Bob's", "Words of Bob", "Text of Bob", "👎"]) assert.ok(!text.includes(secret), secret);

  const page = await downloadExport(alice, id, "?format=html");
  assert.deepEqual([page.headers.get("content-type"), page.headers.get("content-security-policy")], [
    "text/html; charset=utf-8",
    "sandbox",
  ]);
  const shown = await page.text();
  const escaped = "Comment &quot;of Alice&quot; &lt;script&gt;alert('&amp;amp;')&lt;/script&gt;";
  for (const part of ["<h2>message</h2>", "First of Alice", escaped, `base64,${btoa("of Alice")}">Save a.txt</a>`]) {
    assert.ok(shown.includes(part), part);
  }
  assert.ok(!shown.includes("<script"));
  assert.match(shown, /default-src 'none'/);
  const whole = ok(await admin.post(EXPORTS, { kind: "tenant" })).id;
  await gateway.runJobs();
  assert.equal((await downloadExport(admin, whole, "?format=html")).status, 422);

  const [notification] = ok(await alice.get(`${API}/notifications?kind=export_ready`)).items;
  assert.deepEqual(notification.resource, { type: "export", id });
  assertProblem(await alice.post(EXPORTS, { kind: "principal" }), 429, "rate_limited");
  assertProblem(await alice.post(EXPORTS, { kind: "principal", roomId }), 422, "validation_failed");
  const olga = await gateway.as("olga", { role: "owner" });
  assert.equal(ok(await olga.get(`${EXPORTS}/${id}`)).state, "done");
  assertProblem(await olga.get(`${EXPORTS}/${id}/content`), 403, "forbidden");
  assertProblem(await bob.get(`${EXPORTS}/${id}`), 404, "not_found");
  const robot = await gateway.as("robot", { kind: "service", role: "owner" });
  assertProblem(await robot.post(EXPORTS, { kind: "principal" }), 403, "forbidden");
  // A token that may read less neither makes the copy nor gets it.
  const narrow = await gateway.as("alice", { scope: "transfer.manage message.read" });
  assertProblem(await narrow.post(EXPORTS, { kind: "principal" }), 403, "scope_missing");
  assertProblem(await narrow.get(`${EXPORTS}/${id}/content`), 403, "scope_missing");
  gateway.clock.advance(24 * HOUR_MS);
  const again = await gateway.as("alice");
  ok(await again.post(EXPORTS, { kind: "principal" }));
});

Deno.test("a person is notified that the copy of their data failed, and may ask for another one at once", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_MEMBER_FILE_BYTES: "100" });
  const { alice } = await createCallers(gateway, "alice");
  const { id } = ok(await alice.post(EXPORTS, { kind: "principal" }));
  await gateway.runJobs();
  const { state, failure } = ok(await alice.get(`${EXPORTS}/${id}`));
  assert.deepEqual([state, failure.code], ["failed", "quota_exceeded"]);
  const [notification, ...others] = ok(await alice.get(`${API}/notifications`)).items;
  assert.deepEqual([notification.kind, notification.resource], ["export_failed", { type: "export", id }]);
  assert.deepEqual(others, []);
  ok(await alice.post(EXPORTS, { kind: "principal" }));
});

testOnEngines(
  "an erasure ends the copy of the person's data, also one that is not written yet",
  async (environment) => {
    await using gateway = await openGateway({ ...environment, SVC_LIMIT_ERASURE_DAYS: "1" });
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const finished = ok(await alice.post(EXPORTS, { kind: "principal" })).id;
    await gateway.runJobs();
    const waiting = ok(await bob.post(EXPORTS, { kind: "principal" })).id;
    const owner = await gateway.as("olga", { role: "owner" });
    for (const principalId of ["alice", "bob"]) {
      ok(await owner.post(`${API}/erasures`, { principalId, mode: "anonymize", confirm: principalId }));
    }
    await gateway.runJobs();
    const { state, failure } = ok(await owner.get(`${EXPORTS}/${waiting}`));
    assert.deepEqual([state, failure.code], ["failed", "requester_disabled"]);
    assert.equal(ok(await owner.get(`${EXPORTS}/${finished}`)).state, "done");

    gateway.clock.advance(25 * HOUR_MS);
    await gateway.runJobs();
    const later = await gateway.as("olga", { role: "owner" });
    const states = ok(await later.get(EXPORTS)).items.map((item: Line) => [item["id"], item["state"]]);
    assert.deepEqual(states, [[waiting, "failed"], [finished, "expired"]]);
    assert.deepEqual(await listFiles(gateway.folder), []);
  },
);
