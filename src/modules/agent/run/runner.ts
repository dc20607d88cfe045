// The runner of a node: claims runs under a lease, executes them, and gives back what it has when the node stops. It is not the job
// runner, since a run may take minutes and must end at once when it is cancelled.
import { runAsSystem } from "@/core/caller.ts";
import { compareText } from "@/core/text/text.ts";
import { type Clock, iso, withTimeout } from "@/core/time/clock.ts";
import { coalesce } from "@/core/coalesce.ts";
import { newId } from "@/core/id.ts";
import { leaseOwner, type Leases } from "@/core/lease.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import type { Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { RunExecutor } from "./executor.ts";
import { LeaseLost } from "./lifecycle.ts";
import { askersKey, type BusyRunners, type ClaimableRun, RunQueueStore } from "./queue_store.ts";
import { runChanged, type RunSignals } from "./signals.ts";
import { askersOf } from "./presenter.ts";
import { RunStore } from "./store.ts";

/** Runs that are executed at the same time. Nobody has all places of a tenant, however many agents they ask. */
export const RUN_LIMITS = { runsPerAgent: 2, runsPerPerson: 6, runsPerTenant: 8, runsPerNode: 32 } as const;
const { runsPerAgent: PER_AGENT, runsPerPerson: PER_PERSON, runsPerTenant: PER_TENANT, runsPerNode: PER_NODE } =
  RUN_LIMITS;
const POLL_MS = 1000;
/** A run of a node that is not known to have stopped is claimed by another one after this time. */
const LEASE_MS = 10_000;
const RENEW_MS = 3000;
const STOP_MS = 4000;
const CANDIDATES = 64;
/** Locked while runs of a tenant are claimed. */
const CLAIM_LOCK = "agent:runs";

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  nodeId: string | undefined;
  executor: RunExecutor;
  signals: RunSignals;
  timeoutFactor: number;
};
type Running = { run: RunRow; owner: string; controller: AbortController; end: Promise<void> };

const log = logOf("agent");

