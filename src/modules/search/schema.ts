// Questions and answers of search as seen from outside.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalRef } from "@/modules/identity/mod.ts";
import { MESSAGE_TYPES, MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import type { Searchable } from "./searchable.ts";

const QUERY_MAX = 500;
export const TERMS_MAX = 32;
/** How many candidates relevance ranks, and how far `totalEstimate` counts. */
export const WINDOW = 1000;
/** So many times as many are looked at where most are left out for a word that they must not have. */
export const EXCLUDING_WINDOWS = 5;
const MODES = ["keyword", "semantic", "hybrid"] as const;
/** What `has` knows. */
const MARKS = ["link", "file", "reaction"] as const;

const LIST_MAX = 50;

const Query = z.string().trim().min(1).max(QUERY_MAX).describe(
  `At most ${TERMS_MAX} words, all of which must be found: from three letters on anywhere in a word, two at its start, ` +
    "one alone. Words in quotes, or joined by punctuation, must follow each other. With a hyphen right before it, `-word` " +
    'or `-"words in quotes"`, the same must not be found; at least one word must be asked for. Case and diacritics do not ' +
    "matter",
);
const Moment = z.union([z.iso.datetime({ offset: true }), z.iso.date()]);
const From = Moment.describe("Not before this moment, or this day (UTC)");
const To = Moment.describe("Not after this moment, or this day (UTC)");
const list = <Item extends z.ZodType>(item: Item) => z.array(item).min(1).max(LIST_MAX);
const Rooms = list(RoomId).describe("Only in these rooms, as far as the caller may read them");
const Principals = list(PrincipalRef);

const asked = {
  mode: z.enum(MODES).default("keyword").describe("Without an embedding model all are answered by keyword, `degraded`"),
  sort: z.enum(["relevance", "recent"]).default("relevance")
    .describe(`relevance ranks the newest ${WINDOW} matches; recent has no such end`),
  context: z.int().min(0).max(5).default(0).describe("Messages wanted before and after each"),
  limit: z.int().min(1).max(100).default(20).describe("Results wanted, 1 to 100"),
  cursor: pageInput.cursor,
};

/** What `GET /v1/search` takes. */
// The return type is inferred, because it carries the fields.
// deno-lint-ignore explicit-module-boundary-types
export function searchQueryOf(sources: readonly Searchable[]) {
  return z.strictObject({
    q: Query,
    roomId: Rooms.optional(),
    senderId: Principals.optional(),
    excludeSenderId: Principals.optional(),
    threadId: list(MessageId).optional(),
    type: list(z.enum(MESSAGE_TYPES)).optional().describe("Kinds of message"),
    has: list(z.enum(MARKS)).optional().describe("All of these"),
    mentions: Principals.optional().describe("Messages that mention one of these, or everybody; `me` is the caller"),
    pinned: z.literal(true).optional().describe("Only pinned messages"),
    from: From.optional(),
    to: To.optional(),
    types: typesOf(sources),
    ...asked,
  });
}

/** What `POST /v1/search` takes. */
// deno-lint-ignore explicit-module-boundary-types
export function searchStructuredOf(sources: readonly Searchable[]) {
  return z.strictObject({
    query: Query,
    filters: z.strictObject({
      roomIds: Rooms.optional(),
      senderIds: Principals.optional(),
      excludeSenderIds: Principals.optional(),
      threadIds: list(MessageId).optional(),
      types: typesOf(sources),
      messageTypes: list(z.enum(MESSAGE_TYPES)).optional(),
      has: list(z.enum(MARKS)).optional().describe("All of these"),
      mentions: Principals.optional().describe("Messages that mention one of these, or everybody; `me` is the caller"),
      pinned: z.literal(true).optional().describe("Only pinned messages"),
      from: From.optional(),
      to: To.optional(),
    }).prefault({}),
    ...asked,
  });
}

/** What both answer. */
// deno-lint-ignore explicit-module-boundary-types
export function searchAnswerOf(sources: readonly Searchable[]) {
  const Result = z.object({
    kind: z.enum(kindsOf(sources)),
    score: z.number().describe("Comparable within one answer only"),
    highlights: z.array(z.object({
      field: z.string(),
      ranges: z.array(z.array(z.int()).length(2)).describe(
        "Matches as [start, end) in UTF-16 code units of that field's text, sorted, not overlapping",
      ),
    })),
    context: z.object({ before: z.array(z.unknown()), after: z.array(z.unknown()) }).optional()
      .describe("What stands around it in its room, oldest first"),
    ...Object.fromEntries(sources.map(({ kind, item }) => [kind, item.optional()])),
  }).meta({ id: "SearchResult" });
  return z.object({
    items: z.array(Result),
    nextCursor: z.string().nullable(),
    hasMore: z.boolean(),
    totalEstimate: z.int().describe(`About how many there are; ${WINDOW} means that many or more`),
    mode: z.enum(MODES).describe("How it was searched"),
    degraded: z.boolean().describe(
      "The mode asked for is not available, or the newest messages are not all searched yet",
    ),
    tookMs: z.int(),
  }).meta({ id: "SearchAnswer" });
}

/** A question, whichever way it was asked. */
export type Question = z.output<ReturnType<typeof searchStructuredOf>>;
export type SearchQuery = z.output<ReturnType<typeof searchQueryOf>>;

/** One result; the item stands under the name of its kind. */
export type SearchResult = {
  kind: string;
  score: number;
  highlights: { field: string; ranges: [number, number][] }[];
  context?: { before: unknown[]; after: unknown[] };
};

export type SearchAnswer = {
  items: SearchResult[];
  nextCursor: string | null;
  hasMore: boolean;
  totalEstimate: number;
  mode: (typeof MODES)[number];
  degraded: boolean;
  tookMs: number;
};

export const SearchStatus = z.object({
  enabled: z.boolean(),
  modes: z.array(z.enum(MODES)),
  types: z.array(z.string()),
  documents: z.int().describe("Things of the tenant in the index"),
  pendingRooms: z.int().describe("Rooms with messages that are not indexed yet"),
  lagMs: z.int().describe(
    "Age of the oldest message that is not indexed yet; 0 = none. A search indexes what it needs",
  ),
  lastError: z.string().nullable().describe("Code of the last failure of indexing on this node"),
}).meta({ id: "SearchStatus" });
export type SearchStatus = z.output<typeof SearchStatus>;

export const Reindex = z.object({
  id: z.string(),
  state: z.enum(["running", "done"]),
  done: z.int().describe("Things indexed so far"),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
}).meta({ id: "SearchReindex" });
export type Reindex = z.output<typeof Reindex>;

/** Durable events of search, on the stream of the principal that asked for a reindex. */
export const SEARCH_EVENTS: readonly EventType[] = [
  {
    type: "search.reindexed",
    streams: ["principal"],
    summary: "A reindex is done (principal)",
    data: z.object({ reindex: Reindex }),
  },
];

/** The kinds there are. */
export function kindsOf(sources: readonly Searchable[]): [string, ...string[]] {
  const [first, ...rest] = sources.map((source) => source.kind);
  if (first === undefined) throw new TypeError("Expected at least one kind to search, received none");
  return [first, ...rest];
}

function typesOf(sources: readonly Searchable[]) {
  return list(z.enum(kindsOf(sources))).default(["message"]).describe("Kinds of things to search");
}
