// Imports the settings of agents that have none here. They stay paused until their owner lets them run.
import { batchImporter, type ImportContext, type ImportedPart, type SectionImporter } from "@/core/archive/section.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { adoptAgent } from "@/modules/identity/mod.ts";
import { existingIds } from "@/ports/sql/global_ids.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { nextTime, scheduleJobAt } from "../run/schedule.ts";
import type { AgentSchedule } from "../schema.ts";
import { type AgentColumns, columnsOf } from "../settings.ts";
import { AgentStore } from "../store.ts";
import { AgentRecord } from "./records.ts";

type Tx = AnyTransaction;
/** `runAt`: the next time of its schedule, if there is one. */
type Pending = { where: string; record: AgentRecord; runAt: number | undefined };

/** An agent in the history of imports. */
export function importedAgent(id: string): ImportedPart {
  return { container: "", name: `agent ${id}` };
}

export function agentImporter(context: ImportContext<Tx>): SectionImporter {
  const importer = new AgentImporter(context);
  return batchImporter(context, {
    type: "agent",
    schema: AgentRecord,
    read: (record, { where }) => importer.read(record, where),
    importBatch: (tx, batch) => importer.import(tx, batch),
  });
}

class AgentImporter {
  readonly #context: ImportContext<Tx>;

  constructor(context: ImportContext<Tx>) {
    this.#context = context;
  }

  /** Not in the transaction, because the next time may take a while. */
  async read(record: AgentRecord, where: string): Promise<Pending> {
    const runAt = record.schedule === null ? undefined : nextTimeOf(record.schedule, Date.parse(this.#context.now));
    if (record.schedule !== null) await nextSlice();
    return { where, record, runAt };
  }

  async import(tx: Tx, batch: readonly Pending[]): Promise<void> {
    const { tenantId, report } = this.#context;
    // Of several records of an agent, the first counts.
    const pending = [...Map.groupBy(batch, ({ record }) => record.id).values()].flatMap(([first]) => first ?? []);
    const agents = new AgentStore(tx.db);
    const history = this.#context.history(tx);
    const fresh = await history.filterNew(pending, ({ record }) => [importedAgent(record.id)]);
    if (fresh.length === 0) return;
    const ids = fresh.map(({ record }) => record.id);
    const present = new Set((await agents.findMany(tenantId, ids)).map(({ id }) => id));
    const kinds = await this.#context.principalKinds(tx, ids);
    const missing = fresh.filter(({ where, record: { id } }) => {
      if (kinds.get(id) !== "agent") report.skip("not_an_agent", where);
      return kinds.get(id) === "agent" && !present.has(id);
    });
    if (missing.length === 0) return;
    await this.#context.createPlaceholders(tx, missing.map(({ record }) => record.createdBy));
    const rooms = missing.flatMap(({ record }) => record.schedule === null ? [] : this.#roomIds(record.schedule));
    const knownRooms = await existingIds(tx.db, "room", tenantId, rooms);
    for (const one of missing) await this.#importAgent(tx, one, knownRooms);
    await history.record(missing.map(({ record }) => importedAgent(record.id)));
    report.count("agents", missing.length);
  }

  async #importAgent(tx: Tx, { where, record, runAt }: Pending, knownRooms: ReadonlySet<string>): Promise<void> {
    const { tenantId, requestedBy, report } = this.#context;
    const { id, version, createdBy, createdAt, updatedAt, schedule: given, ...settings } = record;
    const roomId = given === null ? undefined : this.#roomIds(given).find((one) => knownRooms.has(one));
    const schedule = given === null || roomId === undefined || runAt === undefined ? null : { ...given, roomId };
    if (schedule === null && given !== null) report.skip("schedule_invalid", where);
    // Runs by the schedule are on behalf of who imports it: an archive cannot let an agent act for somebody else.
    const columns = columnsOf(
      { ...settings, instructions: settings.instructions ?? "", schedule, paused: true },
      { principalId: requestedBy, scopes: undefined },
    );
    await new AgentStore(tx.db).add({
      tenant_id: tenantId,
      id,
      ...columns as AgentColumns, // of all settings
      version,
      created_by: createdBy,
      created_at: createdAt,
      updated_at: updatedAt,
    });
    const ownerId = await adoptAgent(tx, tenantId, id, requestedBy);
    await tx.emit(
      ...[id, ownerId].map((principalId) =>
        principalEvent({ tenantId }, principalId, "agent.updated", { agentId: id, version, paused: true })
      ),
    );
    // Waits for its time also while the agent is paused, so that it runs on once it is not.
    if (schedule !== null && runAt !== undefined) await tx.enqueue(scheduleJobAt(tenantId, id, runAt));
  }

  /** The ids that the room of a schedule may have here. */
  #roomIds({ roomId }: AgentSchedule): string[] {
    return candidateIds(this.#context.refOf("room", roomId));
  }
}

/** The next time; `undefined` if there is none, or the rule cannot be used. */
function nextTimeOf(schedule: AgentSchedule, afterMs: number): number | undefined {
  try {
    return nextTime(schedule, afterMs);
  } catch (thrown) {
    if (thrown instanceof Fault) return undefined;
    throw thrown;
  }
}
