// Profiles: a status that expires, and a handle.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";

const ME = "/v1/collaboration/me";

testOnEngines("me.update sets a status that others see until it expires", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { seq } = (await readRoomEvents(alice, roomId)).at(-1) ?? assert.fail();
  const until = new Date(gateway.clock.now() + 60_000).toISOString();
  const status = { text: "At lunch", emoji: "🥪", until };
  assert.deepEqual(ok(await bob.patch(ME, { status })).status, status);
  await gateway.runJobs();
  const seen = async () => [
    ok(await alice.get("/v1/collaboration/principals/bob")).status,
    ok(await alice.get(`/v1/rooms/${roomId}/members`)).items[1].status,
    ok(await bob.get("/v1/collaboration/sync")).principal.status,
  ];
  assert.deepEqual(await seen(), [status, status, status]);
  const [event] = await readRoomEvents(alice, roomId, seq);
  assert.deepEqual([event?.type, event?.data.status], ["member.updated", status]);
  gateway.clock.advance(60_000);
  assert.deepEqual(await seen(), [null, null, null]);
  // One without an end stays until it is cleared.
  ok(await bob.patch(ME, { status: { emoji: ":palm:" } }));
  assert.deepEqual((await seen())[0], { text: null, emoji: ":palm:", until: null });
  ok(await bob.patch(ME, { status: null }));
  await gateway.runJobs();
  assert.deepEqual(await seen(), [null, null, null]);
  assert.equal((await readRoomEvents(alice, roomId)).at(-1)?.data.status, null);
});

Deno.test("me.update rejects a status that is empty, too long, or has expired", async () => {
  await using gateway = await openGateway();
  const { bob } = await createCallers(gateway, "bob");
  const past = new Date(gateway.clock.now()).toISOString();
  for (
    const status of [
      {},
      { text: "" },
      { text: "x".repeat(101) },
      { text: "two\nlines" },
      { emoji: "two words" },
      { text: "late", until: past },
      "busy",
    ]
  ) assertProblem(await bob.patch(ME, { status }), 422, "validation_failed");
  assert.equal(ok(await bob.get(ME)).principal.status, null);
});

testOnEngines("me.update accepts a free handle; handles of guests are set by admins", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const guest = await gateway.as("guest", { role: "guest" });
  assert.equal(ok(await bob.patch(ME, { handle: "bobby" })).handle, "bobby");
  assertProblem(await alice.patch(ME, { handle: "bobby" }), 409, "handle_taken");
  for (const handle of ["me", "all", "here", "Bob", "b ob", ""]) {
    assertProblem(await alice.patch(ME, { handle }), 422, "validation_failed");
  }
  // Whether a handle is taken would reveal to a guest who exists.
  assertProblem(await guest.patch(ME, { handle: "bobby" }), 403, "forbidden");
  assertProblem(await guest.patch(ME, { handle: "free" }), 403, "forbidden");
  ok(await bob.patch(ME, { handle: null }));
  assert.equal(ok(await alice.patch(ME, { handle: "bobby" })).handle, "bobby");
});
