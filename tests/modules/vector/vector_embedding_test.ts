// The life of vectors: created in the background, deleted with their text, rebuilt for another model, paused when that cannot work.
import assert from "node:assert/strict";
import { ModelError } from "@/ports/model.ts";
import { chunksOf } from "@/modules/vector/chunks.ts";
import type { VectorModule } from "@/modules/vector/module.ts";
import { VectorSearch } from "@/modules/vector/vector_search.ts";
import { estimateTokens } from "@/core/text/tokens.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { eventually, pause } from "../../wait.ts";
import { openGateway } from "../../harness.ts";
import { hashingVector } from "../../hashing_embedder.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { countVectors, createRoom, embedAll, EMBEDDING, idsOf, openVectorGateway, search } from "./vector_fixture.ts";
import { search as searchWhileModelFails } from "../fixtures.ts";

const STATUS = "/v1/collaboration/vectors/status";
const REINDEX = "/v1/collaboration/vectors/reindex";

testOnEngines("a message that is edited or deleted loses its vector, and so does a purged room", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const alice = await gateway.as("alice");
  const { roomId, ids: [first = "", second = ""] } = await createRoom(alice, ["the secret is a pump", "lunch at noon"]);
  await embedAll(gateway, alice);
  assert.equal(await countVectors(gateway, first), 1);
  models.embedder = () => {
    throw new ModelError("unreachable", { isRetryable: false });
  };
  assert.equal((await alice.patch(`/v1/messages/${first}`, { text: "nothing to see" })).status, 200);
  await search(alice, "anything", { mode: "keyword" });
  assert.equal(await countVectors(gateway, first), 0, "the vector of the old text is gone before there is a new one");
  models.embedder = (text) => hashingVector(text);
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.equal(await countVectors(gateway, first), 1);
  assert.deepEqual(idsOf(await search(alice, "nothing to see", { mode: "semantic", limit: 1 })), [first]);
  assert.equal((await alice.delete(`/v1/messages/${first}`)).status, 204);
  await search(alice, "anything", { mode: "keyword" });
  assert.equal(await countVectors(gateway, first), 0);
  assert.equal(await countVectors(gateway, second), 1);
  assert.equal((await alice.delete(`/v1/rooms/${roomId}`)).status, 204);
  gateway.clock.advance(400 * 86_400_000);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.equal(await countVectors(gateway), 0);
});

testOnEngines(
  "tasks, events and documents have vectors, too; what changes besides the text costs nothing",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway, models } = opened;
    const alice = await gateway.as("alice");
    const { roomId } = await createRoom(alice, []);
    const task = await alice.post("/v1/collaboration/tasks", { roomId, title: "repair the turbine" });
    assert.equal(task.status, 201, JSON.stringify(task.body));
    const document = await alice.post("/v1/collaboration/documents", { title: "turbine manual" });
    assert.equal(document.status, 201, JSON.stringify(document.body));
    const event = await alice.post("/v1/collaboration/calendar/events", {
      roomId,
      title: "turbine inspection",
      start: { dateTime: "2026-03-05T10:00:00", timeZone: "UTC" },
    });
    assert.equal(event.status, 201, JSON.stringify(event.body));
    await embedAll(gateway, alice);
    const filters = { types: ["message", "task", "document", "event"] };
    const found = idsOf(await search(alice, "turbine", { mode: "semantic", filters }));
    assert.deepEqual(found.toSorted(), [task.body.id, document.body.id, event.body.id].sort());
    const embedded = models.embedded.length;
    assert.equal((await alice.patch(`/v1/collaboration/tasks/${task.body.id}`, { priority: "high" })).status, 200);
    await gateway.runJobs();
    assert.equal(models.embedded.length, embedded);
    assert.equal((await alice.delete(`/v1/collaboration/tasks/${task.body.id}`)).status, 204);
    assert.equal(await countVectors(gateway, task.body.id), 0, "in the transaction that deletes it");
  },
);

