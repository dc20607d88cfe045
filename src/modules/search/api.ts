// Operations of search.
import { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import type { Module } from "@/core/module.ts";
import { type Access, defineOperation, Outcome, type Rate } from "@/core/operation.ts";
import type { Reindexer } from "./reindexer.ts";
import {
  kindsOf,
  Reindex,
  SEARCH_EVENTS,
  searchAnswerOf,
  searchQueryOf,
  SearchStatus,
  searchStructuredOf,
} from "./schema.ts";
import type { Searchable } from "./searchable.ts";
import type { SearchService } from "./service.ts";

const PATH = "/v1/search";
const ADMIN = "/v1/collaboration/search";
const READ: Access = { scope: "search.read" };
const RATE: { human: Rate } = { human: { perSecond: 0.5, burst: 30 } };
const DESCRIPTION = "Finds what the caller may read at this moment, including what was sent or edited just before. " +
  "Highlights are offsets into the text, never markup. Needs the scopes as well that reading such things takes, of messages " +
  "`message.read`.";

type Deps = {
  search: SearchService;
  reindexer: Reindexer;
  sources: readonly Searchable[];
  /** Off: both ways to search, and to reindex, answer `search_not_configured`. */
  isEnabled: boolean;
  purgeRoom: (tenantId: string, roomId: string) => Promise<void>;
};

/** The search module. */
export function searchModule({ search, reindexer, sources, isEnabled, purgeRoom }: Deps): Module {
  const output = searchAnswerOf(sources);
  const modes: SearchStatus["modes"] = isEnabled ? ["keyword"] : [];
  const off = isEnabled ? undefined : () => new Fault("search_not_configured", "This gateway runs without search");
  return {
    name: "search",
    events: SEARCH_EVENTS,
    purgeRoom,
    jobs: isEnabled ? [reindexer.job] : [],
    capability: () => ({ enabled: isEnabled, modes, types: kindsOf(sources) }),
    operations: [
      defineOperation({
        name: "search.query",
        summary: "Search messages and other things",
        description: DESCRIPTION,
        access: READ,
        http: { method: "GET", path: PATH, status: 200 },
        input: searchQueryOf(sources),
        output,
        faults: ["search_not_configured", "invalid_cursor"],
        example: { q: "quarterly report" },
        rate: RATE,
        off,
        run: (context, input) => search.simple(context, input),
      }),
      defineOperation({
        name: "search.structured",
        summary: "Search with filters in a body",
        description: DESCRIPTION,
        access: READ,
        http: { method: "POST", path: PATH, status: 200 },
        input: searchStructuredOf(sources),
        output,
        faults: ["search_not_configured", "invalid_cursor"],
        example: { query: "quarterly report", filters: { has: ["link"], from: "2026-01-01" }, sort: "recent" },
        rate: RATE,
        off,
        run: (context, input) => search.search(context, input),
      }),
      defineOperation({
        name: "search.status",
        summary: "How far the search index is",
        access: { scope: "search.read", tenant: "admin" },
        http: { method: "GET", path: `${ADMIN}/status`, status: 200 },
        input: z.strictObject({}),
        output: SearchStatus,
        example: {},
        async run({ actor }) {
          return { enabled: isEnabled, modes, ...await search.status(actor) };
        },
      }),
      defineOperation({
        name: "search.reindex",
        summary: "Build the search index of the tenant anew while it stays in use",
        description: "Needed once after an update that finds more: emoji, private documents shared with others, " +
          "events of those invited, Korean in single letters, and Hebrew and Arabic with vowel signs, as far as they are " +
          "older than the update, are found only after this.",
        access: { scope: "search.manage", tenant: "admin" },
        http: { method: "POST", path: `${ADMIN}/reindex`, status: 202 },
        input: z.strictObject({
          types: z.array(z.enum(kindsOf(sources))).min(1).max(20).optional().describe("Only these kinds; default all"),
        }),
        output: Reindex,
        faults: ["search_not_configured", "already_running"],
        example: {},
        off,
        async run({ actor }, { types }) {
          return new Outcome(await reindexer.start(actor, types));
        },
      }),
    ],
  };
}
