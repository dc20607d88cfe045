// The adapter of models against a server that streams, cuts, stalls, refuses, repeats and lies.
import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { AiSdkModels } from "@/adapters/model/ai_sdk_models.ts";
import { normalizeChat } from "@/adapters/model/openai_responses.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { StepTimer } from "@/adapters/model/step_timer.ts";
import {
  type ModelEndpoint,
  ModelError,
  type ModelErrorCode,
  type ModelPart,
  type ModelRequest,
  type ModelStepEnd,
  type ModelTimeLimits,
  type ModelTool,
} from "@/ports/model.ts";
import { type Outbound, OutboundError, type OutboundOptions } from "@/ports/outbound.ts";
import { ModelServer, REASONING, SIGNATURES, USAGE, WORDS } from "../model_server.ts";
import { replace } from "../replace.ts";
import { pause, until } from "../wait.ts";

const REPORTED = {
  inputTokens: USAGE.input,
  cachedTokens: USAGE.cached,
  outputTokens: USAGE.output,
  estimated: false,
};
const REQUEST: ModelRequest = { messages: [{ role: "user", text: "Hello there" }], maxOutputTokens: 500 };
const ALLOW = { allowHosts: ["127.0.0.1"] };
const models = new AiSdkModels(createOutbound({ allow: [] }));

type Options = {
  kind?: "openai" | "anthropic" | "google";
  request?: Partial<ModelRequest>;
  limits?: Partial<ModelTimeLimits>;
  signal?: AbortSignal;
  onPart?: (part: ModelPart) => void;
  models?: AiSdkModels;
};

async function run(
  server: ModelServer,
  model: string,
  { kind = "openai", request, limits = {}, signal = new AbortController().signal, onPart, models: used = models }:
    Options = {},
): Promise<{ parts: ModelPart[]; end: ModelStepEnd }> {
  const parts: ModelPart[] = [];
  const endpoint = { kind, baseUrl: server.url, apiKey: "sk-test", model, ...ALLOW };
  const step = used.step(endpoint, { ...REQUEST, ...request }, { signal, limits });
  let result = await step.next();
  while (!result.done) {
    parts.push(result.value);
    onPart?.(result.value);
    result = await step.next();
  }
  return { parts, end: result.value };
}

async function failure(server: ModelServer, model: string, options?: Options): Promise<ModelError> {
  const error = await run(server, model, options).then(({ end }) => end, (thrown) => thrown);
  assert.ok(error instanceof ModelError, `${model}: ${JSON.stringify(error)}`);
  // Neither the key nor what was asked.
  assert.doesNotMatch(Deno.inspect(error, { depth: 10 }), /SECRET|sk-test|Hello/, model);
  return error;
}

const textOf = (parts: readonly ModelPart[]) => parts.map((part) => part.kind === "text" ? part.text : "").join("");

Deno.test("each protocol streams text and ends with what was used", async () => {
  await using server = new ModelServer();
  for (const kind of ["openai", "anthropic", "google"] as const) {
    const { parts, end } = await run(server, "speaks", { kind });
    assert.equal(textOf(parts), WORDS.join(""), kind);
    assert.deepEqual(end, { reason: "stop", usage: REPORTED }, kind);
  }
  const [openai, anthropic, google] = server.calls;
  assert.equal(openai?.headers.get("authorization"), "Bearer sk-test");
  assert.equal(anthropic?.headers.get("x-api-key"), "sk-test");
  assert.equal(google?.headers.get("x-goog-api-key"), "sk-test");
  assert.equal(openai?.body.max_tokens, 500);
});

Deno.test("reasoning that a provider counts only in the sum of all tokens is output", async () => {
  await using server = new ModelServer();
  const { end } = await run(server, "reasoning-apart");
  assert.deepEqual(end.usage, { ...REPORTED, outputTokens: USAGE.output + 7 });
});

