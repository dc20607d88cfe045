// What the context of a model is assembled from, and how it is returned.
import { z } from "@zod/zod";
import { JsonObject } from "@/core/json.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { MessageFile, MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const BUDGET = { min: 256, max: 32_000, default: 4000 } as const;
const INSTRUCTIONS_MAX = 32_000;
const TOOLS_MAX = 32;
const AUDIENCE_MAX = 50;
const QUERY_MAX = 4000;
const TOOL_MAX = 8000;
/** Instructions, tools and a query at their longest. */
export const BODY_MAX_BYTES = 1024 ** 2;

/** In the order in which they are read. */
export const SECTIONS = ["instructions", "tools", "pinned", "thread", "room", "memory", "search"] as const;
export type SectionName = typeof SECTIONS[number];
/** What stays the same from call to call comes first, where a provider caches it. */
export const PREFIX_SECTIONS: ReadonlySet<SectionName> = new Set(["instructions", "tools", "pinned"]);
const OPTIONAL_SECTIONS = ["pinned", "thread", "room", "memory", "search"] as const;

const Section = z.enum(SECTIONS).meta({ id: "ContextSection" });
const Role = z.enum(["system", "user", "assistant"]).meta({ id: "ContextRole" });

const Tool = z.strictObject({
  name: z.string().min(1).max(64).describe("Name by which the model calls it"),
  description: z.string().max(2000).describe("What it does"),
  inputSchema: JsonObject.describe("JSON Schema of its input"),
}).refine((tool) => JSON.stringify(tool).length <= TOOL_MAX, `expected at most ${TOOL_MAX} characters of JSON`)
  .meta({ id: "ContextTool" });

export const ContextAssemble = z.strictObject({
  roomId: RoomId.optional().describe("Room of the conversation"),
  threadId: MessageId.optional().describe("Root message of the thread of the conversation; requires `roomId`"),
  agentId: PrincipalRef.optional()
    .describe(
      "Agent that the context is for: its messages are those of the assistant. Default: the caller, if it is an agent",
    ),
  query: z.string().trim().min(1).max(QUERY_MAX).optional()
    .describe("Query for facts and resources; default: the newest message of others in the conversation"),
  budgetTokens: z.int().min(BUDGET.min).max(BUDGET.max).default(BUDGET.default).describe(
    "Tokens of all items together, estimated rather too high",
  ),
  instructions: z.string().max(INSTRUCTIONS_MAX).optional().describe("Instructions for the model; they come first"),
  tools: z.array(Tool).max(TOOLS_MAX).optional().describe("Tools of the model, whose definitions count as tokens, too"),
  audienceIds: z.array(PrincipalId).max(AUDIENCE_MAX).optional().describe(
    "Principals that will read the response of the model: only what all of them may read is returned. For an agent, the members of " +
      "the room are always among them",
  ),
  include: z.array(z.enum(OPTIONAL_SECTIONS)).max(OPTIONAL_SECTIONS.length).default([...OPTIONAL_SECTIONS])
    .describe("Parts besides instructions and tools; default all"),
}).superRefine(({ threadId, roomId }, context) => {
  if (threadId !== undefined && roomId === undefined) {
    context.addIssue({ code: "custom", path: ["threadId"], message: "requires roomId" });
  }
});
export type ContextAssemble = z.output<typeof ContextAssemble>;

const Source = z.object({
  type: z.string().describe("Kind of resource: `room`, `message`, `memory`, `document` and so on"),
  id: z.string().describe("Id of the resource"),
  roomId: RoomId.nullable().describe("Its room; null if it is in none"),
  at: z.iso.datetime().nullable().describe("When it was written or recorded; null if unknown"),
}).meta({ id: "ContextSource" });

const Item = z.object({
  section: Section,
  role: Role.describe("Role of the message for the model"),
  text: z.string().describe(
    "Text for the model; facts and search results are labelled as background, with date and source",
  ),
  tokens: z.int().describe("Estimated tokens, with those that separate messages"),
  truncated: z.boolean().describe("Whether only the beginning of the text fits"),
  score: z.number().nullable().describe("Relevance, if it was searched for"),
  reason: z.string().describe("Why it is part of the context"),
  files: z.array(MessageFile).optional()
    .describe(
      "Files of the message, which its text only names; absent without any. `file.content` has what is in them",
    ),
  source: Source.nullable().describe("Where it is from; null for instructions and tools"),
}).meta({ id: "ContextItem" });
export type ContextItem = z.output<typeof Item>;

/** Named fields, since generated clients have no type for a record whose names are known. */
const Omitted = z.object(
  Object.fromEntries(SECTIONS.map((name) => [name, z.int().describe(`Those of the section \`${name}\``)])) as Record<
    SectionName,
    z.ZodInt
  >,
);

export const Context = z.object({
  items: z.array(Item).describe("Items in the order for the model"),
  prefixItemCount: z.int().describe("How many of the first items are the stable prefix, for prompt caching"),
  usedTokens: z.int().describe("Tokens of all items"),
  budgetTokens: z.int().describe("Tokens that they may have"),
  omitted: Omitted.describe("How many items of each section did not fit"),
  degraded: z.boolean().describe("Whether a search could not be completed"),
}).meta({ id: "Context" });
export type Context = z.output<typeof Context>;
