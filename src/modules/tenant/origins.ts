// Browser origins that tenants allow. All are in memory: a preflight carries no token, and anyone can send many of them.
import type { Clock } from "@/core/time/clock.ts";
import { coalesce } from "@/core/coalesce.ts";
import { logOf } from "@/core/log.ts";
import type { TenantOrigins } from "@/core/http/request.ts";
import type { Store } from "@/ports/store.ts";
import { TenantStore, type TenantTables } from "./store.ts";

/** Maximum age of the lists, in case the signal of a change was lost. */
const STALE_MS = 30_000;
const RETRY_MS = 1000;

const log = logOf("tenant");

type Deps = { store: Store<TenantTables>; clock: Clock };

export class OriginList implements TenantOrigins {
  readonly #deps: Deps;
  #tenantsByOrigin: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  #staleAt = -Infinity;
  readonly #reload = coalesce(() => this.#read());
  #reloading = Promise.resolve();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get isEmpty(): boolean {
    return this.#tenantsByOrigin.size === 0;
  }

  isAllowedByAny(origin: string): boolean {
    if (this.#deps.clock.now() >= this.#staleAt) void this.reload();
    return this.#tenantsByOrigin.has(origin);
  }

  isAllowed(tenantId: string, origin: string): boolean {
    return this.#tenantsByOrigin.get(origin)?.has(tenantId) ?? false;
  }

  /**
   * Reads all lists again; never rejects, and keeps the old ones if the store is unavailable. Reloads run one after another:
   * a running one may have read before the change, and an older result must not replace a newer one.
   */
  reload(): Promise<void> {
    return this.#reloading = this.#reload();
  }

  /** Resolves when no reload is running. */
  waitForReload(): Promise<void> {
    return this.#reloading;
  }

  async #read(): Promise<void> {
    const { store, clock } = this.#deps;
    try {
      const tenantsOf = new Map<string, Set<string>>();
      for (const { id, origins } of await new TenantStore(store.db).origins()) {
        for (const origin of origins) tenantsOf.set(origin, (tenantsOf.get(origin) ?? new Set()).add(id));
      }
      this.#tenantsByOrigin = tenantsOf;
      this.#staleAt = clock.now() + STALE_MS;
    } catch (cause) {
      this.#staleAt = clock.now() + RETRY_MS;
      log.warn("reading the allowed origins of tenants failed", { cause: String(cause) });
    }
  }
}
