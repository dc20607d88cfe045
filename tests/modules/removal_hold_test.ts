// Who is removed from a room while what they write waits for the removal to end writes nothing.
import assert from "node:assert/strict";
import postgres from "postgres";
import type { Answer } from "../harness.ts";
import { openGateway } from "../harness.ts";
import { onPostgres } from "../engines.ts";
import { until } from "../wait.ts";
import { eventsOf, ok, people, refused, roomOf } from "./team.ts";

const API = "/v1/collaboration";
const START = { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" };

onPostgres("what waits for the room while its writer is removed is not written", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const event = ok(await alice.post(`${API}/calendar/events`, { roomId, title: "Review", start: START }));
  const meeting = ok(await alice.post(`${API}/meetings`, { roomId }));
  const calls: Record<string, () => Promise<Answer>> = {
    "task.create": () => bob.post(`${API}/tasks`, { roomId, title: "late" }),
    "event.create": () => bob.post(`${API}/calendar/events`, { roomId, title: "late", start: START }),
    "event.create, private": () =>
      bob.post(`${API}/calendar/events`, { roomId, title: "late", start: START, visibility: "private" }),
    "event.update": () => bob.patch(`${API}/calendar/events/${event.id}`, { title: "late" }),
    "meeting.start": () => bob.post(`${API}/meetings`, { roomId, scheduledFor: "2026-03-02T09:00:00Z" }),
    "meeting.join": () => bob.post(`${API}/meetings/${meeting.id}/join`),
  };
  const before = (await eventsOf(alice, roomId)).length;
  // Another node that removes him, as slowly as it takes.
  const node = postgres(environment["SVC_DATABASE_URL"] ?? "", { max: 1, onnotice: () => {} });
  try {
    for (const [name, call] of Object.entries(calls)) {
      const answer = await node.begin(async (sql) => {
        await sql`update stream set head = head where name = ${`room:${roomId}`}`;
        await sql`delete from member where room_id = ${roomId} and principal_id = 'bob'`;
        const calling = call();
        // The call is under way once it waits for what is held here.
        await until(async () => {
          await sql`select pg_stat_clear_snapshot()`;
          const waiting = await sql`select 1 from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'`;
          return waiting.length > 0;
        }, `${name} waits`);
        return { calling };
      });
      refused(await answer.calling, 404, "not_found");
      assert.equal((await eventsOf(alice, roomId)).length, before, name);
      await node`insert into member ${
        node({
          tenant_id: "default",
          room_id: roomId,
          principal_id: "bob",
          role: "member",
          joined_at: "2026-03-01T12:00:00.000Z",
          joined_seq: 0,
          last_read_seq: 0,
          told_version: 0,
        })
      }`;
    }
  } finally {
    await node.end();
  }
});