Deno.test("an embedding model with other dimensions is built beside the old one, and switched to once", async () => {
  await using folder = await createTemporaryFolder();
  const dimensionsOf = (model: string) => model === "large" ? 512 : 384;
  const create = (models: string) => {
    const scripted = new ScriptedModels(undefined, (text, { model }) => hashingVector(text, dimensionsOf(model)));
    const settings = { ...EMBEDDING, SVC_AI_EMBEDDING_MODEL: models, SVC_DATABASE_URL: `sqlite:${folder.path}/db` };
    return openGateway(settings, { models: scripted });
  };
  const texts = Array.from({ length: 40 }, (_, at) => `valve number ${at}`);
  {
    await using gateway = await create("small");
    const alice = await gateway.as("alice", { role: "owner" });
    await createRoom(alice, texts);
    await embedAll(gateway, alice);
    const { body } = await alice.get(STATUS);
    assert.deepEqual([body.model, body.dimensions, body.stored, body.pending], ["small", 384, 40, 0]);
  }
  await using gateway = await create("large, small");
  const alice = await gateway.as("alice", { role: "owner" });
  const models = new Set<string>();
  let switches = 0;
  for (let round = 0; round < 200; round++) {
    const found = await search(alice, `valve number ${round % 40}`, { mode: "semantic", limit: 5 });
    assert.deepEqual(
      [found.mode, found.degraded, found.items.length],
      ["semantic", false, 5],
      "search works throughout",
    );
    const { body } = await alice.get(STATUS);
    if (!models.has(body.model)) switches++;
    models.add(body.model);
    if (body.model === "large" && body.building === null) break;
    await pause(10);
  }
  await gateway.runJobs();
  const { body } = await alice.get(STATUS);
  assert.deepEqual([body.model, body.dimensions, body.vectors, body.building], ["large", 512, 40, null]);
  assert.ok(switches <= 2, "from one to the other, and not back");
  assert.equal(await countVectors(gateway), 40, "nothing of the old ones is left");
});

testOnEngines(
  "a model that changes its dimensions under the same name is rebuilt once; nothing is mixed",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway, models } = opened;
    const alice = await gateway.as("alice", { role: "owner" });
    const { roomId } = await createRoom(alice, ["first pump", "second pump"]);
    await embedAll(gateway, alice);
    models.embedder = (text) => hashingVector(text, 128);
    await alice.post("/v1/messages", { roomId, text: "third pump" });
    const between = await search(alice, "a pump", { mode: "semantic" });
    assert.deepEqual([between.mode, between.degraded, between.items.length > 0], ["keyword", true, true]);
    await gateway.runJobs();
    const { body } = await alice.get(STATUS);
    assert.deepEqual([body.dimensions, body.vectors, body.stored, body.building], [128, 3, 3, null]);
    const after = await search(alice, "pump again", { mode: "semantic" });
    assert.deepEqual([after.mode, after.degraded, after.items.length], ["semantic", false, 3]);
    assert.equal(await countVectors(gateway), 3);
  },
);

testOnEngines(
  "embedding pauses while the budget is exhausted or the provider is down, then continues",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway, models } = opened;
    const alice = await gateway.as("alice", { role: "owner" });
    const budget = (tokens: number | null) =>
      alice.put("/v1/collaboration/ai/budgets", { scope: "tenant", period: "day", tokens });
    assert.equal((await budget(1)).status, 200);
    await createRoom(alice, ["the first pump", "the second pump"]);
    await embedAll(gateway, alice);
    const exhausted = (await alice.get(STATUS)).body;
    assert.deepEqual([exhausted.pausedCode, exhausted.building?.pending], ["budget_exceeded", 2]);
    assert.equal(models.embedded.length, 0);
    assert.equal((await budget(null)).status, 200);
    models.embedder = () => {
      throw new ModelError("overloaded", { isRetryable: false });
    };
    gateway.clock.advance(Date.parse(exhausted.pausedUntil) - gateway.clock.now() + 1);
    await gateway.runJobs();
    const owner = await gateway.as("alice", { role: "owner" });
    const down = (await owner.get(STATUS)).body;
    assert.deepEqual([down.pausedCode, down.building?.pending], ["overloaded", 2]);
    models.embedder = (text) => hashingVector(text);
    gateway.clock.advance(15 * 60_000);
    await gateway.runJobs();
    const done = (await owner.get(STATUS)).body;
    assert.deepEqual([done.pausedCode, done.stored, done.pending, done.building], [null, 2, 0, null]);
  },
);

testOnPostgres("two nodes share the work: each text is embedded once, and both find it", async (engine) => {
  await using here = await openVectorGateway(engine);
  await using there = await openVectorGateway(engine);
  const alice = await here.gateway.as("alice", { role: "owner" });
  await embedAll(here.gateway, alice);
  const texts = Array.from({ length: 150 }, (_, at) => `valve number ${at}`);
  const { ids } = await createRoom(alice, texts);
  await search(alice, "anything", { mode: "keyword" });
  await Promise.all([here.gateway.runJobs(), there.gateway.runJobs()]);
  await eventually(async () => assert.equal((await alice.get(STATUS)).body.stored, texts.length));
  const embedded = [...here.models.embedded, ...there.models.embedded].flat().filter((text) =>
    text.startsWith("valve")
  );
  assert.equal(new Set(embedded).size, texts.length);
  assert.equal(embedded.length, texts.length, "none is paid for twice");
  for (const { gateway } of [here, there]) {
    const who = await gateway.as("alice");
    assert.deepEqual(idsOf(await search(who, "valve number 7", { mode: "semantic", limit: 1 })), [ids[7]]);
  }
});

