// Responses that plugins send by themselves: to commands and actions, and the decisions of filters.
import { notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Filtered, Interactions } from "@/modules/command/mod.ts";
import { pluginOf } from "./registry.ts";
import type { Decision, PluginRespond } from "./schema.ts";
import type { SocketTransport } from "./socket_transport.ts";

export class PluginResponder {
  readonly #deps: { interactions: Interactions; socket: SocketTransport };

  constructor(deps: { interactions: Interactions; socket: SocketTransport }) {
    this.#deps = deps;
  }

  /** Filters of the room decide on responses before the transaction that delivers them. */
  prepare(context: Context, { id, response }: PluginRespond): Promise<Filtered | undefined> | undefined {
    return isDecision(response) ? undefined : this.#deps.interactions.prepare(context, { id, response });
  }

  async respond(context: Context, { id, response }: PluginRespond, filtered: Filtered | undefined): Promise<void> {
    const { interactions, socket } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const pluginId = pluginOf(principalId);
    if (pluginId === undefined) throw notFound("call of the caller");
    // What nobody waits for is dropped.
    if (isDecision(response)) return socket.decide(tenantId, pluginId, id, response);
    await interactions.respond(context, { id, response }, filtered);
    socket.responded(tenantId, pluginId, id);
  }
}

function isDecision(response: PluginRespond["response"]): response is Decision {
  return response.kind === "pass" || response.kind === "replace" || response.kind === "refuse";
}