export class Runner {
  readonly #deps: Deps;
  readonly #running = new Map<string, Running>();
  readonly #claim: () => Promise<void>;
  readonly #warnClaimFailed = rateLimitedWarning(log, "claiming runs failed");
  #timers: ReturnType<typeof setInterval>[] = [];
  #isStopping = false;
  #isStarted = false;
  #claiming: Promise<void> = Promise.resolve();
  #unsubscribe: (() => void) | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#claim = coalesce(() => this.#claimAll());
  }

  /** The leases of all nodes. */
  get leases(): Leases {
    const { store, clock } = this.#deps;
    return {
      owners: () => new RunQueueStore(store.db).leaseOwners(),
      expire: async (owners) => {
        const runs = await store.write((tx) => new RunQueueStore(tx.db).expireLeases(iso(clock.now() - 1), owners));
        this.wake();
        return runs;
      },
    };
  }

  start(): void {
    const { store, clock, signals } = this.#deps;
    this.#isStarted = true;
    this.#timers = [setInterval(() => this.wake(), POLL_MS), setInterval(() => void this.#renew(), RENEW_MS)];
    this.#unsubscribe = signals.subscribe((tenantId, runId) => this.#onChanged(tenantId, runId));
    // A database of SQLite has one process: leases that are found belong to one that ended.
    if (store.dialect !== "sqlite") return this.wake();
    runAsSystem(() => store.write((tx) => new RunQueueStore(tx.db).expireLeases(iso(clock.now() - 1))))
      .catch((cause) => log.warn("expiring leases of runs failed", failureOf(cause))).finally(() => this.wake());
  }

  /** Looks for runs to execute. */
  wake(): void {
    if (!this.#isStarted || this.#isStopping) return;
    this.#claiming = runAsSystem(this.#claim).catch((cause) => this.#warnClaimFailed(failureOf(cause)));
  }

  /** Gives back all runs, so that another node continues them. Safe to repeat. */
  async drain(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#unsubscribe?.();
    await this.#claiming;
    for (const { controller } of this.#running.values()) controller.abort();
    await withTimeout(
      Promise.all([...this.#running.values()].map(({ end }) => end)),
      STOP_MS * this.#deps.timeoutFactor,
    );
  }

  async #claimAll(): Promise<void> {
    while (!this.#isStopping && this.#running.size < PER_NODE) {
      const claimed = await this.#claimSome();
      for (const { run, owner } of claimed) this.#begin(run, owner);
      if (claimed.length === 0) return;
    }
  }

  async #claimSome(): Promise<{ run: RunRow; owner: string }[]> {
    const { store, clock } = this.#deps;
    const nowMs = clock.now();
    const now = iso(nowMs);
    const busy = await new RunQueueStore(store.db).running(now);
    const limits = new Places(busy);
    const candidates = await new RunQueueStore(store.db).claimable(nowMs, limits.full(), CANDIDATES);
    const chosen = choose(candidates, limits, PER_NODE - this.#running.size).filter(({ id }) => !this.#running.has(id));
    if (chosen.length === 0) return [];
    return await store.write(async (tx) => {
      for (const tenantId of [...new Set(chosen.map(({ tenant_id }) => tenant_id))].sort()) {
        await tx.lock(tenantId, CLAIM_LOCK);
      }
      const queue = new RunQueueStore(tx.db);
      // Another node may have claimed some meanwhile.
      const places = new Places(await queue.running(now));
      const claimed: { run: RunRow; owner: string }[] = [];
      for (const candidate of choose(chosen, places, chosen.length)) {
        const owner = leaseOwner(this.#deps.nodeId, newId("lease"));
        const run = await queue.claim(candidate, { owner, until: iso(nowMs + LEASE_MS), now });
        if (run !== undefined) claimed.push({ run, owner });
      }
      return claimed;
    });
  }

  #begin(run: RunRow, owner: string): void {
    const controller = new AbortController();
    const end = runAsSystem(() => this.#execute(run, controller.signal)).finally(() => {
      this.#running.delete(run.id);
      this.wake();
    });
    this.#running.set(run.id, { run, owner, controller, end });
  }

  async #execute(run: RunRow, signal: AbortSignal): Promise<void> {
    const { executor } = this.#deps;
    try {
      await executor.execute(run, signal);
    } catch (thrown) {
      if (thrown instanceof LeaseLost) return;
      if (!signal.aborted) {
        // Its lease runs out, and it continues after its last step.
        return log.warn("executing a run failed; it will continue", { run: run.id, ...failureOf(thrown) });
      }
      await this.#giveBack(run);
    }
  }

  /** As if it had never been claimed. A run that ended meanwhile is not changed. */
  async #giveBack(run: RunRow): Promise<void> {
    const { store } = this.#deps;
    const { tenant_id: tenantId, id } = run;
    try {
      await store.write(async (tx) => {
        const set = { status: "queued", lease_owner: null, lease_until: null, attempt: run.attempt - 1 } as const;
        const fence = { status: ["running"], leaseOwner: run.lease_owner ?? "" } as const;
        if (await new RunStore(tx.db).update(tenantId, id, set, fence)) tx.signal(runChanged.create(tenantId, id));
      });
    } catch (cause) {
      log.warn("releasing a run failed; it continues when its lease expires", { run: id, ...failureOf(cause) });
    }
  }

  /** Ends the execution of a run that no longer is this node's, such as a cancelled one. */
  #onChanged(tenantId: string, runId: string): void {
    this.wake();
    const running = this.#running.get(runId);
    if (running === undefined) return;
    new RunStore(this.#deps.store.db).find(tenantId, runId).then((row) => {
      if (row?.lease_owner !== running.owner) running.controller.abort();
    }).catch((cause) => log.warn("reading a run failed; its lease is checked later", failureOf(cause)));
  }

  async #renew(): Promise<void> {
    const { store, clock } = this.#deps;
    const mine = [...this.#running].map(([id, { owner }]) => ({ id, owner }));
    if (mine.length === 0) return;
    try {
      const until = iso(clock.now() + LEASE_MS);
      const renewed = new Set(
        await runAsSystem(() => store.write((tx) => new RunQueueStore(tx.db).renew(mine, until))),
      );
      for (const { id } of mine) if (!renewed.has(id)) this.#running.get(id)?.controller.abort();
    } catch (cause) {
      log.warn("renewing leases of runs failed", failureOf(cause));
    }
  }
}

