// The access cache on PostgreSQL: entries are used again, and end with a change on another node.
import assert from "node:assert/strict";
import { roomStream } from "@/core/event/event.ts";
import { AccessCache } from "@/modules/room/access_cache.ts";
import type { AccessQuery, RoomAccessRow } from "@/modules/room/access_store.ts";
import type { SeqRange } from "@/ports/store.ts";
import { testOnPostgres } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { assertProblem, createRoom, ok } from "../fixtures.ts";

testOnPostgres(
  "a node with cached access rows sees every change of another node with the next message",
  async (environment) => {
    await using one = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
    await using two = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
    const alice = await one.as("alice", { role: "admin" });
    const bob = await two.as("bob");
    const robo = await two.as("robo", { kind: "agent", owner: "bob" });
    const eve = await two.as("eve");
    for (const caller of [alice, bob, robo, eve]) ok(await caller.get("/v1/collaboration/me"));
    const roomId = await createRoom(alice, ["bob"]);
    const room = `/v1/rooms/${roomId}`;
    const send = (who: Caller): Promise<ApiResponse> => who.post("/v1/messages", { roomId, text: "x" });
    const may = async (...who: Caller[]): Promise<void> => {
      for (const caller of who) assert.equal((await send(caller)).status, 201);
    };
    const mayNot = async (code: string, status: number, ...who: Caller[]): Promise<void> => {
      for (const caller of who) assertProblem(await send(caller), status, code);
    };
    const seat = async (name: string, role: string): Promise<void> =>
      void ok(await alice.put(`${room}/members/${name}`, { role }));

    await mayNot("not_found", 404, robo, eve);
    await seat("robo", "member");
    await may(bob, robo);
    await seat("bob", "observer");
    await mayNot("forbidden", 403, bob, robo);
    await seat("bob", "member");
    await may(bob, robo);
    ok(await alice.patch(room, { agentPolicy: { mode: "off" } }));
    await may(bob);
    await mayNot("agent_muted", 403, robo);
    ok(await alice.patch(room, { agentPolicy: { mode: "all" } }));
    await may(bob, robo);
    ok(await alice.patch(room, { state: "archived" }));
    await mayNot("room_archived", 409, bob, robo);
    ok(await alice.patch(room, { state: "active" }));
    await may(bob, robo);
    ok(await alice.patch(room, { visibility: "public" }));
    await mayNot("forbidden", 403, eve);
    ok(await alice.delete(`${room}/members/eve?ban=true`));
    await mayNot("not_found", 404, eve);
    ok(await alice.delete(`${room}/bans/eve`));
    await mayNot("forbidden", 403, eve);
    ok(await eve.put(`${room}/members/eve`));
    await may(eve);
    ok(await alice.patch(room, { visibility: "private" }));
    await may(eve);
    ok(await alice.delete(`${room}/members/eve`));
    await mayNot("not_found", 404, eve);
    ok(await alice.delete(`${room}/members/bob`));
    await mayNot("not_found", 404, bob, robo);
    await seat("bob", "member");
    await may(bob);
    ok(await alice.delete(room));
    await mayNot("not_found", 404, bob);
    ok(await alice.post(`${room}/restore`));
    await may(bob);
  },
);

/** A cache over rooms with access versions, which counts queries. */
class AccessCacheFixture {
  readonly cache = new AccessCache(10);
  queries = 0;
  accessVersions = new Map<string, number>();
  roles = new Map<string, RoomAccessRow["my_role"]>();

  async lookUpRoles(
    ...requests: readonly [principalId: string, roomId: string][]
  ): Promise<(string | null | undefined)[]> {
    const queries = requests.map(([principalId, id]): AccessQuery => ({
      tenantId: "acme",
      principalId,
      ownerId: "",
      id,
    }));
    const locked = new Map([...this.accessVersions].map(([id, accessVersion]): [string, SeqRange] => [
      roomStream(id),
      { epoch: "e", first: 1, accessVersion },
    ]));
    const rows = {
      findMany: (_: string, wanted: readonly AccessQuery[]) => {
        if (wanted.length > 0) this.queries++;
        return Promise.resolve(wanted.map((question) => this.#accessRow(question)));
      },
    };
    return (await this.cache.findMany(rows, queries, Promise.resolve(locked))).map((row) => row?.my_role);
  }

  #accessRow({ id, principalId }: AccessQuery): RoomAccessRow | undefined {
    const [kind, visibility, history_visibility, state] = ["channel", "private", "shared", "active"] as const;
    const room = { tenant_id: "acme", id, kind, visibility, history_visibility, state, member_count: 1 };
    const rest = { agent_policy_json: "{}", my_joined_seq: 0, owner_role: null, owner_joined_seq: null };
    const my_role = this.roles.get(`${principalId} ${id}`);
    return my_role === undefined ? undefined : { ...room, ...rest, my_role };
  }
}

Deno.test("access rows are read once per access version of a room's stream", async () => {
  const rooms = new AccessCacheFixture();
  rooms.accessVersions.set("a", 1).set("b", 2);
  rooms.roles.set("alice a", "owner").set("alice b", "member");
  assert.deepEqual(await rooms.lookUpRoles(["alice", "a"], ["alice", "b"], ["bob", "a"]), [
    "owner",
    "member",
    undefined,
  ]);
  assert.equal(rooms.queries, 1);
  assert.deepEqual(await rooms.lookUpRoles(["bob", "a"], ["alice", "b"], ["alice", "a"]), [
    undefined,
    "member",
    "owner",
  ]);
  assert.equal(rooms.queries, 1);
  rooms.accessVersions.set("a", 3);
  rooms.roles.set("alice a", "observer").set("bob a", "member");
  assert.deepEqual(await rooms.lookUpRoles(["alice", "b"], ["bob", "a"], ["alice", "a"], ["carol", "b"]), [
    "member",
    "member",
    "observer",
    undefined,
  ]);
  assert.equal(rooms.queries, 3);
});

Deno.test("nothing is cached for rooms without a stream, and no more than the maximum", async () => {
  const rooms = new AccessCacheFixture();
  await rooms.lookUpRoles(["alice", "none"]);
  await rooms.lookUpRoles(["alice", "none"]);
  assert.equal(rooms.queries, 2);
  rooms.accessVersions.set("a", 1);
  for (let n = 0; n <= 10; n++) await rooms.lookUpRoles([`p${n}`, "a"]);
  assert.equal(rooms.queries, 13);
  await rooms.lookUpRoles(["p10", "a"], ["p1", "a"]);
  assert.equal(rooms.queries, 13);
  await rooms.lookUpRoles(["p0", "a"]);
  assert.equal(rooms.queries, 14);
});
