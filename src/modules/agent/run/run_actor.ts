// The actor of a run: the agent with its own rights, those of its owner and those of all who asked, within the tokens with which they
// did; read again for each call.
import { type Actor, lowerOf, scopesOf, TENANT_ROLES } from "@/core/actor.ts";
import { Fault, isFault, notFound } from "@/core/fault.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { Audience, type RoomAccess } from "@/modules/room/mod.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import { askersOf } from "./presenter.ts";
import { RunStore } from "./store.ts";

type Subject = Awaited<ReturnType<IdentityService["subject"]>>;
export type RunActor = Actor & { bounds: Audience };

type Deps = { store: Store<AgentTables>; identity: IdentityService; roomAccess: RoomAccess };

export class RunActors {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * As everything is in the state that `db` sees. Throws `not_found` if the agent or one of those who asked is disabled, or can no
   * longer see the room of the run.
   */
  async of(run: RunRow, db: AnyDatabase = this.#deps.store.db): Promise<RunActor> {
    const { identity, roomAccess } = this.#deps;
    const { tenant_id: tenantId, agent_id: agentId, room_id: roomId } = run;
    const askerIds = askersOf(run);
    const agent = await this.#subject(tenantId, agentId, db, "The agent was disabled");
    let { role } = agent;
    for (const askerId of askerIds) {
      const asker = await this.#subject(tenantId, askerId, db, "One of those who asked was disabled");
      if (await roomAccess.find(asker, roomId, db) === undefined) {
        throw new Fault("not_found", "One of those who asked can no longer see the room");
      }
      role = lowerOf(TENANT_ROLES, role, asker.role);
    }
    const bounds = await Audience.of(db, { tenantId, roomId, agentId, askerIds });
    const row = (await identity.findEnabled(tenantId, [agentId], db)).get(agentId);
    return {
      ...agent,
      role,
      displayName: row?.display_name ?? agentId,
      scopes: scopesOf(run.scopes),
      tokenId: undefined,
      expiresAt: undefined,
      bounds,
    };
  }

  async #subject(tenantId: string, id: string, db: AnyDatabase, detail: string): Promise<Subject> {
    try {
      return await this.#deps.identity.subject(tenantId, id, db);
    } catch (thrown) {
      throw isFault(thrown, "not_found") ? new Fault("not_found", detail) : thrown;
    }
  }

  /** Those who asked and can still see the room, if the agent can. */
  async remainingAskers(run: RunRow, db: AnyDatabase): Promise<string[]> {
    const remaining: string[] = [];
    for (const askerId of askersOf(run)) {
      try {
        await this.of({ ...run, asker_ids_json: JSON.stringify([askerId]) }, db);
        remaining.push(askerId);
      } catch (thrown) {
        if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      }
    }
    return remaining;
  }

  /** The same for what the run posts in its room: a response is what any token that may start a run has asked for. */
  async ofPost(run: RunRow, db: AnyDatabase): Promise<RunActor> {
    const actor = await this.of(run, db);
    return { ...actor, scopes: actor.scopes && new Set([...actor.scopes, "message.write"]) };
  }

  /** The same for a scheduled message that a run asked for, also `not_found` without that run; `undefined` for others. */
  async ofScheduled({ db }: AnyTransaction, tenantId: string, scheduledId: string): Promise<RunActor | undefined> {
    const runs = new RunStore(db);
    const sent = await runs.findSent(tenantId, scheduledId);
    if (sent === undefined) return undefined;
    const run = await runs.find(tenantId, sent.run_id);
    if (run === undefined) throw notFound("run that scheduled the message");
    return await this.of(run, db);
  }
}
