// Completions over the API, as a whole and as a stream.
import assert from "node:assert/strict";
import { completionRoute } from "@/modules/ai/completion_route.ts";
import type { CompletionService } from "@/modules/ai/completion_service.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { until } from "../../wait.ts";
import { createCallers, ok } from "../fixtures.ts";
import { upload } from "../file/file_harness.ts";
import { JPEG } from "../file/file_images.ts";

const AI = "/v1/collaboration/ai";
const SETTINGS = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_MODEL: "small input=1 output=2" };
const HELLO = { messages: [{ role: "user", text: "Hello?" }] };

Deno.test("completion.create returns text, calls of tools, usage and cost", async () => {
  const models = new ScriptedModels(() => ({
    parts: ["Let me ", "see", { kind: "tool", callId: "c1", name: "weather", input: "{}" }],
    usage: { inputTokens: 100, outputTokens: 10 },
  }));
  await using gateway = await openGateway(SETTINGS, { models });
  const member = await gateway.as("member");
  const tools = [{ name: "weather", description: "Weather", inputSchema: { type: "object" } }];
  const body = ok(await member.post(`${AI}/completions`, { ...HELLO, tools, maxOutputTokens: 50, temperature: 0 }));
  assert.deepEqual(body, {
    text: "Let me see",
    toolCalls: [{ callId: "c1", name: "weather", input: "{}" }],
    model: "small",
    reason: "tool",
    usage: { inputTokens: 100, cachedTokens: 0, outputTokens: 10, estimated: false },
    costMicros: 120,
  });
  assert.equal(models.calls[0]?.request.maxOutputTokens, 50);
  assert.equal(models.calls[0]?.request.tools?.[0]?.name, "weather");
});

Deno.test("completion.create shows the model images that the caller may read, and refuses other files", async () => {
  const models = new ScriptedModels();
  await using gateway = await openGateway({ ...SETTINGS, SVC_AI_MODEL: "small, blind images=0" }, { models });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const image = ok(await upload(gateway, alice, { name: "photo" }, JPEG)).id;
  const notes = ok(await upload(gateway, alice, { name: "notes" }, "Nothing")).id;
  const ask = (who: Caller, ...fileIds: string[]): Promise<ApiResponse> =>
    who.post(`${AI}/completions`, { messages: [{ role: "user", text: "What is it?", fileIds }] });
  ok(await ask(alice, image));
  const [asked] = models.calls[0]?.request.messages ?? [];
  assert.ok(asked?.role === "user");
  assert.partialDeepStrictEqual(asked.images, [{ at: 11, name: "photo", contentType: "image/jpeg", width: 24 }]);
  ok(
    await alice.post(`${AI}/completions`, {
      model: "blind",
      messages: [{ role: "user", text: "What is it?", fileIds: [image] }],
    }),
  );
  const text = "What is it?\n(the image photo is not shown: the model does not take it)";
  assert.deepEqual(models.calls[1]?.request.messages, [{ role: "user", text }]);
  const weak = await gateway.as("alice", { scope: "ai.write" });
  for (const [who, id] of [[alice, notes], [alice, "missing"], [bob, image], [weak, image]] as const) {
    const { status, body } = await ask(who, id);
    assert.deepEqual([status, body.errors[0].pointer, body.errors[0].code], [
      422,
      "/messages/0/fileIds/0",
      "not_found",
    ]);
  }
  assert.equal(models.calls.length, 2);
});

Deno.test("completion.create fails by code, and never with a provider's words", async () => {
  const models = new ScriptedModels();
  await using gateway = await openGateway(SETTINGS, { models });
  const member = await gateway.as("member");
  const expected = {
    bad_key: [502, "model_failed"],
    request_refused: [502, "model_failed"],
    context_too_long: [422, "context_too_long"],
    unreachable: [503, "unavailable"],
  } as const;
  for (const [error, [status, code]] of Object.entries(expected)) {
    models.script = () => ({ error: error as keyof typeof expected });
    const answer = await member.post(`${AI}/completions`, HELLO);
    assert.deepEqual([answer.status, answer.body.code], [status, code], error);
  }
  assert.equal((await member.post(`${AI}/completions`, { ...HELLO, model: "large" })).body.code, "model_unknown");
  const mistyped = await member.post(`${AI}/completions`, { ...HELLO, model: "smal" });
  assert.equal(mistyped.body.detail, "No provider offers the model smal; did you mean small?");
  const guest = await gateway.as("guest", { role: "guest" });
  assert.equal((await guest.post(`${AI}/completions`, HELLO)).status, 403);
  assert.equal((await guest.post(`${AI}/completions/stream`, HELLO)).status, 403);
  await using without = await openGateway();
  assert.equal((await (await without.as("member")).post(`${AI}/completions`, HELLO)).body.code, "ai_not_configured");
});

