// Migrations that change what is there already, on each engine.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import type { CoreTables } from "@/adapters/core_tables.ts";
import { eventAbout } from "@/adapters/migrations/0013_event_about.ts";
import { eventsOf, ok, people, roomOf, say } from "../modules/team.ts";
import { engines } from "./search_engines.ts";

for (const engine of engines) {
  Deno.test(`0013_event_about hides what older logs tell of messages that are hidden (${engine.name})`, async () => {
    await using opened = await engine.open();
    const { gateway } = opened;
    const { alice, bob } = await people(gateway, "alice", "bob");
    const roomId = await roomOf(alice, [], { historyVisibility: "joined" });
    const root = await say(alice, roomId, "secret");
    const reply = await say(alice, roomId, "secret, too", { threadId: root.id });
    ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
    const later = await say(alice, roomId, "for everybody");
    for (const { id } of [root, later]) {
      ok(await alice.patch(`/v1/messages/${id}`, { text: "edited" }));
      ok(await alice.put(`/v1/messages/${id}/reactions/:ship:`));
      ok(await alice.put(`/v1/messages/${id}/pin`));
    }
    ok(await alice.delete(`/v1/messages/${reply.id}`));
    ok(await alice.patch(`/v1/rooms/${roomId}`, { name: "Renamed" }));
    const expected = await eventsOf(bob, roomId);
    assert.equal(expected.filter(({ type }) => type === "message.hidden").length, 5);

    const { store } = gateway.app;
    const effects = () => tables(store.db).selectFrom("event").selectAll().orderBy("stream").orderBy("seq").execute();
    const before = await effects();
    await store.write(({ db }) => tables(db).updateTable("event").set({ effect: null }).execute());
    assert.ok(JSON.stringify(await eventsOf(bob, roomId)).includes(root.id));
    await store.write(({ db }) => eventAbout.up(db as unknown as Kysely<unknown>, store.dialect));
    assert.deepEqual(await effects(), before);
    assert.deepEqual(await eventsOf(bob, roomId), expected);
  });
}

/** The tables of every store, whatever else this one has. */
function tables(db: unknown): Kysely<CoreTables> {
  return db as Kysely<CoreTables>;
}
