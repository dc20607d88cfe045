// Semantic and hybrid search: modes, rights, filters, and what happens when the model is unavailable.
import assert from "node:assert/strict";
import { ModelError } from "@/ports/model.ts";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { hashingVector } from "../../hashing_embedder.ts";
import { cosine } from "../../vector_data.ts";
import { createRoom, embedAll, idsOf, openVectorGateway, search } from "./vector_fixture.ts";
import { search as searchWhileModelFails } from "../fixtures.ts";

testOnEngines(
  "search in 3 of 200 rooms finds ten results of these rooms, nearly all of the nearest",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway } = opened;
    const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
    await bob.get("/v1/rooms");
    const words = ["pump", "valve", "turbine", "boiler", "crane", "cable", "sensor", "filter", "engine", "tank"];
    const sentence = (seed: number) =>
      Array.from({ length: 6 }, (_, at) => words[(seed * (at + 3) + at * at * 7 + (seed >> at)) % words.length]).join(
        " ",
      ) +
      ` ${seed}`;
    const texts = new Map<string, string>();
    const visible: string[] = [];
    for (let room = 0; room < 200; room++) {
      const own = Array.from({ length: 6 }, (_, at) => sentence(room * 6 + at));
      const { roomId, ids } = await createRoom(alice, own, { visibility: "private" });
      for (const [at, id] of ids.entries()) texts.set(id, own[at] ?? "");
      if (![5, 70, 160].includes(room)) continue;
      visible.push(...ids);
      assert.equal((await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "member" })).status, 201);
    }
    await embedAll(gateway, alice);
    const rows = visible.map((id) => ({ id, vector: hashingVector(texts.get(id) ?? "") }));
    for (const mode of ["semantic", "hybrid"]) {
      let recall = 0;
      for (let query = 0; query < 10; query++) {
        const text = sentence(query * 31 + 4);
        const body = await search(bob, text, { mode, limit: 10 });
        assert.deepEqual([body.mode, body.degraded], [mode, false]);
        const found = idsOf(body);
        assert.equal(found.length, 10);
        assert.ok(found.every((id) => visible.includes(id)), "none is foreign");
        if (mode === "hybrid") continue;
        // Some texts have the same words: what is as near as the tenth is as good.
        const nearness = new Map(rows.map(({ id, vector }) => [id, cosine(vector, hashingVector(text))]));
        const tenth = [...nearness.values()].sort((a, b) => b - a)[9] ?? 0;
        recall += found.filter((id) => (nearness.get(id) ?? 0) >= tenth - 0.001).length / 100;
      }
      if (mode === "semantic") assert.ok(recall >= 0.95, `recall ${recall}`);
    }
  },
);

testOnEngines("search without an embedding model continues by words, and says why", async (engine) => {
  await using gateway = await openGateway(engine);
  const alice = await gateway.as("alice");
  const { ids } = await createRoom(alice, ["the boiler leaks", "lunch"]);
  for (const mode of ["semantic", "hybrid"]) {
    const body = await search(alice, "boiler leaks", { mode });
    assert.deepEqual([body.mode, body.degraded, body.degradedReason], ["keyword", true, "no_embedding_model"]);
    assert.deepEqual(idsOf(body), ids.slice(0, 1));
  }
  const body = await search(alice, "boiler leaks");
  assert.deepEqual([body.mode, body.degraded, "degradedReason" in body], ["keyword", false, false]);
});

testOnEngines("search while the provider is down continues by words, and says why", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const alice = await gateway.as("alice");
  const { ids } = await createRoom(alice, ["the boiler leaks", "lunch"]);
  await embedAll(gateway, alice);
  assert.equal((await search(alice, "boiler leaks")).mode, "hybrid");
  models.embedder = () => {
    throw new ModelError("unreachable", { isRetryable: false });
  };
  for (const mode of ["auto", "semantic", "hybrid"]) {
    const body = await searchWhileModelFails(alice, { query: `boiler ${mode}`, mode });
    assert.deepEqual([body.mode, body.degraded, body.degradedReason], ["keyword", true, "model_unavailable"]);
    if (mode === "auto") assert.deepEqual(idsOf(body), ids.slice(0, 1));
  }
  // The vector of a query that was asked before is still known.
  assert.deepEqual((await search(alice, "boiler leaks")).mode, "hybrid");
  models.embedder = (text) => hashingVector(text);
  gateway.clock.advance(60_000);
  assert.equal((await search(alice, "boiler again")).mode, "hybrid");
});

