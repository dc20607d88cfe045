// Runs that wait for an approval or a reply, which nobody can give any more.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import type { RoomTables } from "@/modules/room/mod.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createCaller, createRoom, ok, readRoomEvents } from "../fixtures.ts";

const QUESTION = callTools(["ask_user", { question: "Which one?" }]);

/** Runs of bob, and what each ended with. */
async function openFixture(environment: Record<string, string>) {
  const agent = { tools: ["task.create"], askFirst: ["task.create"] };
  const fixture = await AgentFixture.open(() => QUESTION, { environment, agent });
  const { alice, bob, agentId } = fixture;
  return {
    fixture,
    /** A room in which a run of bob waits. */
    async wait(status = "waiting_input", more: Record<string, unknown> = {}): Promise<string> {
      const roomId = await createRoom(alice, ["bob", agentId], more);
      await fixture.mention(bob, "Do it", { roomId });
      await fixture.settled(status, 1, roomId);
      return roomId;
    },
    async assertFailed(roomId: string, code: string, detail: RegExp): Promise<void> {
      const { error } = await fixture.settled("failed", 1, roomId);
      assert.equal(error.code, code);
      assert.match(error.detail, detail);
    },
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  };
}

const leave = (who: Caller, roomId: string, id = "me") => who.delete(`/v1/rooms/${roomId}/members/${id}`);

testOnEngines(
  "a run that waits ends when who asked or the agent leaves, and when the room is archived",
  async (environment) => {
    await using opened = await openFixture(environment);
    const { fixture: { alice, bob, agentId, gateway }, fixture, wait, assertFailed } = opened;
    const left = await wait();
    const stays = await wait();
    ok(await leave(bob, left));
    await assertFailed(left, "not_found", /^One of those who asked can no longer see the room$/);
    assert.ok((await readRoomEvents(alice, left)).some(({ type }) => type === "run.finished"));
    const isPublic = await wait("waiting_input", { visibility: "public" });
    ok(await leave(bob, isPublic));
    await assertFailed(isPublic, "not_found", /left the room/);
    const without = await wait();
    ok(await leave(alice, without, agentId));
    await assertFailed(without, "not_found", /left the room/);
    const archived = await wait();
    ok(await alice.patch(`/v1/rooms/${archived}`, { state: "archived" }));
    await assertFailed(archived, "room_archived", /^The room was archived$/);
    // An approval is void with its run.
    fixture.answer(() => callTools(["task_create", { title: "Task" }]));
    const approving = await wait("waiting_approval");
    ok(await leave(bob, approving));
    await assertFailed(approving, "not_found", /can no longer see/);
    const [approval] = ok(await alice.get(`/v1/collaboration/ai/approvals?roomId=${approving}`)).items;
    assert.equal(approval.status, "void");
    // Others still wait, until bob is disabled.
    const [waiting] = await fixture.runs(stays);
    assert.equal(waiting.status, "waiting_input");
    ok(
      await (await gateway.as("boss", { role: "owner" })).patch("/v1/collaboration/principals/bob", { disabled: true }),
    );
    await assertFailed(stays, "not_found", /^One of those who asked was disabled$/);
  },
);

testOnEngines("of several who asked, those who stay learn that their run has ended", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "Done"] }), { environment });
  const { alice, bob, roomId } = fixture;
  await fixture.mention(bob, "One");
  await fixture.settled("running");
  // Both wait for it, and share the next run.
  await fixture.mention(bob, "Two");
  await fixture.mention(alice, "Three");
  fixture.answer(() => QUESTION);
  gate.resolve();
  await fixture.settled("waiting_input", 2);
  ok(await leave(bob, roomId));
  await fixture.settled("failed", 2);
  const said = "I could not finish this: One of those who asked can no longer see the room";
  assert.equal((await fixture.texts()).at(-1), said);
});

testOnPostgres(
  "runs that wait are checked by every node, hourly those that no node has checked",
  async (environment) => {
    await using opened = await openFixture(environment);
    const { fixture: { gateway }, fixture, wait, assertFailed } = opened;
    const [first, second] = [await wait(), await wait()];
    await using other = await openGateway(environment, { models: new ScriptedModels() });
    ok(await leave(await createCaller(other, "bob"), first));
    await assertFailed(first, "not_found", /can no longer see/);
    // As if the node had ended between the commit and the check.
    await gateway.app.store.write(async (tx) => {
      const members = (tx.db as unknown as Kysely<RoomTables>).deleteFrom("member");
      await members.where("room_id", "=", second).where("principal_id", "=", "bob").execute();
    });
    assert.equal((await fixture.runs(second))[0].status, "waiting_input");
    await gateway.app.runMaintenance();
    await assertFailed(second, "not_found", /can no longer see/);
  },
);
