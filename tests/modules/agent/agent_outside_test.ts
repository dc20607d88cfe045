// Agents outside: bots that report their own runs, without a model of the gateway.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { FakeSocket, sendCommand } from "../../transport/ws_harness.ts";
import { eventually } from "../../wait.ts";
import { RunExpiry } from "@/modules/agent/run/expiry.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import {
  assertProblem,
  createCaller,
  createCallers,
  createRoom,
  ok,
  readRoomEvents,
  readTexts,
  sendMessage,
} from "../fixtures.ts";

const RUNS = "/v1/collaboration/ai/runs";

async function openRoom(gateway: Harness): Promise<{ alice: Caller; robo: Caller; roomId: string }> {
  const { alice } = await createCallers(gateway, "alice");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "alice", name: "Robo" });
  const roomId = await createRoom(alice, ["robo"]);
  return { alice, robo, roomId };
}

/** What a stream of a run says, from its beginning. */
async function streamed(who: Caller, id: string): Promise<string[]> {
  const text = await (await who.open(`${RUNS}/${id}/stream`)).text();
  const parts = text.matchAll(/^data: (\{.*)$/gm).map(([, json]) => JSON.parse(json ?? ""));
  return [...parts].map(({ type, delta, toolName, output }) => delta ?? toolName ?? output ?? type);
}

testOnEngines("a bot streams its text, reports steps, and finishes with one message", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, robo, roomId } = await openRoom(gateway);
  assertProblem(await alice.post(RUNS, { roomId }), 422, "validation_failed");
  const run = ok(await robo.post(RUNS, { roomId }));
  assert.equal(run.status, "running");
  const append = (step: number, offset: number, text: string) =>
    robo.post(`${RUNS}/${run.id}/append`, { step, offset, text });
  assert.deepEqual(ok(await append(0, 0, "Let me ")), { step: 0, offset: 7 });
  assert.deepEqual(ok(await append(0, 0, "Let me ")), { step: 0, offset: 7 });
  assert.deepEqual(ok(await append(0, 3, " me see")), { step: 0, offset: 10 });
  assertProblem(await append(0, 11, "x"), 409, "offset_mismatch");
  assertProblem(await append(0, 0, "Not what I said"), 409, "offset_mismatch");
  assertProblem(await append(1, 0, "x"), 409, "offset_mismatch");
  const report = { step: 0, tool: "weather", input: "{}", result: "Snow" };
  assert.deepEqual(ok(await robo.post(`${RUNS}/${run.id}/steps`, report)), { step: 1, offset: 0 });
  assert.deepEqual(ok(await robo.post(`${RUNS}/${run.id}/steps`, report)), { step: 1, offset: 0 });
  ok(await append(1, 0, "It snows"));
  assertProblem(await alice.post(`${RUNS}/${run.id}/append`, { step: 1, offset: 8, text: "!" }), 404, "not_found");
  const finished = ok(await robo.post(`${RUNS}/${run.id}/finish`, {}));
  assert.equal(finished.status, "succeeded");
  assert.equal(ok(await robo.post(`${RUNS}/${run.id}/finish`, {})).outputMessageId, finished.outputMessageId);
  assertProblem(await append(1, 8, "!"), 409, "run_finished");
  const { steps } = ok(await alice.get(`${RUNS}/${run.id}`));
  assert.deepEqual(steps.map(({ text, tool, result }: Record<string, unknown>) => [text, tool, result]), [
    ["Let me see", "weather", "Snow"],
    ["It snows", null, null],
  ]);
  // Who comes late sees the whole of it.
  const step = (...all: string[]) => ["start-step", "text-start", ...all, "finish-step"];
  assert.deepEqual(await streamed(alice, run.id), [
    "start",
    ...step("Let me see", "text-end", "weather", "Snow"),
    ...step("It snows", "text-end"),
    "finish",
  ]);
  const events = await readRoomEvents(alice, roomId);
  const own = events.filter(({ type }) => /^(run|message)\./.test(type));
  assert.deepEqual(own.map(({ type }) => type), ["run.started", "message.created", "run.finished"]);
  assert.equal(own[1]?.data.message.text, "It snows");
});

