// What each command of a client does, and how its failure is answered.
import { Buffer } from "node:buffer";
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import type { Dispatch } from "@/core/dispatch.ts";
import type { EphemeralEvent } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Operation } from "@/core/operation.ts";
import { isLongerThan } from "@/core/text.ts";
import type { Presence } from "@/ports/presence.ts";
import { type Entrance, requestIdOf, tell } from "./connect.ts";
import type { Connection, Overlap } from "./connection.ts";
import {
  channelErrorOf,
  type Command,
  type CommandOf,
  ERRORS,
  issueOf,
  type WireError,
  wireErrorOf,
  WireFault,
} from "./frame.ts";
import type { History } from "./history.ts";
import type { Subscriber } from "./subscribe.ts";

const EPHEMERAL_MAX_BYTES = 1024;
/** What a reply is around its data. */
const ENVELOPE_BYTES = 35;
/** More than a reply has without data of its own. */
const REPLY_BYTES = 256;
/** How soon a client that has yet to read other replies is looked at again. */
const PATIENCE_MS = 20;

/** What clients may publish. */
const Publication = z.strictObject({ type: z.string().max(64), data: z.unknown().optional() });

export type CommandsDeps = {
  entrance: Entrance;
  subscriber: Subscriber;
  history: History;
  presence: Presence;
  operations: ReadonlyMap<string, Operation>;
  dispatch: Dispatch;
  clock: Clock;
  outboxMaxBytes: number;
  publish: (event: EphemeralEvent) => void;
};

export class Commands {
  readonly #deps: CommandsDeps;

  constructor(deps: CommandsDeps) {
    this.#deps = deps;
  }

  /** What this command may overlap with. */
  overlapOf(command: Command): Overlap | undefined {
    // A client asks for all its channels at once and waits for each no longer than some seconds.
    if (command.method === "subscribe") return "subscribe";
    if (command.method !== "rpc") return undefined;
    const operation = this.#deps.operations.get(command.body.method);
    return operation?.overlaps ? operation : undefined;
  }

  /** Does a command and answers it; never throws. */
  async run(connection: Connection, command: Command): Promise<void> {
    try {
      await this.#do(connection, command);
    } catch (thrown) {
      await this.#room(connection, REPLY_BYTES);
      connection.fail(command.id, this.#errorOf(connection, command, thrown));
    }
  }

  #do(connection: Connection, command: Command): Promise<void> | void {
    switch (command.method) {
      case "invalid":
        throw new WireFault(command.body);
      case "connect":
        return this.#deps.entrance.connect(connection, command);
      case "refresh":
        return this.#deps.entrance.refresh(connection, command);
      case "subscribe":
        return this.#subscribe(connection, command);
      case "unsubscribe":
        return this.#unsubscribe(connection, command);
      case "publish":
        return this.#publish(connection, command);
      case "presence":
      case "presence_stats":
        return this.#presence(connection, command);
      case "history":
        return this.#history(connection, command);
      case "rpc":
        return this.#rpc(connection, command);
      case "sub_refresh":
      case "ping":
        throw new WireFault(ERRORS.notAvailable);
    }
  }

