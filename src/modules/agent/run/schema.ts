// Runs in the API, and what is published of them.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { AgentId } from "../schema.ts";

const INPUT_MAX = 16_000;
const WAIT_MAX_SECONDS = 30;
/** Longest detail of an error. */
export const RUN_ERROR_MAX = 300;

const RUN_STATUSES = [
  "queued",
  "running",
  "waiting_approval",
  "waiting_input",
  "succeeded",
  "failed",
  "cancelled",
  "expired",
] as const;
export const RunStatus = z.enum(RUN_STATUSES).meta({ id: "RunStatus" });
export type RunStatus = z.output<typeof RunStatus>;

const RUN_TRIGGERS = ["mention", "direct", "reply", "command", "schedule", "call"] as const;
export const RunTrigger = z.enum(RUN_TRIGGERS).meta({ id: "RunTrigger" });
export type RunTrigger = z.output<typeof RunTrigger>;

export const RunId = z.string().regex(/^run_[0-9a-f]{32}$/, "expected the id of a run");

const RunError = z.object({
  code: z.string().describe(
    "Such as `budget_exceeded`, `steps_exceeded`, `loop_stopped`, `model_failed` or a code of the API",
  ),
  detail: z.string().describe(
    "What happened, for people. Those who may change the agent also get the words of a model provider that refused the " +
      "request in `run.read`, until a day after the end",
  ),
}).meta({ id: "RunError" });

const RunUsage = z.object({
  inputTokens: z.int().describe("Tokens of all prompts"),
  cachedTokens: z.int().describe("Of the input tokens, those that the provider had cached"),
  outputTokens: z.int().describe("Tokens of all responses"),
  costMicros: z.int().describe("Cost in millionths of the currency of all budgets"),
}).meta({ id: "RunUsage" });

export const Run = z.object({
  id: z.string(),
  agentId: AgentId,
  roomId: RoomId,
  threadId: MessageId.nullable().describe("Thread that it responds in; null: the room itself"),
  trigger: RunTrigger.describe("What started it; `call`: run.create"),
  triggerMessageId: MessageId.nullable().describe("Message that started it"),
  askerIds: z.array(PrincipalId).describe("Principals on whose behalf it runs: it has at most their permissions"),
  scopes: z.array(z.string()).nullable().describe(
    "Scopes that it has at most: those of the token of the message or call that started it. null: every scope",
  ),
  chainDepth: z.int().describe(
    "1 if a person or a schedule started it, one more than that of the run that did otherwise",
  ),
  status: RunStatus,
  attempt: z.int().describe("How often a node began to execute it; continuing after a wait does not count"),
  step: z.int().describe("Number of the current step"),
  text: z.string().describe("Text of the current step so far; deltas continue it"),
  question: z.string().nullable().describe("Question that it waits for a reply to"),
  model: z.string().nullable().describe("Model that responded last"),
  usage: RunUsage,
  outputMessageId: MessageId.nullable().describe(
    "Message with the response; null until then, or if there was nothing to say",
  ),
  error: RunError.nullable().describe(
    "Why it failed, or was cancelled: for the reason that a caller gave (`cancelled`), by a change of its agent, or " +
      "because its question was deleted",
  ),
  createdAt: z.iso.datetime(),
  startedAt: z.iso.datetime().nullable(),
  finishedAt: z.iso.datetime().nullable(),
}).meta({ id: "Run" });
export type Run = z.output<typeof Run>;

const StepStatus = z.enum(["started", "waiting", "succeeded", "failed", "denied", "outcome_unknown"]).meta({
  id: "RunStepStatus",
});
export const RecordedStep = z.object({
  step: z.int().describe("Its number in the run"),
  kind: z.enum(["model", "tool", "external"]).describe(
    "A response of the model, a call of a tool, or a step that an agent outside reported",
  ),
  status: StepStatus.describe(
    "`outcome_unknown`: the gateway stopped during a call of a service outside, which is not repeated",
  ),
  text: z.string().nullable().describe("Text of the response"),
  tool: z.string().nullable().describe("Tool that is called"),
  callId: z.string().nullable().describe("Id of the call"),
  input: z.string().nullable().describe("Arguments of the call as JSON text"),
  result: z.string().nullable().describe("What the tool returned, as the model reads it"),
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime().nullable().describe("When it was complete; null before"),
}).meta({ id: "RecordedStep" });
export type RecordedStep = z.output<typeof RecordedStep>;

export const RunDetail = Run.extend({ steps: z.array(RecordedStep).describe("Completed steps and calls that wait") })
  .meta({ id: "RunDetail" });
export type RunDetail = z.output<typeof RunDetail>;

export const RunCancel = z.strictObject({
  id: RunId,
  reason: z.string().trim().min(1).max(RUN_ERROR_MAX).optional().describe(
    "Why, for those who can see the run: the detail of its `error`",
  ),
});
export type RunCancel = z.output<typeof RunCancel>;

