// Commands of plugins in rooms that they are members of, and the elements of their messages.
import { chargedTo, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import type {
  ActionCall,
  ActionTarget,
  CommandCall,
  CommandSource,
  Interaction,
  InteractionResponse,
  OfferedCommand,
  Responder,
} from "@/core/interaction/interaction.ts";
import { RoomStore, type RoomTables } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { PluginCaller } from "./caller.ts";
import type { ActivePlugin, PluginRegistry } from "./registry.ts";
import type { CallKind } from "./schema.ts";

/** Less than the caller of a command waits, so that it learns what happened. */
const TIMEOUT_MS = 9000;
const KIND = "plugin";

type Deps = { store: Store<RoomTables>; registry: PluginRegistry; caller: PluginCaller; timeoutFactor: number };

export class PluginInteractions implements CommandSource, ActionTarget {
  readonly kind = KIND;
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(tenantId: string, roomId: string): Promise<readonly OfferedCommand[]> {
    const plugins = (await this.#deps.registry.enabledOf(tenantId)).filter(({ manifest }) =>
      manifest.commands.length > 0
    );
    if (plugins.length === 0) return [];
    const ids = plugins.map(({ principalId }) => principalId);
    const viewers = await new RoomStore(this.#deps.store.db).viewers(tenantId, roomId, ids);
    const members = new Set(
      viewers.filter(({ my_role: role }) => role !== null && isAtLeast(ROOM_ROLES, role, "member")).map(({ id }) => id),
    );
    return plugins.filter(({ principalId }) => members.has(principalId)).flatMap((plugin) =>
      plugin.manifest.commands.map(({ name, description, input }) => ({
        name,
        description,
        sourceId: plugin.id,
        sourceName: plugin.manifest.name,
        fields: input,
        responder: responderOf(plugin),
      }))
    );
  }

  async run({ command, text, args, ...interaction }: CommandCall): Promise<InteractionResponse> {
    const plugin = await this.#find(interaction.tenantId, command.responder.principalId);
    // Disabled since it was listed.
    if (plugin === undefined) throw new Fault("plugin_unavailable", "The plugin is not enabled");
    return await this.#call(plugin, "command.run", interaction, { name: command.name, text, args });
  }

  async find(tenantId: string, senderId: string): Promise<Responder | undefined> {
    const plugin = await this.#find(tenantId, senderId);
    return plugin && responderOf(plugin);
  }

  async invoke(
    { messageId, elementId, value, values, responderId, ...interaction }: ActionCall,
  ): Promise<InteractionResponse> {
    const plugin = await this.#find(interaction.tenantId, responderId);
    if (plugin === undefined || !plugin.manifest.actions.some((pattern) => matches(pattern, elementId))) {
      throw new Fault("gone", "The plugin does not accept actions of this element");
    }
    return await this.#call(plugin, "action.invoke", interaction, {
      messageId,
      elementId,
      value: value ?? null,
      values,
    });
  }

  async #find(tenantId: string, principalId: string): Promise<ActivePlugin | undefined> {
    return (await this.#deps.registry.enabledOf(tenantId)).find((plugin) => plugin.principalId === principalId);
  }

  async #call(
    plugin: ActivePlugin,
    kind: CallKind,
    { id, tenantId, signal, roomId, callerId, callerName, threadId, expiresAt }: Interaction,
    own: Record<string, unknown>,
  ): Promise<InteractionResponse> {
    const callerKey = chargedTo({ tenantId, principalId: callerId, ownerId: null });
    const data = { ...own, roomId, callerId, callerName, threadId, expiresAt };
    const { caller, timeoutFactor } = this.#deps;
    const response = await caller.call(plugin, callerKey, {
      id,
      kind,
      data,
      timeoutMs: TIMEOUT_MS * timeoutFactor,
      signal,
    });
    return response as InteractionResponse; // the transport has checked what this kind of call expects
  }
}

function responderOf({ principalId, scopes }: ActivePlugin): Responder {
  return { principalId, scopes };
}

/** An id, or the start of one followed by `*`. */
function matches(pattern: string, id: string): boolean {
  return pattern.endsWith("*") ? id.startsWith(pattern.slice(0, -1)) : id === pattern;
}
