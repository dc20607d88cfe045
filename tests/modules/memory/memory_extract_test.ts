// Facts that a model finds in a room: proposals with their messages, whatever the model says.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { ITEMS } from "./memory_fixture.ts";

const EXTRACT = "/v1/collaboration/memory/extract";
const SETTINGS = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_MODEL: "small input=1 output=2" };

testOnEngines("memory.extract proposes what a model finds, with its messages", async (environment) => {
  const models = new ScriptedModels();
  await using gateway = await openGateway({ ...SETTINGS, ...environment }, { models });
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const first = await sendMessage(alice, roomId, "We deploy on Thursdays from now on.");
  await sendMessage(bob, roomId, "Lunch?");
  const facts = [
    { text: "Deployments are on Thursdays.", kind: "decision", messages: [1, 9], subjects: ["alice", "eve"] },
    { text: "It has no message.", kind: "fact", messages: [7], subjects: [] },
    { text: "An odd kind is a fact.", kind: "odd", messages: [2] },
  ];
  models.script = () => ({ parts: ["Sure:\n```json\n" + JSON.stringify({ facts }) + "\n```"] });
  const body = ok(await bob.post(EXTRACT, { roomId, fromSeq: 1 }));
  const shown = body.items.map((one: Record<string, unknown>) => [one["text"], one["kind"], one["status"]]);
  assert.deepEqual(shown, [
    ["Deployments are on Thursdays.", "decision", "proposed"],
    ["An odd kind is a fact.", "fact", "proposed"],
  ]);
  assert.deepEqual([body.items[0].sources[0].messageId, body.items[0].subjectIds], [first.id, ["alice"]]);
  assert.deepEqual([body.skippedCount, body.nextSeq, body.model], [1, null, "small"]);
  const asked = JSON.stringify(models.calls[0]?.request.messages);
  assert.ok(asked.includes("[1] alice: We deploy on Thursdays"), asked);
  const again = ok(await bob.post(EXTRACT, { roomId, fromSeq: 1 }));
  assert.deepEqual([again.items, again.skippedCount], [[], 3], "the room has them already");
  assert.deepEqual(ok(await bob.get(ITEMS)).items, [], "none is active");
  ok(await bob.patch(`${ITEMS}/${body.items[0].id}`, { status: "active" }));

  // More than the model reads at once.
  for (let n = 0; n < 3; n++) await sendMessage(alice, roomId, "word ".repeat(2400).trim());
  models.script = () => ({ parts: ['{"facts":[]}'] });
  const part = ok(await bob.post(EXTRACT, { roomId, fromSeq: first.seq }));
  const rest = ok(await bob.post(EXTRACT, { roomId, fromSeq: part.nextSeq }));
  assert.equal(rest.nextSeq, null);
  const until = ok(await bob.post(EXTRACT, { roomId, fromSeq: 1, toSeq: first.seq }));
  assert.deepEqual([until.nextSeq, models.calls.at(-1)?.request.messages.length], [null, 2]);
  const calls = models.calls.length;
  assert.equal(ok(await bob.post(EXTRACT, { roomId, fromSeq: 10_000 })).model, null);

  assertProblem(await eve.post(EXTRACT, { roomId, fromSeq: 1 }), 404, "not_found");
  assertProblem(await bob.post(EXTRACT, { roomId, fromSeq: 0 }), 422, "validation_failed");
  const narrow = await gateway.as("bob", { scope: "memory.write message.read" });
  assertProblem(await narrow.post(EXTRACT, { roomId, fromSeq: 1 }), 403, "scope_missing");
  assert.equal(models.calls.length, calls, "no model is called for those");
  models.script = () => ({ parts: ["I would rather not."] });
  assertProblem(await bob.post(EXTRACT, { roomId, fromSeq: 1 }), 502, "model_failed");
});

testOnEngines("memory.extract without a model says so", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  await sendMessage(alice, roomId, "We deploy on Thursdays.");
  assertProblem(await alice.post(EXTRACT, { roomId, fromSeq: 1 }), 404, "ai_not_configured");
});