Deno.test("a bot is not silent while there is no gateway: after a start it has its two minutes", async () => {
  await using gateway = await openGateway();
  const { robo, roomId } = await openRoom(gateway);
  const { id } = ok(await robo.post(RUNS, { roomId }));
  const { clock, app } = gateway;
  clock.advance(600_000);
  const refuse = () => assert.fail("it expired");
  // As a gateway that has just started would check it.
  const expiry = new RunExpiry({
    store: app.store as never,
    clock,
    lifecycle: { stop: refuse } as never,
    ending: { prepareExternal: () => ({}), endExternal: refuse } as never,
  });
  await expiry.check("default", id);
  clock.advance(119_000);
  await expiry.check("default", id);
  clock.advance(1000);
  await assert.rejects(expiry.check("default", id), { message: "it expired" });
});

testOnEngines("what a bot said is seen by who comes late, also if its run was cancelled", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, robo, roomId } = await openRoom(gateway);
  const run = ok(await robo.post(RUNS, { roomId }));
  ok(await robo.post(`${RUNS}/${run.id}/append`, { step: 0, offset: 0, text: "Half of it" }));
  ok(await alice.post(`${RUNS}/${run.id}/cancel`, { reason: "Too slow" }));
  assert.deepEqual(ok(await robo.get(`${RUNS}/${run.id}`)).error, { code: "cancelled", detail: "Too slow" });
  assert.equal(ok(await alice.get(`${RUNS}?roomId=${roomId}`)).items[0].error.detail, "Too slow");
  const parts = ["start", "start-step", "text-start", "Half of it", "text-end", "abort", "finish"];
  assert.deepEqual(await streamed(alice, run.id), parts);
});

testOnEngines("of a bot's text that is too long for a message, the whole is in a file", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, robo, roomId } = await openRoom(gateway);
  const text = "All of it. ".repeat(2000);
  const finished = ok(await robo.post(RUNS, { roomId }));
  ok(await robo.post(`${RUNS}/${finished.id}/finish`, { text }));
  const silent = ok(await robo.post(RUNS, { roomId }));
  ok(await robo.post(`${RUNS}/${silent.id}/append`, { step: 0, offset: 0, text }));
  gateway.clock.advance(121_000);
  await gateway.runJobs();
  const messages = await eventually(async () => {
    const { items } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
    assert.equal(items.length, 2);
    return items;
  });
  for (const message of messages) {
    assert.match(message.text, /the whole text is in the file/);
    assert.equal(ok(await alice.get(`/v1/collaboration/files/${message.files[0]?.id}/content`)), text.trim());
  }
});

testOnEngines("a bot that is silent for two minutes expires, and its text is posted", async (environment) => {
  await using gateway = await openGateway(environment);
  const { robo, roomId } = await openRoom(gateway);
  const run = ok(await robo.post(RUNS, { roomId }));
  ok(await robo.post(`${RUNS}/${run.id}/append`, { step: 0, offset: 0, text: "Half of it" }));
  gateway.clock.advance(100_000);
  ok(await robo.post(`${RUNS}/${run.id}/append`, { step: 0, offset: 10, text: ", and" }));
  gateway.clock.advance(100_000);
  await gateway.runJobs();
  assert.equal(ok(await robo.get(`${RUNS}/${run.id}`)).status, "running");
  gateway.clock.advance(30_000);
  await gateway.runJobs();
  await eventually(async () => {
    await gateway.runJobs();
    const { status, error } = ok(await robo.get(`${RUNS}/${run.id}`));
    assert.deepEqual([status, error?.code], ["expired", "expired"]);
  });
  assert.deepEqual(await readTexts(robo, roomId), ["Half of it, and"]);
});

