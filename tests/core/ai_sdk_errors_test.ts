// What the errors of providers mean.
import assert from "node:assert/strict";
import { modelErrorOf } from "@/adapters/model/ai_sdk_errors.ts";

Deno.test("what providers say of a prompt that is too long is understood, and of nothing else", () => {
  const codeOf = (responseBody: string) => modelErrorOf({ statusCode: 400, responseBody }, undefined, undefined).code;
  const tooLong = [
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    '{"error":{"code":"context_length_exceeded"}}',
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "the request exceeds the available context size, try increasing it",
    "The decoder prompt (length 10000) is longer than the maximum model length of 8192.",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "Your request exceeded model token limit: 8192",
    "Range of input length should be [1, 30720]",
    "litellm.ContextWindowExceededError: litellm.BadRequestError: ...",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097",
  ];
  for (const text of tooLong) assert.equal(codeOf(text), "context_too_long", text);
  const refused = [
    "Invalid schema for function 'search': In context=('properties', 'x'), array schema missing items.",
    "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
    "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
  ];
  for (const text of refused) assert.equal(codeOf(text), "request_refused", text);
  assert.equal(modelErrorOf({ message: tooLong[0], code: 400 }, undefined, undefined).code, "context_too_long");
  assert.equal(modelErrorOf({ message: "Rate limit exceeded", code: 429 }, undefined, undefined).code, "rate_limited");
  assert.equal(modelErrorOf({ statusCode: 413 }, undefined, undefined).code, "context_too_long");
  const google =
    '{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay": "34.07s"}]}}';
  assert.equal(modelErrorOf({ statusCode: 429, responseBody: google }, undefined, undefined).retryAfterMs, 34_070);
});

Deno.test("how long a provider asks to wait is understood in seconds, and as a date by the time of the response", () => {
  const waitOf = (responseHeaders: Record<string, string>) =>
    modelErrorOf({ statusCode: 429, responseHeaders }, undefined, undefined).retryAfterMs;
  const date = "Mon, 30 Nov 2026 12:00:00 GMT";
  assert.equal(waitOf({ "retry-after": "7", date }), 7000);
  assert.equal(waitOf({ "retry-after": "Mon, 30 Nov 2026 12:00:09 GMT", date }), 9000);
  assert.equal(waitOf({ "retry-after": "Mon, 30 Nov 2026 11:00:00 GMT", date }), undefined);
  assert.equal(waitOf({ "retry-after": "Mon, 30 Nov 2026 12:00:09 GMT" }), undefined);
  assert.equal(waitOf({ "retry-after": "soon", date }), undefined);
});

Deno.test("a wrong key is one also where a provider sends the status of a wrong request", () => {
  const codeOf = (responseBody: string) => modelErrorOf({ statusCode: 400, responseBody }, undefined, undefined).code;
  const wrongKey = [
    '{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}',
    '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***1."}',
    '{"error":{"code":400,"message":"API key expired. Please renew the API key."}}',
  ];
  for (const text of wrongKey) assert.equal(codeOf(text), "bad_key", text);
  assert.equal(codeOf('{"error":{"message":"Unknown name \\"api_key\\" at \'tools[0]\'"}}'), "request_refused");
});

Deno.test("a request that never succeeds is not repeated, and its error says why", () => {
  const errorOf = (statusCode: number, body: unknown) => {
    const responseBody = typeof body === "string" ? body : JSON.stringify(body);
    const { code, isRetryable, reply } = modelErrorOf({ statusCode, responseBody }, undefined, "sk-1");
    return [code, isRetryable, reply];
  };
  const quota = { error: { message: "You exceeded your current quota", type: "insufficient_quota" } };
  assert.deepEqual(errorOf(429, quota), ["quota_exceeded", false, undefined]);
  // Google says the same of its limits a minute.
  assert.deepEqual(errorOf(429, { error: { message: quota.error.message } }), ["rate_limited", true, undefined]);
  assert.equal(errorOf(402, "")[0], "quota_exceeded");
  assert.equal(errorOf(400, { error: { message: "Your credit balance is too low to access" } })[0], "quota_exceeded");
  const noTools = "registry.ollama.ai/library/gemma does not support tools";
  assert.deepEqual(errorOf(400, { error: noTools }), ["tools_unsupported", false, noTools]);
  assert.equal(
    errorOf(400, { message: '"auto" tool choice requires --enable-auto-tool-choice' })[0],
    "tools_unsupported",
  );
  assert.equal(errorOf(500, { error: { message: "tools param requires --jinja flag" } })[0], "tools_unsupported");
  // llama.cpp and what is built on it say so with the status of an error of the server.
  const tooLong = [
    "Context size has been exceeded.",
    "input is too large to process. increase the physical batch size",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "Requested tokens (2285) exceed context window of 2048",
  ];
  for (const message of tooLong) {
    assert.deepEqual(errorOf(500, { error: { code: 500, message } }), ["context_too_long", false, undefined]);
  }
  const template = "While executing CallExpression at line 47\nError: Jinja Exception: System message must be first.";
  for (const message of [template, "Conversation roles must alternate user/assistant at row 19, column 27"]) {
    assert.deepEqual(errorOf(500, { error: { code: 500, message } }), ["request_refused", false, message]);
  }
  for (const text of ["Internal server error", "Loading model", "no slot available", "upstream request timeout"]) {
    assert.deepEqual(errorOf(500, { error: { message: text } }).slice(0, 2), ["overloaded", true], text);
  }
  assert.deepEqual(errorOf(403, { error: "Country not supported" }), ["bad_key", false, "Country not supported"]);
  assert.equal(errorOf(401, { error: "Incorrect API key sk-2" })[2], undefined);
  const replies: [number, unknown, string][] = [
    [400, { detail: "temperature must be 1" }, "temperature must be 1"],
    [422, { detail: [{ msg: "too big" }] }, '[{"msg":"too big"}]'],
    [404, "404 page not found sk-1", "404 page not found …"],
    [404, "<html>", "HTTP status 404; is the address complete, such as with `/v1`?"],
    [410, "", "HTTP status 410"],
  ];
  for (const [status, body, reply] of replies) {
    assert.deepEqual(errorOf(status, body), ["request_refused", false, reply]);
  }
});