Deno.test("prompt, tools and schema reach the provider", async () => {
  await using server = new ModelServer();
  const request: Partial<ModelRequest> = {
    messages: [
      { role: "system", text: "Be brief", isCacheable: true },
      { role: "user", text: "Weather?" },
      { role: "assistant", text: "", toolCalls: [{ callId: "call_1", name: "weather", input: '{"city":' }] },
      { role: "tool", callId: "call_1", toolName: "weather", result: "3 degrees" },
    ],
    tools: [{ name: "weather", description: "Weather of a city", inputSchema: { type: "object", properties: {} } }],
    responseSchema: { type: "object", properties: { city: { type: "string" } } },
    temperature: 0.2,
  };
  for (const kind of ["openai", "anthropic", "google"] as const) await run(server, "speaks", { kind, request });
  const [openai, anthropic, google] = server.calls.map(({ body }) => body);
  assert.deepEqual(openai.messages.map(({ role }: { role: string }) => role), ["system", "user", "assistant", "tool"]);
  assert.equal(openai.tools[0].function.name, "weather");
  assert.equal(openai.response_format.type, "json_schema");
  assert.equal(openai.temperature, 0.2);
  assert.deepEqual(anthropic.system[0].cache_control, { type: "ephemeral" });
  assert.match(JSON.stringify(google), /3 degrees/);
});

Deno.test("images reach each provider in their places; a model that refuses them reads that they are there", async () => {
  await using server = new ModelServer();
  const image = { name: "a.jpg", contentType: "image/jpeg", base64: "/9j/4AAQ", width: 10, height: 10 } as const;
  const text = "Compare this\nwith that";
  const images = [{ ...image, at: 12 }, { ...image, at: text.length, name: "b.jpg" }];
  const request: Partial<ModelRequest> = { messages: [{ role: "user", text, images }] };
  for (const kind of ["openai", "anthropic", "google"] as const) await run(server, "speaks", { kind, request });
  const url = { url: "data:image/jpeg;base64,/9j/4AAQ" };
  const source = { type: "base64", media_type: "image/jpeg", data: "/9j/4AAQ" };
  const inlineData = { mimeType: "image/jpeg", data: "/9j/4AAQ" };
  const [openai, anthropic, google] = server.calls.map(({ body }) => body);
  const inOrder = (
    image: unknown,
    textOf: (text: string) => unknown,
  ) => [textOf("Compare this"), image, textOf("\nwith that"), image];
  const typed = (text: string) => ({ type: "text", text });
  assert.deepEqual(openai.messages[0].content, inOrder({ type: "image_url", image_url: url }, typed));
  assert.partialDeepStrictEqual(anthropic.messages[0].content[1], { type: "image", source });
  assert.equal(anthropic.messages[0].content.length, 4);
  assert.deepEqual(google.contents[0].parts, inOrder({ inlineData }, (text) => ({ text })));
  for (const [model, calls] of [["no-images", 3], ["few-images", 4]] as const) {
    const before = server.calls.length;
    for (let n = 0; n < 2; n++) assert.equal(textOf((await run(server, model, { request })).parts), WORDS.join(""));
    // One without support is remembered.
    assert.equal(server.calls.length - before, calls, model);
    const content = server.calls.at(-1)?.body.messages[0].content;
    assert.match(content, /^Compare this\n\(the image a.jpg is not shown: [^)]*\)\nwith that\n\(the image b.jpg/);
  }
});

Deno.test("calls of tools arrive whole, also those whose arguments are not JSON", async () => {
  await using server = new ModelServer();
  const whole = await run(server, "tool");
  assert.deepEqual(whole.parts, [{ kind: "tool", callId: "call_1", name: "weather", input: '{"city":"Oslo"}' }]);
  assert.equal(whole.end.reason, "tool");
  const broken = await run(server, "tool-broken").then(({ parts }) => parts, (error) => error);
  // Either is right: what must not happen is a call with other arguments.
  if (!(broken instanceof ModelError)) assert.equal(broken[0].input, '{"city":');
});