testOnEngines("a text that changes while it is embedded has no vector of its old text", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const alice = await gateway.as("alice", { role: "owner" });
  await embedAll(gateway, alice);
  const [started, waiting] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  models.embedder = async (text) => {
    if (text === "the old pump") {
      started.resolve();
      await waiting.promise;
    }
    return hashingVector(text);
  };
  const { ids: [changed = "", deleted = ""] } = await createRoom(alice, ["the old pump", "another pump"]);
  await search(alice, "anything", { mode: "keyword" });
  await started.promise;
  assert.equal((await alice.patch(`/v1/messages/${changed}`, { text: "a new boiler" })).status, 200);
  assert.equal((await alice.delete(`/v1/messages/${deleted}`)).status, 204);
  await search(alice, "anything", { mode: "keyword" });
  waiting.resolve();
  await gateway.runJobs();
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.equal(await countVectors(gateway, deleted), 0);
  assert.equal(await countVectors(gateway, changed), 1);
  const [hit] = (await search(alice, "a new boiler", { mode: "semantic" })).items;
  assert.deepEqual([hit.message.id, hit.score > 0.99], [changed, true], "the vector is that of the new text");
});

Deno.test("a text that changes again and again is embedded once, after it has settled", async () => {
  await using opened = await openVectorGateway();
  const { gateway, models } = opened;
  const alice = await gateway.as("alice");
  const { ids: [id = ""] } = await createRoom(alice, ["version 0"]);
  await embedAll(gateway, alice);
  for (let version = 1; version <= 10; version++) {
    assert.equal((await alice.patch(`/v1/messages/${id}`, { text: `version ${version}` })).status, 200);
    await search(alice, "anything", { mode: "keyword" });
    gateway.clock.advance(5000);
    await gateway.runJobs();
  }
  assert.equal(await countVectors(gateway, id), 0);
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.equal(await countVectors(gateway, id), 1);
  const versions = models.embedded.flat().filter((text) => text.startsWith("version"));
  assert.deepEqual(versions, ["version 0", "version 10"]);
});

testOnEngines("a text that the model refuses fails by itself", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const alice = await gateway.as("alice", { role: "owner" });
  models.embedder = (text) => {
    if (text.includes("forbidden")) throw new ModelError("request_refused", { isRetryable: false });
    return hashingVector(text);
  };
  await createRoom(alice, ["one pump", "forbidden pump", "two pumps"]);
  await embedAll(gateway, alice);
  const { body } = await alice.get(STATUS);
  assert.deepEqual([body.stored, body.failed, body.pending, body.building], [2, 1, 0, null]);
});

testOnEngines(
  "while a provider refuses every text, such as without credit, none fails and all wait",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway, models } = opened;
    const alice = await gateway.as("alice", { role: "owner" });
    await createRoom(alice, ["a boiler", "a pump", "a valve"]);
    await embedAll(gateway, alice);
    models.embedder = () => {
      throw new ModelError("request_refused", { isRetryable: false });
    };
    await createRoom(alice, ["a pipe", "a tap"]);
    await searchWhileModelFails(alice, { query: "pipe", mode: "hybrid" });
    const calls = models.embedded.length;
    await gateway.runJobs();
    const { body } = await alice.get(STATUS);
    assert.deepEqual([body.stored, body.failed, body.pending], [3, 0, 2]);
    assert.equal(body.pausedCode, "request_refused");
    assert.ok(models.embedded.length - calls <= 3, "it is asked no more until later");
    models.embedder = (text) => hashingVector(text);
    gateway.clock.advance(11 * 60_000);
    await gateway.runJobs();
    assert.equal((await alice.get(STATUS)).body.stored, 5);
  },
);

testOnEngines("a provider that returns wrong vectors is no longer called, and search continues", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const alice = await gateway.as("alice", { role: "owner" });
  for (const lie of [[], [Number.NaN, 1], Array.from({ length: 20_000 }, () => 1)]) {
    models.embedder = () => lie;
    const { ids } = await createRoom(alice, ["a boiler"]);
    const body = await searchWhileModelFails(alice, { query: "boiler", mode: "hybrid" });
    assert.ok(idsOf(body).includes(ids[0] ?? ""));
    await gateway.runJobs();
    assert.equal((await alice.get(STATUS)).body.pausedCode, "invalid_vectors");
    gateway.clock.advance(11 * 60_000);
  }
  assert.equal(await countVectors(gateway), 0);
});

