// The configuration of agents. An agent is a principal that its owner or an admin configures.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { principalEvent, principalStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion } from "@/core/patch.ts";
import { canManage, type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { ApprovalStore } from "./approval/store.ts";
import type { RunLifecycle } from "./run/lifecycle.ts";
import { RunStore } from "./run/store.ts";
import type { ScheduleTakeover } from "./run/takeover.ts";
import { nextTime, scheduleJob } from "./run/schedule.ts";
import type { Agent, AgentCreate, AgentList, AgentSchedule, AgentUpdate } from "./schema.ts";
import { type AgentColumns, columnsOf, presentSettings } from "./settings.ts";
import { AgentStore, type NamedAgentRow } from "./store.ts";
import type { AgentRow, AgentTables } from "./tables.ts";
import type { ToolNames } from "./tool/names.ts";

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  cursors: Cursors;
  identity: IdentityService;
  ai: Pick<AiService, "requireModel">;
  lifecycle: RunLifecycle;
  takeover: ScheduleTakeover;
  roomAccess: RoomAccess;
  toolNames: ToolNames;
};
type Tx = AnyTransaction;

export class AgentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(context: Context, { handle, displayName, ownerId, ...config }: AgentCreate): Promise<Agent> {
    const { actor } = context;
    const { store, clock, identity, toolNames } = this.#deps;
    await this.#assertModel(actor, config.model);
    await this.#assertSchedule(context, config.schedule);
    await toolNames.assertKnown(actor.tenantId, config, []);
    return await store.write(async (tx) => {
      const principal = await identity.create(actor, { kind: "agent", displayName, role: "member", handle, ownerId });
      const now = iso(clock.now());
      const row: AgentRow = {
        tenant_id: actor.tenantId,
        id: principal.id,
        ...columnsOf(config, actor) as AgentColumns, // of a whole configuration
        version: 1,
        created_by: actor.principalId,
        created_at: now,
        updated_at: now,
      };
      const agents = new AgentStore(tx.db);
      await agents.add(row);
      await this.#schedule(tx, row);
      await this.#publish(tx, actor, { ...row, owner_id: principal.ownerId });
      return this.#present(actor, await agents.find(actor.tenantId, row.id));
    });
  }

  async list({ actor }: Context, { limit, cursor, ownerId }: AgentList): Promise<Page<Agent>> {
    const { cursors, store } = this.#deps;
    const bind = ["agent.list", actor.tenantId, actor.principalId, ownerId ?? null];
    const after = cursors.decodeId(cursor, bind);
    const owner = ownerId === undefined ? undefined : resolvePrincipalId(actor, ownerId);
    const rows = await new AgentStore(store.db).list(actor.tenantId, { ownerId: owner }, after, limit + 1);
    const page = cursors.page(rows, limit, bind, (row) => [row.id], (row) => row);
    return { ...page, items: page.items.map((row) => this.#present(actor, row)) };
  }

  async read({ actor }: Context, id: string): Promise<Agent> {
    // A principal that the caller cannot see is no agent for it.
    await this.#deps.identity.read(actor, id);
    return this.#present(actor, await new AgentStore(this.#deps.store.db).find(actor.tenantId, id));
  }

  async update(context: Context, { id, version, handle, displayName, ...config }: AgentUpdate): Promise<Agent> {
    const { actor } = context;
    const { store, clock, identity, toolNames, takeover } = this.#deps;
    await identity.read(actor, id);
    await this.#assertModel(actor, config.model);
    await this.#assertSchedule(context, config.schedule);
    if (config.tools !== undefined || config.askFirst !== undefined) {
      const { tools, askFirst } = this.#present(actor, await new AgentStore(store.db).find(actor.tenantId, id));
      await toolNames.assertKnown(actor.tenantId, config, [...tools, ...askFirst]);
    }
    return await store.write(async (tx) => {
      const agents = new AgentStore(tx.db);
      const before = await this.#requireForUpdate(tx, actor, id);
      assertVersion("agent", before.version, version);
      if (handle !== undefined || displayName !== undefined) {
        await identity.updateAgent(actor, id, { displayName, handle });
      }
      const changed = {
        ...columnsOf(config, actor),
        version: before.version + 1,
        updated_at: iso(clock.now()),
      };
      const schedule_json = await takeover.afterChange(tx, actor, before, { ...before, ...changed });
      const set = { ...changed, schedule_json };
      await agents.update(actor.tenantId, id, set);
      const after = { ...before, ...set };
      if (config.schedule !== undefined) await this.#schedule(tx, after);
      if (after.is_paused === 1 && before.is_paused === 0) {
        await this.#stopRuns(tx, id, actor, "agent_paused", "paused");
      }
      await this.#publish(tx, actor, after);
      return this.#present(actor, await agents.find(actor.tenantId, id));
    });
  }

  /** Disables the principal; what it wrote stays. */
  async delete({ actor }: Context, id: string): Promise<void> {
    const { store, identity } = this.#deps;
    await identity.read(actor, id);
    await store.write(async (tx) => {
      const row = await this.#requireForUpdate(tx, actor, id);
      await this.#stopRuns(tx, id, actor, "not_found", "deleted");
      await new AgentStore(tx.db).remove(actor.tenantId, id);
      await new ApprovalStore(tx.db).removeGrants(actor.tenantId, { agentId: id });
      await this.#publish(tx, actor, row, true);
      await identity.updateAgent(actor, id, { disabled: true });
    });
  }

  /** The agent, for its owner or an admin; locked until the commit. */
  async #requireForUpdate(tx: Tx, actor: Actor, id: string): Promise<NamedAgentRow> {
    const agents = new AgentStore(tx.db);
    if (await agents.find(actor.tenantId, id) === undefined) throw notVisible("agent");
    await tx.lock(actor.tenantId, principalStream(id));
    const row = await agents.find(actor.tenantId, id);
    if (row === undefined) throw notVisible("agent");
    if (!canManage(actor, row)) throw new Fault("forbidden", "Only the owner of an agent and admins may change it");
    return row;
  }

  async #stopRuns(tx: Tx, agentId: string, { tenantId }: Actor, code: string, how: string): Promise<void> {
    for (const run of await new RunStore(tx.db).unfinished(tenantId, { agentId })) {
      await this.#deps.lifecycle.stop(tx, run, "cancelled", { error: { code, detail: `The agent was ${how}` } });
    }
  }

  async #assertModel({ tenantId }: Actor, model: string | null | undefined): Promise<void> {
    if (typeof model === "string") await this.#deps.ai.requireModel(tenantId, model);
  }

  /** The room must be one of the caller, and the rule must have a next time. */
  async #assertSchedule(context: Context, schedule: AgentSchedule | null | undefined): Promise<void> {
    if (schedule === null || schedule === undefined) return;
    const { roomAccess, clock } = this.#deps;
    await roomAccess.require(context, schedule.roomId, { least: "member" });
    if (nextTime(schedule, clock.now()) !== undefined) return;
    throw Fault.forField("/schedule/rrule", "invalid_rule", "the rule has no time after now");
  }

  async #schedule(tx: Tx, row: AgentRow): Promise<void> {
    const job = scheduleJob(row, this.#deps.clock.now());
    if (job !== undefined) await tx.enqueue(job);
  }

  /** On the streams of the agent and of its owner. */
  async #publish(tx: Tx, actor: Actor, row: AgentRow & { owner_id: string | null }, isDeleted = false): Promise<void> {
    const data = { agentId: row.id, version: isDeleted ? null : row.version, paused: row.is_paused === 1 };
    const ids = [...new Set([row.id, row.owner_id ?? row.id])];
    await tx.emit(...ids.map((id) => principalEvent(actor, id, "agent.updated", data)));
  }

  #present(actor: Actor, row: NamedAgentRow | undefined): Agent {
    if (row === undefined) throw notVisible("agent");
    const mayManage = canManage(actor, row);
    const settings = presentSettings(row);
    return {
      id: row.id,
      handle: row.handle,
      displayName: row.display_name,
      ownerId: row.owner_id,
      ...settings,
      ...mayManage ? {} : { instructions: null, schedule: null },
      version: row.version,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    };
  }
}