Deno.test("a signature of a call returns to the model that gave it, and to no other", async () => {
  await using server = new ModelServer();
  const signed = await run(server, "gemini-3-signed", { kind: "google" });
  const call = signed.parts.find((part) => part.kind === "tool");
  assert.ok(call?.kind === "tool");
  assert.deepEqual(call.signature, { model: "gemini-3-signed", text: SIGNATURES["gemini-3-signed"] });
  const long = await run(server, "gemini-3-long", { kind: "google" });
  assert.ok(long.parts.every((part) => part.kind !== "tool" || part.signature === undefined));

  const { callId, name } = call;
  const messages: ModelRequest["messages"] = [
    ...REQUEST.messages,
    { role: "assistant", text: "", toolCalls: [call] },
    { role: "tool", callId, toolName: name, result: "3 degrees" },
  ];
  const bodies: string[] = [];
  for (
    const [model, kind] of [
      ["gemini-3-signed", "google"],
      ["gemini-3-other", "google"],
      ["gemini-3-signed", "openai"],
      ["gemini-3-signed", "anthropic"],
    ] as const
  ) {
    await run(server, model, { kind, request: { messages } });
    bodies.push(JSON.stringify(server.calls.at(-1)?.body));
  }
  assert.deepEqual(bodies.map((body) => body.includes(call.signature?.text ?? "")), [true, false, false, false]);
});

Deno.test("reasoning returns with the calls that it led to, to the model that sent it in the field for that", async () => {
  await using server = new ModelServer();
  const returned: unknown[] = [];
  for (const [model, next] of [["returned", "returned"], ["returned", "kept"], ["kept", "kept"]]) {
    const { parts } = await run(server, `reasoning-${model}`);
    const toolCalls = parts.filter((part) => part.kind === "tool");
    const messages: ModelRequest["messages"] = [
      ...REQUEST.messages,
      { role: "assistant", text: "", toolCalls },
      ...toolCalls.map(({ callId, name }) => ({ role: "tool", callId, toolName: name, result: "3 degrees" }) as const),
    ];
    await run(server, `reasoning-${next}`, { request: { messages } });
    const [, assistant] = server.calls.at(-1)?.body.messages ?? [];
    assert.equal(assistant.tool_calls.length, 2);
    returned.push(assistant.reasoning_content);
  }
  assert.deepEqual(returned, [REASONING.join(""), undefined, undefined]);
});

Deno.test("a parameter that a server refuses is left out of this request and the next", async () => {
  await using server = new ModelServer();
  const own = new AiSdkModels(createOutbound({ allow: [] }));
  for (const [model, sent] of [["gpt-5", "max_completion_tokens"], ["strict", "max_tokens"]] as const) {
    for (let n = 0; n < 2; n++) {
      assert.equal(textOf((await run(server, model, { models: own })).parts), WORDS.join(""), model);
      assert.equal(server.calls.at(-1)?.body[sent], 500, model);
    }
    assert.equal(server.calls.filter((call) => call.model === model).length, 3, model);
  }
  const request = { temperature: 0, responseSchema: { type: "object" } };
  for (const model of ["fixed-temperature", "no-schemas"]) {
    assert.equal(textOf((await run(server, model, { models: own, request })).parts), WORDS.join(""), model);
  }
  assert.equal((await failure(server, "strict-schemas", { models: own, request })).code, "request_refused");
  // Tools only if they are not what the request is about.
  const tool = { name: "weather", description: "Weather of a city", inputSchema: { type: "object" } };
  const withTools = (...tools: ModelTool[]) => ({ models: own, request: { tools } });
  const optional = { ...tool, isOptional: true };
  for (let n = 0; n < 2; n++) {
    assert.equal(textOf((await run(server, "no-tools", withTools(optional))).parts), WORDS.join(""));
    assert.equal((await failure(server, "no-tools", withTools(tool, optional))).code, "tools_unsupported");
  }
});

