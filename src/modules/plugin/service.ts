// The life of a plugin: installed, granted, enabled, upgraded, disabled, uninstalled. Its principal is enabled with it, and no
// token of it has more than the granted scopes.
import { type Actor, hasScope } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { checkValues, type FormValues } from "@/core/interaction/form.ts";
import { assertScopesExist } from "@/core/known_scopes.ts";
import type { Module } from "@/core/module.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion } from "@/core/patch.ts";
import type { ServicePrincipals } from "@/modules/identity/mod.ts";
import { newSigningSecret, type ServiceWebhooks } from "@/modules/webhook/mod.ts";
import { assertAddressAllowed, type Outbound } from "@/ports/outbound.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { PluginCaller } from "./caller.ts";
import { encryptionContext } from "./http_transport.ts";
import { mayStartProcesses } from "./process_transport.ts";
import { pluginOf, type PluginRegistry, pluginsChanged, principalOf } from "./registry.ts";
import { type Manifest, type Plugin, type PluginGrant, PLUGINS_MAX, type PluginUpdate } from "./schema.ts";
import { grantedScopes, type PluginRow, PluginStore, type PluginTables } from "./store.ts";

/** A stream without events: its lock serializes changes of the plugins of a tenant. */
const CHANGES_LOCK = "plugin:changes";

type Tx = Transaction<PluginTables>;
type Deps = {
  store: Store<PluginTables>;
  clock: Clock;
  encryptor: Encryptor;
  outbound: Pick<Outbound, "assertAllowed">;
  /** All modules, whose scopes a plugin may need. */
  modules: readonly Module[];
  principals: ServicePrincipals;
  webhooks: ServiceWebhooks;
  registry: PluginRegistry;
  caller: PluginCaller;
};
type NewPlugin = Plugin & { token: string; secret: string | null };
type PluginEvent = "plugin.enabled" | "plugin.disabled" | "plugin.upgraded";
/** A change of a row, and the event that it causes. */
type Change = { row: PluginRow; event?: PluginEvent };

export class PluginService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list({ actor }: Context): Promise<Plugin[]> {
    const rows = await new PluginStore(this.#deps.store.db).list(actor.tenantId);
    return rows.map((row) => this.#present(row));
  }

  async read({ actor }: Context, id: string): Promise<Plugin> {
    return this.#present(await requirePlugin(new PluginStore(this.#deps.store.db), actor.tenantId, id));
  }

  /** What a plugin may know of itself; `undefined` for other callers. */
  async own(actor: Actor): Promise<{ manifest: Manifest; scopes: string[]; config: FormValues } | undefined> {
    const { tenantId, principalId } = actor;
    const id = pluginOf(principalId);
    if (id === undefined) return undefined;
    const row = await new PluginStore(this.#deps.store.db).find(tenantId, id);
    if (row === undefined) return undefined;
    const scopes = grantedScopes(row);
    // Any admin may create tokens of the plugin. One with less than the plugin has is not for its secrets.
    assertHasScopes(actor, scopes);
    return { manifest: manifestOf(row), scopes, config: this.#configOf(row) };
  }

  async install({ actor }: Context, manifest: Manifest): Promise<NewPlugin> {
    const { store, clock, encryptor, principals } = this.#deps;
    const { tenantId } = actor;
    this.#assertUsable(manifest);
    return await store.write(async (tx) => {
      await tx.lock(tenantId, CHANGES_LOCK);
      const plugins = new PluginStore(tx.db);
      const existing = await plugins.list(tenantId);
      if (existing.some(({ id }) => id === manifest.id)) throw new Fault("conflict", `${manifest.id} is installed`);
      if (existing.length >= PLUGINS_MAX) {
        throw new Fault("limit_reached", `A tenant has at most ${PLUGINS_MAX} plugins`);
      }
      const secret = manifest.transport === "http" ? newSigningSecret() : null;
      const at = iso(clock.now());
      const row: PluginRow = {
        tenant_id: tenantId,
        id: manifest.id,
        manifest_json: JSON.stringify(manifest),
        state: "disabled",
        granted_scopes: "",
        config_encrypted: null,
        secret_encrypted: secret && encryptor.encrypt(secret, encryptionContext("secret", tenantId, manifest.id)),
        version: 1,
        created_by: actor.principalId,
        created_at: at,
        updated_at: at,
      };
      await plugins.add(row);
      await principals.create(tx, tenantId, principalOf(manifest.id), manifest.name);
      const token = await principals.createToken(tx, tenantId, principalOf(manifest.id), actor.principalId);
      return { ...this.#present(row), token, secret };
    });
  }

  /**
   * Upgrades or configures a plugin. A version that needs further scopes is paused until an admin grants them. With those that are
   * granted, it does what the caller says: so the caller's token must have them, as for the grant.
   */
  update(context: Context, { id, manifest, config, version }: PluginUpdate): Promise<Plugin> {
    if (manifest !== undefined) this.#assertUsable(manifest);
    return this.#change(context, id, (row) => {
      assertHasScopes(context.actor, grantedScopes(row));
      assertVersion("plugin", row.version, version);
      const before = manifestOf(row);
      const after = manifest ?? before;
      if (after.id !== id) throw Fault.forField("/manifest/id", "invalid_value", `expected ${id}`);
      if (after.transport !== before.transport) {
        throw Fault.forField("/manifest/transport", "invalid_value", "cannot change; install the plugin again");
      }
      const set: PluginRow = { ...row, manifest_json: JSON.stringify(after) };
      if (config !== undefined) {
        checkValues(after.configSchema, config, "/config");
        const context = encryptionContext("config", row.tenant_id, id);
        set.config_encrypted = this.#deps.encryptor.encrypt(JSON.stringify(config), context);
      }
      if (manifest === undefined) return { row: set };
      // What it no longer asks for, it no longer has.
      set.granted_scopes = grantedScopes(row).filter((scope) => after.scopes.includes(scope)).join(" ");
      return { row: withState(set), event: "plugin.upgraded" };
    });
  }

  /** Replaces the granted scopes. A paused plugin that then has all is enabled; an enabled one that lacks some is paused. */
  grant(context: Context, { id, scopes }: PluginGrant): Promise<Plugin> {
    return this.#change(context, id, (row) => {
      const { scopes: wanted } = manifestOf(row);
      for (const [n, scope] of scopes.entries()) {
        if (!wanted.includes(scope)) {
          throw Fault.forField(`/scopes/${n}`, "invalid_value", "the manifest does not ask for it");
        }
      }
      assertHasScopes(context.actor, scopes);
      const set = withState({ ...row, granted_scopes: [...new Set(scopes)].join(" ") });
      if (set.state === row.state) return { row: set };
      return { row: set, event: set.state === "enabled" ? "plugin.enabled" : "plugin.disabled" };
    });
  }

