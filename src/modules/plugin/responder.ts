// Responses that plugins send by themselves: to commands and actions, and the decisions of filters.
import { notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Interactions } from "@/modules/command/mod.ts";
import { principalOf } from "./registry.ts";
import type { PluginRespond } from "./schema.ts";
import type { SocketTransport } from "./socket_transport.ts";

export class PluginResponder {
  readonly #deps: { interactions: Interactions; socket: SocketTransport };

  constructor(deps: { interactions: Interactions; socket: SocketTransport }) {
    this.#deps = deps;
  }

  async respond(context: Context, { id, response }: PluginRespond): Promise<void> {
    const { interactions, socket } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const pluginId = principalId.slice(principalOf("").length);
    if (principalOf(pluginId) !== principalId) throw notFound("call of the caller");
    switch (response.kind) {
      case "pass":
      case "replace":
      case "refuse":
        // What nobody waits for any more is dropped.
        return socket.decide(tenantId, pluginId, id, response);
      default:
        await interactions.respond(context, { id, response });
        socket.responded(tenantId, pluginId, id);
    }
  }
}
