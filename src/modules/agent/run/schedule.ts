// Runs by a schedule: each agent with one has one waiting job, for its next time. The job starts the run and enqueues the next one in
// the same commit.
import { type Clock, iso } from "@/core/time/clock.ts";
import { isFault } from "@/core/fault.ts";
import type { JobDraft } from "@/core/job.ts";
import { RecurrenceRuleParser } from "@/core/time/recurrence_rule.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import { principalStream, roomStream } from "@/core/event/event.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentSchedule } from "../schema.ts";
import { AgentStore } from "../store.ts";
import type { AgentRow, AgentTables } from "../tables.ts";
import { runChanged } from "./signals.ts";
import { RunStore } from "./store.ts";
import { newRun, QUEUED_MAX } from "./triggers.ts";

export const SCHEDULE_JOB = "agent.schedule";

const HAS_NO_END = "a schedule has no end; when it should stop, set `schedule` to null";
const rules = new RecurrenceRuleParser({
  resources: "agents",
  pointer: "/schedule/rrule",
  grammar: { COUNT: HAS_NO_END, UNTIL: HAS_NO_END, BYSECOND: undefined },
});
/**
 * As stored, with the principal that set it, or is responsible for it since (`ScheduleTakeover`), and the scopes of the token: runs are
 * on its behalf, and have no others.
 */
export type StoredSchedule = AgentSchedule & { setBy: string; scopes?: string | null };

/** The next time after `afterMs`. Throws `validation_failed` and `recurrence_too_complex`. */
export function nextTime({ rrule, timeZone, startAt }: AgentSchedule, afterMs: number): number | undefined {
  return rules.nextDate(rules.parse(rrule), { timeZone, wall: startAt }, afterMs)?.epochMilliseconds;
}

/** The job for the next run; `undefined` without a schedule. */
export function scheduleJob(
  { tenant_id: tenantId, id, schedule_json }: Pick<AgentRow, "tenant_id" | "id" | "schedule_json">,
  afterMs: number,
): JobDraft | undefined {
  if (schedule_json === null) return undefined;
  const runAt = nextTime(JSON.parse(schedule_json), afterMs);
  if (runAt === undefined) return undefined;
  return scheduleJobAt(tenantId, id, runAt);
}

export function scheduleJobAt(tenantId: string, agentId: string, runAt: number): JobDraft {
  return { tenantId, kind: SCHEDULE_JOB, key: agentId, payload: { agentId, at: iso(runAt) }, runAt };
}

type Deps = { store: Store<AgentTables>; clock: Clock; identity: IdentityService; roomAccess: RoomAccess };

export class AgentScheduler {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Starts the run of one time, once. After an outage, times that were missed are left out. */
  async run(tenantId: string, { agentId, at }: { agentId: string; at: string }): Promise<void> {
    const { store, clock } = this.#deps;
    await store.write(async (tx) => {
      const before = await new AgentStore(tx.db).find(tenantId, agentId);
      if (before === undefined || before.schedule_json === null) return;
      const { roomId }: StoredSchedule = JSON.parse(before.schedule_json);
      const canSeeRoom = await this.#canSee(tx, tenantId, agentId, roomId);
      const head = canSeeRoom ? await tx.reserve(tenantId, roomStream(roomId), 0) : undefined;
      // A concurrent change of the agent either comes first, and its schedule counts, or finds the next job and this run.
      await tx.lock(tenantId, principalStream(agentId));
      const agent = await new AgentStore(tx.db).find(tenantId, agentId);
      if (agent === undefined || agent.schedule_json === null) return;
      const next = scheduleJob(agent, Math.max(clock.now(), Date.parse(at)));
      if (next !== undefined) await tx.enqueue(next);
      const runs = new RunStore(tx.db);
      const isNew = await runs.addTrigger({
        tenant_id: tenantId,
        message_id: `schedule ${at}`,
        agent_id: agentId,
        created_at: iso(clock.now()),
      });
      if (!isNew || agent.is_paused === 1 || await runs.countQueued(tenantId, agentId) >= QUEUED_MAX) return;
      const schedule: StoredSchedule = JSON.parse(agent.schedule_json);
      if (head === undefined || schedule.roomId !== roomId) return;
      if (await this.#canSee(tx, tenantId, schedule.setBy, roomId)) await this.#start(tx, agent, schedule, head.first);
    });
  }

  async #start(
    tx: AnyTransaction,
    { tenant_id: tenantId, id: agentId }: AgentRow,
    { input, setBy, scopes = null, roomId }: StoredSchedule,
    nextSeq: number,
  ): Promise<void> {
    const run = newRun(iso(this.#deps.clock.now()), {
      tenant_id: tenantId,
      agent_id: agentId,
      room_id: roomId,
      thread_id: "",
      seq: Math.max(1, nextSeq - 1),
      trigger_kind: "schedule",
      trigger_message_id: null,
      asker_ids_json: JSON.stringify([setBy]),
      scopes,
      chain_depth: 1,
      input,
    });
    await new RunStore(tx.db).add(run);
    tx.signal(runChanged.create(tenantId, run.id));
  }

  async #canSee(tx: AnyTransaction, tenantId: string, principalId: string, roomId: string): Promise<boolean> {
    const { identity, roomAccess } = this.#deps;
    try {
      const subject = await identity.subject(tenantId, principalId, tx.db);
      return await roomAccess.find(subject, roomId, tx.db) !== undefined;
    } catch (thrown) {
      if (isFault(thrown, "not_found")) return false;
      throw thrown;
    }
  }
}