Deno.test("reasoning, pings, length and filters are distinguished", async () => {
  await using server = new ModelServer();
  const { parts } = await run(server, "reasoning");
  assert.deepEqual(parts[0], { kind: "reasoning", text: "hmm" });
  const inText = (await run(server, "reasoning-in-text")).parts;
  assert.deepEqual(inText.map(({ kind }) => kind), ["reasoning", "text", "text"]);
  assert.equal(textOf(inText), "Hello");
  const untagged = async () => (await run(server, "reasoning-untagged")).parts.map(({ kind }) => kind);
  assert.deepEqual(await untagged(), ["text", "text", "reset", "text", "text"]);
  assert.deepEqual(await untagged(), ["reasoning", "reasoning", "text", "text"]);
  assert.equal(textOf((await run(server, "pings")).parts), WORDS.join(""));
  assert.equal((await run(server, "length")).end.reason, "length");
  assert.equal((await run(server, "filtered")).end.reason, "filtered");
  assert.equal((await run(server, "eos")).end.reason, "stop");
  assert.equal((await run(server, "model-length")).end.reason, "length");
});

Deno.test("each refusal has its code, and says whether the call may be repeated", async () => {
  await using server = new ModelServer();
  const expected: Record<string, [ModelErrorCode, isRetryable: boolean]> = {
    "bad-key": ["bad_key", false],
    "busy": ["rate_limited", true],
    "down": ["overloaded", true],
    "too-long": ["context_too_long", false],
    "refused": ["request_refused", false],
    "redirect": ["request_refused", false],
    "html": ["stream_broken", true],
    "empty": ["stream_broken", true],
  };
  for (const [model, [code, isRetryable]] of Object.entries(expected)) {
    const error = await failure(server, model);
    assert.deepEqual([error.code, error.isRetryable], [code, isRetryable], model);
    assert.equal(error.usage, undefined, model);
  }
  assert.equal((await failure(server, "busy")).retryAfterMs, 7000);
  assert.equal((await failure(server, "refused")).reply, "unsupported parameter");
  assert.match((await failure(server, "html")).reply ?? "", /a web page; is the address complete/);
  assert.equal(server.calls.length, 11, "the adapter does not retry");
});

Deno.test("a stream that is not complete fails, with an estimate of what was used", async () => {
  await using server = new ModelServer();
  for (const model of ["ends-early", "error-frame", "no-json", "unknown-reason"]) {
    const error = await failure(server, model);
    assert.equal(error.code, "stream_broken", model);
    assert.ok(error.usage?.estimated && error.usage.inputTokens > 0 && error.usage.outputTokens > 0, model);
  }
});