const Wait = z.int().min(0).max(WAIT_MAX_SECONDS).default(0).describe(
  "Seconds to wait for the run to finish or to need a decision or a reply",
);

export const RunCreate = z.strictObject({
  agentId: AgentId.optional().describe("Agent to run; default: the caller, an agent outside that reports its own run"),
  roomId: RoomId,
  threadId: MessageId.optional().describe("Thread to respond in"),
  triggerMessageId: MessageId.optional().describe("Message in the room that the run is about"),
  input: z.string().min(1).max(INPUT_MAX).optional().describe("Instructions in addition to the messages"),
  wait: Wait,
});
export type RunCreate = z.output<typeof RunCreate>;

export const RunList = z.strictObject({
  ...pageInput,
  roomId: RoomId.describe("Room of the runs"),
  agentId: AgentId.optional().describe("Only runs of this agent"),
  status: z.array(RunStatus).max(RUN_STATUSES.length).optional().describe("Only runs with one of these statuses"),
});
export type RunList = z.output<typeof RunList>;

export const RunRead = z.strictObject({ id: RunId, wait: Wait });

export const RunReply = z.strictObject({
  id: RunId,
  text: z.string().min(1).max(INPUT_MAX).describe(
    "Reply to the question of the run; posted in its room if the token has `message.write`. A message of who asked that " +
      "would start a run of the agent in the same thread is a reply as well",
  ),
});

export type RunReply = z.output<typeof RunReply>;

export const EXTERNAL_TEXT_MAX = 64_000;
const ownStep = z.int().min(0).max(1000).describe("Number of the current step, from 0");

export const RunAppend = z.strictObject({
  id: RunId,
  step: ownStep,
  offset: z.int().min(0).max(EXTERNAL_TEXT_MAX).describe(
    "Length of the step's text before this part, in UTF-16 code units",
  ),
  text: z.string().min(1).max(EXTERNAL_TEXT_MAX).describe("Next part of the text"),
});
export type RunAppend = z.output<typeof RunAppend>;

const Outcome = z.enum(["succeeded", "failed"]).meta({ id: "RunOutcome" });

export const RunReport = z.strictObject({
  id: RunId,
  step: ownStep,
  tool: z.string().min(1).max(64).optional().describe("Tool that was called"),
  input: z.string().max(INPUT_MAX).optional().describe("Arguments of the call as JSON text"),
  result: z.string().max(INPUT_MAX).optional().describe("What the tool returned"),
  status: Outcome.default("succeeded").describe("How the step ended"),
});
export type RunReport = z.output<typeof RunReport>;

export const RunFinish = z.strictObject({
  id: RunId,
  text: z.string().max(EXTERNAL_TEXT_MAX).optional().describe(
    "Text of the message, if it is not that of the current step; without text, nothing is posted",
  ),
  status: Outcome.default("succeeded").describe("How the run ends"),
  error: z.strictObject({
    code: z.string().regex(/^[a-z_]{1,64}$/, "expected 1 to 64 characters of a-z _").describe("Code of the failure"),
    detail: z.string().max(RUN_ERROR_MAX).default("").describe("Description of the failure, for people"),
  }).optional().describe("Why it failed"),
});
export type RunFinish = z.output<typeof RunFinish>;

export const RunPosition = z.object({
  step: z.int().describe("Number of the current step"),
  offset: z.int().describe("Length of its text, where the next part continues"),
}).meta({ id: "RunPosition" });
export type RunPosition = z.output<typeof RunPosition>;

/** A run in events: the text is in its message. */
const RunHead = Run.omit({ text: true, question: true }).extend({
  question: z.string().nullable().optional().describe("Question that it waits for a reply to"),
}).meta({ id: "RunEvent" });

export const RUN_EVENTS: readonly EventType[] = eventTypes("run.read", [
  { type: "run.started", summary: "An agent began to work on something", data: z.object({ run: RunHead }) },
  { type: "run.waiting", summary: "A run waits for an approval or a reply", data: z.object({ run: RunHead }) },
  {
    type: "run.finished",
    summary: "A run ended: with a message, without one, with an error, or cancelled",
    data: z.object({ run: RunHead }),
  },
]);

const runId = z.string().describe("Id of the run");
const stepNumber = z.int().describe("Number of the step");

/** Published on `run:<id>` only, and not stored. */
export const RunDelta = z.object({
  runId,
  step: stepNumber,
  offset: z.int().describe("Length of the step's text before this part, in UTF-16 code units"),
  text: z.string().describe("Part of the text"),
});
export const RunStepNotice = z.object({
  runId,
  step: stepNumber,
  kind: z.enum(["model", "tool", "external"]).describe(
    "A response of the model, a call of a tool, or a step of an agent outside",
  ),
  status: StepStatus,
  tool: z.string().nullable().describe("Tool that is called"),
  callId: z.string().nullable().describe("Id of the call"),
  input: Json.optional().describe("Arguments of the call"),
});
export const RunReset = z.object({ runId, step: stepNumber });
