// Presence of many rooms in one call, within the rights to read each of them.
import assert from "node:assert/strict";
import { MemoryPresence } from "@/adapters/presence/memory.ts";
import type { Context } from "@/core/operation.ts";
import { PresenceService } from "@/modules/sync/presence.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { openPeer, type Peer, sendCommand } from "../../transport/ws_harness.ts";
import { assertProblem, createCallers, createRoom, ok } from "../fixtures.ts";

const PATH = "/v1/collaboration/presence";

function queryOf(...roomIds: string[]): string {
  return `${PATH}?${roomIds.map((id) => `roomIds=${id}`).join("&")}`;
}

function subscribe(gateway: Harness, who: Caller, roomId: string): Promise<Peer> {
  return openPeer(gateway, who, `room:${roomId}`);
}

Deno.test("presence.list returns each principal of a room once, over HTTP and rpc, and nothing of rooms that the caller cannot see", async () => {
  await using gateway = await openGateway();
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const one = await createRoom(alice, ["bob"]);
  const two = await createRoom(alice, ["bob", "carol"]);
  const hidden = await createRoom(carol, []);
  const open = await createRoom(carol, [], { visibility: "public" });
  await subscribe(gateway, bob, one);
  await subscribe(gateway, bob, one);
  const peer = await subscribe(gateway, alice, one);
  for (const room of [two, hidden, open]) await subscribe(gateway, carol, room);
  const expected = [
    { roomId: two, principalIds: ["carol"] },
    { roomId: one, principalIds: ["alice", "bob"] },
    { roomId: open, principalIds: ["carol"] },
  ];
  const roomIds = [two, one, hidden, open, one, "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60"];
  assert.deepEqual(ok(await alice.get(queryOf(...roomIds))).items, expected);
  const { rpc } = await sendCommand(peer, 3, { rpc: { method: "presence.list", data: { roomIds } } });
  assert.deepEqual(rpc.data.items, expected);
  peer.connection.onSocketClosed();
  assert.deepEqual(ok(await alice.get(queryOf(one))).items, [{ roomId: one, principalIds: ["bob"] }]);
  assert.deepEqual(ok(await (await gateway.as("alice", { tenant: "elsewhere" })).get(queryOf(one))).items, []);
});

Deno.test("presence.list accepts 1 to 100 rooms and requires room.read", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const ids = Array.from({ length: 101 }, (_, at) => `room_${String(at).padStart(32, "0")}`);
  assertProblem(await alice.get(PATH), 422, "validation_failed");
  assertProblem(await alice.get(queryOf(...ids)), 422, "validation_failed");
  assert.deepEqual(ok(await alice.get(queryOf(...ids.slice(1)))).items, []);
  const narrow = await gateway.as("alice", { scope: "message.read" });
  assertProblem(await narrow.get(queryOf(...ids.slice(1))), 403, "scope_missing");
});

Deno.test("presence.list reads all rooms by one query, and skips those that are too large", async () => {
  const presence = new MemoryPresence();
  for (let n = 0; n < 201; n++) presence.add("t/room:crowded", { user: `u${n}`, client: `c${n}` });
  presence.add("t/room:small", { user: "bob", client: "b" });
  const asked: (readonly string[])[] = [];
  const service = new PresenceService({
    roomAccess: {
      findMany: (_who, ids) => {
        const sizes: Record<string, number> = { small: 2, crowded: 200, large: 201 };
        return Promise.resolve(new Map([...ids].map((id) => [id, { room: { member_count: sizes[id] } }] as never)));
      },
    },
    presence: { listMany: (keys) => (asked.push(keys), presence.listMany(keys)) },
    visibility: { filterVisibleIds: (_who, ids) => Promise.resolve(new Set(ids)) },
  });
  const context = { actor: { tenantId: "t" } } as Context;
  const { items } = await service.list(context, { roomIds: ["large", "crowded", "small"] });
  assert.deepEqual(items, [
    { roomId: "large", principalIds: null },
    { roomId: "crowded", principalIds: null },
    { roomId: "small", principalIds: ["bob"] },
  ]);
  assert.deepEqual(asked, [["t/room:crowded", "t/room:small"]]);
});
