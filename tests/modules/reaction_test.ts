// Reactions and pins through the door.
import assert from "node:assert/strict";
import { openGateway } from "../harness.ts";
import { eventsOf, ok, people, refused, roomOf, say } from "./team.ts";

const THUMB = encodeURIComponent("👍");
const FAMILY = encodeURIComponent("👨‍👩‍👧‍👦");

Deno.test("reaction.add counts one per principal and key, says me to each, and tells once", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const { id, seq } = await say(alice, roomId, "shipped");
  for (const caller of [alice, alice, bob]) ok(await caller.put(`/v1/messages/${id}/reactions/${THUMB}`));
  ok(await bob.put(`/v1/messages/${id}/reactions/:shipit:`));
  ok(await bob.put(`/v1/messages/${id}/reactions/${FAMILY}`));
  const [one] = ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items;
  assert.deepEqual(
    one.reactions.toSorted((a: { key: string }, b: { key: string }) => a.key < b.key ? -1 : 1),
    [
      { key: ":shipit:", count: 1, me: false },
      { key: "👍", count: 2, me: true },
      { key: "👨‍👩‍👧‍👦", count: 1, me: false },
    ].toSorted((a, b) => a.key < b.key ? -1 : 1),
  );
  ok(await bob.delete(`/v1/messages/${id}/reactions/${THUMB}`));
  ok(await bob.delete(`/v1/messages/${id}/reactions/${THUMB}`));
  assert.deepEqual(
    ok(await bob.get(`/v1/messages/${id}`)).reactions.find((reaction: { key: string }) => reaction.key === "👍"),
    { key: "👍", count: 1, me: false },
  );
  const events = await eventsOf(alice, roomId, seq);
  assert.deepEqual(events.map((event) => event.type), [
    "reaction.added",
    "reaction.added",
    "reaction.added",
    "reaction.added",
    "reaction.removed",
  ]);
  assert.deepEqual(events[1]?.data, {
    roomId,
    messageId: id,
    key: "👍",
    principalId: "bob",
    reactions: [{ key: "👍", count: 2 }],
  });
});

Deno.test("reaction.add takes one character or a name and refuses anything else", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  const roomId = await roomOf(alice, []);
  const { id } = await say(alice, roomId, "hm");
  const unseen = ["\u200b", "\u202e", "\ufe0f", "\u0301"];
  for (const key of ["ab", "👍👍", " ", "::", ":a b:", ...unseen, `:${"x".repeat(64)}:`, `a${"\u0301".repeat(64)}`]) {
    refused(await alice.put(`/v1/messages/${id}/reactions/${encodeURIComponent(key)}`), 422, "validation_failed");
  }
  assert.deepEqual(ok(await alice.get(`/v1/messages/${id}`)).reactions, []);
});

Deno.test("reaction.add refuses the 51st kind, but not one more of a kind that is there", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const { id } = await say(alice, roomId, "popular");
  for (let kind = 0; kind < 50; kind++) ok(await alice.put(`/v1/messages/${id}/reactions/:k${kind}:`));
  refused(await alice.put(`/v1/messages/${id}/reactions/:k50:`), 409, "too_many_kinds");
  ok(await bob.put(`/v1/messages/${id}/reactions/:k7:`));
  assert.equal(ok(await bob.get(`/v1/messages/${id}`)).reactions.length, 50);
});

Deno.test("in a direct room everybody pins, and nobody deletes what the other said", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"], { kind: "direct" });
  const { id } = await say(bob, roomId, "mine");
  ok(await bob.put(`/v1/messages/${id}/pin`));
  const checks = [{ action: "pin.add", resource: { type: "room", id: roomId } }];
  const { results: [may] } = ok(await bob.post("/v1/collaboration/permissions/check", { checks }));
  assert.deepEqual([may.allowed, may.needs.roomRole], [true, "member"]);
  assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}/pins`)).items.map(({ id }: { id: string }) => id), [id]);
  ok(await alice.delete(`/v1/messages/${id}/pin`));
  refused(await alice.delete(`/v1/messages/${id}`), 403, "forbidden");
  ok(await bob.delete(`/v1/messages/${id}`));
});

Deno.test("reactions and pins are for those inside, on messages that are there", async () => {
  await using gateway = await openGateway();
  const { alice, bob, eve } = await people(gateway, "alice", "bob", "eve");
  const roomId = await roomOf(alice, ["bob"]);
  const { id } = await say(alice, roomId, "secret");
  const elsewhere = await gateway.as("alice", { tenant: "elsewhere" });
  for (const caller of [eve, elsewhere]) {
    refused(await caller.put(`/v1/messages/${id}/reactions/${THUMB}`), 404, "not_found");
    refused(await caller.put(`/v1/messages/${id}/pin`), 404, "not_found");
  }
  refused(await bob.put(`/v1/messages/${id}/pin`), 403, "forbidden");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" }));
  refused(await bob.put(`/v1/messages/${id}/reactions/${THUMB}`), 403, "forbidden");
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  refused(await bob.put(`/v1/messages/${id}/reactions/${THUMB}`), 404, "not_found");
  ok(await alice.delete(`/v1/messages/${id}`));
  refused(await alice.put(`/v1/messages/${id}/reactions/${THUMB}`), 404, "not_found");
  refused(await alice.put(`/v1/messages/${id}/pin`), 404, "not_found");
});

Deno.test("pin.add shows the message among the pins until it is unpinned or deleted", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const [one, two] = [await say(alice, roomId, "one"), await say(bob, roomId, "two")];
  for (const message of [one, one, two]) {
    gateway.clock.advance(1000);
    assert.equal((await alice.put(`/v1/messages/${message.id}/pin`)).status, 204);
  }
  const pins = async () => ok(await bob.get(`/v1/rooms/${roomId}/pins`)).items.map((pin: { id: string }) => pin.id);
  assert.deepEqual(await pins(), [two.id, one.id]);
  assert.equal(ok(await bob.get(`/v1/messages/${one.id}`)).pinned, true);
  ok(await alice.delete(`/v1/messages/${one.id}/pin`));
  ok(await alice.delete(`/v1/messages/${one.id}/pin`));
  ok(await alice.delete(`/v1/messages/${two.id}`));
  assert.deepEqual(await pins(), []);
  assert.deepEqual((await eventsOf(bob, roomId, two.seq)).map((event) => event.type), [
    "message.pinned",
    "message.pinned",
    "message.unpinned",
    "message.deleted",
  ]);
});

Deno.test("pin.add refuses the 101st pin of a room", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  const roomId = await roomOf(alice, []);
  const sent = await Promise.all(Array.from({ length: 101 }, (_, at) => say(alice, roomId, `m${at}`)));
  for (const { id } of sent.slice(0, 100)) ok(await alice.put(`/v1/messages/${id}/pin`));
  refused(await alice.put(`/v1/messages/${sent[100].id}/pin`), 409, "pin_limit");
  assert.equal(ok(await alice.get(`/v1/rooms/${roomId}/pins`)).items.length, 100);
});
