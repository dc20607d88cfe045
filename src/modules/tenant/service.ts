// Tenants come to be with the first token that names them; their owners and admins may rename and tune them.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { checkVersion } from "@/core/patch.ts";
import type { Store } from "@/ports/store.ts";
import { type Tenant, TenantSettings, type TenantUpdate } from "./schema.ts";
import { originsOf, type TenantRow, TenantStore, type TenantTables } from "./store.ts";

type Deps = { store: Store<TenantTables>; clock: Clock };

/** A stream that never has an event; changes of a tenant hold it, and so take turns. */
const CHANGES = "tenant:changes";

export class TenantService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Makes sure the tenant exists; part of the caller's transaction when there is one. */
  async ensure(tenantId: string): Promise<void> {
    const now = iso(this.#deps.clock.now());
    await new TenantStore(this.#deps.store.db).add({
      id: tenantId,
      name: tenantId,
      settings_json: JSON.stringify(TenantSettings.parse({})),
      allowed_origins_json: null,
      version: 1,
      created_at: now,
      updated_at: now,
    });
  }

  async read(tenantId: string): Promise<Tenant> {
    const row = await new TenantStore(this.#deps.store.db).find(tenantId);
    if (row === undefined) throw new Fault("not_found", "No such tenant");
    return present(row);
  }

  update(tenantId: string, { version, settings, name, allowedOrigins }: TenantUpdate): Promise<Tenant> {
    return this.#deps.store.write(async (tx) => {
      const tenants = new TenantStore(tx.db);
      await tx.reserve(tenantId, CHANGES, 0);
      const before = await this.read(tenantId);
      checkVersion("tenant", before.version, version);
      await tenants.update(tenantId, {
        ...(name === undefined ? {} : { name }),
        settings_json: JSON.stringify({ ...before.settings, ...settings }),
        ...(allowedOrigins === undefined ? {} : { allowed_origins_json: jsonOf(allowedOrigins) }),
        version: before.version + 1,
        updated_at: iso(this.#deps.clock.now()),
      });
      if (allowedOrigins !== undefined) tx.signal({ kind: "tenant", tenantId, id: tenantId });
      return await this.read(tenantId);
    });
  }
}

function jsonOf(origins: readonly string[] | null): string | null {
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
