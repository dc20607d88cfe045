// Work of stopped nodes: their leases are expired soon after the node stopped, before they run out.
import { type Leases, nodeOf } from "@/core/lease.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";

/** How nodes of one database detect which of them are running. */
export type NodeLock = {
  /** Without a `:`. */
  readonly id: string;
  /** Which of these nodes are not running now. */
  findStopped(ids: readonly string[]): Promise<string[]>;
  /** Ends transactions of nodes that do not continue them. */
  endFrozenSessions(): Promise<void>;
};

type Deps = { node: NodeLock; leases: readonly Leases[] };

/** Time for a node that lost its connection to reconnect before its work is taken over. */
const GRACE_MS = 2000;
/** A node that is killed between two checks is found by the next one, and its leases are expired by the first after the grace. */
export const CHECK_INTERVAL_MS = 1000;

const log = logOf("lease");

export class LeaseTakeover {
  readonly #deps: Deps;
  readonly #monotonicMs: () => number;
  /** Since when a node was found stopped at each check. */
  readonly #stoppedSince = new Map<string, number>();
  readonly #warnCheckFailed = rateLimitedWarning(log, "checking for stopped nodes failed");
  #timer: ReturnType<typeof setInterval> | undefined;
  #checking: Promise<void> | undefined;

  constructor(deps: Deps, monotonicMs: () => number = () => performance.now()) {
    this.#deps = deps;
    this.#monotonicMs = monotonicMs;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#checking ??= this.check().catch((cause) => this.#warnCheckFailed(failureOf(cause)))
        .finally(() => this.#checking = undefined);
    }, CHECK_INTERVAL_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#checking;
  }

  /** Checks once; expires the leases of nodes that stopped a while ago. */
  async check(): Promise<void> {
    const { node, leases } = this.#deps;
    await node.endFrozenSessions();
    const active = await Promise.all(leases.map(async (kind) => ({ kind, owners: await kind.owners() })));
    const ids = new Set(active.flatMap(({ owners }) => owners).flatMap((owner) => nodeOf(owner) ?? []));
    const stopped = ids.size === 0 ? [] : await node.findStopped([...ids]);
    for (const id of [...this.#stoppedSince.keys()]) if (!stopped.includes(id)) this.#stoppedSince.delete(id);
    const now = this.#monotonicMs();
    for (const id of stopped) {
      const since = this.#stoppedSince.get(id) ?? now;
      this.#stoppedSince.set(id, since);
      if (now - since < GRACE_MS) continue;
      let expired = 0;
      for (const { kind, owners } of active) {
        const lost = owners.filter((owner) => nodeOf(owner) === id);
        if (lost.length > 0) expired += await kind.expire(lost);
      }
      if (expired > 0) log.warn("node stopped; its work is reassigned", { leases: expired });
    }
  }
}
