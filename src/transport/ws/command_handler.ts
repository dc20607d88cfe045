// Executes the commands of clients and replies to them.
import { Buffer } from "node:buffer";
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { hopsOf } from "@/core/agent_hops.ts";
import { measureCpu, measureOn, runInTurn } from "@/core/caller.ts";
import { type Clock, delay, iso } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { Dispatch } from "@/core/dispatch.ts";
import type { EphemeralEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { INPUT_ERRORS } from "@/core/input/input_error.ts";
import type { Operation } from "@/core/operation.ts";
import { suggestionFor } from "@/core/input/suggestion.ts";
import { isLongerThan } from "@/core/text/text.ts";
import type { ClientInfo, Presence } from "@/ports/presence.ts";
import type { ChannelRules } from "./channel_fanout.ts";
import { type ConnectHandler, logCommandFailure, requestIdOf } from "./connect_handler.ts";
import type { Connection } from "./connection.ts";
import type { ConcurrencyGroup } from "./command_queue.ts";
import {
  channelErrorOf,
  type Command,
  type CommandOf,
  describeIssue,
  encodeReply,
  ERRORS,
  ProtocolError,
  type ReplyError,
  replyErrorOf,
} from "./protocol.ts";
import type { History } from "./history.ts";
import type { SubscribeHandler } from "./subscribe_handler.ts";

const EPHEMERAL_MAX_BYTES = 1024;
/** Upper bound of a reply without data. */
const REPLY_BYTES = 256;
/** Interval of checks whether a slow client has read. */
const CAPACITY_POLL_MS = 20;

/** What clients may publish. */
const Publication = z.strictObject({ type: z.string().max(64), data: z.unknown().optional() });

type CommandHandlerDeps = {
  connectHandler: ConnectHandler;
  subscribeHandler: SubscribeHandler;
  history: History;
  presence: Presence;
  operations: ReadonlyMap<string, Operation>;
  dispatch: Dispatch;
  clock: Clock;
  /** CPU time of callers; absent where it is not limited. */
  cpu: CpuBudget | undefined;
  outboxMaxBytes: number;
  publish: (event: EphemeralEvent) => void;
};

export class CommandHandler {
  readonly #deps: CommandHandlerDeps;

  constructor(deps: CommandHandlerDeps) {
    this.#deps = deps;
  }

  /** The group of commands that this one may run concurrently with. */
  concurrencyGroupOf(command: Command): ConcurrencyGroup | undefined {
    // A client sends these for all of its channels at once, with a timeout of some seconds for each.
    const { method } = command;
    if (method === "subscribe" || method === "presence" || method === "presence_stats") return method;
    if (method !== "rpc") return undefined;
    const operation = this.#deps.operations.get(command.body.method);
    return operation?.concurrent ? operation : undefined;
  }

  /** Executes a command and replies to it; never throws. */
  async run(connection: Connection, command: Command): Promise<void> {
    try {
      await this.#execute(connection, command);
    } catch (thrown) {
      await this.#waitForCapacity(connection, REPLY_BYTES);
      connection.fail(command.id, this.#errorOf(connection, command, thrown));
    }
  }

  #execute(connection: Connection, command: Command): Promise<void> | void {
    switch (command.method) {
      case "invalid":
        throw new ProtocolError(command.body);
      case "connect":
        return this.#deps.connectHandler.connect(connection, command);
      case "refresh":
        return this.#deps.connectHandler.refresh(connection, command);
      case "subscribe":
        return this.#onAccount(connection, () => this.#subscribe(connection, command));
      case "unsubscribe":
        return this.#unsubscribe(connection, command);
      case "publish":
        return this.#onAccount(connection, () => this.#publish(connection, command));
      case "presence":
      case "presence_stats":
        return this.#onAccount(connection, () => this.#presence(connection, command));
      case "history":
        return this.#onAccount(connection, () => this.#history(connection, command));
      case "rpc":
        return this.#rpc(connection, command);
      case "sub_refresh":
      case "ping":
        throw new ProtocolError(ERRORS.notAvailable);
    }
  }

  /** Charges the caller for a command about a channel. */
  #onAccount({ actor }: Connection, work: () => Promise<void>): Promise<void> {
    return runInTurn(actor && this.#deps.cpu?.accountOf(actor), work);
  }

  async #subscribe(connection: Connection, { id, body }: CommandOf<"subscribe">): Promise<void> {
    const opened = await this.#deps.subscribeHandler.subscribe(connection, body);
    // Missed events that do not fit in the reply are pushed after it.
    await this.#waitForCapacity(connection, REPLY_BYTES);
    opened.subscription.assertOpen();
    connection.reply(measureCpu(() => encodeReply(id, "subscribe", opened.body())));
    opened.subscription.activate();
  }

  /** Always succeeds: a client that gets an error here drops its connection. */
  #unsubscribe(connection: Connection, { id, body }: CommandOf<"unsubscribe">): void {
    const subscription = connection.subscriptions.get(body.channel);
    if (subscription?.isServerSide === false) subscription.unsubscribe();
    connection.reply(encodeReply(id, "unsubscribe", "{}"));
  }

  async #publish(connection: Connection, { id, body: { channel, data } }: CommandOf<"publish">): Promise<void> {
    const { actor } = connection;
    const { kind, id: channelId } = this.#deps.subscribeHandler.kindOf(channel);
    const publication = Publication.safeParse(data);
    const type = publication.data?.type ?? "";
    const ephemeral = Object.hasOwn(kind.ephemeral, type) ? kind.ephemeral[type] : undefined;
    if (actor === undefined || ephemeral === undefined) {
      const types = Object.keys(kind.ephemeral).join(", ");
      throw new ProtocolError(
        ERRORS.permissionDenied,
        `publish expects {type, data} with type ${types === "" ? "none" : types} in this channel; use rpc for ` +
          "everything else",
      );
    }
    const parsed = ephemeral.data.safeParse(publication.data?.data, INPUT_ERRORS);
    if (!parsed.success) throw new ProtocolError(ERRORS.badRequest, describeIssue(parsed.error, "data"));
    const maxBytes = ephemeral.maxBytes ?? EPHEMERAL_MAX_BYTES;
    const encoded = JSON.stringify(parsed.data) ?? "null";
    if (isLongerThan(encoded, maxBytes)) {
      throw new ProtocolError(ERRORS.limitExceeded, `data of ${type} may have at most ${maxBytes} bytes`);
    }
    await kind.authorize(actor, channelId, "publish");
    const principalIds = await ephemeral.recipients?.(parsed.data, { actor, id: channelId });
    this.#deps.publish({
      tenantId: actor.tenantId,
      channel,
      json: `${JSON.stringify(this.#head(type, actor)).slice(0, -1)},"data":${encoded}}`,
      infoJson: JSON.stringify(connection.info()),
      principalIds,
    });
    await this.#reply(connection, id, "publish", () => "{}");
  }

  #head(type: string, actor: Actor): Record<string, unknown> {
    return { type, at: iso(this.#deps.clock.now()), actor: { id: actor.principalId, kind: actor.kind } };
  }

  async #presence(
    connection: Connection,
    { method, id, body }: CommandOf<"presence"> | CommandOf<"presence_stats">,
  ): Promise<void> {
    const subscription = connection.subscriptions.get(body.channel);
    if (subscription?.isLive !== true) throw new ProtocolError(ERRORS.permissionDenied, "subscribe first");
    const { fanout } = subscription;
    const clients = fanout.hasPresence ? await this.#deps.presence.list(fanout.key) : [];
    if (!fanout.hasPresence || clients.length > fanout.rules.presenceMax) throw new ProtocolError(ERRORS.notAvailable);
    const visible = await this.#visibleClients(connection, fanout.rules, clients);
    const result = method === "presence"
      ? { presence: Object.fromEntries(visible.map((info) => [info.client, info])) }
      : { num_clients: visible.length, num_users: new Set(visible.map((info) => info.user)).size };
    const recheck = () => this.#authorize(connection, body.channel);
    await this.#reply(connection, id, method, () => JSON.stringify(result), recheck);
  }

  /** The clients of principals that the caller may see. */
  async #visibleClients(
    { actor }: Connection,
    { presenceVisibility }: ChannelRules,
    clients: readonly ClientInfo[],
  ): Promise<readonly ClientInfo[]> {
    if (presenceVisibility === undefined) return clients;
    if (actor === undefined) throw new ProtocolError(ERRORS.unauthorized);
    const ids = new Set(clients.map(({ user }) => user));
    const visible = await presenceVisibility.filterVisibleIds(actor, [...ids]);
    return clients.filter(({ user }) => visible.has(user));
  }

  async #history(connection: Connection, { id, body }: CommandOf<"history">): Promise<void> {
    const { actor, subscriptions } = connection;
    if (actor === undefined) throw new ProtocolError(ERRORS.unauthorized);
    const subscription = subscriptions.get(body.channel);
    const { isDurable, hiddenUpTo } = subscription?.isLive === true
      ? { isDurable: subscription.fanout.rules.isDurable, hiddenUpTo: subscription.hiddenUpTo }
      : await this.#authorize(connection, body.channel);
    const view = { hiddenUpTo, filter: connection.eventFilter };
    if (!isDurable) throw new ProtocolError(ERRORS.notAvailable);
    const page = await this.#deps.history.read(actor.tenantId, body, view);
    const recheck = subscription?.isServerSide === true ? undefined : () => this.#authorize(connection, body.channel);
    await this.#reply(connection, id, "history", () => page, recheck);
  }

  /**
   * Throws unless the client may see the channel now. Call after reading the data of a reply: the data may be newer than the
   * last check, and than the last event that the subscription received.
   */
  async #authorize({ actor }: Connection, channel: string): Promise<{ isDurable: boolean; hiddenUpTo: number }> {
    if (actor === undefined) throw new ProtocolError(ERRORS.unauthorized);
    const { kind, id } = this.#deps.subscribeHandler.kindOf(channel);
    const granted = await kind.authorize(actor, id, "subscribe");
    return { isDurable: kind.isDurable, hiddenUpTo: granted?.hiddenUpTo ?? 0 };
  }

  async #rpc(connection: Connection, { id, body }: CommandOf<"rpc">): Promise<void> {
    const { actor } = connection;
    const operation = this.#deps.operations.get(body.method);
    if (actor === undefined) throw new ProtocolError(ERRORS.unauthorized);
    // Dispatch charges the caller for all others.
    if (operation === undefined) return await this.#onAccount(connection, () => this.#refuseRpc(body.method));
    const outcome = await this.#deps.dispatch(operation, {
      actor,
      input: body.data,
      requestId: requestIdOf(connection, id),
      via: "ws",
      client: connection.meta,
      agentHops: hopsOf(body.baggage),
      signal: connection.signal,
    });
    const { output } = outcome;
    const encode = (): string => output === undefined || output === null ? "{}" : `{"data":${outcome.json}}`;
    await this.#reply(connection, id, "rpc", encode);
  }

  #refuseRpc(method: string): Promise<never> {
    const suggestion = suggestionFor(method, [...this.#deps.operations.keys()]);
    return Promise.reject(new ProtocolError(ERRORS.methodNotFound, `no operation has this name${suggestion}`));
  }

  /**
   * Replies once the outbox has capacity, which pushes may have filled meanwhile. The caller is charged for `encode`, which takes as
   * long for a long response as to read it. `recheck` is called last, and throws if access was lost.
   */
  async #reply(
    connection: Connection,
    id: number,
    method: string,
    encode: () => string,
    recheck?: () => Promise<unknown>,
  ): Promise<void> {
    const account = connection.actor && this.#deps.cpu?.accountOf(connection.actor);
    const { outboxMaxBytes } = this.#deps;
    const write = (): [text: string, bytes: number] => {
      const text = encodeReply(id, method, encode());
      // No text has fewer bytes than characters: one that is too long is neither joined nor measured.
      return [text, text.length > outboxMaxBytes ? text.length : Buffer.byteLength(text)];
    };
    const [text, bytes] = measureOn(account, write);
    if (bytes > outboxMaxBytes) {
      const detail =
        `The operation succeeded, but its response of at least ${bytes} bytes is too long for a WebSocket; read it ` +
        "over HTTP";
      throw new Fault("payload_too_large", detail);
    }
    using _held = connection.hasCapacity(bytes) ? undefined : connection.hold(bytes);
    do {
      if (!connection.hasCapacity(bytes)) await this.#waitForCapacity(connection, bytes);
      if (recheck !== undefined) await recheck();
    } while (!connection.isClosed && !connection.hasCapacity(bytes));
    connection.reply(text, bytes);
  }

  /** Waits until so many bytes fit or the connection closes. */
  async #waitForCapacity(connection: Connection, bytes: number): Promise<void> {
    while (!connection.isClosed && !connection.hasCapacity(bytes)) await delay(CAPACITY_POLL_MS);
  }

  #errorOf(connection: Connection, command: Command, thrown: unknown): ReplyError {
    if (thrown instanceof ProtocolError) return thrown.error;
    const fault = Fault.from(thrown);
    if (command.method !== "rpc") {
      logCommandFailure(connection, command.id, command.method, fault);
      return channelErrorOf(fault);
    }
    const error = replyErrorOf(fault);
    if (fault.spec.status < 500) return error;
    return { ...error, message: `${error.message} (request ${requestIdOf(connection, command.id)})` };
  }
}
