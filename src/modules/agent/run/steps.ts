// What the steps of a run say: the calls of tools among them, and the prompt of the next response.
import { estimateTokens, truncateToTokens } from "@/core/text/tokens.ts";
import type { ModelMessage, ModelTool, ModelToolCall } from "@/ports/model.ts";
import { imagesTokens } from "@/ports/model_images.ts";
import type { StepRow } from "../tables.ts";

const CONTINUE = "Continue your answer exactly where it stopped, without repeating anything.";
/** What separates the parts of a prompt. */
const MESSAGE_TOKENS = 8;
/** Share of the context that a prompt may fill: its tokens are estimated. */
const ESTIMATE_SHARE = 0.9;
/** Left of each result that does not fit: which one it was. */
const RESULT_MIN_TOKENS = 100;
const RESULT_CUT = "… (cut: the context of the model is full)";

/** The tools that a response calls. */
export function callsOf(step: StepRow | undefined): ModelToolCall[] {
  return step?.calls_json === null || step === undefined ? [] : JSON.parse(step.calls_json);
}

/**
 * The first call of the last response that has not ended, with its step if it began. One is cut where the response ended before the
 * arguments did: what there is of them may have a meaning of its own, such as nothing.
 */
export function nextCallOf(
  steps: readonly StepRow[],
): { call: ModelToolCall; begun: StepRow | undefined; isCut: boolean } | undefined {
  const response = steps.findLast(({ kind }) => kind === "model");
  const isWhole = response?.reason === "tool" || response?.reason === "stop";
  return callsOf(response)
    .map((call, at, { length }) => ({
      call,
      begun: steps.find(({ call_id }) => call_id === call.callId),
      isCut: !isWhole && at === length - 1 && !call.input.trimEnd().endsWith("}"),
    }))
    .find(({ begun }) => begun === undefined || begun.ended_at === null);
}

/**
 * The context of the run, then the steps so far, within so many tokens together with the tools: of results that do not fit, the
 * oldest are cut first, as the model has used them already.
 */
export function promptOf(
  context: readonly ModelMessage[],
  steps: readonly StepRow[],
  tools: readonly ModelTool[],
  maxTokens: number,
): ModelMessage[] {
  const replies = repliesOf(steps);
  const texts = [...context, ...replies].map(textOf);
  let excess = [JSON.stringify(tools), ...texts].reduce(
    (sum, text) => sum + estimateTokens(text) + MESSAGE_TOKENS,
    imagesTokens(context) - maxTokens * ESTIMATE_SHARE,
  );
  const fitting = replies.map((reply) => {
    if (excess <= 0 || reply.role !== "tool") return reply;
    const tokens = estimateTokens(reply.result);
    const max = Math.max(RESULT_MIN_TOKENS, tokens - excess);
    const result = tokens > max ? truncateToTokens(reply.result, max, RESULT_CUT) ?? RESULT_CUT : reply.result;
    excess -= tokens - estimateTokens(result);
    return { ...reply, result };
  });
  return [...context, ...fitting];
}

/** All that a model reads of a message. */
function textOf(message: ModelMessage): string {
  if (message.role === "tool") return message.result;
  const calls = message.role === "assistant" ? message.toolCalls ?? [] : [];
  const reasoning = calls.flatMap(({ signature }) => signature?.isReasoning === true ? [signature.text] : []);
  return [message.text, ...calls.map(({ name, input }) => name + input), ...reasoning].join("\n");
}

/** The steps so far as the model sees them. */
function repliesOf(steps: readonly StepRow[]): ModelMessage[] {
  return steps.flatMap((step): ModelMessage[] => {
    if (step.kind === "tool") {
      const call = steps.flatMap(callsOf).find(({ callId }) => callId === step.call_id);
      return [{
        role: "tool",
        callId: step.call_id ?? "",
        toolName: call?.name ?? step.tool ?? "",
        result: step.result ?? "",
      }];
    }
    const calls = callsOf(step);
    const response: ModelMessage = {
      role: "assistant",
      text: step.text ?? "",
      ...calls.length === 0 ? {} : { toolCalls: calls },
    };
    return step.reason === "length" && calls.length === 0 ? [response, { role: "user", text: CONTINUE }] : [response];
  });
}

/** The text of the responses that the next one continues. */
export function textBefore(steps: readonly StepRow[]): string {
  const last = steps.findLastIndex(({ reason }) => reason !== "length");
  return steps.slice(last + 1).map(({ text }) => text ?? "").join("");
}
