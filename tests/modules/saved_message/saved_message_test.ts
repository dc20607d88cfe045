// Messages that people save, through the API: reminded of once, and hidden where the message is.
import assert from "node:assert/strict";
import { fillRoom } from "../../conformance/search_engines.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";
import { exportTenant, importArchive, recordsOfType, skipCounts } from "../transfer/transfer_fixture.ts";

const STEP_MS = 10 * 60_000;
type Saved = { messageId: string; state: string; remindAt: string | null; message: { text: string } };

async function savedTexts(who: Caller, query = ""): Promise<string[]> {
  return ok(await who.get(`/v1/messages/saved${query}`)).items.map(({ message }: Saved) => message.text);
}

async function reminders(who: Caller): Promise<{ preview: string; readAt: string | null }[]> {
  return ok(await who.get("/v1/collaboration/notifications?kind=message_reminder")).items;
}

testOnEngines("saved messages are the caller's own, and hidden while their room is", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const [one, two, three] = [
    await sendMessage(alice, roomId, "one"),
    await sendMessage(alice, roomId, "two"),
    await sendMessage(alice, roomId, "three"),
  ];
  const put = (who: Caller, { id }: { id: string }, body = {}) => who.put(`/v1/messages/${id}/saved`, body);
  const { cursor } = ok(await bob.get("/v1/collaboration/sync"));
  for (const message of [one, two, three, one]) ok(await put(bob, message));
  assertProblem(await put(eve, one), 404, "not_found");
  assert.deepEqual(await savedTexts(bob), ["three", "two", "one"]);
  assert.deepEqual(await savedTexts(alice), []);
  assert.equal(ok(await put(bob, two, { state: "done" })).state, "done");
  assert.deepEqual(await savedTexts(bob, "?state=open"), ["three", "one"]);
  assert.deepEqual(await savedTexts(bob, "?state=done"), ["two"]);
  const first = ok(await bob.get("/v1/messages/saved?limit=2&include=senders"));
  assert.deepEqual([first.items.length, first.senders[0].id], [2, "alice"]);
  assert.deepEqual(await savedTexts(bob, `?limit=2&cursor=${first.nextCursor}`), ["one"]);
  ok(await bob.delete(`/v1/messages/${two.id}/saved`));
  assertProblem(await bob.delete(`/v1/messages/${two.id}/saved`), 404, "not_found");

  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  assert.deepEqual(await savedTexts(bob), []);
  assertProblem(await put(bob, two), 404, "not_found");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  assert.deepEqual(await savedTexts(bob), ["three", "one"]);

  ok(await alice.delete(`/v1/messages/${three.id}`));
  assert.deepEqual(await savedTexts(bob), ["one"]);
  assertProblem(await put(bob, three), 404, "not_found");
  await gateway.runJobs();
  const { events } = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
  assert.deepEqual(
    events.filter(({ type }: { type: string }) => type.startsWith("saved_message.")).map((
      { type, data }: { type: string; data: { savedMessage?: Saved; messageIds?: string[] } },
    ) => [type, data.messageIds ?? data.savedMessage?.messageId]),
    [
      ["saved_message.updated", one.id],
      ["saved_message.updated", two.id],
      ["saved_message.updated", three.id],
      ["saved_message.updated", two.id],
      ["saved_message.removed", [two.id]],
      ["saved_message.removed", [three.id]],
    ],
  );
});

testOnEngines("a reminder of a saved message notifies once, and only who may read it then", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const [roomId, lost] = [await createRoom(alice, ["bob"]), await createRoom(alice, ["bob"])];
  const [plan, moved, dropped, done, hidden] = await Promise.all([
    ...["plan", "moved", "dropped", "done"].map((text) => sendMessage(alice, roomId, text)),
    sendMessage(alice, lost, "hidden"),
  ]);
  const soon = { remindAt: new Date(gateway.clock.now() + STEP_MS).toISOString() };
  const later = { remindAt: new Date(gateway.clock.now() + 3 * STEP_MS).toISOString() };
  const put = ({ id }: { id: string }, body: unknown) => bob.put(`/v1/messages/${id}/saved`, body);
  for (const message of [plan, moved, dropped, done, hidden]) ok(await put(message, soon));
  ok(await put(moved, later));
  ok(await put(dropped, { remindAt: null }));
  assert.equal(ok(await put(plan, { state: "open" })).remindAt, soon.remindAt);
  ok(await put(done, { state: "done" }));
  assertProblem(await put(plan, { ...later, state: "done" }), 422, "validation_failed");
  assertProblem(await put(plan, { remindAt: new Date(gateway.clock.now()).toISOString() }), 422, "validation_failed");
  assertProblem(await put(plan, { remindAt: "2036-01-01T00:00:00Z" }), 422, "validation_failed");
  ok(await alice.delete(`/v1/rooms/${lost}/members/bob`));

  await gateway.runJobs();
  assert.deepEqual(await reminders(bob), []);
  gateway.clock.advance(STEP_MS);
  await gateway.runJobs();
  assert.deepEqual((await reminders(bob)).map(({ preview }) => preview), ["plan"]);
  ok(await put(plan, { state: "done" }));
  ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: "all" }));
  assert.equal((await reminders(bob))[0]?.readAt, null, "reading the room does not end the reminder");
  gateway.clock.advance(2 * STEP_MS);
  await gateway.runJobs();
  assert.deepEqual((await reminders(bob)).map(({ preview }) => preview), ["moved", "plan"]);
  assert.deepEqual(
    ok(await bob.get("/v1/messages/saved?state=open")).items.map(({ remindAt }: Saved) => remindAt),
    [null, null],
  );
  ok(await alice.delete(`/v1/messages/${plan.id}`));
  await gateway.runJobs();
  assert.deepEqual((await reminders(bob)).map(({ preview }) => preview), ["moved"]);
});

