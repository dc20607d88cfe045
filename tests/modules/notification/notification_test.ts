// Notifications through the API: who gets one, who does not, and how they are marked as read.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import { principalStream } from "@/core/event/event.ts";
import type { JobRow } from "@/core/job.ts";
import type { NotificationTables } from "@/modules/notification/store.ts";
import { testOnPostgres } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { slowTest } from "../../tier.ts";
import { callConcurrently, sortedStatuses } from "../concurrency.ts";
import { recordQueries } from "../query_log.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

/** Kinds of unread notifications, newest first. */
async function kindsOf(gateway: Harness, who: Caller): Promise<string[]> {
  await gateway.runJobs();
  const { items } = ok(await who.get("/v1/collaboration/notifications?unread=true"));
  return items.map((item: { kind: string }) => item.kind);
}

async function clear(gateway: Harness, ...callers: Caller[]): Promise<void> {
  await gateway.runJobs();
  for (const caller of callers) ok(await caller.post("/v1/collaboration/notifications/read", {}));
}

Deno.test("a mention, a direct message, a reply and an invitation notify their recipients, and never the actor", async () => {
  await using gateway = await openGateway();
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  assert.deepEqual(await kindsOf(gateway, bob), ["invitation"]);
  assert.deepEqual(await kindsOf(gateway, alice), []);
  await clear(gateway, bob, carol);

  const mention = await sendMessage(alice, roomId, "bob, please", { mentions: { principalIds: ["alice", "bob"] } });
  assert.deepEqual(await kindsOf(gateway, bob), ["mention"]);
  assert.deepEqual(await kindsOf(gateway, carol), []);
  assert.deepEqual(await kindsOf(gateway, alice), []);
  const [first] = ok(await bob.get("/v1/collaboration/notifications")).items;
  assert.deepEqual([first.messageId, first.seq, first.actor, first.roomId], [
    mention.id,
    mention.seq,
    { id: "alice", kind: "human" },
    roomId,
  ]);

  const direct = await createRoom(alice, ["carol"], { kind: "direct" });
  await sendMessage(alice, direct, "psst");
  assert.deepEqual(await kindsOf(gateway, carol), ["direct_message"]);
  await clear(gateway, bob, carol);

  const root = await sendMessage(carol, roomId, "who is on call?");
  await sendMessage(bob, roomId, "me", { threadId: root.id });
  await sendMessage(alice, roomId, "thanks", { threadId: root.id });
  assert.deepEqual(await kindsOf(gateway, carol), ["reply", "reply"]);
  assert.deepEqual(await kindsOf(gateway, bob), ["reply"]);
  assert.deepEqual(await kindsOf(gateway, alice), []);
});

Deno.test("a listed notification has the current start of its message, for callers that may read it", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const direct = await createRoom(alice, ["bob"], { kind: "direct" });
  await clear(gateway, bob);
  const toBob = { mentions: { principalIds: ["bob"] } };
  const mention = await sendMessage(alice, roomId, "bob, pleas", toBob);
  await sendMessage(alice, direct, `${"a".repeat(199)}😀 and so on`);
  const previews = async (who: Caller): Promise<(string | null)[]> => {
    await gateway.runJobs();
    const { items } = ok(await who.get("/v1/collaboration/notifications?unread=true"));
    return items.map((item: { preview: string | null }) => item.preview);
  };
  assert.deepEqual(await previews(bob), ["a".repeat(199), "bob, pleas"]);
  ok(await alice.patch(`/v1/messages/${mention.id}`, { text: "bob, please" }));
  assert.deepEqual(await previews(bob), ["a".repeat(199), "bob, please"]);
  const narrow = await gateway.as("bob", { scope: "notification.read" });
  assert.deepEqual(await previews(narrow), [null, null]);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  assert.equal((await previews(bob)).at(-1), null);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, {}));
  assert.deepEqual((await previews(bob)).slice(1), ["a".repeat(199), "bob, please"]);
  ok(await alice.patch(`/v1/rooms/${roomId}`, { historyVisibility: "joined" }));
  assert.equal((await previews(bob)).at(-1), null);
});