Deno.test("servers that speak the protocol in ways of their own are understood", async () => {
  const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
  const chunk = (delta: unknown, reason: string | null = null, more = {}) =>
    event({ choices: [{ index: 0, delta, finish_reason: reason }], ...more });
  const [hello, stop, done] = [chunk({ content: "Hello" }), chunk({}, "stop"), "data: [DONE]\n\n"];
  const called = (input: unknown, more = {}) => ({ function: { name: "weather", arguments: input }, ...more });
  const whole = (message: unknown, reason: string | null = "stop") =>
    JSON.stringify({ choices: [{ message, finish_reason: reason }] });
  const text = ["text Hello", "stop"];
  const expected: Record<string, [body: string, parts: string[]]> = {
    "comments and pings": [`: wait\n\n${hello}event: ping\ndata: {}\n\ndata:\n\n${stop}${done}`, text],
    "ends of lines": [`${hello}${stop}`.replaceAll("\n", "\r\n"), text],
    "no end of the last line": [`${hello}${stop.trimEnd()}`, text],
    "other types of what is not used": [
      chunk({ role: "model", content: "Hello" }, null, { id: 1, created: "now" }) + stop,
      text,
    ],
    "choices that are missing": [event({ id: "x" }) + hello + stop + event({ choices: null, usage: {} }), text],
    "usage that is none": [hello + stop + event({ choices: [], usage: { prompt_tokens: "11" } }), text],
    "no reason": [hello + done, text],
    "no stream": [whole({ role: "assistant", content: "Hello" }), text],
    "no stream, in lines": [JSON.stringify(JSON.parse(whole({ content: "Hello" }, null)), null, 1), text],
    "no stream, tools": [whole({ content: null, tool_calls: [called({ a: 1 }), called("{}")] }, "tool_calls"), [
      'tool {"a":1}',
      "tool {}",
      "tool",
    ]],
    "arguments as an object": [chunk({ tool_calls: [called({ a: 1 }, { index: 3 })] }) + stop, [
      'tool {"a":1}',
      "stop",
    ]],
    "an error of its status": [event({ error: { message: "slow", code: "429" } }), ["rate_limited"]],
    "an error of a type": [event({ error: { message: "slow", type: "rate_limit_error" } }), ["rate_limited"]],
    "an error as a text": [event({ error: "out of memory" }), ["stream_broken"]],
    "an error as a text, of a prompt": [event({ error: "Context size has been exceeded." }), ["context_too_long"]],
    "an error without one around it": [event({ object: "error", message: "oops", code: 500 }), ["overloaded"]],
    "an error in a field": ['error: {"code":503,"message":"Loading"}\n\n', ["overloaded"]],
    "an error after a text": [hello + event({ error: { message: "oops", code: 500 } }) + done, [
      "text Hello",
      "stream_broken",
    ]],
    "a cut stream": [hello, ["text Hello", "stream_broken"]],
    "a cut object": [whole({ content: "Hello" }).slice(0, -2), ["stream_broken"]],
    "nothing": [done, ["stream_broken"]],
  };
  const endpoint = { kind: "openai", baseUrl: "https://models.test", apiKey: undefined, model: "m" } as const;
  for (const [name, [body, parts]] of Object.entries(expected)) {
    for (const length of [1, 7, body.length]) {
      const bytes = new TextEncoder().encode(body);
      const pieces = Array.from(
        { length: Math.ceil(bytes.length / length) },
        (_, n) => bytes.slice(n * length, (n + 1) * length),
      );
      const { seen } = await readStep(modelsBehind(() => new Response(ReadableStream.from(pieces))), endpoint);
      assert.deepEqual(seen, parts, `${name} in pieces of ${length}`);
    }
  }
});

Deno.test("servers of each protocol may ignore that a stream was wanted; reasons of Google's are understood", async () => {
  const message = (content: unknown, stop_reason: string, more = {}) => ({
    type: "message",
    role: "assistant",
    content,
    stop_reason,
    ...more,
  });
  const candidate = (parts: unknown, finishReason: string, more = {}) => ({
    candidates: [{ content: { role: "model", parts }, finishReason }],
    ...more,
  });
  const called = ['tool {"city":"Oslo"}', "tool"];
  const oslo = { city: "Oslo" };
  const usage = { input_tokens: 7, output_tokens: 3 };
  const cases: [name: string, kind: "anthropic" | "google", body: unknown, parts: string[], usage?: number[]][] = [
    [
      "text",
      "anthropic",
      message([{ type: "thinking", thinking: "hm" }, { type: "text", text: "Hello" }], "end_turn", {
        id: "m1",
        usage,
      }),
      ["reasoning", "text Hello", "stop"],
      [7, 3],
    ],
    [
      "a tool",
      "anthropic",
      message([{ type: "tool_use", id: "t1", name: "weather", input: oslo }], "tool_use"),
      called,
    ],
    ["a refusal", "anthropic", message([], "refusal"), ["filtered"]],
    ["an error", "anthropic", { type: "error", error: { type: "api_error", message: "oops" } }, ["overloaded"]],
    [
      "text",
      "google",
      candidate([{ text: "Hello" }], "STOP", {
        usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 3 },
      }),
      ["text Hello", "stop"],
      [7, 3],
    ],
    ["a list", "google", [candidate([{ text: "Hel" }], ""), candidate([{ text: "lo" }], "STOP")], [
      "text Hel",
      "text lo",
      "stop",
    ]],
    ["a tool", "google", candidate([{ functionCall: { name: "weather", args: oslo } }], "STOP"), called],
    ["a language", "google", candidate([], "LANGUAGE"), ["filtered"]],
    ["a call that is none", "google", candidate([], "MALFORMED_FUNCTION_CALL"), ["call_malformed"]],
    ["nothing", "google", {}, ["stream_broken"]],
    ["no object", "anthropic", "Hello", ["stream_broken"]],
  ];
  for (const [name, kind, body, parts, used] of cases) {
    const endpoint = { kind, baseUrl: "https://models.test", apiKey: undefined, model: "m" } as const;
    const { seen, end } = await readStep(modelsBehind(() => Response.json(body)), endpoint);
    assert.deepEqual(seen, parts, `${kind}: ${name}`);
    if (used !== undefined) {
      assert.deepEqual([end?.usage.inputTokens, end?.usage.outputTokens], used, `${kind}: ${name}`);
    }
  }
});