  enable(context: Context, id: string): Promise<Plugin> {
    return this.#change(context, id, (row) => {
      const missing = missingScopes(row);
      if (missing.length > 0) throw new Fault("grant_missing", `Grant ${missing.join(", ")} first`);
      assertHasScopes(context.actor, grantedScopes(row));
      const config = this.#configOf(row);
      const absent = manifestOf(row).configSchema.filter(({ required, name }) => required && !(name in config));
      if (absent.length > 0) {
        throw new Fault("conflict", `Configure ${absent.map(({ name }) => name).join(", ")} first`);
      }
      // Also where it is: the delivery of its events may have ended.
      const enabled = { row: { ...row, state: "enabled" as const } };
      return row.state === "enabled" ? enabled : { ...enabled, event: "plugin.enabled" };
    });
  }

  disable(context: Context, id: string): Promise<Plugin> {
    return this.#change(
      context,
      id,
      (row) => row.state === "disabled" ? { row } : { row: { ...row, state: "disabled" }, event: "plugin.disabled" },
    );
  }

  /** Removes it with its tokens and filters; its messages stay. */
  async uninstall({ actor }: Context, id: string): Promise<void> {
    const { store, principals, webhooks, registry } = this.#deps;
    const { tenantId } = actor;
    await store.write(async (tx) => {
      await tx.lock(tenantId, CHANGES_LOCK);
      const plugins = new PluginStore(tx.db);
      const row = await requirePlugin(plugins, tenantId, id);
      await plugins.remove(tenantId, id);
      await webhooks.remove(tx, tenantId, principalOf(id));
      await principals.end(tx, tenantId, principalOf(id), actor);
      if (row.state !== "disabled") await this.#emit(tx, actor, { ...row, state: "disabled" }, "plugin.disabled");
      tx.signal(pluginsChanged.create(tenantId, id));
    });
    await registry.reload();
  }

  async #change({ actor }: Context, id: string, change: (row: PluginRow) => Change): Promise<Plugin> {
    const { store, clock, principals, webhooks, registry, caller } = this.#deps;
    const { tenantId } = actor;
    const after = await store.write(async (tx) => {
      await tx.lock(tenantId, CHANGES_LOCK);
      const plugins = new PluginStore(tx.db);
      const before = await requirePlugin(plugins, tenantId, id);
      const { row, event } = change(before);
      if (row === before) return row;
      const set = { ...row, version: row.version + 1, updated_at: iso(clock.now()) };
      await plugins.update(set);
      const { name: displayName } = manifestOf(set);
      const service = { displayName, scopes: grantedScopes(set), isEnabled: set.state === "enabled" };
      await principals.change(tx, tenantId, principalOf(id), service, actor);
      await this.#putWebhook(tx, set);
      if (event !== undefined) await this.#emit(tx, actor, set, event);
      tx.signal(pluginsChanged.create(tenantId, id));
      return set;
    });
    caller.reset(tenantId, id);
    webhooks.wake(tenantId, principalOf(id));
    // The next call of this client meets the plugin as it is now; other nodes get the signal.
    await registry.reload();
    return this.#present(after);
  }

  /** The events of a plugin over HTTP are delivered as those of a webhook: in order, at least once, by the rights of the plugin. */
  async #putWebhook(tx: Tx, row: PluginRow): Promise<void> {
    const { endpoint: url, events, name: description } = manifestOf(row);
    const { tenant_id: tenantId, id, created_by: responsibleId } = row;
    const secret = row.secret_encrypted === null
      ? undefined
      : this.#deps.encryptor.decrypt(row.secret_encrypted, encryptionContext("secret", tenantId, id));
    if (url === undefined || secret === undefined) return;
    await this.#deps.webhooks.put(tx, {
      tenantId,
      principalId: principalOf(id),
      description,
      responsibleId,
      url,
      secret,
      events,
      scopes: grantedScopes(row),
      isEnabled: row.state === "enabled",
    });
  }

  async #emit(tx: Tx, actor: Actor, row: PluginRow, type: PluginEvent): Promise<void> {
    const data = { plugin: this.#present(row) };
    await tx.emit(principalEvent(actor, row.created_by, type, data));
  }

  #assertUsable({ endpoint, transport, events, scopes }: Manifest): void {
    if (transport === "process" && !mayStartProcesses()) {
      throw Fault.forField("/manifest/transport", "not_available", "plugins run here only by the task start:plugins");
    }
    if (endpoint !== undefined) assertAddressAllowed(this.#deps.outbound, endpoint, "/manifest/endpoint");
    this.#deps.webhooks.assertKnown(events, "/manifest/events");
    assertScopesExist(this.#deps.modules, scopes, "/manifest/scopes");
  }

  #configOf({ tenant_id, id, config_encrypted }: PluginRow): FormValues {
    if (config_encrypted === null) return {};
    const text = this.#deps.encryptor.decrypt(config_encrypted, encryptionContext("config", tenant_id, id));
    return text === undefined ? {} : JSON.parse(text);
  }

  #present(row: PluginRow): Plugin {
    return {
      id: row.id,
      principalId: principalOf(row.id),
      manifest: manifestOf(row),
      state: row.state,
      grantedScopes: grantedScopes(row),
      missingScopes: missingScopes(row),
      configured: Object.keys(this.#configOf(row)),
      createdBy: row.created_by,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
      version: row.version,
    };
  }
}

export async function requirePlugin(plugins: PluginStore, tenantId: string, id: string): Promise<PluginRow> {
  const row = await plugins.find(tenantId, id);
  if (row === undefined) throw notFound("plugin");
  return row;
}

export function manifestOf(row: PluginRow): Manifest {
  return JSON.parse(row.manifest_json);
}

/** Throws unless the caller's token has all of these scopes: what it lets a plugin do, it must be able to do itself. */
function assertHasScopes(actor: Actor, scopes: readonly string[]): void {
  const missing = scopes.find((scope) => !hasScope(actor, scope));
  if (missing !== undefined) throw new Fault("scope_missing", `The caller's token lacks the scope ${missing}`);
}

/** A plugin is paused while it lacks a scope that it asks for. */
function withState(row: PluginRow): PluginRow {
  if (row.state === "disabled") return row;
  return { ...row, state: missingScopes(row).length > 0 ? "paused" : "enabled" };
}

function missingScopes(row: PluginRow): string[] {
  const granted = new Set(grantedScopes(row));
  return manifestOf(row).scopes.filter((scope) => !granted.has(scope));
}
