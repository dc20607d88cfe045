// Facts in the API, and their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { BaseVersion } from "@/core/patch.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const TEXT_MAX = 4000;
export const SOURCES_MAX = 10;
export const SUBJECTS_MAX = 20;
export const FACTS_PER_SCOPE_MAX = 10_000;
export const FACTS_PER_OWNER_MAX = 20_000;
/** Facts with one message as a source: so many may be erased with it. */
export const FACTS_PER_MESSAGE_MAX = 100;
/** Versions of a fact in its history; older ones are deleted. */
export const VERSIONS_MAX = 50;
const SEARCH_MAX = 50;
const QUERY_MAX = 2000;

export const SCOPE_TYPES = ["room", "principal", "agent", "tenant"] as const;
export type ScopeType = typeof SCOPE_TYPES[number];
export const KINDS = ["fact", "preference", "decision", "summary", "block"] as const;
const STATUSES = ["proposed", "active", "superseded", "forgotten"] as const;

const ScopeTypeField = z.enum(SCOPE_TYPES).meta({ id: "MemoryScopeType" });
const Kind = z.enum(KINDS).meta({ id: "MemoryKind" }).describe("What sort of fact it is; `block` is for longer texts");
const Status = z.enum(STATUSES).meta({ id: "MemoryStatus" }).describe(
  "`proposed`: by an agent or a service, to be activated by a person; `superseded`: replaced by a newer fact; " +
    "`forgotten`: erased, only its id is left",
);

export const MemoryId = z.string().regex(/^mem_[A-Za-z0-9]{1,60}$/, "expected the id of a fact");

const Text = z.string().trim().min(1).max(TEXT_MAX);

const NewScope = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("room").describe("Facts of a room"), id: RoomId }).meta({ id: "MemoryScopeRoom" }),
  z.strictObject({ type: z.literal("principal").describe("Facts of a principal"), id: PrincipalRef.default("me") })
    .meta({ id: "MemoryScopePrincipal" }),
  z.strictObject({ type: z.literal("agent").describe("Facts of an agent"), id: PrincipalRef.default("me") }).meta({
    id: "MemoryScopeAgent",
  }),
  z.strictObject({ type: z.literal("tenant").describe("Facts of the whole tenant") }).meta({ id: "MemoryScopeTenant" }),
]).describe(
  "Readers of the fact: members of the room, the principal alone, the agent and its owner, or all members of the " +
    "tenant. `me` is the caller",
).meta({ id: "MemoryScopeInput" });
export type NewScope = z.output<typeof NewScope>;

const Scope = z.object({
  type: ScopeTypeField,
  id: z.string().describe("Id of the room, principal, agent or tenant"),
}).meta({ id: "MemoryScope" });

const Source = z.object({
  roomId: RoomId,
  seq: z.int().describe("Position of the message in its room's stream"),
  messageId: MessageId.describe("The message"),
}).meta({ id: "MemorySource" });

const Subjects = z.array(PrincipalId).max(SUBJECTS_MAX).describe("Principals that the fact is about");
const Confidence = z.number().min(0).max(1).describe("How certain the fact is, from 0 to 1");
const ValidFrom = TimeInput.nullable().describe("Since when it is true; not recalled before. null: always");
const ValidTo = TimeInput.nullable().describe(
  "Until when it is true; not recalled afterwards, but still listed. null: open",
);
const ExpiresAt = TimeInput.nullable().describe("When the fact is erased; null: never");
const Pinned = z.boolean().describe("Whether it is part of every context of its scope");