/** What a step says, in short: its parts, then how it ended. */
async function readStep(models: AiSdkModels, endpoint: ModelEndpoint): Promise<{ seen: string[]; end?: ModelStepEnd }> {
  const step = models.step(endpoint, REQUEST, { signal: new AbortController().signal });
  const seen: string[] = [];
  try {
    let result = await step.next();
    for (; !result.done; result = await step.next()) {
      const part = result.value;
      seen.push(part.kind === "tool" ? `tool ${part.input}` : part.kind === "text" ? `text ${part.text}` : part.kind);
    }
    return { seen: [...seen, result.value.reason], end: result.value };
  } catch (error) {
    assert.ok(error instanceof ModelError, `${error}`);
    return { seen: [...seen, error.code] };
  }
}

Deno.test("a long event in many pieces is read once", async () => {
  const pieces = Array.from({ length: 4096 }, (_, n) => new TextEncoder().encode(n === 0 ? "data: " : "x".repeat(16)));
  const { split } = String.prototype;
  let read = 0;
  using _replaced = replace(String.prototype, "split", function (this: string, ...separator: [never]) {
    read += this.length;
    return split.apply(this, separator);
  });
  const text = await normalizeChat(new Response(ReadableStream.from(pieces))).text();
  assert.ok(read < 2 * text.length, `${read} of ${text.length}`);
});

Deno.test("a connection that ends within a response breaks the step", async () => {
  const frame = { choices: [{ index: 0, delta: { content: "one " }, finish_reason: null }] };
  const frames = [`data: ${JSON.stringify(frame)}\n\n`];
  const body = new ReadableStream({
    pull(stream) {
      const next = frames.shift();
      if (next === undefined) stream.error(new OutboundError("connection_failed", "The response was cut off"));
      else stream.enqueue(new TextEncoder().encode(next));
    },
  }, { highWaterMark: 0 });
  const cut = modelsBehind(() => new Response(body, { headers: { "content-type": "text/event-stream" } }));
  const endpoint = { kind: "openai", baseUrl: "https://models.test", apiKey: undefined, model: "m" } as const;
  const step = cut.step(endpoint, REQUEST, { signal: new AbortController().signal });
  assert.deepEqual((await step.next()).value, { kind: "text", text: "one " });
  await assert.rejects(step.next(), (error) => {
    assert.ok(error instanceof ModelError && error.usage?.estimated);
    assert.deepEqual([error.code, error.isRetryable], ["stream_broken", true]);
    return true;
  });
});

