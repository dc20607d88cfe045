// Search requests and responses in the API, and the events of search.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalRef } from "@/modules/identity/mod.ts";
import { IncludeSenders, MessageId, MessageType } from "@/modules/message/mod.ts";
import { type Person, RoomId, Senders } from "@/modules/room/mod.ts";
import { DEGRADED_REASONS } from "@/modules/vector/mod.ts";
import type { Searchable } from "@/core/searchable.ts";
import { TimeInput } from "@/core/time/time_input.ts";

const QUERY_MAX = 500;
export const TERMS_MAX = 32;
/** Maximum number of candidates that are ranked by relevance and counted by `totalEstimate`. */
export const RANKED_MAX = 1000;
/** Queries with exclusions read up to this many times as many candidates. */
export const EXCLUDING_ROUNDS_MAX = 5;
const MODES = ["keyword", "semantic", "hybrid"] as const;
const SearchMode = z.enum(MODES).meta({ id: "SearchMode" });
const RequestedMode = z.enum(["auto", ...MODES]).meta({ id: "RequestedSearchMode" });
const REASONS = [...DEGRADED_REASONS, "index_incomplete"] as const;
const DegradedReason = z.enum(REASONS).meta({ id: "SearchDegradedReason" });
/** Values of the filter `has`. */
const MARKS = ["link", "file", "reaction"] as const;
const SearchMark = z.enum(MARKS).meta({ id: "SearchMark" });

const LIST_MAX = 50;

const Query = z.string().trim().min(1).max(QUERY_MAX).describe(
  `At most ${TERMS_MAX} words; \`mode\` says how many of them results contain. Words of three or more letters match anywhere in a word, two ` +
    "letters match the start of a word, and a single letter a whole word. Words in quotes, or joined by punctuation, must " +
    'be adjacent. `-word` and `-"words in quotes"` exclude results; at least one word must not be excluded. Case and ' +
    "diacritics are ignored",
);
const From = z.union([TimeInput, z.iso.date().overwrite((day) => `${day}T00:00:00.000Z`)])
  .describe("Not before this time, or this day (UTC)");
const To = z.union([TimeInput, z.iso.date().overwrite((day) => `${day}T23:59:59.999Z`)])
  .describe("Not after this time, or this day (UTC)");
const list = <Item extends z.ZodType>(item: Item) => z.array(item).min(1).max(LIST_MAX);
const Rooms = list(RoomId).describe("Only in these rooms; rooms the caller cannot read are ignored");
const Principals = list(PrincipalRef);

const sharedFields = {
  mode: RequestedMode.default("auto").describe(
    "keyword: results contain all words. semantic: results are similar in meaning. hybrid: both are combined, words by how many of " +
      "them a result contains, rare words first, so that a question in plain words finds what it asks for. auto: hybrid where the " +
      "tenant has an embedding model, else by words. Without a model, semantic and hybrid search by words and set `degraded`",
  ),
  sort: z.enum(["relevance", "recent"]).default("relevance")
    .describe(`relevance ranks the newest ${RANKED_MAX} matches; recent is not limited`),
  include: IncludeSenders,
  context: z.int().min(0).max(5).default(0).describe("Number of messages before and after each result"),
  limit: z.int().min(1).max(100).default(20).describe("Maximum number of results, 1 to 100"),
  cursor: pageInput.cursor,
};

const conditions = {
  has: list(SearchMark).optional().describe("All of these properties"),
  mentions: Principals.optional().describe(
    "Messages that mention one of these principals, or everybody; `me` is the caller",
  ),
  pinned: z.literal(true).optional().describe("Only pinned messages"),
  from: From.optional(),
  to: To.optional(),
};

/** Input of `GET /v1/search`. */
// The return type is inferred, because it carries the fields.
// deno-lint-ignore explicit-module-boundary-types
export function searchQuerySchema(sources: readonly Searchable[]) {
  return z.strictObject({
    q: Query,
    roomId: Rooms.optional(),
    senderId: Principals.optional().describe("Only messages of these senders"),
    excludeSenderId: Principals.optional().describe("No messages of these senders"),
    threadId: list(MessageId).optional(),
    type: list(MessageType).optional().describe("Kinds of message"),
    ...conditions,
    types: typesOf(sources),
    ...sharedFields,
  });
}

/** Input of `POST /v1/search`. */
// deno-lint-ignore explicit-module-boundary-types
export function searchRequestSchema(sources: readonly Searchable[]) {
  return z.strictObject({
    query: Query,
    filters: z.strictObject({
      roomIds: Rooms.optional(),
      senderIds: Principals.optional().describe("Only messages of these senders"),
      excludeSenderIds: Principals.optional().describe("No messages of these senders"),
      threadIds: list(MessageId).optional().describe("Only messages of these threads"),
      types: typesOf(sources),
      messageTypes: list(MessageType).optional().describe("Only messages of these types"),
      ...conditions,
    }).prefault({}).describe("Conditions for results"),
    ...sharedFields,
  });
}

