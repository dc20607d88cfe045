// A server of models: the name of the model says how it behaves. OpenAI's protocol, and the streams of Anthropic and Google.
import type { ScriptedStep } from "./scripted_models.ts";
import { pause } from "./wait.ts";

export type ModelCall = {
  path: string;
  model: string;
  // deno-lint-ignore no-explicit-any -- tests look into bodies of every protocol
  body: any;
  headers: Headers;
  /** Whether the client has left before the end. */
  isAborted: boolean;
  /** Aborts when the client has left. */
  signal: AbortSignal;
};

type Send = (data: unknown) => void;
type Behavior = (call: ModelCall, send: Send) => unknown;

/** Usage that the server reports. */
export const USAGE = { input: 120, cached: 100, output: 20 };
/** Signatures with which a model of Google signs its call of a tool. */
export const SIGNATURES: Readonly<Record<string, string>> = {
  "gemini-3-signed": "c2lnbmVk",
  "gemini-3-long": "A".repeat(40_000),
};
/** Reasoning that leads to calls. */
export const REASONING = ["Which ", "city?"];
export const WORDS = ["one ", "two ", "three "];

const problem = (status: number, message: string, headers: Record<string, string> = {}) =>
  Response.json({ error: { message, type: "error" } }, { status, headers });

const hasImage = (body: ModelCall["body"]): boolean => /image_url|inlineData|"image"/.test(JSON.stringify(body));

/** Responses instead of a stream, by model. Their texts hold a key, which must not be passed on. */
const REFUSALS: Readonly<Record<string, (number: number, body: ModelCall["body"]) => Response | undefined>> = {
  "bad-key": () => problem(401, "Incorrect API key sk-SECRET"),
  "busy": () => problem(429, "slow down sk-SECRET", { "retry-after": "7" }),
  "busy-once": (number) => number === 1 ? problem(429, "slow down", { "retry-after-ms": "5" }) : undefined,
  "down": () => new Response("oops sk-SECRET", { status: 500 }),
  "down-once": (number) => number === 1 ? problem(503, "oops", { "retry-after-ms": "5" }) : undefined,
  "too-long": () => problem(400, "This model's maximum context length is 8192 tokens"),
  "refused": () => problem(400, "unsupported parameter"),
  "gpt-5": (_number, body) =>
    "max_tokens" in body
      ? problem(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      )
      : undefined,
  "strict": (_number, body) =>
    "stream_options" in body ? problem(422, "stream_options: extra fields not permitted") : undefined,
  "fixed-temperature": (_number, body) =>
    "temperature" in body
      ? problem(400, "Unsupported value: 'temperature' does not support 0 with this model")
      : undefined,
  "no-schemas": (_number, body) =>
    "response_format" in body ? problem(400, "This response_format type is unavailable now") : undefined,
  "strict-schemas": (_number, body) =>
    "response_format" in body ? problem(400, "Invalid schema for response_format 'response'") : undefined,
  "no-tools": (_number, body) => "tools" in body ? problem(400, "gemma does not support tools") : undefined,
  "no-images": (_number, body) =>
    hasImage(body) ? problem(404, "No endpoints found that support image input") : undefined,
  "few-images": (_number, body) => hasImage(body) ? problem(400, "At most 1 image(s) may be provided") : undefined,
  "redirect": () => new Response(null, { status: 302, headers: { location: "http://127.0.0.1:1/steal" } }),
  "html": () => new Response("<html>gateway error</html>", { headers: { "content-type": "text/html" } }),
};

const delta = (model: string, content: unknown, finish: string | null = null) => ({
  id: "c1",
  object: "chat.completion.chunk",
  created: 1,
  model,
  choices: [{ index: 0, delta: content, finish_reason: finish }],
});
type Reported = { prompt: number; completion: number; cached?: number; reasoning?: number };
const usage = (model: string, reported: Reported) => ({
  ...delta(model, {}),
  choices: [],
  usage: {
    prompt_tokens: reported.prompt,
    completion_tokens: reported.completion,
    total_tokens: reported.prompt + reported.completion + (reported.reasoning ?? 0),
    prompt_tokens_details: { cached_tokens: reported.cached ?? 0 },
  },
});
const REPORTED = { prompt: USAGE.input, completion: USAGE.output, cached: USAGE.cached };

