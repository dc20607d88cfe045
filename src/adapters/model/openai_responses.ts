// Responses of servers of OpenAI's protocol, as the provider package takes them: it refuses a whole response for a field that it
// does not even use. Their bodies were bounded before, so each event may be parsed.
import { isObject, objectOf } from "@/core/json.ts";
import { StreamBroken } from "./ai_sdk_errors.ts";

type Json = Record<string, unknown>;

const DONE = "[DONE]";
const FLOAT_BYTES = 4;
/** What servers say about an error in a stream, which has no status. */
const STATUSES: readonly (readonly [words: RegExp, status: number])[] = [
  [/rate.?limit|too.?many|quota/i, 429],
  [/overloaded|unavailable|capacity/i, 503],
  [/context|invalid.?request|bad.?request/i, 400],
  [/server.?error|internal/i, 500],
];

/** The same response with a stream of events, also where the server ignores that one was wanted. */
export function normalizeChat(response: Response): Response {
  const { body, status, headers } = response;
  if (body === null || !response.ok) return response;
  if (headers.get("content-type")?.startsWith("text/html")) {
    void body.cancel();
    throw new StreamBroken("The server sent a web page; is the address complete, such as with `/v1`?");
  }
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const events = new ChatEvents();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read();
        const text = done ? events.end() : events.push(decoder.decode(value, { stream: true }));
        if (text !== "") controller.enqueue(encoder.encode(text));
        if (done) return controller.close();
        if (text !== "") return;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  return new Response(stream, { status, headers });
}

/** Reads a stream of server-sent events, or a single JSON object, in pieces; returns events. */
class ChatEvents {
  #rest = "";
  #heldReturn = "";
  #lines: string[] = [];
  /** Whether the response has begun, and whether it has said why it ends. */
  #hasBegun = false;
  #hasReason = false;

  push(piece: string): string {
    const lines = (this.#heldReturn + piece).split(/\r\n|\n|\r(?!$)/);
    const last = lines.pop() ?? "";
    let events = "";
    for (const line of lines) {
      events += this.#readLine(this.#rest + line);
      this.#rest = "";
    }
    // A line feed may follow in the next piece.
    this.#heldReturn = last.endsWith("\r") ? "\r" : "";
    // A long line may have many pieces: each is read once.
    this.#rest += last.slice(0, last.length - this.#heldReturn.length);
    return events;
  }

  /** What no line ends may be whole: part of a JSON object is none. */
  end(): string {
    return this.#readLine(this.#rest.trimEnd()) + this.#readLine("");
  }

  #readLine(line: string): string {
    if (line !== "") {
      this.#lines.push(line);
      return "";
    }
    const lines = this.#lines;
    this.#lines = [];
    return this.#readEvent(lines);
  }

  #readEvent(lines: readonly string[]): string {
    const data = dataOf(lines);
    if (data === undefined) return "";
    if (data === DONE) return this.#complete() + eventOf(DONE);
    const chunk = chunkOf(data);
    if (chunk === undefined) return "";
    if (typeof chunk !== "string") this.#note(chunk);
    const event = eventOf(typeof chunk === "string" ? chunk : JSON.stringify(chunk));
    return isWhole(lines) && typeof chunk !== "string" ? event + this.#complete() : event;
  }

  #note({ choices }: Json): void {
    if (!Array.isArray(choices)) return;
    this.#hasBegun ||= choices.length > 0;
    this.#hasReason ||= choices.some(({ finish_reason: reason }) => typeof reason === "string" && reason !== "");
  }

  /** Some say only that a response has ended, not why. */
  #complete(): string {
    if (this.#hasReason || !this.#hasBegun) return "";
    this.#hasReason = true;
    return eventOf(JSON.stringify({ choices: [{ delta: {}, finish_reason: "stop" }] }));
  }
}

/** Whether an event is a response that the server has not streamed. */
function isWhole([first = ""]: readonly string[]): boolean {
  return first.trimStart().startsWith("{");
}

