// Migrations that change what is there already, on each engine.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import type { CoreTables } from "@/adapters/core_tables.ts";
import { eventAbout } from "@/adapters/migrations/0013_event_about.ts";
import { goneUntold } from "@/adapters/migrations/0022_gone_untold.ts";
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

  Deno.test(`0022_gone_untold takes out of older logs what was deleted, and nothing else (${engine.name})`, async () => {
    await using opened = await engine.open();
    const { gateway } = opened;
    const { alice } = await people(gateway, "alice");
    const roomId = await roomOf(alice, []);
    const gone = await say(alice, roomId, "secret", { metadata: { key: "secret" } });
    const kept = await say(alice, roomId, "kept", { replyToId: gone.id, metadata: { data: { message: gone } } });
    for (const { id } of [gone, kept]) ok(await alice.patch(`/v1/messages/${id}`, { text: "secret, if gone" }));
    const notes: string[] = [];
    for (const place of [{ roomId }, {}]) {
      const { id } = ok(await alice.post("/v1/collaboration/documents", { title: "x", ...place }));
      const comments = `/v1/collaboration/documents/${id}/comments`;
      const secret = ok(await alice.post(comments, { text: "secret" })).id;
      ok(await alice.post(comments, { text: "secret, too", parentId: secret }));
      ok(await alice.post(comments, { text: "kept" }));
      notes.push(`${comments}/${secret}`);
    }
    const { store } = gateway.app;
    const rows = () => tables(store.db).selectFrom("event").selectAll().orderBy("stream").orderBy("seq").execute();
    const told = async () => (await rows()).map(({ json, ...row }) => ({ ...row, event: JSON.parse(json) }));
    const before = await rows();
    for (const path of [`/v1/messages/${gone.id}`, ...notes]) ok(await alice.delete(path));
    const expected = await told();
    // As it was left by those before.
    await store.write(async ({ db }) => {
      for (const { stream, seq, json } of before) {
        await tables(db).updateTable("event").set({ json }).where("stream", "=", stream).where("seq", "=", seq)
          .execute();
      }
    });
    assert.notDeepEqual(await told(), expected);
    await store.write(({ db }) => goneUntold.up(db as unknown as Kysely<unknown>, store.dialect));
    assert.deepEqual(await told(), expected);
  });
}

/** The tables of every store, whatever else this one has. */
function tables(db: unknown): Kysely<CoreTables> {
  return db as Kysely<CoreTables>;
}