Deno.test("watchers of a run receive its text over /ws; outsiders may not watch", async () => {
  await using gateway = await openGateway();
  const { alice, robo, roomId } = await openRoom(gateway);
  const run = ok(await robo.post(RUNS, { roomId }));
  const connect = async (who: Caller) => {
    const socket = new FakeSocket();
    const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
    assert.ok((await sendCommand(peer, 1, { connect: { token: who.token } })).connect);
    return peer;
  };
  const watcher = await connect(alice);
  assert.ok((await sendCommand(watcher, 2, { subscribe: { channel: `run:${run.id}` } })).subscribe);
  ok(await robo.post(`${RUNS}/${run.id}/append`, { step: 0, offset: 0, text: "Hello" }));
  await eventually(() => assert.match(watcher.socket.frames.join(""), /run\.delta.*"offset":0,"text":"Hello"/));
  const publish = { channel: `run:${run.id}`, data: { type: "run.delta", data: {} } };
  assert.ok((await sendCommand(watcher, 3, { publish })).error);
  const outsider = await connect(await gateway.as("mallory"));
  assert.ok((await sendCommand(outsider, 2, { subscribe: { channel: `run:${run.id}` } })).error);
});

Deno.test("a token that may not send messages says nothing in a run, which would be posted when it expires", async () => {
  await using gateway = await openGateway();
  const { robo, roomId } = await openRoom(gateway);
  const quiet = await gateway.as("robo", { kind: "agent", owner: "alice", scope: "run.write run.read" });
  const run = ok(await quiet.post(RUNS, { roomId }));
  const appended = await quiet.post(`${RUNS}/${run.id}/append`, { step: 0, offset: 0, text: "Hello" });
  assert.deepEqual([appended.status, appended.body.code], [403, "scope_missing"]);
  gateway.clock.advance(121_000);
  await eventually(async () => {
    await gateway.runJobs();
    assert.equal(ok(await robo.get(`${RUNS}/${run.id}`)).status, "expired");
  });
  assert.deepEqual(ok(await robo.get(`/v1/messages?roomId=${roomId}`)).items, []);
});

testOnEngines("the steps of a run have so many characters in all", async (environment) => {
  await using gateway = await openGateway(environment);
  const { robo, roomId } = await openRoom(gateway);
  const run = ok(await robo.post(RUNS, { roomId }));
  const result = "x".repeat(16_000);
  const report = (step: number) => robo.post(`${RUNS}/${run.id}/steps`, { step, input: result, result });
  for (let step = 0; step < 31; step++) ok(await report(step));
  assertProblem(await report(31), 409, "limit_reached");
  ok(await robo.post(`${RUNS}/${run.id}/finish`, { text: "Done" }));
});

testOnEngines("a bot and an agent of the gateway stop after three turns", async (environment) => {
  const models = new ScriptedModels(() => ({ parts: ["@robo your turn"] }));
  await using gateway = await openGateway({ ...environment, SVC_AI_MODEL: "small", SVC_AI_API_KEY: "x" }, { models });
  const { alice, robo, roomId } = await openRoom(gateway);
  const { id } = ok(await alice.post("/v1/collaboration/agents", { handle: "helper", displayName: "Helper" }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
  await sendMessage(alice, roomId, "@helper start", { parseMentions: true });
  const answered = async (count: number): Promise<string> =>
    await eventually(async () => {
      await gateway.runJobs();
      const { items } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
      assert.equal(items.length, count);
      return items.at(-1).id;
    });
  const turn = async (triggerMessageId: string) => ok(await robo.post(RUNS, { roomId, triggerMessageId }));
  const first = await turn(await answered(2));
  assert.equal(first.chainDepth, 2);
  // Slow enough that the turns of agents in the room are not counted any more. The job that would end the silent run waits.
  await gateway.app.jobs.stop();
  gateway.clock.advance(301_000);
  ok(await robo.post(`${RUNS}/${first.id}/finish`, { text: "@helper your turn" }));
  const stopped = await turn(await answered(4));
  assert.deepEqual([stopped.chainDepth, stopped.status, stopped.error.code], [4, "failed", "loop_stopped"]);
  assertProblem(await robo.post(`${RUNS}/${stopped.id}/finish`, { text: "@helper your turn" }), 409, "run_finished");
});