testOnEngines("a principal saves a bounded number of messages, which end with their room", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const { roomId, ids } = await fillRoom(gateway, alice, Array.from({ length: 1001 }, (_, n) => `text ${n}`));
  const elsewhere = await createRoom(bob, ["alice"]);
  const foreign = (await sendMessage(bob, elsewhere, "of another room")).id;
  const [id, last, ...others] = ids;
  const { store } = gateway.app;
  const rows = [foreign, ...others].map((message_id, n) => ({
    ...{ tenant_id: "default", id: `sav_${n}`, principal_id: "alice", message_id },
    ...{ room_id: message_id === foreign ? elsewhere : roomId, state: "open", remind_at: null },
    saved_at: "2026-03-01T12:00:00.000Z",
  }));
  // deno-lint-ignore no-explicit-any -- the harness knows no tables
  await store.write((tx) => (tx as any).insertMany("saved_message", rows));
  assertProblem(await alice.put(`/v1/messages/${id}/saved`, {}), 409, "limit_reached");
  ok(await alice.delete(`/v1/messages/${others[0]}/saved`));
  ok(await alice.put(`/v1/messages/${id}/saved`, {}));
  // What she sees no longer does not count.
  assertProblem(await alice.put(`/v1/messages/${last}/saved`, {}), 409, "limit_reached");
  ok(await bob.delete(`/v1/rooms/${elsewhere}/members/alice`));
  ok(await alice.put(`/v1/messages/${last}/saved`, {}));
  assertProblem(await alice.put(`/v1/messages/${others[0]}/saved`, {}), 409, "limit_reached");
  const module = gateway.app.modules.find(({ name }) => name === "saved_message");
  await module?.purgeRoom?.("default", roomId);
  assert.deepEqual(ok(await alice.get("/v1/messages/saved")), { items: [], nextCursor: null, hasMore: false });
});

testOnEngines(
  "saved messages travel in archives of a tenant, with reminders that are still to come",
  async (engine) => {
    await using source = await openGateway(engine);
    const { alice, bob } = await createCallers(source, "alice", "bob");
    const boss = await createCaller(source, "boss", { role: "owner" });
    const roomId = await createRoom(alice, ["bob"]);
    const [one, two] = [await sendMessage(alice, roomId, "one"), await sendMessage(alice, roomId, "two")];
    const remindAt = new Date(source.clock.now() + STEP_MS).toISOString();
    ok(await bob.put(`/v1/messages/${one.id}/saved`, { remindAt }));
    ok(await bob.put(`/v1/messages/${two.id}/saved`, { state: "done" }));
    const archive = await exportTenant(source, boss);
    assert.equal(recordsOfType(archive, "saved_message").length, 2);

    await using target = await openGateway();
    const owner = await createCaller(target, "boss", { role: "owner" });
    await target.app.jobs.stop();
    const statements = await recordQueries(async () => {
      assert.equal((await importArchive(target, owner, "gateway", archive)).progress.added.savedMessages, 2);
    });
    const counts = statements.filter(({ sql }) => sql.includes("count(*)") && sql.includes(`from "saved_message"`));
    assert.equal(counts.length, 1, "those that are imported together are counted together");
    const there = await createCaller(target, "bob");
    const { items } = ok(await there.get("/v1/messages/saved"));
    const texts = items.map(({ message, state, remindAt }: Saved) => [message.text, state, remindAt]);
    assert.deepEqual(texts.sort(), [["one", "open", remindAt], ["two", "done", null]]);
    target.clock.advance(STEP_MS);
    await target.runJobs();
    assert.deepEqual((await reminders(there)).map(({ preview }) => preview), ["one"]);
    ok(await there.delete(`/v1/messages/${one.id}/saved`));
    assert.equal((await importArchive(target, owner, "gateway", archive)).progress.added.savedMessages, 0);
    const lost = archive.replaceAll(`"messageId":"${one.id}"`, '"messageId":"msg_unknown"');
    assert.deepEqual(skipCounts(await importArchive(target, owner, "gateway", lost)), { saved_message_missing: 1 });
  },
);
