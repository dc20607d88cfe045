// Random operations of several people: a client that applies events has the state of a new snapshot.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openGateway } from "../../harness.ts";
import { slowTest } from "../../tier.ts";
import { assertSameState, SyncClient } from "./sync_client.ts";
import { createCallers } from "../fixtures.ts";

const NAMES = ["alice", "bob", "carol", "dave"] as const;
type Name = (typeof NAMES)[number];

const ACTIONS = [
  "send",
  "send",
  "send",
  "reply",
  "reply",
  "edit",
  "delete",
  "delete",
  "react",
  "react",
  "unreact",
  "unreact",
  "pin",
  "unpin",
  "read",
  "read",
  "leave",
  "kick",
  "add",
  "add",
  "rejoin",
  "rejoin",
  "role",
  "role",
  "rename",
  "archive",
  "activate",
  "hide",
  "show",
  "room",
  "drop",
  "restore",
  "seen",
] as const;

type Action = {
  deed: (typeof ACTIONS)[number];
  who: Name;
  whom: Name;
  pick: number;
  others: Name[];
  everybody: boolean;
};

const action = fc.record({
  deed: fc.constantFrom(...ACTIONS),
  who: fc.constantFrom(...NAMES),
  whom: fc.constantFrom(...NAMES),
  pick: fc.nat(10_000),
  others: fc.subarray([...NAMES]),
  everybody: fc.boolean(),
}) satisfies fc.Arbitrary<Action>;

/** What people do at the same time. */
const batch = fc.array(action, { minLength: 1, maxLength: 4 });

slowTest("after random operations of four people, events applied to an old snapshot equal a new snapshot", async () => {
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(batch, { minLength: 25, maxLength: 45 }), fc.nat(15), async (batches, lag) => {
      await using gateway = await openGateway();
      const callers = await createCallers(gateway, ...NAMES);
      const world: Scenario = { callers, rooms: [], messages: [], reacted: [], pinned: [] };
      const { rooms, messages } = world;
      for (let at = 0; at < 2; at++) {
        const { body } = await callers.alice.post("/v1/rooms", {
          name: `Room ${at}`,
          memberIds: NAMES.slice(1),
          historyVisibility: at === 0 ? "shared" : "joined",
        });
        rooms.push(body.id);
      }
      await gateway.runJobs();
      const clients = await Promise.all(NAMES.map((name) => SyncClient.fromSnapshot(name, callers[name])));
      for (const [at, deeds] of batches.entries()) {
        gateway.clock.advance(1000);
        const answers = await Promise.all(deeds.map((deed) => perform(world, deed)));
        for (const answer of answers) {
          // Whether it is allowed is for the gateway to say; here only what it makes of it counts.
          assert.ok(answer.status < 500, JSON.stringify(answer.body));
          if (answer.status === 201 && answer.body.senderId !== undefined) messages.push(answer.body);
          if (answer.status === 201 && answer.body.myRole !== undefined) rooms.push(answer.body.id);
        }
        await gateway.runJobs();
        const client = clients[at % clients.length];
        if (at % (lag + 1) === lag) await client?.catchUp();
      }
      for (const client of clients) {
        await client.catchUp();
        assertSameState(client, await SyncClient.fromSnapshot(client.me, callers[client.me as Name]));
        for (const [type, count] of client.applied) seen.set(type, (seen.get(type) ?? 0) + count);
      }
    }),
    { numRuns: 20, seed: 20260301, endOnFailure: true },
  );
  // A property that never met an event says nothing about it.
  for (
    const type of [
      "message.created",
      "message.updated",
      "message.deleted",
      "thread.updated",
      "reaction.added",
      "reaction.removed",
      "message.pinned",
      "message.unpinned",
      "message.hidden",
      "member.joined",
      "member.updated",
      "member.left",
      "room.updated",
      "room.archived",
      "room.deleted",
      "read.updated",
      "notification.created",
      "notification.read",
      "notification.removed",
    ]
  ) assert.ok((seen.get(type) ?? 0) > 0, `${type} never came up`);
});

