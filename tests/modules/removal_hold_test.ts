// A write that waits for the removal of its author is rejected.
import assert from "node:assert/strict";
import { type ApiResponse, openGateway } from "../harness.ts";
import { testOnPostgres } from "../engines.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents } from "./fixtures.ts";
import { connectNode, insertMember, untilLockWait } from "./postgres_node.ts";

const API = "/v1/collaboration";
const START = { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" };

testOnPostgres("a write that waits for the room while its author is removed is rejected", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const event = ok(await alice.post(`${API}/calendar/events`, { roomId, title: "Review", start: START }));
  const meeting = ok(await alice.post(`${API}/meetings`, { roomId }));
  const calls: Record<string, () => Promise<ApiResponse>> = {
    "task.create": () => bob.post(`${API}/tasks`, { roomId, title: "late" }),
    "event.create": () => bob.post(`${API}/calendar/events`, { roomId, title: "late", start: START }),
    "event.create, private": () =>
      bob.post(`${API}/calendar/events`, { roomId, title: "late", start: START, visibility: "private" }),
    "event.update": () => bob.patch(`${API}/calendar/events/${event.id}`, { title: "late" }),
    "meeting.start": () => bob.post(`${API}/meetings`, { roomId, scheduledFor: "2026-03-02T09:00:00Z" }),
    "meeting.join": () => bob.post(`${API}/meetings/${meeting.id}/join`),
  };
  const before = (await readRoomEvents(alice, roomId)).length;
  // Another node that removes him, as slowly as it takes.
  await using node = connectNode(environment);
  for (const [name, call] of Object.entries(calls)) {
    const answer = await node.begin(async (sql) => {
      await sql`update stream set head = head where name = ${`room:${roomId}`}`;
      await sql`delete from member where room_id = ${roomId} and principal_id = 'bob'`;
      const calling = call();
      // The call has started once it waits for the lock that is taken here.
      await untilLockWait(sql, `${name} waits`);
      return { calling };
    });
    assertProblem(await answer.calling, 404, "not_found");
    assert.equal((await readRoomEvents(alice, roomId)).length, before, name);
    await insertMember(node, roomId, "bob", "member");
  }
});
