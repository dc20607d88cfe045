// Runs that nothing happens in: those that wait for people for a day, and those of agents outside that are silent.
import type { Clock } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import { expiryJob, SILENT_MS } from "./expiry_job.ts";
import type { RunEnding } from "./ending.ts";
import type { RunLifecycle } from "./lifecycle.ts";
import type { RunActor, RunActors } from "./run_actor.ts";
import { RunStore } from "./store.ts";

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  lifecycle: RunLifecycle;
  ending: RunEnding;
  actors: RunActors;
};

export class RunExpiry {
  readonly #deps: Deps;
  readonly #startedAt: number;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#startedAt = deps.clock.now();
  }

  async check(tenantId: string, runId: string): Promise<void> {
    const { store, clock, lifecycle } = this.#deps;
    await store.enclose(async (tx) => {
      const run = await new RunStore(tx.db).find(tenantId, runId);
      const isWaiting = run?.status === "waiting_approval" || run?.status === "waiting_input" ||
        run?.status === "running" && run.is_external === 1;
      if (run === undefined || !isWaiting) return;
      // An agent outside is not silent while there is no gateway to speak to.
      const heardAt = Date.parse(run.heartbeat_at);
      const next = expiryJob(run, run.is_external === 1 ? Math.max(heardAt, this.#startedAt) : heardAt);
      if ((next.runAt ?? 0) > clock.now()) return await tx.enqueue(next);
      if (run.is_external === 1) return await this.#expireExternal(tx, run);
      const error = { code: "expired", detail: "It waited for a decision or a reply for too long" };
      await lifecycle.stop(tx, run, "expired", { error });
    });
  }

  /** What it wrote is posted, if it still may. */
  async #expireExternal(tx: AnyTransaction, run: RunRow): Promise<void> {
    const { actors, ending } = this.#deps;
    let actor: RunActor | undefined;
    try {
      actor = await actors.ofPost(run, tx.db);
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
    }
    const error = { code: "expired", detail: `The agent was silent for ${SILENT_MS / 1000} seconds` };
    await ending.endExternal(tx, run, actor, "expired", { text: run.text, error });
  }
}
