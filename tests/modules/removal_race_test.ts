// After a removal nothing is written in the room, however many messages were in flight.
import assert from "node:assert/strict";
import { openGateway } from "../harness.ts";
import { testOnEngines } from "../engines.ts";
import { pause } from "../wait.ts";
import { createCallers, createRoom, ok, readRoomEvents } from "./fixtures.ts";

const ROUNDS = 12;

async function assertNoLateWrites(environment: Record<string, string>): Promise<void> {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  let landed = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const roomId = await createRoom(alice, ["bob"]);
    const sends = Array.from({ length: 40 }, async (_, n) => {
      await pause(n / 4);
      return await bob.post("/v1/messages", { roomId, text: `message ${n}` });
    });
    await pause(round);
    ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
    const answers = await Promise.all(sends);
    const events = await readRoomEvents(alice, roomId);
    const removedAt = events.findIndex(({ type }) => type === "member.left");
    assert.ok(removedAt >= 0);
    const late = events.slice(removedAt).filter(({ type }) => type === "message.created");
    assert.deepEqual(late, []);
    const accepted = answers.filter(({ status }) => status === 201).length;
    assert.equal(events.filter(({ type }) => type === "message.created").length, accepted);
    landed += accepted;
  }
  assert.ok(landed > 0 && landed < 40 * ROUNDS, `${landed} landed: the race was none`);
}

testOnEngines("nothing is written in a room after its author was removed", assertNoLateWrites);
