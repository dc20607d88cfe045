// Deletes old runs: their texts after a day, the rest after the days of their tenant, unless under a legal hold.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import type { Holds } from "@/core/hold.ts";
import { paginate } from "@/core/page.ts";
import { type RetentionService, RUN_DAYS } from "@/modules/tenant/mod.ts";
import type { Store } from "@/ports/store.ts";
import { ApprovalStore } from "../approval/store.ts";
import type { AgentTables } from "../tables.ts";
import { type FinishedRun, RunStore } from "./store.ts";

/** How long the texts are stored: messages that they quote may be deleted meanwhile. */
const TEXT_DAYS = 1;
const BATCH = 200;

type Deps = { store: Store<AgentTables>; clock: Clock; holds: Holds; retention: RetentionService };

export class RunRetention {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async removeOldRuns(): Promise<void> {
    const { store, retention } = this.#deps;
    await this.#removeTexts(this.#daysAgo(TEXT_DAYS));
    const before = this.#daysAgo(RUN_DAYS);
    const own = await retention.daysByTenant("runs");
    const tenants = new Set([...own.keys(), ...await new RunStore(store.db).tenantsFinishedBefore(before)]);
    for (const tenantId of tenants) await this.#removeOf(tenantId, this.#daysAgo(own.get(tenantId) ?? RUN_DAYS));
    await store.write(async (tx) => {
      // So long, messages are known to be those of runs.
      await new RunStore(tx.db).forgetMessagesBefore(before);
      await new ApprovalStore(tx.db).removeExpiredGrants(this.#daysAgo(0));
    });
  }

  async #removeTexts(before: string): Promise<void> {
    const { store, holds } = this.#deps;
    const read = (last?: FinishedRun) => new RunStore(store.db).withTextsBefore(before, last, BATCH);
    for await (const runs of paginate(BATCH, read)) {
      await store.write(async (tx) => {
        const ids: string[] = [];
        for (const [roomId, ofRoom] of Map.groupBy(runs, ({ room_id }) => room_id)) {
          const tenantId = ofRoom[0]?.tenant_id ?? "";
          if (!await holds.isHeld(tx.db, tenantId, { roomId })) ids.push(...ofRoom.map(({ id }) => id));
        }
        await new RunStore(tx.db).removeTexts(ids);
      });
    }
  }

  async #removeOf(tenantId: string, before: string): Promise<void> {
    const { store, holds, retention } = this.#deps;
    if (await holds.isHeld(store.db, tenantId)) return;
    // A message that is sent later needs its run, also when it is late.
    const sendingAfter = this.#daysAgo(1);
    const held = new Set<string>();
    for (let found = BATCH; found === BATCH;) {
      const except = { sendingAfter, exceptRooms: [...held] };
      const old = await new RunStore(store.db).finishedBefore(tenantId, before, except, BATCH);
      found = old.length;
      if (found === 0) return;
      const deleted = await store.write(async (tx) => {
        for (const roomId of new Set(old.map(({ room_id }) => room_id))) {
          if (await holds.isHeld(tx.db, tenantId, { roomId })) held.add(roomId);
        }
        const ids = old.filter(({ room_id }) => !held.has(room_id)).map(({ id }) => id);
        await new RunStore(tx.db).remove(ids);
        return ids.length;
      });
      retention.recordDeleted("runs", tenantId, deleted);
    }
  }

  #daysAgo(days: number): string {
    return iso(this.#deps.clock.now() - days * DAY_MS);
  }
}
