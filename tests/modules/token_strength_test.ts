// A token cannot turn what a stronger one created to its own ends.
import assert from "node:assert/strict";
import { testOnEngines } from "../engines.ts";
import { eventually, until } from "../wait.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "./fixtures.ts";
import { createWebhook, Endpoint, openWithEndpoints, untilWebhook, WEBHOOKS } from "./webhook_fixture.ts";

testOnEngines("a webhook is directed only by tokens with the scopes that it delivers with", async (environment) => {
  await using gateway = await openWithEndpoints(environment);
  await using own = new Endpoint();
  await using foreign = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { seq } = await sendMessage(alice, roomId, "before");
  const { id } = await createWebhook(alice, own.url, { roomIds: [roomId], events: ["message.created"] });
  await sendMessage(alice, roomId, "one");
  await until(() => own.texts.length === 1);
  const path = `${WEBHOOKS}/${id}`;
  const { items: [delivery] } = await eventually(async () => {
    const listed = ok(await alice.get(`${path}/deliveries`));
    assert.equal(listed.items.length, 1);
    return listed;
  });

  for (const scope of ["webhook.*", "webhook.* room.read message.read"]) {
    const weak = await gateway.as("alice", { scope });
    for (
      const refused of [
        weak.patch(path, { url: foreign.url }),
        weak.patch(path, { events: ["*"] }),
        weak.patch(path, { roomIds: [roomId] }),
        weak.patch(path, { enabled: true, description: "Mine" }),
        weak.post(`${path}/rotate`),
        weak.put(`${path}/cursor`, { stream: `room:${roomId}`, seq: 0 }),
        weak.post(`${path}/deliveries/${delivery.id}/replay`),
        weak.post(`${path}/parked/replay`),
      ]
    ) assertProblem(await refused, 403, "scope_missing");
    assert.equal(ok(await weak.patch(path, { description: "Of Alice" })).description, "Of Alice");
    assert.equal(ok(await weak.patch(path, { enabled: false })).enabled, false);
    assert.equal(ok(await alice.patch(path, { enabled: true })).enabled, true);
    // Its own webhook it directs as it likes.
    const { id: ownId } = await createWebhook(weak, "https://hooks.example.com/", { roomIds: [roomId] });
    const ownPath = `${WEBHOOKS}/${ownId}`;
    ok(await weak.patch(ownPath, { url: "https://elsewhere.example.com/", enabled: false }));
    ok(await weak.put(`${ownPath}/cursor`, { stream: `room:${roomId}`, seq }));
    ok(await weak.post(`${ownPath}/rotate`));
    assert.equal((await weak.delete(ownPath)).status, 204);
  }

  await sendMessage(alice, roomId, "two");
  await until(() => own.texts.length === 2);
  assert.deepEqual(own.texts, ["one", "two"]);
  assert.equal(foreign.requests.length, 0);
  const strong = await gateway.as("alice", { scope: "*" });
  ok(await strong.patch(path, { url: foreign.url }));
  ok(await strong.put(`${path}/cursor`, { stream: `room:${roomId}`, seq: 0 }));
  await until(() => foreign.texts.includes("before"));
  await untilWebhook(alice, id, ({ state }) => state === "active");
});