/** What a model streams after the first frame, which has no text. */
const BEHAVIORS: Readonly<Record<string, Behavior>> = {
  "tool": ({ model }, send) => {
    const call = (part: unknown) => send(delta(model, { tool_calls: [part] }));
    call({ index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: "" } });
    for (const part of ['{"ci', 'ty":"', 'Oslo"}']) call({ index: 0, function: { arguments: part } });
    send(delta(model, {}, "tool_calls"));
    send(usage(model, REPORTED));
  },
  "tool-broken": ({ model }, send) => {
    const call = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":' } };
    send(delta(model, { tool_calls: [call] }));
    send(delta(model, {}, "tool_calls"));
  },
  "reasoning-in-text": ({ model }, send) => {
    for (const content of ["<th", "ink>hmm</thi", "nk>\n\nHel", "lo"]) send(delta(model, { content }));
    send(delta(model, {}, "stop"));
  },
  "reasoning-untagged": ({ model }, send) => {
    for (const content of ["Let me ", "see</thi", "nk>\n\nHel", "lo"]) send(delta(model, { content }));
    send(delta(model, {}, "stop"));
  },
  "reasoning": ({ model }, send) => {
    send(delta(model, { reasoning_content: "hmm" }));
    speak(model, send);
  },
  "reasoning-returned": ({ model }, send) => reasonAndCall(model, send, "reasoning_content"),
  "reasoning-kept": ({ model }, send) => reasonAndCall(model, send, "reasoning"),
  "pings": async ({ model }, send) => {
    for (let n = 0; n < 3; n++) {
      send(": ping");
      await pause(1);
    }
    speak(model, send);
  },
  "ends-early": ({ model }, send) => {
    for (const word of WORDS) send(delta(model, { content: word }));
  },
  "empty": () => {},
  "error-frame": ({ model }, send) => {
    send(delta(model, { content: "one " }));
    send({ error: { message: "overloaded sk-SECRET", type: "server_error", code: 529 } });
  },
  "no-json": ({ model }, send) => {
    send(delta(model, { content: "one " }));
    send("data: {not json");
    speak(model, send);
  },
  "stalls": async (call, send) => {
    send(delta(call.model, { content: "one " }));
    while (!call.isAborted) await pause(1);
  },
  "silent": async (call) => {
    while (!call.isAborted) await pause(1);
  },
  "endless": async (call, send) => {
    while (!call.isAborted) {
      send(delta(call.model, { content: "again and again ".repeat(100) }));
      await pause(0);
    }
  },
  "reasoning-apart": ({ model }, send) => speak(model, send, "stop", { ...REPORTED, reasoning: 7 }),
  "no-usage": ({ model }, send) => speak(model, send, "stop", null),
  "lies": ({ model }, send) => speak(model, send, "stop", { prompt: 1e12, completion: -5 }),
  "lies-nothing": ({ model }, send) => speak(model, send, "stop", { prompt: 0, completion: 0 }),
  "repeats": ({ model }, send) => {
    speak(model, send);
    speak(model, send);
  },
  "length": ({ model }, send) => speak(model, send, "length"),
  "filtered": ({ model }, send) => speak(model, send, "content_filter"),
  "eos": ({ model }, send) => speak(model, send, "eos"),
  "model-length": ({ model }, send) => speak(model, send, "model_length"),
  "unknown-reason": ({ model }, send) => speak(model, send, "surprise"),
};

function speak(model: string, send: Send, reason = "stop", reported: typeof REPORTED | null | object = REPORTED): void {
  for (const word of WORDS) send(delta(model, { content: word }));
  send(delta(model, {}, reason));
  if (reported !== null) send(usage(model, reported as typeof REPORTED));
}

function reasonAndCall(model: string, send: Send, field: string): void {
  for (const part of REASONING) send(delta(model, { [field]: part }));
  for (const index of [0, 1]) {
    const called = { index, id: `call_${index}`, type: "function", function: { name: "weather", arguments: "{}" } };
    send(delta(model, { tool_calls: [called] }));
  }
  send(delta(model, {}, "tool_calls"));
}

async function recite({ parts = [], reason }: ScriptedStep, { model, signal }: ModelCall, send: Send): Promise<void> {
  let calls = 0;
  for (const part of parts) {
    if (typeof part === "function") await part(signal);
    else if (typeof part === "string") send(delta(model, { content: part }));
    else if (part.kind === "reasoning") send(delta(model, { reasoning_content: part.text }));
    else if (part.kind === "tool") {
      const { callId: id, name, input } = part;
      const called = { index: calls++, id, type: "function", function: { name, arguments: input } };
      send(delta(model, { tool_calls: [called] }));
    }
  }
  send(delta(model, {}, reason ?? (calls > 0 ? "tool_calls" : "stop")));
  send(usage(model, REPORTED));
}

