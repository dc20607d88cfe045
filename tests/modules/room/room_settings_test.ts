// Settings of members for rooms: notifications, badges and favorites.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const DEFAULTS = { level: "all", mutedUntil: null, favoriteOrder: null };

async function readNotifications(gateway: Harness, who: Caller): Promise<string[]> {
  await gateway.runJobs();
  const { items } = ok(await who.get("/v1/collaboration/notifications?kind=mention,reply,direct_message"));
  return items.map((item: { kind: string; preview: string }) => `${item.kind} ${item.preview}`).toReversed();
}

testOnEngines(
  "settings belong to the member: shown in its rooms, published on its own stream, hidden from all others",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    const path = `/v1/rooms/${roomId}/settings`;
    assert.deepEqual(ok(await bob.get(`/v1/rooms/${roomId}`)).mySettings, DEFAULTS);
    const { cursor } = ok(await bob.get("/v1/collaboration/sync"));
    assert.deepEqual(ok(await bob.patch(path, { level: "mentions" })), { ...DEFAULTS, level: "mentions" });
    const mutedUntil = new Date(gateway.clock.now() + 60_000).toISOString();
    const settings = { level: "mentions", mutedUntil, favoriteOrder: 2 };
    assert.deepEqual(ok(await bob.patch(path, { mutedUntil, favoriteOrder: 2 })), settings);
    assert.deepEqual(ok(await bob.patch(path, { favoriteOrder: 2 })), settings);
    const sync = ok(await bob.get("/v1/collaboration/sync"));
    for (const room of [...sync.rooms, ok(await bob.get("/v1/rooms")).items[0]]) {
      assert.deepEqual(room.mySettings, settings);
    }
    const { events } = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
    assert.deepEqual(
      events.map(({ channel, type, data }: { channel: string; type: string; data: unknown }) => [channel, type, data]),
      [
        ["principal:bob", "room_settings.updated", { roomId, settings: { ...DEFAULTS, level: "mentions" } }],
        ["principal:bob", "room_settings.updated", { roomId, settings }],
      ],
    );
    assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}`)).mySettings, DEFAULTS);
    assert.ok((await readRoomEvents(alice, roomId)).every(({ type }) => type !== "room_settings.updated"));
    // They end with the membership.
    ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
    assertProblem(await bob.patch(path, { level: "all" }), 404, "not_found");
    ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
    assert.deepEqual(ok(await bob.get(`/v1/rooms/${roomId}`)).mySettings, DEFAULTS);
  },
);

Deno.test("settings are for members, also of archived rooms, and reject times in the past", async () => {
  await using gateway = await openGateway();
  const { alice, eve } = await createCallers(gateway, "alice", "eve");
  const roomId = await createRoom(alice, [], { visibility: "public" });
  const path = `/v1/rooms/${roomId}/settings`;
  assertProblem(await eve.patch(path, { level: "none" }), 403, "forbidden");
  assert.equal(ok(await eve.get(`/v1/rooms/${roomId}`)).mySettings, null);
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  assert.equal(ok(await alice.patch(path, { level: "none" })).level, "none");
  const past = new Date(gateway.clock.now()).toISOString();
  for (const wrong of [{ level: "some" }, { mutedUntil: past }, { favoriteOrder: -1 }, { favoriteOrder: 1.5 }]) {
    assertProblem(await alice.patch(path, wrong), 422, "validation_failed");
  }
});

testOnEngines("the level decides which messages notify, and what the badge counts", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const path = `/v1/rooms/${roomId}/settings`;
  const mine = await sendMessage(bob, roomId, "mine");
  // One after the other: jobs of several messages notify in no order.
  const write = async (word: string): Promise<void> => {
    const messages = {
      plain: {},
      reply: { replyToId: mine.id },
      mention: { mentions: { principalIds: ["bob"] } },
      room: { mentions: { room: true } },
    };
    for (const [kind, more] of Object.entries(messages)) {
      await sendMessage(alice, roomId, `${word} ${kind}`, more);
      await gateway.runJobs();
    }
  };
  const badge = async (): Promise<number[]> => {
    const { badgeCount, unreadCount, mentionCount } = ok(await bob.get(`/v1/rooms/${roomId}`));
    const [unread] = ok(await bob.get("/v1/collaboration/unreads")).items;
    assert.equal(unread.badgeCount, badgeCount);
    assert.equal(ok(await bob.get("/v1/collaboration/sync")).unreads[0].badgeCount, badgeCount);
    return [badgeCount, unreadCount, mentionCount];
  };
  await write("all");
  assert.deepEqual(await badge(), [4, 4, 2]);
  ok(await bob.patch(path, { level: "mentions" }));
  assert.deepEqual(await badge(), [2, 4, 2]);
  await write("mentions");
  ok(await bob.patch(path, { level: "none" }));
  await write("none");
  assert.deepEqual(await badge(), [0, 12, 6]);
  const mutedUntil = new Date(gateway.clock.now() + 60_000).toISOString();
  ok(await bob.patch(path, { level: "all", mutedUntil }));
  await write("muted");
  assert.deepEqual(await badge(), [0, 16, 8]);
  gateway.clock.advance(60_000);
  assert.deepEqual(await badge(), [16, 16, 8]);
  await write("after");
  const expected = (word: string) => [`reply ${word} reply`, `mention ${word} mention`, `mention ${word} room`];
  assert.deepEqual(await readNotifications(gateway, bob), [
    ...expected("all"),
    ...expected("mentions").slice(1),
    ...expected("after"),
  ]);
  ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: "all" }));
  assert.deepEqual(await badge(), [0, 0, 0]);
});

Deno.test("in a direct room the level mentions ignores messages without one, and tasks still notify", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const { id } = ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: ["bob"] }));
  ok(await bob.patch(`/v1/rooms/${id}/settings`, { level: "mentions" }));
  await sendMessage(alice, id, "plain");
  await sendMessage(alice, id, "named", { mentions: { principalIds: ["bob"] } });
  assert.deepEqual(await readNotifications(gateway, bob), ["mention named"]);
  ok(await bob.patch(`/v1/rooms/${id}/settings`, { level: "none" }));
  ok(await alice.post("/v1/collaboration/tasks", { roomId: id, title: "Work", assigneeIds: ["bob"] }));
  await gateway.runJobs();
  const { items } = ok(await bob.get("/v1/collaboration/notifications?kind=task_assigned"));
  assert.equal(items.length, 1);
});
