// Read positions and unread counts, through the API; the counts always equal a recount of the readable messages.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { testOnEngines } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";

type Counts = { lastReadSeq: number; unreadCount: number; mentionCount: number };

Deno.test("read.put moves forward only, not beyond the last position, and publishes on the reader's stream", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const sent = [
    await sendMessage(alice, roomId, "one"),
    await sendMessage(alice, roomId, "two"),
    await sendMessage(alice, roomId, "three"),
  ];
  const { cursor } = ok(await bob.get("/v1/collaboration/sync"));
  const read = async (seq: number) => ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq }));
  assert.deepEqual(await read(sent[1].seq), {
    roomId,
    lastReadSeq: sent[1].seq,
    unreadCount: 1,
    mentionCount: 0,
    badgeCount: 1,
    lastSeq: sent[2].seq,
  });
  assert.equal((await read(sent[0].seq)).lastReadSeq, sent[1].seq);
  assertProblem(await bob.put(`/v1/rooms/${roomId}/read`, { seq: sent[2].seq + 1 }), 422, "validation_failed");
  assertProblem(await bob.put(`/v1/rooms/${roomId}/read`, { seq: -1 }), 422, "validation_failed");
  assert.equal((await read(sent[2].seq)).unreadCount, 0);
  const { events } = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
  assert.deepEqual(
    events.map((event: { channel: string; type: string; data: Counts }) => [
      event.channel,
      event.type,
      event.data.lastReadSeq,
    ]),
    [["principal:bob", "read.updated", sent[1].seq], ["principal:bob", "read.updated", sent[2].seq]],
  );
  assert.ok((await readRoomEvents(alice, roomId)).every((event) => event.type !== "read.updated"));
});

testOnEngines("message.mark_unread moves the position back, with the counts, for all devices", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const first = await sendMessage(alice, roomId, "one");
  const second = await sendMessage(alice, roomId, "two @bob", { parseMentions: true });
  const third = await sendMessage(alice, roomId, "three");
  ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: "all" }));
  const { cursor } = ok(await bob.get("/v1/collaboration/sync"));
  const markUnread = async (id: string) => ok(await bob.post(`/v1/messages/${id}/unread`));
  const counts = { roomId, unreadCount: 2, mentionCount: 1, badgeCount: 2, lastSeq: third.seq };
  assert.deepEqual(await markUnread(second.id), { ...counts, lastReadSeq: second.seq - 1 });
  assert.deepEqual(await markUnread(third.id), { ...counts, lastReadSeq: second.seq - 1 });
  assert.deepEqual(ok(await bob.get("/v1/collaboration/unreads")).items, [{ ...counts, lastReadSeq: second.seq - 1 }]);
  const { events } = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
  // A mention may be notified meanwhile.
  const moves = events.filter(({ type }: { type: string }) => type === "read.updated");
  assert.deepEqual(
    moves.map(({ data }: { data: Counts }) => [data.lastReadSeq, data.mentionCount]),
    [[second.seq - 1, 1]],
  );
  assertProblem(await eve.post(`/v1/messages/${first.id}/unread`), 404, "not_found");
  assert.equal(ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: "all" })).unreadCount, 0);
});

