// The memory module: facts with their sources, and contexts for models.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { Complete } from "@/modules/ai/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { MessageAccess } from "@/modules/message/mod.ts";
import type { RoomAccess, RoomPeople } from "@/modules/room/mod.ts";
import type { Recall, SearchIndex } from "@/modules/search/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { MemoryAccess } from "./access.ts";
import { memoryApi } from "./api.ts";
import { memoryArchive } from "./archive/section.ts";
import { contextOperations } from "./context/api.ts";
import { ContextAssembler, type ListMessages } from "./context/assembler.ts";
import { BUDGET } from "./context/schema.ts";
import { ERASE_JOB, MemoryErasure } from "./erasure.ts";
import { FactExtractor } from "./extraction.ts";
import { migrations } from "./migrations.ts";
import { memoryErasure } from "./principal_erasure.ts";
import { MemoryReader } from "./reader.ts";
import { FACTS_PER_OWNER_MAX, FACTS_PER_SCOPE_MAX, SOURCES_MAX, SUBJECTS_MAX, TEXT_MAX } from "./schema.ts";
import { MemorySearchable } from "./searchable.ts";
import { MemoryService } from "./service.ts";
import { MemoryWriter } from "./writer.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  people: RoomPeople;
  listMessages: ListMessages;
  complete: Complete;
  /** Absent if search is off. */
  index: SearchIndex | undefined;
  /** From the search module, which is created later; `undefined` if search is off. */
  recall: () => Recall | undefined;
};

type MemoryModule = Module & {
  /** For modules that call models. */
  contexts: ContextAssembler;
};

export function memoryModule(
  { store, clock, cursors, modules, holds }: Platform,
  { roomAccess, identity, people, listMessages, complete, index, recall }: Deps,
): MemoryModule {
  const messageAccess = new MessageAccess({ store, roomAccess });
  const access = new MemoryAccess({ store, roomAccess, identity, messageAccess });
  const writer = new MemoryWriter({ store, clock, identity, index });
  const memories = new MemoryService({ store, clock, access, messageAccess, identity, writer, holds });
  const reader = new MemoryReader({ store, clock, cursors, identity, access, recall });
  const erasure = new MemoryErasure({ store, clock, writer, holds, index });
  const contexts = new ContextAssembler({
    store,
    roomAccess,
    identity,
    people,
    messageAccess,
    listMessages,
    reader,
    recall,
    searchKinds: () => modules.flatMap(({ search = [] }) => [search].flat().map(({ kind }) => kind)),
  });
  const extractor = new FactExtractor({ roomAccess, memories, listMessages, complete });
  const api = memoryApi({ memories, reader, extractor, isSearchEnabled: index !== undefined });
  return {
    name: "memory",
    migrations,
    erases: memoryErasure(erasure),
    ...api,
    operations: [...api.operations, ...contextOperations(contexts)],
    tags: { ...api.tags, context: "What a model reads before it responds." },
    jobs: [
      defineJob({
        kind: ERASE_JOB,
        payload: z.union([
          z.strictObject({ messageIds: z.array(z.string()) }),
          z.strictObject({ roomId: z.string() }),
          z.strictObject({ factIds: z.array(z.string()) }),
        ]),
        run: async ({ tenantId, payload }) => {
          if ("roomId" in payload) await erasure.purgeRoom(tenantId, payload.roomId);
          else if ("factIds" in payload) await erasure.eraseFacts(tenantId, payload.factIds);
          else await erasure.eraseSources(tenantId, payload.messageIds);
        },
      }),
    ],
    search: new MemorySearchable({ store, clock, identity, access }),
    archive: memoryArchive({ store, clock, writer }),
    resourceScopes: { memory: "memory.read" },
    canRead: { memory: (actor, ids, db) => reader.filterReadable(actor, ids, db) },
    eraseMessages: (tenantId, _roomId, messageIds) => erasure.eraseMessages(tenantId, messageIds),
    purgeRoom: (tenantId, roomId) => erasure.purgeRoom(tenantId, roomId),
    maintenance: { memories: () => erasure.purgeExpired() },
    capability: () => ({
      limits: {
        text: TEXT_MAX,
        sources: SOURCES_MAX,
        subjects: SUBJECTS_MAX,
        perScope: FACTS_PER_SCOPE_MAX,
        perPrincipal: FACTS_PER_OWNER_MAX,
        contextTokens: BUDGET.max,
      },
    }),
    contexts,
  };
}
