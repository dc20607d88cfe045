// Operations on facts.
import { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome, type Rates } from "@/core/operation.ts";
import { COMPLETION_FAULTS } from "@/modules/ai/mod.ts";
import type { FactExtractor } from "./extraction.ts";
import type { MemoryReader } from "./reader.ts";
import {
  Memories,
  Memory,
  MEMORY_EVENTS,
  MemoryCreate,
  MemoryExtract,
  MemoryExtraction,
  MemoryHistory,
  MemoryList,
  MemoryMatches,
  MemoryMine,
  MemoryRef,
  MemorySearch,
  MemoryUpdate,
  MemoryVersions,
} from "./schema.ts";
import type { MemoryService } from "./service.ts";

const PATH = "/v1/collaboration/memory";
const ITEMS = `${PATH}/items`;
const ROOM = exampleId("room");
const FACT = exampleId("mem");
const read = { scope: "memory.read", room: "observer" } as const;
const write = { scope: "memory.write", room: "member" } as const;
const SEARCH_RATE: Rates = { human: { perSecond: 1, burst: 30 } };

const EXTRACT_RATE: Rates = { human: { perSecond: 0.2, burst: 10 } };

type Deps = { memories: MemoryService; reader: MemoryReader; extractor: FactExtractor; isSearchEnabled: boolean };

export function memoryApi({ memories, reader, extractor, isSearchEnabled }: Deps): ModuleApi {
  return {
    tags: {
      memory:
        "Facts that people and agents have recorded: where they are from, how long they are valid, and who may read them.",
    },
    events: MEMORY_EVENTS,
    operations: [
      defineOperation({
        name: "memory.create",
        summary: "Record a fact, or propose one as an agent",
        description:
          "What a person records is active at once. What an agent or a service records is a proposal, until a " +
          "person who may change facts of the scope activates it. If the scope has a fact with the same text that the " +
          "caller may read, that one is returned with 200. With `supersedes`, the older fact is retired in the same " +
          "change and never recalled again.",
        access: write,
        http: { method: "POST", path: ITEMS, status: 201, otherStatuses: [200], hasLocation: true },
        input: MemoryCreate,
        output: Memory,
        faults: ["not_found", "room_archived", "already_superseded", "conflict", "limit_reached"],
        example: { scope: { type: "room", id: ROOM }, text: "Deployments are on Thursdays.", kind: "decision" },
        async run(context, input) {
          const { memory, isNew } = await memories.create(context, input);
          return new Outcome(memory, { status: isNew ? 201 : 200, location: `${ITEMS}/${memory.id}` });
        },
      }),
      defineOperation({
        name: "memory.extract",
        summary: "Propose facts that a model finds in messages of a room",
        description:
          "Nothing is active before a person activates it with `memory.update`. Also requires the scopes `message.read` and " +
          "`ai.write`. About 24,000 characters of messages are read at once, and `nextSeq` says where to continue. What it costs is " +
          "charged to the caller, or to the owner of the calling agent.",
        access: write,
        http: { method: "POST", path: `${PATH}/extract`, status: 200 },
        callsOut: true,
        rate: EXTRACT_RATE,
        input: MemoryExtract,
        output: MemoryExtraction,
        faults: ["not_found", "room_archived", "limit_reached", ...COMPLETION_FAULTS],
        example: { roomId: ROOM, fromSeq: 1 },
        run: (context, input) => extractor.extract(context, input),
      }),
      defineOperation({
        name: "memory.list",
        summary: "List facts that the caller may read, the newest first",
        access: read,
        http: { method: "GET", path: ITEMS, status: 200 },
        input: MemoryList,
        output: Memories,
        faults: ["invalid_cursor"],
        example: { scopeType: "room", scopeId: ROOM },
        run: (context, input) => reader.list(context, input),
      }),
      defineOperation({
        name: "memory.mine",
        summary: "List facts about the caller, and those of its own scope",
        access: { scope: "memory.read" },
        http: { method: "GET", path: "/v1/collaboration/me/memories", status: 200 },
        input: MemoryMine,
        output: Memories,
        faults: ["invalid_cursor"],
        ownData: {},
        run: (context, input) => reader.mine(context, input),
      }),
      defineOperation({
        name: "memory.read",
        summary: "Get a fact with its sources",
        access: read,
        http: { method: "GET", path: `${ITEMS}/:id`, status: 200 },
        input: MemoryRef,
        output: Memory,
        faults: ["not_found"],
        example: { id: FACT },
        run: (context, { id }) => reader.read(context, id),
      }),
      defineOperation({
        name: "memory.update",
        summary: "Update a fact, or activate a proposed one",
        description:
          "For people who may change facts of its scope. Agents and services may correct their own proposals.",
        access: write,
        http: { method: "PATCH", path: `${ITEMS}/:id`, status: 200, ifMatch: "version" },
        input: MemoryUpdate,
        output: Memory,
        faults: ["not_found", "room_archived", "version_mismatch", "already_superseded", "conflict"],
        example: { id: FACT, text: "Deployments are on Wednesdays.", pinned: true },
        run: (context, input) => memories.update(context, input),
      }),
      defineOperation({
        name: "memory.forget",
        summary: "Erase a fact: its text, sources and history",
        description:
          "For its creator, for people it is about, and for moderators of its room. Only its id is left, for " +
          "30 days. Agents and services may withdraw their own proposals.",
        access: { ...write, archived: true },
        http: { method: "DELETE", path: `${ITEMS}/:id`, status: 204 },
        input: MemoryRef,
        output: z.void(),
        faults: ["not_found", "legal_hold"],
        example: { id: FACT },
        run: (context, { id }) => memories.forget(context, id),
      }),
      defineOperation({
        name: "memory.history",
        summary: "List the versions of a fact, the newest first",
        access: read,
        http: { method: "GET", path: `${ITEMS}/:id/history`, status: 200 },
        input: MemoryHistory,
        output: MemoryVersions,
        faults: ["not_found", "invalid_cursor"],
        example: { id: FACT },
        run: (context, input) => reader.history(context, input),
      }),
      defineOperation({
        name: "memory.search",
        summary: "Search active facts with a question in plain words",
        description: "Facts are also found by `search.query` with `types=memory`.",
        access: { scope: "memory.read" },
        http: { method: "POST", path: `${PATH}/search`, status: 200 },
        rate: SEARCH_RATE,
        disabled: isSearchEnabled ? undefined : () => new Fault("search_not_configured", "The gateway has no search"),
        input: MemorySearch,
        output: MemoryMatches,
        faults: ["search_not_configured"],
        example: { query: "When do we deploy?" },
        run: (context, input) => reader.search(context, input),
      }),
    ],
  };
}
