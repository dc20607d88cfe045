// Facts in archives: those of a room with it, all others in the export of a tenant.
import type { ArchiveSection, ExportContext } from "@/core/archive/section.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { paginate } from "@/core/page.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { presentMemory } from "../presenter.ts";
import { SCOPE_TYPES, type ScopeType } from "../schema.ts";
import { type Fact, MemoryStore, type MemoryTables } from "../store.ts";
import type { MemoryWriter } from "../writer.ts";
import { importedFact, memoryImporter } from "./import.ts";

const BATCH = 200;

type Deps = { store: Store<MemoryTables>; clock: Clock; writer: MemoryWriter };

export function memoryArchive({ store, clock, writer }: Deps): ArchiveSection<Transaction<MemoryTables>> {
  return {
    description: {
      exported:
        "facts (`memory`) of a room with the messages that they are from, without erased ones; in the export of a " +
        "tenant also those of principals, agents and the tenant",
      imported: "Facts whose messages were all deleted are not imported.",
    },
    counts: { facts: "Facts" },
    skipCodes: {
      too_many_facts: "each_run",
      fact_expired: "each_run",
      source_missing: "each_run",
      unknown_scope: "each_run",
    },
    exportRoom: (context, roomId) => exportFacts(store, clock, context, "room", roomId),
    async *exportPersonal(context) {
      for (const type of SCOPE_TYPES) {
        if (type !== "room") yield* exportFacts(store, clock, context, type, undefined);
      }
    },
    createImporter: (context) => memoryImporter(context, writer),
  };
}

async function* exportFacts(
  { db }: Store<MemoryTables>,
  clock: Clock,
  context: ExportContext,
  type: ScopeType,
  scopeId: string | undefined,
): AsyncGenerator<unknown[]> {
  const memories = new MemoryStore(db);
  const now = iso(clock.now());
  const read = (last?: Fact) =>
    memories.exported(context.tenantId, { type, id: scopeId }, last?.row.id ?? "", now, BATCH);
  for await (const page of paginate(BATCH, read)) {
    const facts = context.isRoomOnly ? page.filter(({ row }) => row.position > context.hiddenUpTo) : page;
    const principals = facts.flatMap(({ row, subjectIds }) => [
      row.created_by,
      ...subjectIds,
      ...type === "principal" || type === "agent" ? [row.scope_id] : [],
    ]);
    yield await context.principalRecords(principals);
    context.recordExported(facts.map(({ row }) => importedFact(scopeId ?? null, row.id)));
    context.count("facts", facts.length);
    yield facts.map((fact) => {
      const sources = fact.sources.filter(({ seq }) => !context.isRoomOnly || seq > context.hiddenUpTo);
      return {
        type: "memory",
        ...presentMemory({ ...fact, visibleSources: sources }),
        // Their positions are others where they are imported.
        sources: sources.map(({ message_id: messageId }) => ({ messageId })),
      };
    });
  }
}
