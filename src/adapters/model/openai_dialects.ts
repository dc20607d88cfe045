// What servers of OpenAI's protocol do in ways of their own: parameters that they refuse, names of reasons, reasoning that they
// want back.
import { LruMap } from "@/core/lru_map.ts";
import type { ModelStepEnd } from "@/ports/model.ts";
import { NO_TOOLS } from "./ai_sdk_errors.ts";

type Body = Record<string, unknown>;
type Adapt = (body: Body) => Body;
/** What an error about a parameter says, and the request without it; `dropsTools`: not for requests that need them. */
type Adaptation = { refused: RegExp; unless?: RegExp; adapt: Adapt; dropsTools?: boolean };

/** Servers, each with its models, of which something is remembered. */
export const SERVERS_MAX = 1000;
const ADAPTATIONS: readonly Adaptation[] = [
  // Newer models of OpenAI, also those at Azure and behind proxies: the error names what they take instead.
  {
    refused: /max_completion_tokens/,
    adapt: ({ max_tokens, ...body }) =>
      max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens },
  },
  // Usage is estimated then.
  { refused: /stream_options/, adapt: ({ stream_options: _, ...body }) => body },
  // Models that reason take no other temperature than theirs.
  { refused: /temperature/, adapt: ({ temperature: _, ...body }) => body },
  // Without it, the response may still match the schema. A schema that is wrong is an error of the caller.
  {
    refused: /response_format|json_schema|structured output/i,
    unless: /invalid schema/i,
    adapt: ({ response_format: _, ...body }) => body,
  },
  { refused: NO_TOOLS, adapt: ({ tools: _, tool_choice: __, ...body }) => body, dropsTools: true },
];
/** In small letters. Of another one it is not known whether the response is whole. */
const REASONS: Readonly<Record<string, ModelStepEnd["reason"]>> = {
  eos: "stop",
  eos_token: "stop",
  stop_sequence: "stop",
  end_turn: "stop",
  complete: "stop",
  stop: "stop",
  tool_use: "tool",
  max_tokens: "length",
  model_length: "length",
  // Google's, of a language that it does not support.
  language: "filtered",
};

/** A reason that is not one of OpenAI's. */
export function reasonOf(raw: string | undefined): ModelStepEnd["reason"] | undefined {
  return REASONS[raw?.toLowerCase() ?? ""];
}

export class OpenAiDialects {
  readonly #known = new LruMap<string, readonly Adaptation[]>(SERVERS_MAX);
  readonly #omitFirstTag = new LruMap<string, true>(SERVERS_MAX);

  /** Sends a request, and again without a parameter that the server refuses; remembers that for the next one. */
  async send<Result>(server: string, needsTools: boolean, send: (adapt: Adapt) => Promise<Result>): Promise<Result> {
    let applied = this.#known.get(server) ?? [];
    const isPossible = ({ dropsTools = false }: Adaptation): boolean => !(needsTools && dropsTools);
    for (;;) {
      try {
        const fitting = applied.filter(isPossible);
        const result = await send((body) => fitting.reduce((adapted, { adapt }) => adapt(adapted), body));
        this.#known.set(server, applied);
        return result;
      } catch (thrown) {
        const next = ADAPTATIONS.find((one) => !applied.includes(one) && isPossible(one) && isRefused(thrown, one));
        if (next === undefined) throw thrown;
        applied = [...applied, next];
      }
    }
  }

  /** Whether the last response of a server had only the second tag around its reasoning. */
  omitsFirstTag(server: string): boolean {
    return this.#omitFirstTag.get(server) ?? false;
  }

  noteFirstTag(server: string, isOmitted: boolean): void {
    if (isOmitted) this.#omitFirstTag.set(server, true);
    else this.#omitFirstTag.delete(server);
  }
}

function isRefused(thrown: unknown, { refused, unless, dropsTools = false }: Adaptation): boolean {
  const { statusCode = 0, responseBody = "" } = thrown as { statusCode?: number; responseBody?: string };
  // Servers refuse tools with any status.
  return (statusCode === 400 || statusCode === 422 || dropsTools && statusCode >= 400) &&
    refused.test(responseBody) && unless?.test(responseBody) !== true;
}

/**
 * Collects the reasoning that DeepSeek, Kimi and others want back with the results of tools that it led to; others refuse it. They
 * send it in a field of this name.
 */
export class ReturnedReasoning {
  #text = "";

  /** As the provider package takes it. */
  readonly extractor = {
    extractMetadata: () => Promise.resolve(undefined),
    createStreamExtractor: () => ({
      processChunk: (chunk: unknown): void => {
        const { choices } = chunk as { choices?: { delta?: { reasoning_content?: unknown } | null }[] };
        const part = choices?.[0]?.delta?.reasoning_content;
        if (typeof part === "string") this.#text += part;
      },
      buildMetadata: () => undefined,
    }),
  };

  /** All of it, for the first call that follows. */
  take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }
}