/** Models behind a way out of the test's. */
function modelsBehind(respond: (options: OutboundOptions) => Response): AiSdkModels {
  const outbound: Outbound = Object.assign(
    ((_url, _init, options = {}) => Promise.resolve(respond(options))) as Outbound,
    { assertAllowed() {} },
  );
  return new AiSdkModels(outbound);
}

Deno.test("responses are bounded by what was asked for, and their parts by what is parsed at once", async () => {
  const signal = new AbortController().signal;
  const asked: OutboundOptions[] = [];
  const models = modelsBehind((options) => {
    asked.push(options);
    return new Response("data: [DONE]\n\n");
  });
  const endpoint = { kind: "openai", baseUrl: "https://models.test", apiKey: undefined, model: "m" } as const;
  for (const maxOutputTokens of [100, 1_000_000]) {
    await assert.rejects(models.step(endpoint, { ...REQUEST, maxOutputTokens }, { signal }).next());
  }
  for (const texts of [["one"], Array(100).fill("many")]) {
    await assert.rejects(models.embed(endpoint, texts, { signal }));
  }
  const [few, most, one, many] = asked.map(({ bodyMaxBytes = 0 }) => bodyMaxBytes);
  assert.deepEqual([few, most, one, many], [1024 * 1124, 32 * 1024 * 1024, 256 * 1024, 8 * 256 * 1024]);
  for (const { json } of asked) assert.ok(json !== undefined && json.valuesMax < 100_000);
});

Deno.test("parts of a stream that were read are released before its end", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  const frame = { choices: [{ index: 0, delta: { content: "word " }, finish_reason: null }] };
  const bytes = new TextEncoder().encode(`data: ${JSON.stringify(frame)}\n\n`);
  const body = new ReadableStream({ pull: (controller) => controller.enqueue(bytes) });
  const models = modelsBehind(() => new Response(body, { headers: { "content-type": "text/event-stream" } }));
  const endpoint = { kind: "openai", baseUrl: "https://models.test", apiKey: undefined, model: "m" } as const;
  const controller = new AbortController();
  const step = models.step(endpoint, { ...REQUEST, maxOutputTokens: 100_000 }, controller);
  const read = async (parts: number): Promise<number> => {
    for (let n = 0; n < parts; n++) assert.equal((await step.next()).done, false);
    collectGarbage();
    return Deno.memoryUsage().heapUsed;
  };
  await read(2000);
  const parts = 5000;
  const before = await read(1);
  const grown = await read(parts) - before;
  assert.ok(grown < parts * 200, `${Math.round(grown / parts)} bytes a part`);
  controller.abort();
  await assert.rejects(step.next());
});

Deno.test("usage that is missing or cannot be is estimated, and said to be", async () => {
  await using server = new ModelServer();
  for (const model of ["no-usage", "lies", "lies-nothing"]) {
    const { usage } = (await run(server, model)).end;
    assert.ok(usage.estimated, model);
    assert.ok(usage.inputTokens > 0 && usage.inputTokens < 1000 && usage.outputTokens > 0, model);
  }
  // A response that is sent twice is what was sent.
  const { parts, end } = await run(server, "repeats");
  assert.equal(textOf(parts), WORDS.join("").repeat(2));
  assert.equal(end.reason, "stop");
});

Deno.test("a provider that ignores the limit of tokens is cut off", async () => {
  await using server = new ModelServer();
  const { parts, end } = await run(server, "endless", { request: { maxOutputTokens: 10 } });
  assert.ok(textOf(parts).length < 10_000);
  assert.equal(end.reason, "length");
  await until(() => server.calls[0]?.isAborted === true);
});

Deno.test("a step that takes too long ends, and its connection with it", async () => {
  await using server = new ModelServer();
  const cases: [string, Partial<ModelTimeLimits>][] = [
    ["silent", { firstPartMs: 50 }],
    ["stalls", { idleMs: 50 }],
    ["stalls", { totalMs: 500 }],
  ];
  for (const [model, limits] of cases) {
    const error = await failure(server, model, { limits });
    assert.deepEqual([error.code, error.isRetryable], ["timed_out", true], model);
    await until(() => server.calls.every(({ isAborted }) => isAborted));
  }
});

