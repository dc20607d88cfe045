// Who may write in a room is known by a node on PostgreSQL from before, and ends with a change at another one.
import assert from "node:assert/strict";
import { roomStream } from "@/core/event.ts";
import { KeptDoors } from "@/modules/room/door/kept.ts";
import type { DoorRoom, Question } from "@/modules/room/door/store.ts";
import type { Reserved } from "@/ports/store.ts";
import { onPostgres } from "../engines.ts";
import { type Answer, type Caller, openGateway } from "../harness.ts";
import { ok, refused, roomOf } from "./team.ts";

onPostgres(
  "a node that knows who may write hears of every change at another with the next message",
  async (environment) => {
    await using one = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
    await using two = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
    const alice = await one.as("alice", { role: "admin" });
    const bob = await two.as("bob");
    const robo = await two.as("robo", { kind: "agent", owner: "bob" });
    const eve = await two.as("eve");
    for (const caller of [alice, bob, robo, eve]) ok(await caller.get("/v1/collaboration/me"));
    const roomId = await roomOf(alice, ["bob"]);
    const room = `/v1/rooms/${roomId}`;
    const send = (who: Caller): Promise<Answer> => who.post("/v1/messages", { roomId, text: "x" });
    const may = async (...who: Caller[]): Promise<void> => {
      for (const caller of who) assert.equal((await send(caller)).status, 201);
    };
    const mayNot = async (code: string, status: number, ...who: Caller[]): Promise<void> => {
      for (const caller of who) refused(await send(caller), status, code);
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

/** A room whose stream has a number, and how often it is asked who stands before it. */
class Rooms {
  readonly kept = new KeptDoors(10);
  queries = 0;
  numbers = new Map<string, number>();
  roles = new Map<string, DoorRoom["my_role"]>();

  async ask(...asked: readonly [principalId: string, roomId: string][]): Promise<(string | null | undefined)[]> {
    const questions = asked.map(([principalId, id]): Question => ({ tenantId: "acme", principalId, ownerId: "", id }));
    const held = new Map([...this.numbers].map(([id, rights]): [string, Reserved] => [
      roomStream(id),
      { epoch: "e", first: 1, rights },
    ]));
    const doors = {
      many: (_: string, wanted: readonly Question[]) => {
        if (wanted.length > 0) this.queries++;
        return Promise.resolve(wanted.map((question) => this.#door(question)));
      },
    };
    return (await this.kept.all(doors, questions, Promise.resolve(held))).map((door) => door?.my_role);
  }

  #door({ id, principalId }: Question): DoorRoom | undefined {
    const [kind, visibility, history_visibility, state] = ["channel", "private", "shared", "active"] as const;
    const room = { tenant_id: "acme", id, kind, visibility, history_visibility, state, member_count: 1 };
    const rest = { agent_policy_json: "{}", my_joined_seq: 0, owner_role: null, owner_joined_seq: null };
    const my_role = this.roles.get(`${principalId} ${id}`);
    return my_role === undefined ? undefined : { ...room, ...rest, my_role };
  }
}

Deno.test("doors are asked for once for each number of a room's stream", async () => {
  const rooms = new Rooms();
  rooms.numbers.set("a", 1).set("b", 2);
  rooms.roles.set("alice a", "owner").set("alice b", "member");
  assert.deepEqual(await rooms.ask(["alice", "a"], ["alice", "b"], ["bob", "a"]), ["owner", "member", undefined]);
  assert.equal(rooms.queries, 1);
  assert.deepEqual(await rooms.ask(["bob", "a"], ["alice", "b"], ["alice", "a"]), [undefined, "member", "owner"]);
  assert.equal(rooms.queries, 1);
  rooms.numbers.set("a", 3);
  rooms.roles.set("alice a", "observer").set("bob a", "member");
  assert.deepEqual(await rooms.ask(["alice", "b"], ["bob", "a"], ["alice", "a"], ["carol", "b"]), [
    "member",
    "member",
    "observer",
    undefined,
  ]);
  assert.equal(rooms.queries, 3);
});

Deno.test("nothing is kept of what has no stream, and no more than the maximum", async () => {
  const rooms = new Rooms();
  await rooms.ask(["alice", "none"]);
  await rooms.ask(["alice", "none"]);
  assert.equal(rooms.queries, 2);
  rooms.numbers.set("a", 1);
  for (let n = 0; n <= 10; n++) await rooms.ask([`p${n}`, "a"]);
  assert.equal(rooms.queries, 13);
  await rooms.ask(["p10", "a"], ["p1", "a"]);
  assert.equal(rooms.queries, 13);
  await rooms.ask(["p0", "a"]);
  assert.equal(rooms.queries, 14);
});