Deno.test("title and data of a notification require the scope that reads its resource", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await clear(gateway, bob);
  ok(await alice.post("/v1/collaboration/tasks", { roomId, title: "Pay Carol", assigneeIds: ["bob"] }));
  const start = { dateTime: "2026-03-09T09:00:00", timeZone: "UTC" };
  const reminders = [{ minutesBefore: 10 }];
  ok(await bob.post("/v1/collaboration/calendar/events", { title: "Lunch with Carol", start, reminders }));
  gateway.clock.advance(Date.parse("2026-03-09T08:55:00Z") - gateway.clock.now());
  await gateway.runJobs();
  const PATH = "/v1/collaboration/notifications";
  const titles = async (scope: string): Promise<(string | null)[]> => {
    const { items } = ok(await (await gateway.as("bob", { scope })).get(`${PATH}?unread=true`));
    return items.map((item: { title: string | null; data: object }) => {
      assert.equal(Object.keys(item.data).length > 0, item.title !== null);
      return item.title?.replace(/^\w+-1 /, "") ?? null;
    });
  };
  const [event, task] = ["Lunch with Carol", "Pay Carol"];
  // Events of the own stream are read later, too, and by any token.
  const own = await gateway.app.store.log.read("default", "principal:bob", 0, 1000);
  const notified = own.filter(({ type }) => type.startsWith("notification.") || type === "task.assigned");
  assert.equal(notified.filter(({ type }) => type === "notification.created").length >= 2, true);
  assert.deepEqual(notified.filter(({ json }) => json.includes("Carol")), []);
  assert.deepEqual(await titles("*"), [event, task]);
  assert.deepEqual(await titles("notification.read"), [null, null]);
  assert.deepEqual(await titles("notification.read task.read"), [null, task]);
  assert.deepEqual(await titles("notification.read calendar.read"), [event, null]);
  const [{ id }] = ok(await (await gateway.as("bob")).get(`${PATH}?kind=task_assigned`)).items;
  for (
    const [scope, expected] of [["notification.write", null], ["notification.write task.read", "Pay Carol"]] as const
  ) {
    const readAt = "2026-03-09T08:55:00.000Z";
    const { title } = ok(await (await gateway.as("bob", { scope })).patch(`${PATH}/${id}`, { readAt }));
    assert.equal(title?.replace(/^\w+-1 /, "") ?? null, expected);
  }
});

Deno.test("a plain message in a channel and a notice cause no notification and no job", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await clear(gateway, bob);
  const { store } = gateway.app;
  const tell = store.onCommit;
  let jobs = 0;
  store.onCommit = (committed) => {
    jobs += committed.jobs;
    tell(committed);
  };
  await sendMessage(alice, roomId, "plain");
  await sendMessage(alice, roomId, "bob", { type: "notice", mentions: { principalIds: ["bob"] } });
  assert.equal(jobs, 0);
  await sendMessage(alice, roomId, "bob", { mentions: { principalIds: ["bob"] } });
  assert.equal(jobs, 1);
  ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: (await sendMessage(alice, roomId, "plain")).seq }));
  assert.deepEqual(await kindsOf(gateway, bob), []);
});

Deno.test("a room mention notifies all members, in pages, once", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const names = Array.from({ length: 250 }, (_, at) => `member-${String(at).padStart(3, "0")}`);
  const callers = await Promise.all(names.map((name) => gateway.as(name)));
  await Promise.all(callers.map((caller) => caller.get("/v1/collaboration/me")));
  const roomId = await createRoom(alice, names.slice(0, 200));
  await Promise.all(
    names.slice(200).map((name) => alice.put(`/v1/rooms/${roomId}/members/${name}`, {}).then(ok)),
  );
  await gateway.runJobs();
  const { id } = await sendMessage(alice, roomId, "all hands", { mentions: { room: true } });
  await gateway.runJobs();
  const rows = await gateway.app.store.db.selectFrom("notification").selectAll().where("kind", "=", "mention")
    .execute();
  assert.equal(rows.length, 250);
  assert.equal(new Set(rows.map((row) => row.principal_id)).size, 250);
  // The same job again, as after a crash between its work and its end.
  await gateway.app.store.write((tx) =>
    tx.enqueue({ tenantId: "default", kind: "message.notify", payload: { messageId: id } })
  );
  await gateway.runJobs();
  const again = await gateway.app.store.db.selectFrom("notification").select("id").where("kind", "=", "mention")
    .execute();
  assert.equal(again.length, 250);
});

Deno.test("preferences turn kinds off", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  ok(
    await bob.patch("/v1/collaboration/me", {
      notificationPrefs: { mentions: false, invitations: false, directMessages: false },
    }),
  );
  const roomId = await createRoom(alice, ["bob"]);
  await sendMessage(alice, roomId, "bob?", { mentions: { principalIds: ["bob"] } });
  await sendMessage(alice, await createRoom(alice, ["bob"], { kind: "direct" }), "psst");
  assert.deepEqual(await kindsOf(gateway, bob), []);
});

Deno.test("an edit notifies newly mentioned principals, and a deletion withdraws notifications", async () => {
  await using gateway = await openGateway();
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  await clear(gateway, bob, carol);
  const { id } = await sendMessage(alice, roomId, "bob", { mentions: { principalIds: ["bob"] } });
  ok(await alice.patch(`/v1/messages/${id}`, { text: "bob, carol", mentions: { principalIds: ["bob", "carol"] } }));
  assert.deepEqual(await kindsOf(gateway, bob), ["mention"]);
  assert.deepEqual(await kindsOf(gateway, carol), ["mention"]);
  ok(await alice.delete(`/v1/messages/${id}`));
  assert.deepEqual(await kindsOf(gateway, bob), []);
  assert.deepEqual(await kindsOf(gateway, carol), []);
});