/** The resources around a result. */
function contextOf(item: z.ZodType): z.ZodType {
  return z.object({
    before: z.array(item).describe("Those before it"),
    after: z.array(item).describe("Those after it"),
  }).describe("Surrounding messages of the room, oldest first");
}

/** Output of both. */
// deno-lint-ignore explicit-module-boundary-types
export function searchResponseSchema(sources: readonly Searchable[]) {
  const common = {
    score: z.number().describe("Relevance; comparable within one response only"),
    highlights: z.array(
      z.object({
        field: z.string().describe(
          "Field of the item that contains the matches, such as `text`, `title` or `files/0/name`",
        ),
        ranges: z.array(z.array(z.int()).length(2)).describe(
          "Matches as [start, end) in UTF-16 code units of the text of the field, sorted, not overlapping",
        ),
      }).meta({ id: "SearchHighlight" }),
    ).describe("Matches with surrounding text"),
  };
  const variants = sources.map(({ kind, item, context }) =>
    z.object({
      kind: z.literal(kind).describe("Kind of the item, and name of its field"),
      ...common,
      ...context === undefined ? {} : { context: contextOf(item).optional() },
      [kind]: item,
    }).meta({ id: `SearchResult${kind.charAt(0).toUpperCase()}${kind.slice(1)}` })
  );
  const Result = z.discriminatedUnion("kind", variants as [typeof variants[number]]).meta({ id: "SearchResult" });
  return z.object({
    items: z.array(Result),
    nextCursor: z.string().nullable(),
    hasMore: z.boolean(),
    totalEstimate: z.int().describe(`Approximate number of results; ${RANKED_MAX} means that many or more`),
    mode: SearchMode.describe("Mode that was used"),
    degraded: z.boolean().describe(
      "Whether the requested mode is unavailable, the newest messages, long texts or vectors are not completely indexed, or time " +
        "sufficed for the newest messages only",
    ),
    degradedReason: DegradedReason.optional().describe("Why; absent unless `degraded`"),
    tookMs: z.int().describe("Duration of the search in milliseconds"),
    senders: Senders,
  }).meta({ id: "SearchResponse" });
}

export type SearchRequest = z.output<ReturnType<typeof searchRequestSchema>> & {
  /** Resources as they are at this time; default now. */
  at?: string | undefined;
};
export type SearchQuery = z.output<ReturnType<typeof searchQuerySchema>>;

/** One result; it also has the item as the property that is named like its kind. */
export type SearchResult = {
  [kind: string]: unknown;
  kind: string;
  score: number;
  highlights: { field: string; ranges: [number, number][] }[];
  context?: { before: unknown[]; after: unknown[] };
};

export type SearchResponse = {
  items: SearchResult[];
  nextCursor: string | null;
  hasMore: boolean;
  totalEstimate: number;
  mode: (typeof MODES)[number];
  degraded: boolean;
  degradedReason?: (typeof REASONS)[number];
  tookMs: number;
  senders?: Person[];
};

export const SearchStatus = z.object({
  enabled: z.boolean().describe("Whether search is enabled"),
  modes: z.array(SearchMode).describe("Supported modes"),
  types: z.array(z.string()).describe("Kinds of items that are searched"),
  documents: z.int().describe("Number of indexed items of the tenant"),
  pendingRoomCount: z.int().describe("Number of rooms with messages that are not indexed yet"),
  lagMs: z.int().describe(
    "Age of the oldest message that is not indexed yet; 0 if there is none. A search indexes the messages it needs",
  ),
  lastError: z.string().nullable().describe("Code of the last indexing error on this node"),
}).meta({ id: "SearchStatus" });
export type SearchStatus = z.output<typeof SearchStatus>;

export const Reindex = z.object({
  id: z.string(),
  state: z.enum(["running", "done"]),
  done: z.int().describe("Number of items indexed so far"),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
}).meta({ id: "SearchReindex" });
export type Reindex = z.output<typeof Reindex>;

/** Durable events on the stream of the principal that requested a reindex. */
export const SEARCH_EVENTS: readonly EventType[] = eventTypes("search.manage", [
  {
    type: "search.reindexed",
    streams: ["principal"],
    summary: "A reindex was completed (principal)",
    data: z.object({ reindex: Reindex }),
  },
]);

/** The kinds of all sources. */
export function kindsOf(sources: readonly Searchable[]): [string, ...string[]] {
  const [first, ...rest] = sources.map((source) => source.kind);
  if (first === undefined) throw new TypeError("Expected at least one kind to search, received none");
  return [first, ...rest];
}

function typesOf(sources: readonly Searchable[]) {
  const streamed = sources.filter(({ stream }) => stream !== undefined).map(({ kind }) => kind);
  return list(z.enum(kindsOf(sources))).default(streamed).describe("Kinds of items to search");
}