/** The data of an event; `undefined` for comments and what else says nothing. */
function dataOf(lines: readonly string[]): string | undefined {
  if (isWhole(lines)) return lines.join("\n");
  // llama.cpp has sent errors in a field of that name.
  const fields = lines.map((line) => /^(?:data|error):(.*)$/s.exec(line)?.[1]?.trim() ?? "");
  const data = fields.filter((field) => field !== "").join("\n");
  return data === "" ? undefined : data;
}

/** The chunk that the data is; the data itself if it is no JSON object, and `undefined` for a chunk that says nothing. */
function chunkOf(data: string): Json | string | undefined {
  const parsed = parseObject(data);
  if (parsed === undefined) return data;
  const { choices, error, usage, message } = parsed;
  if (error !== undefined && error !== null) return { error: errorOf(error) };
  if (Array.isArray(choices)) return { choices: choices.filter(isObject).map(choiceOf), usage: usageOf(usage) };
  // vLLM sends errors without one around them.
  if (typeof message === "string") return { error: errorOf(parsed) };
  return isObject(usage) ? { choices: [], usage: usageOf(usage) } : undefined;
}

/** A whole message is one large part of it. */
function choiceOf({ delta, message, finish_reason }: Json): Json {
  const { role: _, tool_calls: calls, ...part } = objectOf(delta ?? message);
  return {
    delta: Array.isArray(calls) ? { ...part, tool_calls: calls.filter(isObject).map(callOf) } : part,
    finish_reason: typeof finish_reason === "string" ? finish_reason : null,
  };
}

/** Some send the arguments as an object. */
function callOf(call: Json): Json {
  const called = objectOf(call.function);
  return isObject(called.arguments)
    ? { ...call, function: { ...called, arguments: JSON.stringify(called.arguments) } }
    : { ...call, function: called };
}

/** The numbers of it. */
function usageOf(usage: unknown): Json | undefined {
  if (!isObject(usage)) return undefined;
  const fields = Object.entries(usage).map(([name, value]) =>
    [name, isObject(value) ? usageOf(value) : value] as const
  );
  return Object.fromEntries(fields.filter(([, value]) => typeof value === "number" || isObject(value)));
}

function errorOf(error: unknown): Json {
  const { message, code, status, type } = isObject(error) ? error : { message: error };
  const number = [code, status].map(Number).find((value) => value >= 300 && value < 600);
  const words = [code, status, type].filter((value) => typeof value === "string").join(" ");
  return {
    message: typeof message === "string" ? message : JSON.stringify(message ?? error),
    code: number ?? STATUSES.find(([pattern]) => pattern.test(words))?.[1],
  };
}

/** The same response with vectors of numbers, in the order of the texts. */
export async function normalizeEmbeddings(response: Response): Promise<Response> {
  const { status, headers } = response;
  if (!response.ok) return response;
  const text = await response.text();
  const { data, usage, error } = parseObject(text) ?? {};
  if (!Array.isArray(data)) {
    // Some say with status 200 that they failed.
    return error === undefined
      ? new Response(text, { status, headers })
      : Response.json({ error: errorOf(error) }, { status: Number(errorOf(error).code ?? 400) });
  }
  const items = data.map((item, at) => ({ embedding: vectorOf(objectOf(item).embedding), index: indexOf(item) ?? at }));
  const { prompt_tokens } = usageOf(usage) ?? {};
  return Response.json({
    data: items.toSorted((one, other) => one.index - other.index),
    usage: prompt_tokens === undefined ? null : { prompt_tokens },
  });
}

function indexOf(item: unknown): number | undefined {
  const { index } = objectOf(item);
  return typeof index === "number" ? index : undefined;
}

/** Some send 32-bit numbers in base64, though asked for others. */
function vectorOf(embedding: unknown): unknown {
  if (typeof embedding !== "string") return embedding;
  try {
    const bytes = Uint8Array.fromBase64(embedding);
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / FLOAT_BYTES }, (_, n) => view.getFloat32(n * FLOAT_BYTES, true));
  } catch {
    return embedding;
  }
}

function parseObject(text: string): Json | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function eventOf(data: string): string {
  return `data: ${data}\n\n`;
}
