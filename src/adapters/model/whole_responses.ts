// Responses of servers of Anthropic's and Google's protocols that ignore that a stream was wanted: one JSON object, as the events of
// a stream.
import { isObject, objectOf } from "@/core/json.ts";
import type { ModelEndpoint } from "@/ports/model.ts";

type Json = Record<string, unknown>;

/** What is before and after it was bounded apart, as events are. */
const BLANK_LINE = /\n\r*\n/;

/** The same response as a stream of events; also what is none, which then fails. */
export async function streamWhole(kind: ModelEndpoint["kind"], response: Response): Promise<Response> {
  const { ok, status, headers } = response;
  if (!ok || !headers.get("content-type")?.startsWith("application/json")) return response;
  const text = (await response.text()).trim();
  const events = chunksOf(text)?.flatMap((chunk) => kind === "anthropic" ? messageEvents(chunk) : chunk);
  const stream = events?.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("") ?? `${text}\n\n`;
  return new Response(stream, { status, headers });
}

/** `undefined` for what is no JSON: it may be a stream whose type is wrong. Google's protocol also has lists of chunks. */
function chunksOf(text: string): Json[] | undefined {
  if (BLANK_LINE.test(text)) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return (Array.isArray(parsed) ? parsed : [parsed]).filter(isObject);
  } catch {
    return undefined;
  }
}

/** The events of a message of Anthropic's protocol; another object, such as an error, is an event itself. */
function messageEvents(message: Json): Json[] {
  const { id, model, content, stop_reason } = message;
  if (!Array.isArray(content)) return [message];
  const usage = { input_tokens: 0, output_tokens: 0, ...objectOf(message.usage) };
  return [
    { type: "message_start", message: { id, model, usage } },
    ...content.filter(isObject).flatMap(blockEvents),
    { type: "message_delta", delta: { stop_reason }, usage },
    { type: "message_stop" },
  ];
}

function blockEvents(block: Json, index: number): Json[] {
  const [content_block, delta] = partsOf(block);
  return [
    { type: "content_block_start", index, content_block },
    ...delta === undefined ? [] : [{ type: "content_block_delta", index, delta }],
    { type: "content_block_stop", index },
  ];
}

/** How a block begins, and what it then says. */
function partsOf(block: Json): [start: Json, delta?: Json] {
  const { type, text, thinking, id, name, input } = block;
  switch (type) {
    case "text":
      return [{ type, text: "" }, { type: "text_delta", text }];
    case "thinking":
      return [{ type, thinking: "" }, { type: "thinking_delta", thinking }];
    case "tool_use":
      return [{ type, id, name, input: {} }, { type: "input_json_delta", partial_json: JSON.stringify(input ?? {}) }];
    default:
      return [block];
  }
}