Deno.test("a provider is not late while what it said is used, and may be late again afterwards", async () => {
  const [IDLE_MS, LONG_MS] = [20, 60_000];
  const limits = { firstPartMs: LONG_MS, idleMs: IDLE_MS, totalMs: LONG_MS };
  using timer = new StepTimer(new AbortController().signal, limits);
  const parts = timer.watch(new ReadableStream({ start: (stream) => stream.enqueue("a part, and then nothing") }));
  await parts.next();
  timer.begin();
  // The timer of the limit ends before this one.
  await pause(2 * IDLE_MS);
  assert.equal(timer.signal.aborted, false);
  await assert.rejects(parts.next(), /took too long/);
});

Deno.test("cancelling ends a step and its connection, before the first part and after", async () => {
  await using server = new ModelServer();
  const before = new AbortController();
  const silent = failure(server, "silent", { signal: before.signal });
  await until(() => server.calls.length === 1);
  before.abort();
  assert.equal((await silent).code, "cancelled");
  await until(() => server.calls[0]?.isAborted === true);
  const during = new AbortController();
  const error = await failure(server, "stalls", { signal: during.signal, onPart: () => during.abort() });
  assert.equal(error.code, "cancelled");
  assert.equal(error.usage?.estimated, true);
  await until(() => server.calls[1]?.isAborted === true);
  assert.equal((await failure(server, "speaks", { signal: AbortSignal.abort() })).code, "cancelled");
  assert.equal(server.calls.length, 2);
});

Deno.test("a caller that stops reading ends the connection", async () => {
  await using server = new ModelServer();
  const endpoint = { kind: "openai", baseUrl: server.url, apiKey: undefined, model: "stalls", ...ALLOW } as const;
  for await (const _part of models.step(endpoint, REQUEST, { signal: new AbortController().signal })) break;
  await until(() => server.calls[0]?.isAborted === true);
});

Deno.test("a server that is not there or not allowed is unreachable", async () => {
  const endpoint = { kind: "openai", baseUrl: "http://127.0.0.1:1/v1", apiKey: undefined, model: "m" } as const;
  for (const [allowHosts, isRetryable] of [[["127.0.0.1"], true], [[], false]] as const) {
    const step = models.step({ ...endpoint, allowHosts }, REQUEST, { signal: new AbortController().signal });
    await assert.rejects(step.next(), (error) => {
      assert.ok(error instanceof ModelError);
      assert.deepEqual([error.code, error.isRetryable], ["unreachable", isRetryable]);
      return true;
    });
  }
});

Deno.test("embeddings are one vector for each text, or fail", async () => {
  await using server = new ModelServer();
  const signal = new AbortController().signal;
  const embed = (model: string, texts: readonly string[]) =>
    models.embed({ kind: "openai", baseUrl: server.url, apiKey: "sk-test", model, ...ALLOW }, texts, { signal });
  const texts = Array.from({ length: 100 }, (_, n) => "x".repeat(n + 1));
  for (const model of ["vectors", "base64", "any-order"]) {
    const { vectors, usage } = await embed(model, texts);
    assert.deepEqual(vectors, texts.map(({ length }) => [length, 1, 0.5]), model);
    assert.deepEqual(usage, { inputTokens: 500, cachedTokens: 0, outputTokens: 0, estimated: false }, model);
  }
  for (const model of ["too-few", "no-numbers"]) {
    await assert.rejects(embed(model, ["a", "b"]), (error) => error instanceof ModelError && !/null/.test(`${error}`));
  }
  const anthropic = { kind: "anthropic", baseUrl: server.url, apiKey: "k", model: "m", ...ALLOW } as const;
  await assert.rejects(models.embed(anthropic, ["a"], { signal }), { code: "request_refused" });
});
