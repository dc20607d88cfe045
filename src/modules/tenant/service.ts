// Tenants: created by the first token that names them, updated by their admins.
import { type Clock, iso } from "@/core/time/clock.ts";
import { notFound } from "@/core/fault.ts";
import { assertVersion, withoutUndefined } from "@/core/patch.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import { type Tenant, TenantSettings, type TenantUpdate } from "./schema.ts";
import { originsChanged, originsOf, type TenantRow, TenantStore, type TenantTables } from "./store.ts";

type Deps = { store: Store<TenantTables>; clock: Clock };

/** A stream without events: its lock serializes changes of a tenant. */
const CHANGES_LOCK = "tenant:changes";

export class TenantService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates the tenant if it does not exist. */
  async ensure({ db }: AnyTransaction, tenantId: string): Promise<void> {
    const now = iso(this.#deps.clock.now());
    await new TenantStore(db).add({
      id: tenantId,
      name: tenantId,
      settings_json: JSON.stringify(TenantSettings.parse({})),
      allowed_origins_json: null,
      version: 1,
      created_at: now,
      updated_at: now,
    });
  }

  async read(tenantId: string, db: AnyDatabase = this.#deps.store.db): Promise<Tenant> {
    const row = await new TenantStore(db).find(tenantId);
    if (row === undefined) throw notFound("tenant");
    return present(row);
  }

  update(tenantId: string, { version, settings, name, allowedOrigins }: TenantUpdate): Promise<Tenant> {
    return this.#deps.store.write(async (tx) => {
      const tenants = new TenantStore(tx.db);
      await tx.lock(tenantId, CHANGES_LOCK);
      const before = await this.read(tenantId, tx.db);
      assertVersion("tenant", before.version, version);
      await tenants.update(
        tenantId,
        withoutUndefined({
          name,
          settings_json: JSON.stringify({ ...before.settings, ...settings }),
          allowed_origins_json: allowedOrigins === undefined ? undefined : originsJsonOf(allowedOrigins),
          version: before.version + 1,
          updated_at: iso(this.#deps.clock.now()),
        }),
      );
      if (allowedOrigins !== undefined) tx.signal(originsChanged.create(tenantId, tenantId));
      return await this.read(tenantId, tx.db);
    });
  }
}

function originsJsonOf(origins: readonly string[] | null): string | null {
  return origins === null || origins.length === 0 ? null : JSON.stringify([...new Set(origins)]);
}

function present(row: TenantRow): Tenant {
  return {
    id: row.id,
    name: row.name,
    settings: TenantSettings.parse(JSON.parse(row.settings_json)),
    allowedOrigins: originsOf(row),
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