/** How many runs agents, people and tenants have, on all nodes. */
class Places {
  readonly #agents = new Map<string, number>();
  readonly #people = new Map<string, ClaimableRun[]>();
  readonly #tenants = new Map<string, number>();
  readonly #threads = new Set<string>();

  constructor(running: readonly ClaimableRun[]) {
    for (const run of running) this.take(run);
  }

  isFree(run: ClaimableRun): boolean {
    return (this.#agents.get(agentKey(run)) ?? 0) < PER_AGENT && this.#ofTenant(run) < PER_TENANT &&
      this.#ofPerson(run) < PER_PERSON && !this.#threads.has(threadKey(run));
  }

  take(run: ClaimableRun): void {
    this.#agents.set(agentKey(run), (this.#agents.get(agentKey(run)) ?? 0) + 1);
    this.#tenants.set(run.tenant_id, this.#ofTenant(run) + 1);
    this.#people.set(personKey(run), [...this.#people.get(personKey(run)) ?? [], run]);
    this.#threads.add(threadKey(run));
  }

  /** The run of the tenant with the fewest runs, of those of the person with the fewest, of those the oldest. */
  nextOf(runs: readonly ClaimableRun[]): ClaimableRun | undefined {
    const turns = runs.map((run) => ({ run, tenant: this.#ofTenant(run), person: this.#ofPerson(run) }));
    const inOrder = turns.toSorted((a, b) =>
      a.tenant - b.tenant || a.person - b.person || compareText(a.run.queued_at, b.run.queued_at)
    );
    return inOrder[0]?.run;
  }

  /** Those that have as many runs as they may have. */
  full(): BusyRunners {
    const people = [...this.#people.values()].filter(({ length }) => length >= PER_PERSON).flat();
    return {
      askers: [...new Set(people.map(askersKey))],
      tenantIds: [...this.#tenants].flatMap(([id, count]) => count >= PER_TENANT ? [id] : []),
      agentIds: [...this.#agents].flatMap(([key, count]) => count >= PER_AGENT ? [key] : []),
    };
  }

  #ofTenant({ tenant_id }: ClaimableRun): number {
    return this.#tenants.get(tenant_id) ?? 0;
  }

  #ofPerson(run: ClaimableRun): number {
    return this.#people.get(personKey(run))?.length ?? 0;
  }
}

/** Takes places for runs, one after the other: an owner with few is not behind one with many. */
function choose(candidates: readonly ClaimableRun[], places: Places, max: number): ClaimableRun[] {
  const chosen: ClaimableRun[] = [];
  let waiting = candidates.filter((run) => places.isFree(run));
  while (chosen.length < max) {
    const next = places.nextOf(waiting);
    if (next === undefined) break;
    places.take(next);
    chosen.push(next);
    waiting = waiting.filter((run) => places.isFree(run));
  }
  return chosen;
}

function agentKey({ tenant_id, agent_id }: ClaimableRun): string {
  return `${tenant_id}/${agent_id}`;
}

/** The person behind an agent that asks is the last of those who asked. */
function personKey({ tenant_id, asker_ids_json }: ClaimableRun): string {
  return `${tenant_id}/${askersOf({ asker_ids_json }).at(-1)}`;
}

function threadKey(run: ClaimableRun): string {
  return `${agentKey(run)}/${run.room_id}/${run.thread_id}`;
}
