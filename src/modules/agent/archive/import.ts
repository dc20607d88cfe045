// Imports the settings of agents that have none here. They stay paused until their owner lets them run.
import {
  handleRecord,
  type ImportContext,
  type ImportedPart,
  type RecordHandler,
  type SectionImporter,
} from "@/core/archive/section.ts";
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

const BATCH = 100;

type Tx = AnyTransaction;
/** `runAt`: the next time of its schedule, if there is one. */
type Pending = { where: string; record: AgentRecord; runAt: number | undefined };

/** An agent in the history of imports. */
export function importedAgent(id: string): ImportedPart {
  return { container: "", name: `agent ${id}` };
}

export class AgentImporter implements SectionImporter {
  readonly records: Readonly<Record<string, RecordHandler>>;
  readonly #context: ImportContext<Tx>;
  readonly #pending = new Map<string, Pending>();

  constructor(context: ImportContext<Tx>) {
    this.#context = context;
    this.records = { agent: handleRecord(AgentRecord, (record, { where }) => this.#add(record, where)) };
  }

  async flush(): Promise<void> {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    if (pending.length === 0) return;
    await this.#context.write((tx) => this.#import(tx, pending));
    // Other readers and writers run between batches.
    await nextSlice();
  }

  async #add(record: AgentRecord, where: string): Promise<void> {
    if (this.#pending.has(record.id)) return;
    // Not in the transaction, because it may take a while.
    const runAt = record.schedule === null ? undefined : nextTimeOf(record.schedule, Date.parse(this.#context.now));
    if (record.schedule !== null) await nextSlice();
    this.#pending.set(record.id, { where, record, runAt });
    if (this.#pending.size >= BATCH) await this.flush();
  }

  async #import(tx: Tx, pending: readonly Pending[]): Promise<void> {
    const { tenantId, report } = this.#context;
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