Deno.test("principals removed before the job runs, and non-members, are not notified", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await clear(gateway, bob);
  const root = await sendMessage(bob, roomId, "root");
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  await sendMessage(alice, roomId, "reply", { threadId: root.id });
  assert.deepEqual(await kindsOf(gateway, bob), []);
});

Deno.test("notifications are marked as read one by one, all together, and with their room", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await clear(gateway, bob);
  const sent = [];
  for (const text of ["one", "two", "three"]) {
    sent.push(await sendMessage(alice, roomId, text, { mentions: { principalIds: ["bob"] } }));
    await gateway.runJobs();
  }
  const list = ok(await bob.get("/v1/collaboration/notifications?limit=2&unread=true"));
  assert.deepEqual([list.items.length, list.hasMore, list.unreadCount], [2, true, 3]);
  const rest = ok(
    await bob.get(`/v1/collaboration/notifications?limit=2&unread=true&cursor=${encodeURIComponent(list.nextCursor)}`),
  );
  assert.deepEqual(rest.items.map((item: { messageId: string }) => item.messageId), [sent[0].id]);
  const path = `/v1/collaboration/notifications/${list.items[0].id}`;
  const far = "2999-01-01T00:00:00.000Z";
  const read = ok(await bob.patch(path, { readAt: far }));
  assert.equal(read.readAt, new Date(gateway.clock.now()).toISOString());
  assertProblem(await bob.patch(path, { readAt: null, version: 1 }), 412, "version_mismatch");
  assertProblem(await alice.patch(path, { readAt: null }), 404, "not_found");
  assert.equal(ok(await bob.patch(path, { readAt: null })).readAt, null);
  ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: sent[1].seq }));
  assert.deepEqual(await kindsOf(gateway, bob), ["mention"]);
  const upTo = ok(await bob.post("/v1/collaboration/notifications/read", { upToId: rest.items[0].id }));
  assert.deepEqual(upTo, { readCount: 0, unreadCount: 1 });
  assert.deepEqual(ok(await bob.post("/v1/collaboration/notifications/read", {})), { readCount: 1, unreadCount: 0 });
});

slowTest("about the newest 1000 notifications of a principal are stored", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const direct = await createRoom(alice, ["bob"], { kind: "direct" });
  await Promise.all(Array.from({ length: 1060 }, (_, at) => sendMessage(alice, direct, `m${at}`)));
  await gateway.runJobs();
  const { unreadCount } = ok(await bob.get("/v1/collaboration/notifications?limit=1"));
  assert.ok(unreadCount >= 1000 && unreadCount <= 1050, `${unreadCount}`);
});

Deno.test("a mention of everybody counts the notifications of few, and is charged to its sender", async () => {
  await using gateway = await openGateway();
  const db = gateway.app.store.db as unknown as Kysely<{ job: JobRow } & NotificationTables>;
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const names = Array.from({ length: 15 }, (_, n) => `member${n}`);
  await createCallers(gateway, ...names);
  const roomId = await createRoom(alice, ["bob", ...names]);
  await clear(gateway, bob);
  // So that they are still there.
  await gateway.app.jobs.stop();
  const mentions = { room: true };
  await Promise.all([alice, bob].map((sender) => sendMessage(sender, roomId, "hello", { mentions })));
  const jobs = await db.selectFrom("job").select("charged_to").where("kind", "=", "message.notify").execute();
  assert.deepEqual(jobs.map((job) => job.charged_to).sort(), ["default/alice", "default/bob"]);
  await gateway.runJobs();
  // Jobs that a commit starts run outside of what is recorded.
  await gateway.app.jobs.stop();
  for (let n = 0; n < 8; n++) await sendMessage(alice, roomId, "hello", { mentions });
  const queries = await recordQueries(() => gateway.runJobs());
  const reads = queries.filter(({ sql }) => sql.includes(`from "notification"`));
  assert.equal(reads.filter(({ sql }) => sql.includes("offset")).length, 0);
  assert.equal(reads.length, 8);
  const stored = await db.selectFrom("notification").select("id").where("kind", "=", "mention").execute();
  assert.equal(stored.length, 10 * (names.length + 1));
});

testOnPostgres(
  "of two changes of a notification that are based on one version, one is rejected",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    await createRoom(alice, ["bob"]);
    const { items: [{ id, version }] } = ok(await bob.get("/v1/collaboration/notifications"));
    const read = (minute: number) => () =>
      bob.patch(`/v1/collaboration/notifications/${id}`, { readAt: `2026-03-01T11:0${minute}:00.000Z`, version });
    const answers = await callConcurrently(
      gateway,
      (tx) => tx.lock("default", principalStream("bob")),
      read(1),
      read(2),
    );
    assert.deepEqual(sortedStatuses(answers), [200, 412]);
  },
);