Deno.test("read.put is for members; an archived room can be read", async () => {
  await using gateway = await openGateway();
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"], { visibility: "public" });
  const { seq } = await sendMessage(alice, roomId, "one");
  assertProblem(await eve.put(`/v1/rooms/${roomId}/read`, { seq }), 403, "forbidden");
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  assert.equal(ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq })).unreadCount, 0);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob?ban=true`));
  assert.deepEqual(ok(await bob.get("/v1/collaboration/unreads")).items, []);
  assertProblem(await bob.put(`/v1/rooms/${roomId}/read`, { seq }), 404, "not_found");
});

Deno.test("reading a room reads the mentions in its threads", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const root = await sendMessage(alice, roomId, "root");
  const reply = await sendMessage(alice, roomId, "bob?", { threadId: root.id, mentions: { principalIds: ["bob"] } });
  assert.deepEqual(await countsOf(bob, roomId), { lastReadSeq: root.seq - 1, unreadCount: 2, mentionCount: 1 });
  ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: reply.seq }));
  assert.deepEqual(await countsOf(bob, roomId), { lastReadSeq: reply.seq, unreadCount: 0, mentionCount: 0 });
});

Deno.test("counts equal a recount after any edits, deletions, joins, leaves and reads", async () => {
  const names = ["alice", "bob", "carol"] as const;
  const who = fc.constantFrom(...names);
  const pick = fc.nat(1000);
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("send" as const),
        who,
        mentions: fc.subarray([...names]),
        room: fc.boolean(),
        inThread: fc.boolean(),
      }),
    },
    fc.record({ do: fc.constant("edit" as const), pick, mentions: fc.subarray([...names]), room: fc.boolean() }),
    fc.record({ do: fc.constant("delete" as const), pick }),
    fc.record({ do: fc.constant("read" as const), who, pick }),
    fc.record({ do: fc.constant("leave" as const), who: fc.constantFrom("bob" as const, "carol" as const) }),
    fc.record({ do: fc.constant("join" as const), who: fc.constantFrom("bob" as const, "carol" as const) }),
    fc.record({ do: fc.constant("hide" as const), value: fc.constantFrom("shared", "joined") }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      await using gateway = await openGateway();
      const callers = await createCallers(gateway, ...names);
      const roomId = await createRoom(callers.alice, ["bob", "carol"]);
      const inside = new Set<string>(names);
      // deno-lint-ignore no-explicit-any -- messages as answered
      const sent: any[] = [];
      const visible = (ids: readonly string[]): string[] => ids.filter((id) => inside.has(id));
      for (const action of steps) {
        const target = "pick" in action ? sent[action.pick % Math.max(1, sent.length)] : undefined;
        if (action.do === "send" && inside.has(action.who)) {
          const root = action.inThread ? sent.find((message) => message.threadId === null) : undefined;
          sent.push(
            await sendMessage(callers[action.who], roomId, "text", {
              mentions: { principalIds: visible(action.mentions), room: action.room },
              ...root === undefined ? {} : { threadId: root.id },
            }),
          );
        } else if (action.do === "edit" && target !== undefined) {
          const mentions = { principalIds: visible(action.mentions), room: action.room };
          await callers[target.senderId as "alice"].patch(`/v1/messages/${target.id}`, { text: "edited", mentions });
        } else if (action.do === "delete" && target !== undefined) {
          await callers.alice.delete(`/v1/messages/${target.id}`);
        } else if (action.do === "read" && inside.has(action.who)) {
          const { lastSeq } = ok(await callers[action.who].get(`/v1/rooms/${roomId}`));
          ok(await callers[action.who].put(`/v1/rooms/${roomId}/read`, { seq: action.pick % (lastSeq + 1) }));
        } else if (action.do === "leave" && inside.delete(action.who)) {
          ok(await callers[action.who].delete(`/v1/rooms/${roomId}/members/me`));
        } else if (action.do === "join" && !inside.has(action.who)) {
          ok(await callers.alice.put(`/v1/rooms/${roomId}/members/${action.who}`, {}));
          inside.add(action.who);
        } else if (action.do === "hide") {
          ok(await callers.alice.patch(`/v1/rooms/${roomId}`, { historyVisibility: action.value }));
        }
        for (const name of inside) {
          const counts = await countsOf(callers[name as "alice"], roomId);
          assert.deepEqual(counts, await recount(callers[name as "alice"], name, roomId, counts.lastReadSeq), name);
          const room = ok(await callers[name as "alice"].get(`/v1/rooms/${roomId}`));
          assert.deepEqual([room.unreadCount, room.mentionCount], [counts.unreadCount, counts.mentionCount]);
        }
      }
    }),
    { numRuns: 12, seed: 20260301 },
  );
});

testOnEngines(
  "counts are recounted in rooms with changed older messages, and continued in others",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const rooms = await Promise.all(Array.from({ length: 9 }, () => createRoom(alice, ["bob"])));
    const mention = { mentions: { principalIds: ["bob"] } };
    const [first, second] = [
      await Promise.all(rooms.map((roomId) => sendMessage(alice, roomId, "one", mention))),
      await Promise.all(rooms.map((roomId) => sendMessage(alice, roomId, "two"))),
    ];
    const asListed = async (): Promise<Record<string, number[]>> =>
      Object.fromEntries(
        ok(await bob.get("/v1/collaboration/unreads")).items
          .map((item: Counts & { roomId: string }) => [item.roomId, [item.unreadCount, item.mentionCount]]),
      );
    const expected = new Map(rooms.map((roomId) => [roomId, [2, 1]]));
    assert.deepEqual(await asListed(), Object.fromEntries(expected));
    for (const [n, roomId] of rooms.entries()) {
      const does = [n % 3 > 0, n % 2 > 0, n > 5];
      if (does[0]) await sendMessage(alice, roomId, "three", mention);
      if (does[1]) ok(await alice.delete(`/v1/messages/${first[n].id}`));
      if (does[2]) ok(await alice.patch(`/v1/messages/${second[n].id}`, mention));
      if (n === 4) await sendMessage(bob, roomId, "mine");
      if (n === 8) ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: second[n].seq }));
      const [more, less, also] = does.map(Number) as [number, number, number]; // as many as above
      expected.set(roomId, n === 8 ? [more, more] : [2 + more - less, 1 + more - less + also]);
    }
    assert.deepEqual(await asListed(), Object.fromEntries(expected));
    const { items } = ok(await bob.get("/v1/rooms?limit=200"));
    assert.deepEqual(
      Object.fromEntries(
        items.map((room: Counts & { id: string }) => [room.id, [room.unreadCount, room.mentionCount]]),
      ),
      Object.fromEntries(expected),
    );
  },
);

async function countsOf(who: Caller, roomId: string): Promise<Counts> {
  const [{ lastReadSeq, unreadCount, mentionCount }] = ok(
    await who.get(`/v1/collaboration/unreads?roomIds=${roomId}`),
  ).items;
  return { lastReadSeq, unreadCount, mentionCount };
}

/** Recounts from the messages that the reader can list. */
async function recount(who: Caller, name: string, roomId: string, lastReadSeq: number): Promise<Counts> {
  const { items } = ok(await who.get(`/v1/messages?roomId=${roomId}&after=${lastReadSeq}&limit=200`));
  const unread = items.filter((message: { senderId: string; deletedAt: string | null }) =>
    message.senderId !== name && message.deletedAt === null
  );
  const mentions = unread.filter((message: { mentions: { principalIds: string[]; room: boolean } }) =>
    message.mentions.room || message.mentions.principalIds.includes(name)
  );
  return { lastReadSeq, unreadCount: unread.length, mentionCount: mentions.length };
}

Deno.test("SQLite counts a long range in parts, between which others are served", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = await sendMessage(alice, roomId, "one");
  const { store } = gateway.app;
  const [row] = await store.db.selectFrom("message").selectAll().where("id", "=", id).execute();
  const copies = [9_000, 15_000, 24_000].map((seq) => ({ ...row, id: `msg_${seq}`, client_message_id: null, seq }));
  await store.write(async (tx) => {
    await tx.insertMany("message", copies);
    await tx.db.updateTable("stream").set({ head: 25_000 }).where("name", "=", `room:${roomId}`).execute();
  });
  const statements = await recordQueries(async () => {
    const { items } = ok(await bob.get(`/v1/collaboration/unreads?roomIds=${roomId}`));
    assert.deepEqual(items.map(({ unreadCount }: Counts) => unreadCount), [4]);
  });
  assert.equal(statements.filter(({ sql }) => /^select \(select count.* as "unread"$/s.test(sql)).length, 3);
});