  async #subscribe(connection: Connection, { id, body }: CommandOf<"subscribe">): Promise<void> {
    const opened = await this.#deps.subscriber.subscribe(connection, body);
    // What it missed is left out of the reply, and follows it, where little else fits.
    await this.#room(connection, REPLY_BYTES);
    opened.subscription.assertOpen();
    connection.reply(id, "subscribe", opened.body());
    opened.subscription.goLive();
  }

  /** Always succeeds: a client that gets an error here drops its connection. */
  #unsubscribe(connection: Connection, { id, body }: CommandOf<"unsubscribe">): void {
    const subscription = connection.subscriptions.get(body.channel);
    if (subscription?.isServerSide === false) subscription.leave();
    connection.reply(id, "unsubscribe", "{}");
  }

  async #publish(connection: Connection, { id, body: { channel, data } }: CommandOf<"publish">): Promise<void> {
    const { actor } = connection;
    const { kind, id: channelId } = this.#deps.subscriber.kindOf(channel);
    const publication = Publication.safeParse(data);
    const type = publication.data?.type ?? "";
    const ephemeral = Object.hasOwn(kind.ephemeral, type) ? kind.ephemeral[type] : undefined;
    if (actor === undefined || ephemeral === undefined) {
      const types = Object.keys(kind.ephemeral).join(", ");
      throw new WireFault(
        ERRORS.permissionDenied,
        `publish takes {type, data} with type ${types === "" ? "none" : types} here; everything else is an rpc`,
      );
    }
    const parsed = ephemeral.data.safeParse(publication.data?.data);
    if (!parsed.success) throw new WireFault(ERRORS.badRequest, issueOf(parsed.error, "data"));
    const maxBytes = ephemeral.maxBytes ?? EPHEMERAL_MAX_BYTES;
    const encoded = JSON.stringify(parsed.data) ?? "null";
    if (isLongerThan(encoded, maxBytes)) {
      throw new WireFault(ERRORS.limitExceeded, `data of ${type} is ${maxBytes} bytes at most`);
    }
    await kind.authorize(actor, channelId, "publish");
    const principalIds = await ephemeral.recipients?.(parsed.data, { actor, id: channelId });
    this.#deps.publish({
      tenantId: actor.tenantId,
      channel,
      json: `${JSON.stringify(this.#head(type, actor)).slice(0, -1)},"data":${encoded}}`,
      infoJson: JSON.stringify(connection.info()),
      ...(principalIds === undefined ? {} : { principalIds }),
    });
    await this.#answer(connection, id, "publish", "{}");
  }

  #head(type: string, actor: Actor): Record<string, unknown> {
    return { type, at: iso(this.#deps.clock.now()), actor: { id: actor.principalId, kind: actor.kind } };
  }

  async #presence(
    connection: Connection,
    { method, id, body }: CommandOf<"presence"> | CommandOf<"presence_stats">,
  ): Promise<void> {
    const subscription = connection.subscriptions.get(body.channel);
    if (subscription?.isLive !== true) throw new WireFault(ERRORS.permissionDenied, "subscribe first");
    const { feed } = subscription;
    const clients = feed.hasPresence ? await this.#deps.presence.list(feed.key) : [];
    if (!feed.hasPresence || clients.length > feed.rules.presenceMax) throw new WireFault(ERRORS.notAvailable);
    const result = method === "presence"
      ? { presence: Object.fromEntries(clients.map((info) => [info.client, info])) }
      : { num_clients: clients.length, num_users: new Set(clients.map((info) => info.user)).size };
    await this.#answer(connection, id, method, JSON.stringify(result), () => this.#look(connection, body.channel));
  }

  async #history(connection: Connection, { id, body }: CommandOf<"history">): Promise<void> {
    const { actor, subscriptions } = connection;
    if (actor === undefined) throw new WireFault(ERRORS.unauthorized);
    const subscription = subscriptions.get(body.channel);
    const { isDurable, hiddenUpTo } = subscription?.isLive === true
      ? { isDurable: subscription.feed.rules.isDurable, hiddenUpTo: subscription.hiddenUpTo }
      : await this.#look(connection, body.channel);
    if (!isDurable) throw new WireFault(ERRORS.notAvailable);
    const page = await this.#deps.history.read(actor.tenantId, body, hiddenUpTo);
    const look = subscription?.isServerSide === true ? undefined : () => this.#look(connection, body.channel);
    await this.#answer(connection, id, "history", page, look);
  }

  /**
   * Throws unless the client may see the channel now. To be asked once what it is told has been read: that may be younger
   * than the right to it was, and than what its subscription has heard of.
   */
  async #look({ actor }: Connection, channel: string): Promise<{ isDurable: boolean; hiddenUpTo: number }> {
    if (actor === undefined) throw new WireFault(ERRORS.unauthorized);
    const { kind, id } = this.#deps.subscriber.kindOf(channel);
    const seen = await kind.authorize(actor, id, "subscribe");
    return { isDurable: kind.isDurable, hiddenUpTo: seen?.hiddenUpTo ?? 0 };
  }

  async #rpc(connection: Connection, { id, body }: CommandOf<"rpc">): Promise<void> {
    const { actor } = connection;
    const operation = this.#deps.operations.get(body.method);
    if (actor === undefined || operation === undefined) throw new WireFault(ERRORS.methodNotFound);
    const { output, json } = await this.#deps.dispatch(operation, {
      actor,
      input: body.data,
      requestId: requestIdOf(connection, id),
      via: "ws",
      signal: connection.signal,
    });
    await this.#answer(connection, id, "rpc", output === undefined || output === null ? "{}" : `{"data":${json}}`);
  }

  /**
   * Replies once there is room: what the client listens to may have filled its outbox while the reply was made. `look` is
   * asked last, and throws unless the client may still have it.
   */
  async #answer(
    connection: Connection,
    id: number,
    method: string,
    body: string,
    look?: () => Promise<unknown>,
  ): Promise<void> {
    const bytes = ENVELOPE_BYTES + Buffer.byteLength(body);
    if (bytes > this.#deps.outboxMaxBytes) {
      const detail = `It is done, but its answer of ${bytes} bytes is too long for a socket; read it over HTTP`;
      throw new Fault("payload_too_large", detail);
    }
    do {
      await this.#room(connection, bytes);
      await look?.();
    } while (!connection.isClosed && !connection.takes(bytes));
    connection.reply(id, method, body);
  }

  /** Waits until so many bytes fit, or nothing will any more. */
  async #room(connection: Connection, bytes: number): Promise<void> {
    while (!connection.isClosed && !connection.takes(bytes)) await new Promise((go) => setTimeout(go, PATIENCE_MS));
  }

  #errorOf(connection: Connection, command: Command, thrown: unknown): WireError {
    if (thrown instanceof WireFault) return thrown.error;
    const fault = Fault.from(thrown);
    if (command.method !== "rpc") {
      tell(connection, command.id, command.method, fault);
      return channelErrorOf(fault);
    }
    const error = wireErrorOf(fault);
    if (fault.kind.status < 500) return error;
    return { ...error, message: `${error.message} (request ${requestIdOf(connection, command.id)})` };
  }
}
