// Calls of plugins that are connected to `/ws`. Commands and actions are events of the plugin's stream: a plugin that reconnects
// recovers them. Filters are asked without storing anything. Responses may arrive at any node, and are passed on by the bus.
import { type Clock, iso } from "@/core/time/clock.ts";
import { pluginStream } from "@/core/event/event.ts";
import type { Bus, BusSubscription } from "@/ports/bus.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { ActivePlugin } from "./registry.ts";
import type { Decision } from "./schema.ts";
import { type Call, checkResponse, type PluginResponse, type PluginTransport, responseTo } from "./transport.ts";

/** How long a call waits for its response; later ones are events. */
const EARLY_MS = 3000;

type Deps = { store: Store<unknown>; clock: Clock; bus: Bus; timeoutFactor: number };
/** `topic`: where its plugin responds. */
type Pending = Pick<Call, "kind"> & Omit<PromiseWithResolvers<PluginResponse>, "promise"> & { topic: string };

export class SocketTransport {
  readonly #deps: Deps;
  /** Calls of this node that wait for a response, by id. */
  readonly #pending = new Map<string, Pending>();
  /** Responses from other nodes, by the plugin that they are of. */
  readonly #listeners = new Map<string, Promise<BusSubscription>>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  readonly call: PluginTransport = async (plugin, call) => {
    const { tenantId, id: pluginId } = plugin;
    const topic = replyTopic(tenantId, pluginId);
    await this.#listen(topic);
    const { promise, resolve, reject } = responseTo(call);
    this.#pending.set(call.id, { kind: call.kind, topic, resolve, reject });
    let early: ReturnType<typeof setTimeout> | undefined;
    try {
      if (call.kind === "message.before_send") this.#publish(plugin, call);
      else {
        const earlyMs = Math.min(EARLY_MS * this.#deps.timeoutFactor, call.timeoutMs);
        early = setTimeout(() => resolve({ kind: "accepted" }), earlyMs);
        await this.#emit(plugin, call);
      }
      return await promise;
    } finally {
      clearTimeout(early);
      this.#pending.delete(call.id);
    }
  };

  /** Passes on what a plugin decided about a message, to the node that waits for it. */
  decide(tenantId: string, pluginId: string, callId: string, decision: Decision): void {
    this.#reply(tenantId, pluginId, { callId, response: decision });
  }

  /** Wakes the node that waits for the response to a command, which is stored already. */
  responded(tenantId: string, pluginId: string, callId: string): void {
    this.#reply(tenantId, pluginId, { callId, response: { kind: "accepted" } });
  }

  async stop(): Promise<void> {
    for (const listener of this.#listeners.values()) (await listener).close();
    this.#listeners.clear();
  }

  #emit({ tenantId, id: pluginId }: ActivePlugin, { id, kind, data }: Call): Promise<unknown> {
    return this.#deps.store.write((tx) =>
      tx.emit({ tenantId, stream: pluginStream(pluginId), type: "plugin.called", data: { id, call: kind, data } })
    );
  }

  #publish({ tenantId, id: pluginId }: ActivePlugin, { id, kind, data }: Call): void {
    const channel = pluginStream(pluginId);
    const json = JSON.stringify({
      type: "plugin.filter",
      at: iso(this.#deps.clock.now()),
      data: { id, call: kind, data },
    });
    this.#deps.bus.publish(streamKey(tenantId, channel), { kind: "ephemeral", event: { tenantId, channel, json } });
  }

  #reply(tenantId: string, pluginId: string, reply: { callId: string; response: PluginResponse }): void {
    const channel = replyChannel(pluginId);
    const event = { tenantId, channel, json: JSON.stringify(reply) };
    this.#deps.bus.publish(replyTopic(tenantId, pluginId), { kind: "ephemeral", event });
  }

  async #listen(topic: string): Promise<void> {
    let listener = this.#listeners.get(topic);
    if (listener === undefined) {
      listener = this.#deps.bus.subscribe(topic, (message) => {
        if (message.kind === "ephemeral") this.#onReply(topic, message.event.json);
      });
      this.#listeners.set(topic, listener);
      listener.catch(() => this.#listeners.delete(topic)); // the call below fails, and the next one tries again
    }
    await listener;
  }

  #onReply(topic: string, json: string): void {
    const { callId, response } = JSON.parse(json) as { callId: string; response: unknown };
    const pending = this.#pending.get(callId);
    // A plugin responds to its own calls only.
    if (pending === undefined || pending.topic !== topic) return;
    try {
      pending.resolve(checkResponse(pending.kind, response));
    } catch (thrown) {
      pending.reject(thrown);
    }
  }
}

/** Nobody can subscribe to it: there is no such kind of channel. */
function replyChannel(pluginId: string): string {
  return `plugin_reply:${pluginId}`;
}

function replyTopic(tenantId: string, pluginId: string): string {
  return streamKey(tenantId, replyChannel(pluginId));
}
