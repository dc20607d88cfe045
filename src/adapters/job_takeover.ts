// Jobs of stopped nodes: their leases are expired soon after the node stopped, before they run out.
import { type Clock, iso } from "@/core/clock.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";
import { expireLeases, listLeaseOwners } from "./job_queries.ts";

/** How nodes of one database detect which of them are running. */
export type NodeLock = {
  /** Without a `:`. */
  readonly id: string;
  /** Which of these nodes are not running now. */
  findStopped(ids: readonly string[]): Promise<string[]>;
};

export type TakeoverDeps = {
  store: Pick<Store<CoreTables>, "db" | "write">;
  clock: Clock;
  node: NodeLock;
  /** Called when there may be jobs to claim. */
  onReassigned: () => void;
  metrics: Pick<Metrics, "jobsTakenOver">;
};

/** Time for a node that lost its connection to reconnect before its jobs are taken over. */
const GRACE_MS = 2000;
const CHECK_INTERVAL_MS = 1000;

const log = logOf("job");

/** The owner of a lease as stored: the node, and a name of this claim. */
export function leaseOwner(node: Pick<NodeLock, "id"> | undefined, lease: string): string {
  return node === undefined ? lease : `${node.id}:${lease}`;
}

export class JobTakeover {
  readonly #deps: TakeoverDeps;
  readonly #monotonicMs: () => number;
  /** Since when a node was found stopped at each check. */
  readonly #stoppedSince = new Map<string, number>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #checking: Promise<void> | undefined;

  constructor(deps: TakeoverDeps, monotonicMs: () => number = () => performance.now()) {
    this.#deps = deps;
    this.#monotonicMs = monotonicMs;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#checking ??= this.check()
        .catch((cause) => log.warn("checking for stopped nodes failed", failureOf(cause)))
        .finally(() => this.#checking = undefined);
    }, CHECK_INTERVAL_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#checking;
  }

  /** Checks once; expires the leases of nodes that stopped a while ago. */
  async check(): Promise<void> {
    const { store, clock, node, onReassigned, metrics } = this.#deps;
    const owners = await listLeaseOwners(store.db);
    const ids = new Set(owners.flatMap((owner) => owner.includes(":") ? owner.slice(0, owner.indexOf(":")) : []));
    const stopped = ids.size === 0 ? [] : await node.findStopped([...ids]);
    for (const id of [...this.#stoppedSince.keys()]) if (!stopped.includes(id)) this.#stoppedSince.delete(id);
    const now = this.#monotonicMs();
    for (const id of stopped) {
      const since = this.#stoppedSince.get(id) ?? now;
      this.#stoppedSince.set(id, since);
      if (now - since < GRACE_MS) continue;
      const expired = owners.filter((owner) => owner.startsWith(`${id}:`));
      const jobs = await store.write(({ db }) => expireLeases(db, expired, iso(clock.now() - 1)));
      if (jobs === 0) continue;
      metrics.jobsTakenOver.inc(jobs);
      log.warn("node stopped; its jobs are reassigned", { jobs });
      onReassigned();
    }
  }
}