export const Memory = z.object({
  id: MemoryId,
  scope: Scope,
  kind: Kind,
  text: z.string().nullable().describe("What is known; null once forgotten"),
  subjectIds: Subjects,
  sources: z.array(Source).describe("Messages that it is from: those that the caller may read"),
  confidence: Confidence,
  validFrom: ValidFrom,
  validTo: ValidTo,
  expiresAt: ExpiresAt,
  pinned: Pinned,
  status: Status,
  supersedes: MemoryId.nullable().describe("The older fact that it replaces"),
  supersededBy: MemoryId.nullable().describe("The newer fact that replaced it"),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Memory" });
export type Memory = z.output<typeof Memory>;
export const Memories = pageSchema(Memory);

export const MemoryCreate = z.strictObject({
  scope: NewScope,
  text: Text.describe("What is known, as a sentence that needs no context"),
  kind: Kind.default("fact"),
  subjectIds: Subjects.default([]),
  sourceMessageIds: z.array(MessageId).max(SOURCES_MAX).default([]).describe(
    "Messages that the fact is from, each of which is enough for it; of a room's fact, messages of that room. Readers " +
      "must be able to read one of them, and with the last of them the fact is erased. Required for agents",
  ),
  confidence: Confidence.default(1),
  validFrom: ValidFrom.default(null),
  validTo: ValidTo.default(null),
  expiresAt: ExpiresAt.default(null),
  pinned: Pinned.default(false),
  supersedes: MemoryId.optional().describe("An active fact of the same scope that this one replaces"),
});
export type MemoryCreate = z.output<typeof MemoryCreate>;

export const MemoryExtract = z.strictObject({
  roomId: RoomId,
  fromSeq: z.int().min(1).describe("Position of the first message to read"),
  toSeq: z.int().min(1).optional().describe("Position of the last message to read. Default: the newest one"),
  model: z.string().min(1).max(200).optional().describe("Id of the model; default the first one of `model.list`"),
});
export type MemoryExtract = z.output<typeof MemoryExtract>;

export const MemoryExtraction = z.object({
  items: z.array(Memory).describe("The proposals that were added"),
  skippedCount: z.int().describe(
    "Facts that were not added: the room has them already, or they name none of the messages",
  ),
  nextSeq: z.int().nullable().describe("Where to continue, if not all messages were read at once; null: all were read"),
  model: z.string().nullable().describe("Model that was used; null if there was nothing to read"),
  costMicros: z.int().describe("Millionths of the currency of prices; 0 without prices"),
}).meta({ id: "MemoryExtraction" });
export type MemoryExtraction = z.output<typeof MemoryExtraction>;

export const MemoryUpdate = z.strictObject({
  id: MemoryId,
  text: Text.optional().describe("Corrects the text; the earlier one stays in the history"),
  kind: Kind.optional(),
  subjectIds: Subjects.optional(),
  confidence: Confidence.optional(),
  validFrom: ValidFrom.optional(),
  validTo: ValidTo.optional(),
  expiresAt: ExpiresAt.optional(),
  pinned: Pinned.optional(),
  status: z.literal("active").optional().describe("Activates a proposed fact; only people may do this"),
  version: BaseVersion,
});
export type MemoryUpdate = z.output<typeof MemoryUpdate>;

export const MemoryRef = z.strictObject({ id: MemoryId });

const filters = {
  kind: z.array(Kind).max(KINDS.length).optional().describe("Any of these"),
  status: z.array(Status).max(STATUSES.length).default(["active"]).describe("Any of these"),
};

export const MemoryList = z.strictObject({
  ...pageInput,
  ...filters,
  scopeType: ScopeTypeField.optional().describe("Only facts of such scopes; default all that the caller may read"),
  scopeId: z.union([RoomId, PrincipalRef]).optional()
    .describe("Only facts of this room, principal or agent; requires `scopeType`"),
  subjectId: PrincipalRef.optional().describe("Only facts about this principal; `me` is the caller"),
  pinned: z.boolean().optional().describe("Only pinned facts, or only others"),
  q: z.string().trim().min(1).max(100).optional().describe("Part of the text"),
}).superRefine(({ scopeId, scopeType }, context) => {
  if (scopeId !== undefined && (scopeType === undefined || scopeType === "tenant")) {
    context.addIssue({ code: "custom", path: ["scopeId"], message: "requires the scopeType room, principal or agent" });
  }
});
export type MemoryList = z.output<typeof MemoryList>;

export const MemoryMine = z.strictObject({ ...pageInput, ...filters });
export type MemoryMine = z.output<typeof MemoryMine>;

export const MemoryHistory = z.strictObject({ ...pageInput, id: MemoryId });
export type MemoryHistory = z.output<typeof MemoryHistory>;

export const MemoryVersion = z.object({
  version: z.int(),
  text: z.string().describe("Text of this version"),
  status: Status,
  changedBy: PrincipalId.describe("Author of this version"),
  at: z.iso.datetime(),
}).meta({ id: "MemoryVersion" });
export type MemoryVersion = z.output<typeof MemoryVersion>;
export const MemoryVersions = pageSchema(MemoryVersion);

export const MemorySearch = z.strictObject({
  query: z.string().trim().min(1).max(QUERY_MAX).describe("A question in plain words"),
  scopeTypes: z.array(ScopeTypeField).min(1).max(SCOPE_TYPES.length).optional().describe("Only facts of such scopes"),
  kinds: z.array(Kind).min(1).max(KINDS.length).optional().describe("Any of these"),
  at: TimeInput.optional().describe("Facts that were valid at this time; default now"),
  limit: z.int().min(1).max(SEARCH_MAX).default(10).describe(`Maximum number of facts, 1 to ${SEARCH_MAX}`),
});
export type MemorySearch = z.output<typeof MemorySearch>;

export const MemoryMatches = z.object({
  items: z.array(
    z.object({
      memory: Memory,
      score: z.number().describe("Relevance; comparable within one response only"),
      reason: z.string().describe("Why it was found"),
    }).meta({ id: "MemoryMatch" }),
  ).describe("The best matches first, without duplicates; superseded and proposed facts are never among them"),
  degraded: z.boolean().describe("Whether the search could not be completed"),
}).meta({ id: "MemoryMatches" });
export type MemoryMatches = z.output<typeof MemoryMatches>;

const changed = z.object({ memoryId: MemoryId, scope: Scope, status: Status, version: z.int() });

/** Events of facts, without their text: on the room's stream, or on that of the principal, of the agent and its owner. */
export const MEMORY_EVENTS: readonly EventType[] = eventTypes("memory.read", [
  { type: "memory.created", streams: ["room", "principal"], summary: "A fact was created or proposed", data: changed },
  {
    type: "memory.updated",
    streams: ["room", "principal"],
    summary: "A fact was changed, or a proposed one was activated",
    data: changed,
  },
  {
    type: "memory.superseded",
    streams: ["room", "principal"],
    summary: "A fact was replaced by a newer one",
    data: changed.extend({ supersededBy: MemoryId }),
  },
  {
    type: "memory.forgotten",
    streams: ["room", "principal"],
    summary: "A fact was erased: by a person, with its last source, or because it expired",
    data: changed,
  },
]);
