// A request as the provider packages take it.
import type { AnthropicProvider } from "@ai-sdk/anthropic";
import type { ModelEndpoint, ModelImage, ModelMessage, ModelRequest, ModelToolCall } from "@/ports/model.ts";
import { partsOf } from "@/ports/model_images.ts";

type LanguageModel = ReturnType<AnthropicProvider["languageModel"]>;
type CallOptions = Parameters<LanguageModel["doStream"]>[0];
type UserContent = Extract<CallOptions["prompt"][number], { role: "user" }>["content"];
type JsonSchema = Extract<NonNullable<CallOptions["responseFormat"]>, { type: "json" }>["schema"];

/** What a provider is asked. */
export function callOptionsOf(endpoint: ModelEndpoint, request: ModelRequest, abortSignal: AbortSignal): CallOptions {
  const { messages, tools = [], maxOutputTokens, temperature, responseSchema } = request;
  return {
    prompt: messages.map((message) => promptMessageOf(endpoint, message)),
    maxOutputTokens,
    ...(temperature === undefined ? {} : { temperature }),
    ...(responseSchema === undefined
      ? {}
      : { responseFormat: { type: "json", name: "response", schema: responseSchema as JsonSchema } }),
    ...(tools.length === 0 ? {} : {
      tools: tools.map(({ name, description, inputSchema }) => ({
        type: "function",
        name,
        description,
        inputSchema: inputSchema as NonNullable<JsonSchema>,
      })),
      toolChoice: { type: "auto" },
    }),
    abortSignal,
  };
}

function promptMessageOf(endpoint: ModelEndpoint, message: ModelMessage): CallOptions["prompt"][number] {
  switch (message.role) {
    case "system":
      return {
        role: "system",
        content: message.text,
        ...(message.isCacheable ? { providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } } : {}),
      };
    case "user":
      return { role: "user", content: userContentOf(message.text, message.images) };
    case "assistant":
      return {
        role: "assistant",
        content: [
          ...reasoningOf(endpoint, message.toolCalls).map((text) => ({ type: "reasoning" as const, text })),
          ...(message.text === "" ? [] : [{ type: "text" as const, text: message.text }]),
          ...(message.toolCalls ?? []).map(({ callId, name, input, signature }) => ({
            type: "tool-call" as const,
            toolCallId: callId,
            toolName: name,
            input: argumentsOf(input),
            ...(endpoint.kind === "google" && signature?.model === endpoint.model
              ? { providerOptions: { google: { thoughtSignature: signature.text } } }
              : {}),
          })),
        ],
      };
    case "tool":
      return {
        role: "tool",
        content: [{
          type: "tool-result",
          toolCallId: message.callId,
          toolName: message.toolName,
          output: { type: "text", value: message.result },
        }],
      };
  }
}

function userContentOf(text: string, images: readonly ModelImage[] = []): UserContent {
  if (images.length === 0) return [{ type: "text", text }];
  return partsOf(text, images).map((part) =>
    typeof part === "string"
      ? { type: "text", text: part }
      : { type: "file", mediaType: part.contentType, data: { type: "data", data: part.base64 } }
  );
}

/** What led to the calls, as the model wants it back. */
function reasoningOf({ kind, model }: ModelEndpoint, calls: readonly ModelToolCall[] = []): string[] {
  if (kind !== "openai") return [];
  return calls.flatMap(({ signature }) =>
    signature?.isReasoning === true && signature.model === model ? [signature.text] : []
  );
}

/** Arguments as providers take them back: an object, also where the model wrote none. */
function argumentsOf(input: string): unknown {
  try {
    const parsed: unknown = JSON.parse(input === "" ? "{}" : input);
    return typeof parsed === "object" && parsed !== null ? parsed : { value: parsed };
  } catch {
    return { invalid: input };
  }
}
