// Operations of search.
import { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import type { ModuleApi } from "@/core/module.ts";
import { type Access, defineOperation, Outcome, type Rate } from "@/core/operation.ts";
import type { Reindexer } from "./reindexer.ts";
import {
  kindsOf,
  Reindex,
  SEARCH_EVENTS,
  searchQuerySchema,
  searchRequestSchema,
  searchResponseSchema,
  SearchStatus,
} from "./schema.ts";
import type { Searchable } from "@/core/searchable.ts";
import { UNITS_MAX } from "./search_index.ts";
import type { SearchService } from "./service.ts";

const PATH = "/v1/search";
const ADMIN = "/v1/collaboration/search";
const READ: Access = { scope: "search.read" };
const RATE: { human: Rate } = { human: { perSecond: 0.5, burst: 30 } };
const DESCRIPTION =
  "Results are limited to what the caller may read, and include the latest changes; of texts with more " +
  `than ${UNITS_MAX} characters, the rest is indexed shortly after the change, and responses until then are \`degraded\`. ` +
  "Highlights are offsets into the text, not markup. Also requires the scope for reading each kind of result, such as " +
  "`message.read`.";

type Deps = {
  search: SearchService;
  reindexer: Reindexer;
  sources: readonly Searchable[];
  /** If false, searching and reindexing fail with `search_not_configured`. */
  isEnabled: boolean;
};

/** The supported search modes; semantic and hybrid need an embedding model of the tenant. */
export function modesOf(isEnabled: boolean): SearchStatus["modes"] {
  return isEnabled ? ["keyword", "semantic", "hybrid"] : [];
}

export function searchApi({ search, reindexer, sources, isEnabled }: Deps): ModuleApi {
  const output = searchResponseSchema(sources);
  const disabled = isEnabled
    ? undefined
    : () => new Fault("search_not_configured", "Search is disabled in this gateway");
  return {
    tags: { search: "Full-text search over messages, tasks, documents and events." },
    events: SEARCH_EVENTS,
    operations: [
      defineOperation({
        name: "search.query",
        summary: "Search messages, tasks, documents and events",
        description: DESCRIPTION,
        access: READ,
        http: { method: "GET", path: PATH, status: 200 },
        input: searchQuerySchema(sources),
        output,
        faults: ["search_not_configured", "invalid_cursor"],
        example: { q: "quarterly report" },
        rate: RATE,
        disabled,
        run: ({ actor }, input) => search.searchByQuery(actor, input),
      }),
      defineOperation({
        name: "search.structured",
        summary: "Search with filters in the request body",
        description: DESCRIPTION,
        access: READ,
        http: { method: "POST", path: PATH, status: 200 },
        input: searchRequestSchema(sources),
        output,
        faults: ["search_not_configured", "invalid_cursor"],
        example: { query: "quarterly report", filters: { has: ["link"], from: "2026-01-01" }, sort: "recent" },
        rate: RATE,
        disabled,
        run: ({ actor }, input) => search.search(actor, input),
      }),
      defineOperation({
        name: "search.status",
        summary: "Get the state of the search index",
        access: { scope: "search.read", tenant: "admin" },
        http: { method: "GET", path: `${ADMIN}/status`, status: 200 },
        input: z.strictObject({}),
        output: SearchStatus,
        example: {},
        async run({ actor }) {
          const { hasModel, ...status } = await search.status(actor);
          const modes = modesOf(isEnabled).filter((mode) => mode === "keyword" || hasModel);
          return { enabled: isEnabled, modes, ...status };
        },
      }),
      defineOperation({
        name: "search.reindex",
        summary: "Rebuild the search index of the tenant; search remains available",
        description:
          "Needed once after an update that extends the index: without it, older content is not found by emoji, in " +
          "private documents shared with others, in events of attendees, by single Korean letters, or in Hebrew and " +
          "Arabic with vowel signs.",
        access: { scope: "search.manage", tenant: "admin" },
        http: { method: "POST", path: `${ADMIN}/reindex`, status: 202 },
        input: z.strictObject({
          types: z.array(z.enum(kindsOf(sources))).min(1).max(20).optional().describe("Only these kinds. Default: all"),
        }),
        output: Reindex,
        faults: ["search_not_configured", "already_running"],
        example: {},
        disabled,
        async run({ actor }, { types }) {
          return new Outcome(await reindexer.start(actor, types));
        },
      }),
    ],
  };
}
