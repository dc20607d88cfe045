// Filters of messages: asked before a message is sent or edited, and before any transaction, in rooms that enabled them.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { type FilteredMessage, type MessageFilter, partsOfText } from "@/modules/message/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { PluginCaller } from "./caller.ts";
import type { ActivePlugin, PluginRegistry } from "./registry.ts";
import { type Decision, FILTERS_MAX } from "./schema.ts";

/** Time for all filters of a message, or of a part of a long text, together. */
const TOTAL_MS = 2000;

type Deps = {
  store: Pick<Store<unknown>, "isInTransaction">;
  registry: PluginRegistry;
  caller: PluginCaller;
  roomAccess: RoomAccess;
  timeoutFactor: number;
};

export class MessageFilters implements MessageFilter {
  readonly #deps: Deps;
  /** The last message of each sender and room that is being filtered: messages leave in the order in which they came. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get isActive(): boolean {
    return this.#deps.registry.hasFilters;
  }

  appliesTo(tenantId: string, roomId: string): boolean {
    return this.#deps.registry.isFiltered(tenantId, roomId);
  }

  async apply<Message extends FilteredMessage>(context: Context, roomId: string, message: Message): Promise<Message> {
    const { registry, roomAccess, store } = this.#deps;
    const { actor } = context;
    const plugins = (await registry.filtersOf(actor.tenantId, roomId)).filter(({ principalId }) =>
      // A plugin that filtered its own messages would never end.
      principalId !== actor.principalId
    );
    if (plugins.length === 0 || message.text === undefined || message.text === "") return message;
    // The transaction would wait for the plugin, and everybody for the transaction.
    if (store.isInTransaction) throw new TypeError("Expected filters to be asked before the transaction");
    // Plugins are called only for callers that may send.
    await roomAccess.require(context, roomId);
    const key = `${chargedTo(actor)} ${actor.principalId} ${roomId}`;
    const before = this.#last.get(key);
    const filtering = this.#filter(actor, roomId, message, plugins);
    const inOrder = Promise.allSettled([before, filtering]).then(() => filtering);
    // Failures are those of `filtering`, which the caller receives.
    const settled = inOrder.catch(() => undefined).finally(() => {
      if (this.#last.get(key) === settled) this.#last.delete(key);
    });
    this.#last.set(key, settled);
    return await inOrder;
  }

  async #filter<Message extends FilteredMessage>(
    actor: Actor,
    roomId: string,
    message: Message,
    plugins: readonly ActivePlugin[],
  ): Promise<Message> {
    const failed = new Set<string>();
    let text = "";
    // Plugins see texts that are as long as messages.
    for (const part of partsOfText(message.text ?? "")) {
      text += await this.#filterText(actor, roomId, { ...message, text: part.text }, { plugins, failed });
      text += part.separator;
    }
    // Says what was found now: the message may be marked by an earlier look, such as when it was scheduled.
    const { unfiltered: _earlier, ...metadata } = message.metadata ?? {};
    if (failed.size > 0) return { ...message, text, metadata: { ...metadata, unfiltered: [...failed] } };
    return { ...message, text, ...message.metadata === undefined ? {} : { metadata } };
  }

  /** What a text becomes. Adds plugins that failed to `failed`; those are not asked again. */
  async #filterText(
    actor: Actor,
    roomId: string,
    message: FilteredMessage & { text: string },
    { plugins, failed }: { plugins: readonly ActivePlugin[]; failed: Set<string> },
  ): Promise<string> {
    const until = performance.now() + TOTAL_MS * this.#deps.timeoutFactor;
    let { text } = message;
    for (const plugin of plugins.slice(0, FILTERS_MAX)) {
      if (failed.has(plugin.id)) continue;
      const decision = await this.#ask(plugin, actor, roomId, { ...message, text }, until);
      if (decision === undefined) failed.add(plugin.id);
      else if (decision.kind === "replace") text = decision.text;
      else if (decision.kind === "refuse") throw new Fault("plugin_refused", decision.reason);
    }
    return text;
  }

  /** The decision of a plugin; `undefined` if it failed and the message may be sent without it. */
  async #ask(
    plugin: ActivePlugin,
    actor: Actor,
    roomId: string,
    { text, format, threadId }: FilteredMessage,
    until: number,
  ): Promise<Decision | undefined> {
    const { caller, timeoutFactor } = this.#deps;
    const [hook] = plugin.manifest.hooks;
    if (hook === undefined) return { kind: "pass" };
    const leftMs = Math.floor(until - performance.now());
    const data = {
      roomId,
      senderId: actor.principalId,
      text,
      format: format ?? "markdown",
      threadId: threadId ?? null,
    };
    try {
      if (leftMs <= 0) throw new Fault("plugin_timeout", "The filters of the room took too long");
      return await caller.call(plugin, chargedTo(actor), {
        id: newId("call"),
        kind: "message.before_send",
        data,
        timeoutMs: Math.min(hook.timeoutMs * timeoutFactor, leftMs),
      }) as Decision; // the transport has checked what this kind of call expects
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown;
      if (hook.failure === "open") return undefined;
      const detail = `Messages of this room are checked by ${plugin.manifest.name}, which is not available`;
      throw new Fault("plugin_unavailable", detail, { cause: thrown, retryAfterMs: 5000 });
    }
  }
}