Deno.test("search waits for the vector of its query for a bounded time", async () => {
  await using opened = await openVectorGateway();
  const { gateway, models } = opened;
  const alice = await gateway.as("alice");
  await createRoom(alice, ["the boiler leaks"]);
  await embedAll(gateway, alice);
  const waiting = Promise.withResolvers<number[]>();
  models.embedder = () => waiting.promise;
  const body = await searchWhileModelFails(alice, { query: "leaking boilers" });
  assert.deepEqual([body.mode, body.degradedReason], ["keyword", "model_unavailable"]);
  await Promise.all([1, 2, 3, 4].map((n) => searchWhileModelFails(alice, { query: `leaks ${n}` })));
  // From here on searches wait no longer, until one tries again.
  const asked = models.embedded.length;
  for (let n = 0; n < 3; n++) await searchWhileModelFails(alice, { query: `boiler ${n}` });
  assert.equal(models.embedded.length, asked);
  waiting.resolve(hashingVector(""));
  models.embedder = (text) => hashingVector(text);
  gateway.clock.advance(60_000);
  assert.equal((await search(alice, "the boiler")).mode, "hybrid");
});

testOnEngines("search by similarity respects rooms left, hidden history, and private resources", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway } = opened;
  const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  await bob.get("/v1/rooms");
  const { roomId, ids: [old] } = await createRoom(alice, ["the turbine is broken"], { visibility: "private" });
  const history = await alice.patch(`/v1/rooms/${roomId}`, { historyVisibility: "joined" });
  assert.equal(history.status, 200, JSON.stringify(history.body));
  assert.equal((await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "member" })).status, 201);
  const fresh = (await alice.post("/v1/messages", { roomId, text: "the turbine works again" })).body.id;
  const own = await alice.post("/v1/collaboration/documents", { title: "turbine notes of alice" });
  assert.equal(own.status, 201, JSON.stringify(own.body));
  await embedAll(gateway, alice);
  const filters = { types: ["message", "document"] };
  const ask = async (who: typeof alice) => idsOf(await search(who, "turbine", { mode: "semantic", filters })).sort();
  assert.deepEqual(await ask(alice), [old, fresh, own.body.id].sort());
  assert.deepEqual(await ask(bob), [fresh]);
  assert.equal((await alice.delete(`/v1/rooms/${roomId}/members/bob`)).status, 204);
  assert.deepEqual(await ask(bob), []);
});

testOnEngines("search by similarity applies filters, exclusions and pages", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway } = opened;
  const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  await bob.get("/v1/rooms");
  const texts = Array.from({ length: 9 }, (_, at) => `crane number ${at}`);
  const { roomId, ids } = await createRoom(alice, texts);
  gateway.clock.advance(1);
  const other = await createRoom(alice, ["crane elsewhere https://cranes.example"]);
  assert.equal((await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "member" })).status, 201);
  gateway.clock.advance(1);
  const byBob = (await bob.post("/v1/messages", { roomId, text: "crane of bob" })).body.id;
  await embedAll(gateway, alice);
  for (const mode of ["semantic", "hybrid"]) {
    const ask = async (query: string, filters: Record<string, unknown>) =>
      idsOf(await search(alice, query, { mode, filters, limit: 50 }));
    assert.deepEqual(await ask("crane", { senderIds: ["bob"] }), [byBob]);
    assert.deepEqual(await ask("crane", { roomIds: [other.roomId] }), other.ids);
    assert.deepEqual(await ask("crane", { has: ["link"] }), other.ids);
    assert.deepEqual((await ask("crane -number", {})).sort(), [byBob, ...other.ids].sort());
    const pages: string[] = [];
    let cursor: string | undefined;
    do {
      const body = await search(alice, "crane number", { mode, limit: 4, ...cursor === undefined ? {} : { cursor } });
      pages.push(...idsOf(body));
      cursor = body.nextCursor ?? undefined;
    } while (cursor !== undefined);
    assert.deepEqual(pages.toSorted(), [...ids, ...other.ids, byBob].sort(), "each once");
    const recent = idsOf(await search(alice, "crane", { mode, sort: "recent", limit: 50 }));
    assert.deepEqual(recent, [byBob, ...other.ids, ...ids.toReversed()]);
  }
  // Quotes ask for these words.
  assert.equal((await search(alice, '"crane number"')).mode, "keyword");
});

Deno.test("search charges the vector of a query to its caller", async () => {
  await using opened = await openVectorGateway();
  const { gateway, models } = opened;
  const alice = await gateway.as("alice", { role: "owner" });
  await createRoom(alice, ["the boiler leaks"]);
  await embedAll(gateway, alice);
  const before = models.embedded.length;
  await search(alice, "leaking boiler");
  // More than one on a machine that is too busy for a search to wait for the first.
  const after = models.embedded.length;
  assert.ok(after > before);
  await search(alice, "leaking boiler");
  assert.equal(models.embedded.length, after, "the second search knows the vector");
  const put = await alice.put("/v1/collaboration/ai/budgets", {
    scope: "principal",
    subjectId: "alice",
    period: "day",
    tokens: 1,
  });
  assert.ok(put.status < 300, JSON.stringify(put.body));
  const body = await search(alice, "another question about boilers");
  assert.deepEqual([body.mode, body.degradedReason], ["keyword", "budget_exceeded"]);
});