Deno.test("completion.create takes no Idempotency-Key: no transaction waits for a model", async () => {
  const models = new ScriptedModels(() => ({
    parts: [() => assert.ok(!gateway.app.store.isInTransaction), "Hi"],
  }));
  await using gateway = await openGateway(SETTINGS, { models });
  const member = await gateway.as("member");
  for (let n = 0; n < 2; n++) {
    const { status, headers } = await member.post(`${AI}/completions`, HELLO, { "Idempotency-Key": "once" });
    assert.equal(status, 200);
    assert.equal(headers.get("idempotency-replayed"), null);
  }
  assert.equal(models.calls.length, 2);
});

function openStream(caller: Caller, signal: AbortSignal | null = null): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return caller.open(`${AI}/completions/stream`, { method: "POST", headers, body: JSON.stringify(HELLO), signal });
}

const eventsIn = (text: string) => text.trim().split("\n\n").map((event) => JSON.parse(event.replace(/^data: /, "")));

Deno.test("completion.stream sends each part as an event, then the end", async () => {
  const call = { kind: "tool", callId: "c1", name: "weather", input: "{}" } as const;
  const signature = { model: "small", text: "c2lnbmVk" };
  const models = new ScriptedModels(() => ({ parts: ["Hi ", "you", { ...call, signature }] }));
  await using gateway = await openGateway(SETTINGS, { models });
  const response = await openStream(await gateway.as("member"));
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const events = eventsIn(await response.text());
  assert.deepEqual(events.slice(0, 2), [{ kind: "text", text: "Hi " }, { kind: "text", text: "you" }]);
  assert.deepEqual(events[2], call, "without what is of use to the provider only");
  assert.equal(events[3].kind, "end");
  assert.equal(events[3].model, "small");
});

Deno.test("completion.stream fails with a status before the first part, and with an event after it", async () => {
  const models = new ScriptedModels(() => ({ error: "bad_key" }));
  await using gateway = await openGateway(SETTINGS, { models });
  const member = await gateway.as("member");
  const refused = await openStream(member);
  assert.equal(refused.status, 502);
  await refused.body?.cancel();
  models.script = () => ({ parts: ["Hi"], error: "stream_broken" });
  const broken = eventsIn(await (await openStream(member)).text());
  assert.deepEqual(broken.map(({ kind, code }) => [kind, code]), [["text", undefined], ["error", "unavailable"]]);
});

Deno.test("a client that leaves ends the call, and is charged for what it received", async () => {
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const models = new ScriptedModels(() => ({ parts: ["Hi", () => left, "you"] }));
  await using gateway = await openGateway(SETTINGS, { models });
  const member = await gateway.as("member");
  const response = await openStream(member);
  const reader = response.body?.getReader();
  await reader?.read();
  const cancelled = reader?.cancel();
  leave();
  await cancelled;
  await until(async () => (await member.get(`${AI}/usage`)).body.items[0]?.estimatedTokens > 0);
});

Deno.test("completion.stream ends the call of a client that takes nothing, not that of one that reads", async () => {
  const ended: string[] = [];
  const draining = new AbortController().signal;
  const open = async (name: string, stallMs: number): Promise<ReadableStream<Uint8Array>> => {
    const stream: CompletionService["stream"] = async function* () {
      try {
        for (;;) yield { kind: "text", text: await Promise.resolve("word ") };
      } finally {
        ended.push(name);
      }
    };
    const route = completionRoute({ stream, draining }, "/stream", stallMs);
    const call = { actor: { role: "member" }, body: HELLO, requestId: name, signal: new AbortController().signal };
    // deno-lint-ignore no-explicit-any -- what a completion needs of a call
    const { body } = await route.handle(new Request("http://gateway.test/stream", { method: "POST" }), call as any);
    return body ?? assert.fail("no body");
  };
  const reader = (await open("read", 60_000)).getReader();
  const unread = await open("unread", 5);
  await until(() => ended.length === 1);
  await assert.rejects(unread.getReader().read(), /takes nothing/);
  assert.equal((await reader.read()).done, false);
  await reader.cancel();
  assert.deepEqual(ended, ["unread", "read"]);
});

Deno.test("a drain ends completions, so that clients repeat them elsewhere", async () => {
  const begun = Promise.withResolvers<void>();
  const { promise: drained, resolve: drain } = Promise.withResolvers<void>();
  const models = new ScriptedModels(() => ({ parts: [() => begun.resolve(), () => drained, "Hi"] }));
  await using gateway = await openGateway(SETTINGS, { models });
  const calling = (await gateway.as("member")).post(`${AI}/completions`, HELLO);
  await begun.promise;
  await gateway.app.drain();
  drain();
  assert.equal((await calling).body.code, "unavailable");
});

Deno.test("a principal and its agents run at most four completions at the same time", async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let running = 0;
  const models = new ScriptedModels(() => ({ parts: [() => running++, () => released, "Hi"] }));
  await using gateway = await openGateway(SETTINGS, { models });
  const member = await gateway.as("member");
  const calls = Array.from({ length: 4 }, () => member.post(`${AI}/completions`, HELLO));
  await until(() => running === 4);
  assert.equal((await member.post(`${AI}/completions`, HELLO)).status, 429);
  release();
  for (const { status } of await Promise.all(calls)) assert.equal(status, 200);
  assert.equal((await member.post(`${AI}/completions`, HELLO)).status, 200);
});
