// Agents in the API: configuration and events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";
import { TimeZoneInput } from "@/core/time/time_input.ts";
import { DisplayName, Handle, PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const TOOLS_MAX = 32;
export const STEPS_MAX = 25;
export const OUTPUT_TOKENS_MAX = 4000;
const INSTRUCTIONS_MAX = 32_768;

export const AgentId = PrincipalId.describe("Id of the agent, which is that of its principal");

const AGENT_TRIGGERS = ["mention", "direct", "reply", "command"] as const;
export const AgentTrigger = z.enum(AGENT_TRIGGERS).meta({ id: "AgentTrigger" });
export const ToolName = z.string().regex(
  /^([a-z_]{1,40}\.)?([a-z0-9_-]{1,64}|\*)$/,
  "expected a name such as task.create or task.*",
);
const ModelId = z.string().regex(/^[\w./:@-]{1,100}$/, "expected 1 to 100 characters of A-Z a-z 0-9 _ . / : @ -");

export const AgentSchedule = z.strictObject({
  rrule: z.string().min(1).max(500).describe(
    "Recurrence rule of RFC 5545 without an end, such as `FREQ=WEEKLY;BYDAY=MO`; at most hourly",
  ),
  startAt: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d$/, "expected a local time such as 2026-03-02T09:00").describe(
    "Local time of the first run, from which the rule counts",
  ),
  timeZone: TimeZoneInput.describe("IANA time zone of the schedule"),
  roomId: RoomId.describe("Room of the runs; the agent must be a member"),
  input: z.string().min(1).max(4000).describe("What to do at each time"),
}).meta({ id: "AgentSchedule" });
export type AgentSchedule = z.output<typeof AgentSchedule>;

export const MemoryScope = z.enum(["room", "principal", "agent", "tenant"]);

export const AgentSettings = z.strictObject({
  model: ModelId.nullable().default(null).describe("Id of the model; null: the default of `model.list`"),
  instructions: z.string().max(INSTRUCTIONS_MAX).default("").describe(
    "What the agent is and how it works, at most 32 KiB; visible to its owner and admins only",
  ),
  tools: z.array(ToolName).max(TOOLS_MAX).default([]).describe(
    "Operations that it may call, by name such as `task.create` or all of a kind such as `task.*`; and other tools, such " +
      "as `wiki.search` or `wiki.*` of an MCP server `wiki`. A name that is added must be that of a tool",
  ),
  askFirst: z.array(ToolName).max(TOOLS_MAX).default([]).describe(
    "Those of its tools that need an approval for each call. Deleting always does",
  ),
  memoryScopes: z.array(MemoryScope).max(4).default(["room", "principal", "agent"]).describe("Whose facts it may use"),
  triggers: z.array(AgentTrigger).max(AGENT_TRIGGERS.length).default([...AGENT_TRIGGERS]).describe(
    "What starts a run: a mention, a message in a direct room, a reply to the agent, a message that begins with /handle",
  ),
  schedule: AgentSchedule.nullable().default(null).describe(
    "Starts runs by a schedule, on behalf of the principal that set it or last changed what the agent does, within the " +
      "scopes of their tokens; null: none",
  ),
  maxSteps: z.int().min(1).max(STEPS_MAX).default(STEPS_MAX).describe("Responses of the model in one run"),
  maxOutputTokens: z.int().min(1).max(OUTPUT_TOKENS_MAX).default(OUTPUT_TOKENS_MAX).describe(
    "Maximum length of a response of the model, in tokens; longer text takes several",
  ),
  tokensPerDay: z.int().min(0).max(1_000_000_000).nullable().default(null).describe(
    "Tokens that its runs may use on one day (UTC), besides the budgets of `budget.list`; null: no such limit",
  ),
  paused: z.boolean().default(false).describe(
    "Whether it starts no runs; pausing cancels those that have not finished",
  ),
});
export type AgentSettings = z.output<typeof AgentSettings>;

export const Agent = z.object({
  id: AgentId,
  handle: z.string().nullable().describe("Unique within the tenant; used for mentions as `@handle`. null: `@id`"),
  displayName: z.string().describe("Name of the agent"),
  ownerId: PrincipalId.nullable().describe("Owner: the agent never has more permissions"),
  model: z.string().nullable().describe("Id of the model; null: the default of `model.list`"),
  instructions: z.string().nullable().describe("null for callers that may not change the agent"),
  tools: z.array(z.string()).describe("Operations and other tools that it may call"),
  askFirst: z.array(z.string()).describe("Tools that need an approval for each call"),
  memoryScopes: z.array(z.string()).describe("Whose facts it may use"),
  triggers: z.array(AgentTrigger).describe("What starts a run"),
  schedule: AgentSchedule.nullable().describe(
    "When it starts runs by itself; null also for callers that may not change it",
  ),
  maxSteps: z.int().describe("Responses of the model in one run"),
  maxOutputTokens: z.int().describe("Longest response of the model, in tokens"),
  tokensPerDay: z.int().nullable().describe("Tokens that its runs may use on one day (UTC)"),
  paused: z.boolean().describe("Whether it starts no runs"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Agent" });
export type Agent = z.output<typeof Agent>;

export const AgentRef = z.strictObject({ id: AgentId });

export const AgentCreate = z.strictObject({
  handle: Handle.optional().describe("Handle for mentions. Default: a free one like the display name"),
  displayName: DisplayName.describe("Name of the agent"),
  ownerId: PrincipalRef.optional().describe("Owner of the agent; others than the caller need the tenant role admin"),
  ...AgentSettings.shape,
});
export type AgentCreate = z.output<typeof AgentCreate>;

export const AgentUpdate = z.strictObject({
  id: AgentId,
  handle: Handle.nullable().optional(),
  displayName: DisplayName.optional().describe("Name of the agent"),
  ...patchSchema(AgentSettings).shape,
  version: BaseVersion,
});
export type AgentUpdate = z.output<typeof AgentUpdate>;

export const AgentList = z.strictObject({
  ...pageInput,
  ownerId: PrincipalRef.optional().describe("Only agents of this owner"),
});
export type AgentList = z.output<typeof AgentList>;

export const AGENT_EVENTS: readonly EventType[] = eventTypes("agent.read", [{
  type: "agent.updated",
  summary: "The configuration of an agent changed, or it was deleted",
  streams: ["principal"],
  data: z.object({
    agentId: AgentId,
    version: z.int().nullable().describe("New version; null if it was deleted"),
    paused: z.boolean().describe("Whether it starts no runs"),
  }),
}]);