testOnEngines("vector.reindex builds all vectors again, for admins, one run at a time", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const [alice, bob] = [await gateway.as("alice", { role: "admin" }), await gateway.as("bob")];
  await createRoom(alice, ["one pump", "two pumps"]);
  await embedAll(gateway, alice);
  assert.equal((await bob.post(REINDEX)).status, 403);
  assert.equal((await bob.get(STATUS)).status, 403);
  const waiting = Promise.withResolvers<void>();
  models.embedder = async (text) => {
    await waiting.promise;
    return hashingVector(text);
  };
  const started = await alice.post(REINDEX);
  assert.deepEqual([started.status, started.body.building?.model], [202, "hash"]);
  const again = await alice.post(REINDEX);
  assert.deepEqual([again.status, again.body.code], [409, "already_running"]);
  waiting.resolve();
  await gateway.runJobs();
  const { body } = await alice.get(STATUS);
  assert.deepEqual([body.stored, body.building], [2, null]);
  assert.equal(await countVectors(gateway), 2);
});

testOnEngines(
  "a search that begins before its vectors are replaced and deleted finds what others find",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway } = opened;
    const alice = await gateway.as("alice", { role: "admin" });
    const { ids } = await createRoom(alice, ["one pump", "two pumps"]);
    await embedAll(gateway, alice);
    const module = gateway.app.modules.find(({ name }) => name === "vector") as VectorModule; // by its name
    const [begun, replaced] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    module.vectors.open = async (...asked) => {
      const result = await VectorSearch.prototype.open.apply(module.vectors, asked);
      begun.resolve();
      await replaced.promise;
      return result;
    };
    const searching = search(alice, "a pump", { mode: "semantic" });
    await begun.promise;
    assert.equal((await alice.post(REINDEX)).status, 202);
    await gateway.runJobs();
    assert.equal(await countVectors(gateway), 2, "nothing of the old ones is left");
    replaced.resolve();
    const found = await searching;
    assert.deepEqual([found.mode, found.degraded, idsOf(found).sort()], ["semantic", false, ids.toSorted()]);
  },
);

Deno.test("vector.reindex without an embedding model is refused", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice", { role: "admin" });
  const { status, body } = await alice.post(REINDEX);
  assert.deepEqual([status, body.code], [404, "ai_not_configured"]);
  assert.deepEqual((await alice.get(STATUS)).body.enabled, false);
});

testOnEngines("a tenant's own provider begins its vectors, also of what was written before", async (engine) => {
  await using gateway = await openGateway(engine, {
    models: new ScriptedModels(undefined, (text) => hashingVector(text)),
  });
  const alice = await gateway.as("alice", { role: "owner" });
  const { ids } = await createRoom(alice, ["the boiler is cold", "lunch"]);
  const put = await alice.put("/v1/collaboration/ai/providers/main", {
    kind: "openai",
    baseUrl: "https://models.example/v1",
    apiKey: "a key of the tests",
    models: [{ id: "vectors", kind: "embedding", contextTokens: 8000 }],
  });
  assert.equal(put.status, 201, JSON.stringify(put.body));
  await gateway.runJobs();
  const { body } = await alice.get(STATUS);
  assert.deepEqual([body.model, body.stored], ["vectors", 2]);
  assert.deepEqual(idsOf(await search(alice, "cold boiler", { mode: "semantic", limit: 1 })), ids.slice(0, 1));
});

Deno.test("long texts are cut into parts of about 400 tokens that overlap, in any script", () => {
  const english = Array.from({ length: 3000 }, (_, at) => `word${at}`).join(" ");
  const chinese = "部署计划已经完成".repeat(800);
  const emoji = "👩‍👩‍👧".repeat(900);
  for (const text of [english, chinese, emoji]) {
    const chunks = chunksOf({ texts: [text] });
    assert.ok(chunks.length > 1);
    for (const chunk of chunks) {
      assert.ok(estimateTokens(chunk) <= 600, `${estimateTokens(chunk)} tokens`);
      assert.ok(chunk.isWellFormed());
    }
  }
  const words = chunksOf({ texts: [english] }).flatMap((chunk) => chunk.split(" "));
  assert.deepEqual(new Set(words), new Set(english.split(" ")), "no word is lost or cut");
  assert.deepEqual(chunksOf({ texts: [" "] }), []);
  assert.equal(chunksOf({ texts: ["x".repeat(1_000_000)] }).length <= 64, true);
});
