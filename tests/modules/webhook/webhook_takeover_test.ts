// Webhooks across a stop of their node and a restored log: another node continues where the first stopped, and what begins again is
// announced.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { until } from "../../wait.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { createWebhook, Endpoint, openWithEndpoints, WEBHOOKS } from "./webhook_fixture.ts";

testOnEngines(
  "a node that drains begins no further deliveries; the next node repeats only what was cut off",
  async (environment) => {
    await using folder = await createTemporaryFolder();
    const settings = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, ...environment };
    // Nodes of one PostgreSQL run beside each other; SQLite has one node after the other.
    const isShared = environment["SVC_DATABASE_URL"] !== undefined;
    await using endpoint = new Endpoint();
    const held = Promise.withResolvers<void>();
    endpoint.answer = async ({ body }) => {
      if (body.data.message.text === "two" && textsAsked().filter((text) => text === "two").length === 1) {
        await held
          .promise;
      }
      return new Response();
    };
    const textsAsked = () => endpoint.requests.map(({ body }) => body.data.message.text);
    try {
      await using stack = new AsyncDisposableStack();
      const first = await openWithEndpoints(settings);
      // Dispose once: it is the one that stops.
      const firstEnds = stack.adopt({ isOpen: true }, async (state) => {
        if (state.isOpen) await first[Symbol.asyncDispose]();
      });
      const { alice } = await createCallers(first, "alice");
      const roomId = await createRoom(alice, []);
      await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
      for (const text of ["one", "two", "three", "four"]) await sendMessage(alice, roomId, text);
      await until(() => endpoint.requests.length === 2);
      // Only now, when the first has the lease: a node that starts looks for work as well.
      const other = isShared ? stack.use(await openWithEndpoints(settings)) : undefined;
      await first.app.drain();
      assert.deepEqual(textsAsked().slice(0, 2), ["one", "two"]);
      if (other === undefined) assert.equal(endpoint.requests.length, 2);
      firstEnds.isOpen = false;
      await first[Symbol.asyncDispose]();
      if (other === undefined) stack.use(await openWithEndpoints(settings));
      // The lease was released: clocks of tests are fixed, so it would not expire.
      await until(() => endpoint.requests.length === 5);
      held.resolve();
      assert.deepEqual(textsAsked(), ["one", "two", "two", "three", "four"]);
      const ids = endpoint.requests.map(({ id }) => id);
      assert.equal(ids[1], ids[2]);
      assert.equal(new Set(ids).size, 4);
    } finally {
      held.resolve();
    }
  },
);

testOnEngines(
  "a log that was restored is announced, and delivered from its start with new ids",
  async (environment) => {
    await using gateway = await openWithEndpoints(environment);
    await using endpoint = new Endpoint();
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
    const { seq } = await sendMessage(alice, roomId, "one");
    await until(() => endpoint.accepted.length === 1);
    ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: false }));
    // As a restored backup does it: positions of before are of another log.
    await gateway.app.store.write((tx) =>
      tx.db.updateTable("stream").set({ epoch: "restored" }).where("name", "=", `room:${roomId}`).execute()
    );
    await sendMessage(alice, roomId, "two");
    ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
    await until(() => endpoint.accepted.length === 4);
    const [before, gap, ...after] = endpoint.accepted;
    assert.deepEqual([gap?.body.type, gap?.body.epoch, gap?.body.data], ["webhook.gap", "restored", {
      after: seq,
      floor: 0,
    }]);
    assert.deepEqual(after.map(({ body }) => [body.data.message.text, body.epoch]), [
      ["one", "restored"],
      ["two", "restored"],
    ]);
    assert.notEqual(after[0]?.id, before?.id, "the receiver must not take it for a repeat");
  },
);