/** Streams of the other protocols. */
const anthropic: Behavior = ({ model }, send) => {
  const event = (type: string, data: object) => send(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}`);
  const input = { input_tokens: USAGE.input - USAGE.cached, cache_read_input_tokens: USAGE.cached };
  const message = { id: "m", type: "message", role: "assistant", model, content: [], stop_reason: null };
  event("message_start", { message: { ...message, usage: { ...input, output_tokens: 1 } } });
  event("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
  for (const text of WORDS) event("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
  event("content_block_stop", { index: 0 });
  event("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: USAGE.output } });
  event("message_stop", {});
};
const google: Behavior = ({ model }, send) => {
  const called = { functionCall: { name: "weather", args: { city: "Oslo" } }, thoughtSignature: SIGNATURES[model] };
  if (model in SIGNATURES) send({ candidates: [{ content: { role: "model", parts: [called] } }] });
  for (const text of WORDS) send({ candidates: [{ content: { role: "model", parts: [{ text }] } }] });
  send({
    candidates: [{ content: { role: "model", parts: [] }, finishReason: "STOP" }],
    usageMetadata: {
      promptTokenCount: USAGE.input,
      cachedContentTokenCount: USAGE.cached,
      candidatesTokenCount: USAGE.output,
      totalTokenCount: USAGE.input + USAGE.output,
    },
  });
};

/** What a test says, whatever the name of the model. */
export type ModelScript = (call: ModelCall) => ScriptedStep | Promise<ScriptedStep>;

export class ModelServer {
  readonly calls: ModelCall[] = [];
  readonly #server: Deno.HttpServer;
  readonly #behaving = new Set<Promise<unknown>>();
  readonly #script: ModelScript | undefined;

  constructor(script?: ModelScript, port = 0) {
    this.#script = script;
    this.#server = Deno.serve({ port, hostname: "127.0.0.1", onListen() {} }, (request) => this.#answer(request));
  }

  get port(): number {
    return (this.#server.addr as Deno.NetAddr).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    // A client that has left is noticed a moment later.
    await Promise.all(this.#behaving);
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const body = await request.json();
    const model: string = body.model ?? /models\/([^:]+)/.exec(path)?.[1] ?? "";
    const { headers, signal } = request;
    const call: ModelCall = { path, model, body, headers, isAborted: false, signal };
    signal.addEventListener("abort", () => call.isAborted = true);
    this.calls.push(call);
    if (path.endsWith("/embeddings")) return embeddings(call);
    const refusal = REFUSALS[model]?.(this.calls.filter((other) => other.model === model).length, body);
    if (refusal !== undefined) return refusal;
    if (path.endsWith("/messages")) return streamOf(call, anthropic);
    if (path.includes(":streamGenerateContent")) return streamOf(call, google);
    // A script that throws is an error of the test: the response has status 500.
    const said = await this.#script?.(call);
    return streamOf(call, async (_call, send) => {
      send(delta(model, { role: "assistant", content: "" }));
      if (said !== undefined) await recite(said, call, send);
      else await this.#behave(BEHAVIORS[model] ?? (() => speak(model, send)), call, send);
      if (!["ends-early", "empty"].includes(model)) send("data: [DONE]");
    });
  }

  async #behave(behavior: Behavior, call: ModelCall, send: Send): Promise<void> {
    const behaving = Promise.resolve(behavior(call, send));
    this.#behaving.add(behaving);
    await behaving.finally(() => this.#behaving.delete(behaving));
  }
}

function streamOf(call: ModelCall, behavior: Behavior): Response {
  const encoder = new TextEncoder();
  return new Response(
    new ReadableStream({
      async start(stream) {
        const send: Send = (data) => {
          const frame = typeof data === "string" ? data : `data: ${JSON.stringify(data)}`;
          if (!call.isAborted) stream.enqueue(encoder.encode(`${frame}\n\n`));
        };
        try {
          await behavior(call, send);
          stream.close();
        } catch {
          // The client has left.
        }
      },
      cancel() {
        call.isAborted = true;
      },
    }),
    { headers: { "content-type": "text/event-stream" } },
  );
}

function embeddings({ model, body }: ModelCall): Response {
  const texts: string[] = [body.input].flat();
  const vectorOf = (text: string): unknown[] => model === "no-numbers" ? [null, 1] : [text.length, 1, 0.5];
  const encode = (vector: unknown): unknown =>
    model === "base64" ? new Uint8Array(new Float32Array(vector as number[]).buffer).toBase64() : vector;
  const data = texts.map((text, index) => ({ object: "embedding", index, embedding: encode(vectorOf(text)) }));
  if (model === "any-order") data.reverse();
  return Response.json({
    object: "list",
    model,
    data: model === "too-few" ? data.slice(1) : data,
    usage: { prompt_tokens: texts.length * 5, total_tokens: texts.length * 5 },
  });
}
