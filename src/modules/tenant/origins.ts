// Origins that tenants let in for their own pages. All of them in memory: a preflight tells nothing but its origin, and strangers
// send any number of those.
import type { Clock } from "@/core/clock.ts";
import { logOf } from "@/core/log.ts";
import type { TenantOrigins } from "@/core/origin.ts";
import type { Store } from "@/ports/store.ts";
import { TenantStore, type TenantTables } from "./store.ts";

/** How old the lists may be where the signal of a change was lost. */
const STALE_MS = 30_000;
const RETRY_MS = 1000;

const log = logOf("tenant");

type Deps = { store: Store<TenantTables>; clock: Clock };

export class OriginList implements TenantOrigins {
  readonly #deps: Deps;
  #tenantsOf: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  #staleAt = -Infinity;
  #reading = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get isEmpty(): boolean {
    return this.#tenantsOf.size === 0;
  }

  has(origin: string): boolean {
    if (this.#deps.clock.now() >= this.#staleAt) void this.reload();
    return this.#tenantsOf.has(origin);
  }

  isOf(tenantId: string, origin: string): boolean {
    return this.#tenantsOf.get(origin)?.has(tenantId) ?? false;
  }

  /**
   * Reads all lists anew; never rejects, the old ones stand where the store is away. One reading after the other: one that is
   * running may have looked before the change that is asked for, and none may overwrite what a later one saw.
   */
  reload(): Promise<void> {
    return this.#next ??= this.#reading.then(() => {
      this.#next = undefined;
      return this.#reading = this.#read();
    });
  }

  /** Resolves when no reading is running. */
  async settled(): Promise<void> {
    await this.#next;
    await this.#reading;
  }

  async #read(): Promise<void> {
    const { store, clock } = this.#deps;
    try {
      const tenantsOf = new Map<string, Set<string>>();
      for (const { id, origins } of await new TenantStore(store.db).origins()) {
        for (const origin of origins) tenantsOf.set(origin, (tenantsOf.get(origin) ?? new Set()).add(id));
      }
      this.#tenantsOf = tenantsOf;
      this.#staleAt = clock.now() + STALE_MS;
    } catch (cause) {
      this.#staleAt = clock.now() + RETRY_MS;
      log.warn("the origins that tenants allow could not be read", { cause: String(cause) });
    }
  }
}
