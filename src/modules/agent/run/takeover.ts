// The principal that is responsible for the schedule of an agent: the one that set it, later the one that last changed what the agent
// does. Runs are on its behalf, within the tokens of both. Otherwise a token could have an agent do what it may not do itself.
import { type Actor, intersectScopes, isAtLeast, ROOM_ROLES, scopesOf, textOfScopes } from "@/core/actor.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { AgentStore } from "../store.ts";
import type { AgentRow } from "../tables.ts";
import { askersOf } from "./presenter.ts";
import type { StoredSchedule } from "./schedule.ts";
import { RunStore, UNFINISHED } from "./store.ts";

/** Columns that decide what the runs of an agent do. */
const DECISIVE = ["model", "instructions", "tools_json", "ask_first_json", "memory_scopes_json"] as const;

export class ScheduleTakeover {
  readonly #roomAccess: Pick<RoomAccess, "find">;

  constructor({ roomAccess }: { roomAccess: Pick<RoomAccess, "find"> }) {
    this.#roomAccess = roomAccess;
  }

  /** The schedule to store with a change of a locked agent. Throws `forbidden` if the caller is not a member of its room. */
  async afterChange(tx: AnyTransaction, actor: Actor, before: AgentRow, after: AgentRow): Promise<string | null> {
    const isResumed = before.is_paused === 1 && after.is_paused === 0;
    const isDecided = isResumed || DECISIVE.some((column) => after[column] !== before[column]);
    return isDecided ? await this.#take(tx, actor, after) : after.schedule_json;
  }

  /** The same for what else decides what an agent does, such as its skills. */
  async take(tx: AnyTransaction, actor: Actor, agentId: string): Promise<void> {
    const agents = new AgentStore(tx.db);
    await tx.lock(actor.tenantId, principalStream(agentId));
    const agent = await agents.find(actor.tenantId, agentId);
    if (agent === undefined) return;
    await agents.update(actor.tenantId, agentId, { schedule_json: await this.#take(tx, actor, agent) });
  }

  async #take(tx: AnyTransaction, actor: Actor, { id, schedule_json }: AgentRow): Promise<string | null> {
    await this.#boundUnfinished(tx, actor, id);
    if (schedule_json === null) return null;
    const schedule: StoredSchedule = JSON.parse(schedule_json);
    if (schedule.setBy !== actor.principalId) {
      const grant = await this.#roomAccess.find(actor, schedule.roomId, tx.db);
      if (grant === undefined || !isAtLeast(ROOM_ROLES, grant.role ?? "observer", "member")) {
        throw new Fault(
          "forbidden",
          "The schedule of the agent is in a room that the caller is not a member of; set another `schedule`, or null",
        );
      }
    }
    const scopes = textOfScopes(intersectScopes(scopesOf(schedule.scopes ?? null), actor.scopes));
    return JSON.stringify({ ...schedule, setBy: actor.principalId, scopes });
  }

  /** Unfinished runs read the changed agent when they continue. */
  async #boundUnfinished(tx: AnyTransaction, { tenantId, principalId, scopes }: Actor, agentId: string): Promise<void> {
    const runs = new RunStore(tx.db);
    for (const run of await runs.unfinished(tenantId, { agentId })) {
      if (run.trigger_kind !== "schedule") continue;
      const set = {
        asker_ids_json: JSON.stringify([...new Set([...askersOf(run), principalId])]),
        scopes: textOfScopes(intersectScopes(scopesOf(run.scopes), scopes)),
      };
      await runs.update(tenantId, run.id, set, { status: UNFINISHED });
    }
  }
}
