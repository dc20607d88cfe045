// The presence of who only looks into a public room is for members of the tenant: its guests do not know who that is.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { openPeer, pushesOn, sendCommand } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { createCallers, createRoom, ok } from "../fixtures.ts";

const BASE = "/v1/collaboration";

async function subscribe(gateway: Harness, who: Caller, roomId: string) {
  const peer = await openPeer(gateway, who);
  const channel = `room:${roomId}`;
  assert.ok((await sendCommand(peer, 2, { subscribe: { channel, join_leave: true } })).subscribe);
  let id = 2;
  return {
    /** Whose joins or leaves were pushed, in their order. */
    pushed: (kind: "join" | "leave"): string[] => pushesOn(peer.socket, channel, kind).map(({ info }) => info.user),
    /** The replies to the commands `presence` and `presence_stats`. */
    async present() {
      const { presence } = (await sendCommand(peer, ++id, { presence: { channel } })).presence;
      const { num_users } = (await sendCommand(peer, ++id, { presence_stats: { channel } })).presence_stats;
      const users = Object.values(presence as Record<string, { user: string }>).map(({ user }) => user);
      return { users: users.sort(), count: num_users };
    },
    leave: () => peer.connection.onSocketClosed(),
  };
}

async function listed(who: Caller, roomId: string): Promise<string[]> {
  return ok(await who.get(`${BASE}/presence?roomIds=${roomId}`)).items[0].principalIds;
}

async function synced(who: Caller): Promise<string[]> {
  const { presence }: { presence: { principalId: string }[] } = ok(await who.get(`${BASE}/sync`));
  return presence.map(({ principalId }) => principalId).sort();
}

testOnEngines(
  "guests see the presence only of principals that they share a room with, wherever presence is shown",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, dan, erin } = await createCallers(gateway, "alice", "dan", "erin");
    const gus = await gateway.as("gus", { role: "guest" });
    const robo = await gateway.as("robo", { kind: "agent", owner: "gus", role: "guest" });
    for (const caller of [gus, robo]) ok(await caller.get(`${BASE}/me`));
    const roomId = await createRoom(alice, ["gus"], { visibility: "public" });
    ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, {}));
    // Erin only looks into the public room as well, but shares another one with the guest.
    await createRoom(erin, ["gus"]);

    const guest = await subscribe(gateway, gus, roomId);
    const member = await subscribe(gateway, alice, roomId);
    const agent = await subscribe(gateway, robo, roomId);
    const hidden = await subscribe(gateway, dan, roomId);
    const shared = await subscribe(gateway, erin, roomId);
    // Pushes are in order: with Erin's, all before it are there.
    await until(() => guest.pushed("join").includes("erin") && member.pushed("join").includes("erin"));
    assert.deepEqual(guest.pushed("join"), ["gus", "alice", "robo", "erin"]);
    assert.deepEqual(member.pushed("join"), ["alice", "robo", "dan", "erin"]);

    assert.deepEqual(await guest.present(), { users: ["alice", "erin", "gus", "robo"], count: 4 });
    assert.deepEqual(await agent.present(), { users: ["alice", "gus", "robo"], count: 3 }, "not whom its owner knows");
    assert.deepEqual(await member.present(), { users: ["alice", "dan", "erin", "gus", "robo"], count: 5 });
    assert.deepEqual(await listed(gus, roomId), ["alice", "erin", "gus", "robo"]);
    assert.deepEqual(await listed(alice, roomId), ["alice", "dan", "erin", "gus", "robo"]);
    assert.deepEqual(await synced(gus), ["alice", "erin", "gus", "robo"]);
    assert.deepEqual(await synced(alice), ["alice", "dan", "erin", "gus", "robo"]);

    hidden.leave();
    shared.leave();
    await until(() => guest.pushed("leave").length > 0 && member.pushed("leave").length === 2);
    assert.deepEqual(guest.pushed("leave"), ["erin"]);

    // Who joins the room as a member is shown.
    ok(await dan.put(`/v1/rooms/${roomId}/members/me`, {}));
    const joined = await subscribe(gateway, dan, roomId);
    await until(() => guest.pushed("join").includes("dan") && agent.pushed("join").includes("dan"));
    assert.deepEqual(agent.pushed("join"), ["robo", "dan"]);
    assert.deepEqual(await listed(gus, roomId), ["alice", "dan", "gus", "robo"]);
    for (const peer of [guest, member, agent, joined]) peer.leave();
  },
);
