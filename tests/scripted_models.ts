// Models that say what a test scripts, and record what they were asked.
import {
  type ModelEndpoint,
  ModelError,
  type ModelErrorCode,
  type ModelPart,
  type ModelRequest,
  type Models,
  type ModelStepEnd,
  type ModelUsage,
} from "@/ports/model.ts";

/**
 * One response: parts, and how it ends. A function among the parts is awaited, so that a test can do something meanwhile;
 * its signal ends the response.
 */
export type ScriptedStep = {
  parts?: readonly (ModelPart | string | ((signal: AbortSignal) => unknown))[];
  reason?: ModelStepEnd["reason"];
  usage?: Partial<ModelUsage>;
  error?: ModelErrorCode;
  /** What the provider says about the error. */
  reply?: string;
  retryAfterMs?: number;
};

type Call = { endpoint: ModelEndpoint; request: ModelRequest };
type Embed = (text: string, endpoint: ModelEndpoint) => number[] | Promise<number[]>;
type Script = (call: Call & { number: number }) => ScriptedStep | Promise<ScriptedStep>;

const RETRYABLE: ReadonlySet<ModelErrorCode> = new Set([
  "rate_limited",
  "overloaded",
  "unreachable",
  "timed_out",
  "stream_broken",
]);

export class ScriptedModels implements Models {
  readonly calls: Call[] = [];
  readonly embedded: string[][] = [];
  /** Replace it to change what is said. */
  script: Script;
  /** May throw. */
  embedder: Embed;

  constructor(script: Script = () => ({ parts: ["Hello"] }), embedder: Embed = (text) => [text.length, 1]) {
    this.script = script;
    this.embedder = embedder;
  }

  async *step(
    endpoint: ModelEndpoint,
    request: ModelRequest,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<ModelPart, ModelStepEnd> {
    this.calls.push({ endpoint, request });
    const { parts = [], reason, error, reply, retryAfterMs = 1, usage: given } = await this.script({
      endpoint,
      request,
      number: this.calls.length,
    });
    const usage = { inputTokens: 10, cachedTokens: 0, outputTokens: 5, estimated: false, ...given };
    let hasBegun = false;
    const fail = (code: ModelErrorCode): ModelError =>
      new ModelError(code, {
        isRetryable: RETRYABLE.has(code),
        retryAfterMs,
        reply,
        usage: hasBegun ? { ...usage, estimated: true } : undefined,
      });
    for (const part of parts) {
      if (signal.aborted) throw fail("cancelled");
      if (typeof part === "function") {
        await part(signal);
        continue;
      }
      hasBegun = true;
      yield typeof part === "string" ? { kind: "text", text: part } : part;
    }
    if (signal.aborted) throw fail("cancelled");
    if (error !== undefined) throw fail(error);
    const calls = parts.some((part) => typeof part === "object" && part.kind === "tool");
    return { reason: reason ?? (calls ? "tool" : "stop"), usage };
  }

  async embed(endpoint: ModelEndpoint, texts: readonly string[]): ReturnType<Models["embed"]> {
    this.embedded.push([...texts]);
    const inputTokens = texts.reduce((sum, text) => sum + text.length, 0);
    const vectors = await Promise.all(texts.map((text) => this.embedder(text, endpoint)));
    return { vectors, usage: { inputTokens, cachedTokens: 0, outputTokens: 0, estimated: false } };
  }
}
