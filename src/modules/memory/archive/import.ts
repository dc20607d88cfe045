// Imports the facts of an archive in batches: those that are missing, with free ids and the messages that exist.
import {
  batchImporter,
  type ImportContext,
  type ImportedPart,
  type RecordPosition,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { candidateIds, type OriginalRef } from "@/core/archive/ids.ts";
import { roomStream } from "@/core/event/event.ts";
import { loadLocalIds } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import { textKeyOf } from "../presenter.ts";
import { FACTS_PER_MESSAGE_MAX, FACTS_PER_SCOPE_MAX, SOURCES_MAX, SUBJECTS_MAX } from "../schema.ts";
import { type Fact, type MemoryScope, MemoryStore, type MemoryTables, type SourceRow } from "../store.ts";
import type { MemoryWriter } from "../writer.ts";
import { MemoryRecord } from "./records.ts";

type Tx = Transaction<MemoryTables>;
type Pending = { where: string; record: MemoryRecord; scope: MemoryScope };

/** A fact in the history of imports. */
export function importedFact(roomId: string | null, id: string): ImportedPart {
  return { container: roomId ?? "", name: `memory ${id}` };
}

export function memoryImporter(context: ImportContext<Tx>, writer: MemoryWriter): SectionImporter {
  const importer = new MemoryImporter(context, writer);
  return batchImporter(context, {
    type: "memory",
    schema: MemoryRecord,
    read: (record, position) => importer.read(record, position),
    importBatch: (tx, batch) => importer.import(tx, batch),
  });
}

class MemoryImporter {
  readonly #context: ImportContext<Tx>;
  readonly #writer: MemoryWriter;

  constructor(context: ImportContext<Tx>, writer: MemoryWriter) {
    this.#context = context;
    this.#writer = writer;
  }

  /** Of a room that was deleted here, nothing. */
  read(record: MemoryRecord, { where, room }: RecordPosition): Pending | undefined {
    const { report, tenantId, now } = this.#context;
    const { type, id } = record.scope;
    const isOfRoom = type !== "room" || room?.sourceId === id;
    const isExpired = record.expiresAt !== null && record.expiresAt <= now;
    const scopeId = type === "room" ? room?.id : type === "tenant" ? tenantId : id;
    if (!isOfRoom) report.skip("unknown_room", where);
    else if (scopeId !== undefined && isExpired) report.skip("fact_expired", where);
    else if (scopeId !== undefined) return { where, record, scope: { type, id: scopeId } };
    return undefined;
  }

  async import(tx: Tx, pending: readonly Pending[]): Promise<void> {
    const { report } = this.#context;
    const memories = new MemoryStore(tx.db);
    const missing = await this.#missing(tx, pending);
    await this.#context.createPlaceholders(tx, missing.flatMap(({ fact }) => principalsOf(fact)));
    const kinds = await this.#context.principalKinds(tx, missing.map(({ fact }) => fact.row.scope_id));
    const counts = await memories.countBySource(
      this.#context.tenantId,
      missing.flatMap(({ fact }) => fact.sources.map(({ message_id }) => message_id)),
    );
    const added: Fact[] = [];
    for (const { where, fact } of missing) {
      const { scope_type: type, scope_id: id } = fact.row;
      const kind = kinds.get(id);
      const isScope = type === "agent" ? kind === "agent" : type !== "principal" || (kind ?? "agent") !== "agent";
      if (!isScope) {
        report.skip("unknown_scope", where);
        continue;
      }
      const isFull = await memories.hasInScope(this.#context.tenantId, { type, id }, FACTS_PER_SCOPE_MAX);
      if (isFull || fact.sources.some((source) => (counts.get(source.message_id) ?? 0) >= FACTS_PER_MESSAGE_MAX)) {
        report.skip("too_many_facts", where);
        continue;
      }
      for (const { message_id } of fact.sources) counts.set(message_id, (counts.get(message_id) ?? 0) + 1);
      added.push(await this.#writer.addImported(tx, fact));
    }
    await this.#context.history(tx).record(added.map(({ row }) => partOf(row)));
    report.count("facts", added.length);
  }

  /** Facts that do not exist, as rows with the ids that they and their messages have here. */
  async #missing(tx: Tx, given: readonly Pending[]): Promise<{ where: string; fact: Fact }[]> {
    const { tenantId, report } = this.#context;
    const pending = await this.#context.history(tx).filterNew(
      given,
      ({ record, scope }) =>
        candidateIds(this.#refOf(record.id)).map((id) => partOf({ scope_type: scope.type, scope_id: scope.id, id })),
    );
    const factIds = pending.flatMap(({ record: { id, supersedes, supersededBy } }) => [id, supersedes, supersededBy])
      .filter((id) => id !== null);
    const ids = await loadLocalIds(tx.db, "memory", tenantId, factIds.map((id) => this.#refOf(id)));
    const localIdOf = (id: string | null): string | null => id === null ? null : ids.of(this.#refOf(id));
    const located = await this.#context.locateMessages(
      tx,
      pending.flatMap(({ record }) => record.sources.map(({ messageId }) => messageId)),
    );
    // Locked, so that none of them is deleted before the commit.
    const roomIds = new Set([...located.values()].flatMap(({ roomId }) => roomId ?? []));
    await tx.lock(tenantId, ...[...roomIds].map(roomStream));
    const messages = await new MemoryStore(tx.db).sourceMessages(tenantId, [...located.values()].map(({ id }) => id));
    const missing: { where: string; fact: Fact }[] = [];
    for (const { where, record, scope } of pending) {
      const id = ids.allocate(this.#refOf(record.id));
      if (id === undefined) continue;
      const sources = record.sources.flatMap(({ messageId }): SourceRow[] => {
        const message = messages.get(located.get(messageId)?.id ?? "");
        const isUsable = message !== undefined && (scope.type !== "room" || message.room_id === scope.id);
        return isUsable ? [{ ...message, tenant_id: tenantId, memory_id: id }] : [];
      }).slice(0, SOURCES_MAX);
      if (record.sources.length > 0 && sources.length === 0) {
        report.skip("source_missing", where);
        continue;
      }
      missing.push({ where, fact: this.#toFact({ record, scope, where }, id, sources, localIdOf) });
    }
    return missing;
  }

  #toFact(
    { record, scope }: Pending,
    id: string,
    sources: readonly SourceRow[],
    localIdOf: (id: string | null) => string | null,
  ): Fact {
    return {
      row: {
        tenant_id: this.#context.tenantId,
        id,
        scope_type: scope.type,
        scope_id: scope.id,
        kind: record.kind,
        text: record.text,
        text_key: textKeyOf(record.text),
        confidence: record.confidence,
        valid_from: record.validFrom,
        valid_to: record.validTo,
        expires_at: record.expiresAt,
        pinned: record.pinned ? 1 : 0,
        status: record.status,
        position: Math.max(0, ...sources.map(({ seq }) => seq)),
        supersedes: localIdOf(record.supersedes),
        superseded_by: localIdOf(record.supersededBy),
        version: record.version,
        created_by: record.createdBy,
        owner_id: record.createdBy,
        created_at: record.createdAt,
        updated_at: record.updatedAt,
      },
      sources: [...new Map(sources.map((source) => [source.message_id, source])).values()],
      subjectIds: [...new Set(record.subjectIds)].sort().slice(0, SUBJECTS_MAX),
    };
  }

  #refOf(sourceId: string): OriginalRef {
    return this.#context.refOf("mem", sourceId);
  }
}

function partOf({ scope_type, scope_id, id }: Pick<Fact["row"], "scope_type" | "scope_id" | "id">) {
  return importedFact(scope_type === "room" ? scope_id : null, id);
}

function principalsOf({ row, subjectIds }: Fact): string[] {
  const isOfPrincipal = row.scope_type === "principal" || row.scope_type === "agent";
  return [row.created_by, ...subjectIds, ...isOfPrincipal ? [row.scope_id] : []];
}
