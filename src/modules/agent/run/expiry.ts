// Runs that nothing happens in: those that wait for people for a day, and those of agents outside that are silent.
import type { Clock } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { JobDraft } from "@/core/job.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import { expiryJob, SILENT_MS } from "./expiry_job.ts";
import type { RunEnding } from "./ending.ts";
import { isWaiting, type RunLifecycle } from "./lifecycle.ts";
import type { PreparedPost } from "./poster.ts";
import { RunStore } from "./store.ts";

const NO_POST: PreparedPost = { content: { text: "" }, preparation: undefined };

type Deps = { store: Store<AgentTables>; clock: Clock; lifecycle: RunLifecycle; ending: RunEnding };

export class RunExpiry {
  readonly #deps: Deps;
  readonly #startedAt: number;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#startedAt = deps.clock.now();
  }

  async check(tenantId: string, runId: string): Promise<void> {
    const { store, clock, lifecycle } = this.#deps;
    const post = await this.#prepareExternal(await new RunStore(store.db).find(tenantId, runId));
    await store.enclose(async (tx) => {
      const run = await new RunStore(tx.db).find(tenantId, runId);
      if (run === undefined || !isWaiting(run) && !(run.status === "running" && run.is_external === 1)) return;
      const next = this.#nextCheck(run);
      if ((next.runAt ?? 0) > clock.now()) return await tx.enqueue(next);
      if (run.is_external === 1) {
        return post === undefined ? await tx.enqueue(next) : await this.#expireExternal(tx, run, post);
      }
      const error = { code: "expired", detail: "It waited for a decision or a reply for too long" };
      await lifecycle.stop(tx, run, "expired", { error });
    });
  }

  #nextCheck(run: RunRow): JobDraft {
    const heartbeatAt = Date.parse(run.heartbeat_at);
    // An agent outside is not silent while there is no gateway to speak to.
    return expiryJob(run, run.is_external === 1 ? Math.max(heartbeatAt, this.#startedAt) : heartbeatAt);
  }

  /** What it wrote is posted, if it still may be, and filters of the room allow it now. */
  async #expireExternal(tx: AnyTransaction, run: RunRow, post: PreparedPost): Promise<void> {
    const error = { code: "expired", detail: `The agent was silent for ${SILENT_MS / 1000} seconds` };
    await this.#deps.ending.endExternal(tx, run, undefined, "expired", { text: run.text, error, post });
  }

  /** Prepares what a run that is silent now has written: if it speaks meanwhile, it does not expire. */
  async #prepareExternal(run: RunRow | undefined): Promise<PreparedPost | undefined> {
    const { ending, clock } = this.#deps;
    const isSilent = run?.status === "running" && run.is_external === 1 &&
      (this.#nextCheck(run).runAt ?? 0) <= clock.now();
    if (!isSilent) return undefined;
    try {
      const post = await ending.prepareExternal(run, run.text);
      // The run ends also while a filter does not answer.
      return post.preparation !== undefined && "thrown" in post.preparation ? NO_POST : post;
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      return NO_POST;
    }
  }
}