type SentMessage = { id: string; roomId: string; threadId: string | null };
type Scenario = {
  callers: Awaited<ReturnType<typeof createCallers<Name>>>;
  rooms: string[];
  messages: SentMessage[];
  reacted: { who: Name; path: string }[];
  pinned: string[];
};

async function perform(
  { callers, rooms, messages, reacted, pinned }: Scenario,
  { deed, who, whom, pick, ...more }: Action,
) {
  const me = callers[who];
  const room = rooms[pick % rooms.length] ?? "";
  const message = messages[pick % Math.max(1, messages.length)]?.id ?? "none";
  const roots = messages.filter((sent) => sent.threadId === null);
  const root = roots[pick % Math.max(1, roots.length)];
  // Few of them get reactions and pins, so that these meet.
  const recent = messages.at(-1 - pick % 3)?.id ?? "none";
  const key = encodeURIComponent(["👍", ":ship:"][pick % 2] ?? "");
  const mentions = { principalIds: more.others.slice(0, 1), room: more.everybody && pick % 3 === 0 };
  switch (deed) {
    case "send":
      return me.post("/v1/messages", { roomId: room, text: `text ${pick}`, mentions });
    case "reply":
      return me.post("/v1/messages", { roomId: root?.roomId ?? room, text: "reply", threadId: root?.id ?? "none" });
    case "edit":
      return me.patch(`/v1/messages/${message}`, { text: `edited ${pick}`, ...pick % 2 === 0 ? { mentions } : {} });
    case "delete":
      return me.delete(`/v1/messages/${message}`);
    case "react":
      reacted.push({ who, path: `/v1/messages/${recent}/reactions/${key}` });
      return me.put(`/v1/messages/${recent}/reactions/${key}`);
    case "unreact":
      return callers[reacted.at(-1)?.who ?? who].delete(reacted.pop()?.path ?? `/v1/messages/none/reactions/${key}`);
    case "pin":
      pinned.push(`/v1/messages/${recent}/pin`);
      return callers.alice.put(`/v1/messages/${recent}/pin`);
    case "unpin":
      return callers.alice.delete(pinned.pop() ?? "/v1/messages/none/pin");
    case "read":
      return me.put(`/v1/rooms/${room}/read`, { seq: pick % 60 });
    case "leave":
      return me.delete(`/v1/rooms/${room}/members/me`);
    case "kick":
      return me.delete(`/v1/rooms/${room}/members/${whom}`);
    case "add":
      return callers.alice.put(`/v1/rooms/${room}/members/${whom}`, {});
    case "rejoin":
      await callers.alice.delete(`/v1/rooms/${room}/members/${whom}`);
      return await callers.alice.put(`/v1/rooms/${room}/members/${whom}`, {});
    case "role":
      return me.put(`/v1/rooms/${room}/members/${whom}`, { role: pick % 2 === 0 ? "moderator" : "member" });
    case "rename":
      return me.patch(`/v1/rooms/${room}`, { name: `Name ${pick}` });
    case "archive":
      return me.patch(`/v1/rooms/${room}`, { state: "archived" });
    case "activate":
      return callers.alice.patch(`/v1/rooms/${room}`, { state: "active" });
    case "hide":
      return me.patch(`/v1/rooms/${room}`, { historyVisibility: "joined" });
    case "show":
      return me.patch(`/v1/rooms/${room}`, { historyVisibility: "shared" });
    case "room":
      return me.post("/v1/rooms", { name: `New ${pick}`, memberIds: more.others });
    case "drop":
      return me.delete(`/v1/rooms/${room}`);
    case "restore":
      return me.post(`/v1/rooms/${room}/restore`, {});
    case "seen":
      return me.post("/v1/collaboration/notifications/read", {});
  }
}
