// Responses with a secret: returned again for the same Idempotency-Key, and readable nowhere in the database.
import assert from "node:assert/strict";
import { ok, RoomFixture } from "./room/room_fixture.ts";

Deno.test("a secret is returned again for its idempotency key, and is not stored in plain text", async () => {
  await using world = await RoomFixture.open();
  const { roomId } = world;
  const owner = world.as("owner");
  const task = ok(await owner.post("/v1/collaboration/tasks", { roomId, title: "Ship" }), 201);
  for (
    const [path, body, field, status] of [
      ["/v1/collaboration/tokens", { name: "laptop", scopes: ["room.read"] }, "token", 201],
      ["/v1/collaboration/tokens", { name: "page", scopes: ["*"], refreshable: true }, "refreshToken", 201],
      ["/v1/collaboration/calendar/feeds", { name: "Ours", roomId }, "path", 201],
      [`/v1/collaboration/tasks/${task.id}/claim`, {}, "leaseToken", 200],
    ] as const
  ) {
    const key = { "Idempotency-Key": `key-${field}` };
    const first = ok(await owner.post(path, body, key), status);
    assert.ok(first[field]);
    assert.deepEqual(ok(await owner.post(path, body, key), status), first);
    const rows = await world.gateway.app.store.db.selectFrom("idempotency").selectAll().execute();
    assert.ok(!JSON.stringify(rows).includes(first[field]), `${field} lies open`);
  }
});
