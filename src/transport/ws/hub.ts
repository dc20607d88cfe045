// The hub: all connections of this node, the channels they subscribe to, their deadlines, and their shutdown.
import type { Actor } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/event/channel.ts";
import { type Clock, delay } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { Dispatch } from "@/core/dispatch.ts";
import type { EphemeralEvent, Signal } from "@/core/event/event.ts";
import type { EventFilter, EventFilterOf } from "@/core/event/event_view.ts";
import { logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Operation } from "@/core/operation.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Presence } from "@/ports/presence.ts";
import { type EventLog, streamKey } from "@/ports/store.ts";
import { BusProbe } from "./bus_probe.ts";
import { DISCONNECT, type Disconnect } from "../shared/disconnect.ts";
import { CommandHandler } from "./command_handler.ts";
import { ConnectHandler, type Identity } from "./connect_handler.ts";
import type { ConnectionMeta } from "../shared/connection_limiter.ts";
import type { ConcurrencyGroup } from "./command_queue.ts";
import { Connection, type ConnectionHost } from "./connection.ts";
import type { SocketLike } from "./outbox.ts";
import { Backlog } from "./backlog.ts";
import { ChannelRegistry } from "./channel_registry.ts";
import type { Command } from "./protocol.ts";
import { History } from "./history.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import { OwnerSockets } from "./owner_sockets.ts";
import { RecoveryCache } from "./recovery_cache.ts";
import { FlushScheduler } from "./flush_scheduler.ts";
import { RevalidationQueue } from "./revalidation.ts";
import { SubscribeHandler } from "./subscribe_handler.ts";

export type HubDeps = Identity & {
  bus: Bus;
  log: EventLog;
  presence: Presence;
  channels: readonly ChannelKind[];
  operations: ReadonlyMap<string, Operation>;
  dispatch: Dispatch;
  eventFilterOf: EventFilterOf;
  metrics: Metrics;
  clock: Clock;
  /** CPU time of callers; absent where it is not limited. */
  cpu?: CpuBudget | undefined;
  limits: WsLimits;
  version: string;
};

type HubStats = {
  connections: number;
  /** Sockets that the gateway closed and whose peer has not closed yet; they still use memory. */
  lingeringSockets: number;
  /** Channels with a subscriber on this node, by prefix. */
  channels: Readonly<Record<string, number>>;
};

/** After a pause of the process, hub time advances by at most this many ticks. */
const TICKS_MAX = 3;
/** Bounds the load of many thousand idle sockets on the store; the longest overdue come first. */
const REVALIDATIONS_PER_TICK = 100;
const RESUME_DELAY_MS = 20;
/** Bounds the cost of many slow clients; they take turns. */
const RESUMED_MAX = 500;
const DRAIN_STEP_MS = 25;

const log = logOf("ws");

export class Hub implements ConnectionHost {
  readonly limits: WsLimits;
  readonly flushScheduler: FlushScheduler;
  readonly backlog: Backlog;
  readonly #deps: HubDeps;
  readonly #channelRegistry: ChannelRegistry;
  readonly #ownerSockets: OwnerSockets;
  readonly #subscribeHandler: SubscribeHandler;
  readonly #commandHandler: CommandHandler;
  readonly #revalidation: RevalidationQueue;
  readonly #busProbe: BusProbe;
  readonly #connections = new Set<Connection>();
  readonly #paused = new Set<Connection>();
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #resumeTimer: ReturnType<typeof setTimeout> | undefined;
  #time = 0;
  #tickedAt: number;
  #authenticated = 0;
  #peak = 0;
  #lingeringSockets = 0;
  #draining: Promise<void> | undefined;
  #isDraining = false;

  constructor(deps: HubDeps) {
    const { bus, log: eventLog, presence, metrics, limits, clock } = deps;
    this.#deps = deps;
    this.limits = limits;
    this.flushScheduler = new FlushScheduler(limits.shards, (pushes) => pushes > 0 && metrics.poolSent.inc(pushes));
    this.backlog = new Backlog(limits.tenantUnreadMaxBytes);
    const recoveryCache = new RecoveryCache(eventLog);
    this.#channelRegistry = new ChannelRegistry({
      bus,
      log: eventLog,
      recoveryCache,
      presence,
      repairDelayMs: limits.repairDelayMs,
    });
    this.#ownerSockets = new OwnerSockets(limits);
    this.#busProbe = new BusProbe(bus);
    this.#subscribeHandler = new SubscribeHandler({
      channelRegistry: this.#channelRegistry,
      recoveryCache,
      channels: deps.channels,
      limits,
      onUnrecovered: () => metrics.connectionErrors.inc({ type: "recovery_failed" }),
    });
    this.#commandHandler = new CommandHandler({
      connectHandler: new ConnectHandler({
        identity: deps,
        subscribeHandler: this.#subscribeHandler,
        channelRegistry: this.#channelRegistry,
        ownerSockets: this.#ownerSockets,
        clock,
        cpu: deps.cpu,
        limits,
        version: deps.version,
        onLegacyToken: () => metrics.connectionErrors.inc({ type: "legacy_query_token" }),
      }),
      subscribeHandler: this.#subscribeHandler,
      history: new History(eventLog, limits),
      presence,
      operations: deps.operations,
      dispatch: deps.dispatch,
      clock,
      cpu: deps.cpu,
      outboxMaxBytes: limits.outboxMaxBytes,
      publish: (event) => this.publish(event),
    });
    this.#revalidation = new RevalidationQueue(this.#subscribeHandler, deps.revalidate);
    this.#tickedAt = clock.now();
    this.#timers.push(setInterval(() => this.tick(), limits.tickMs));
    if (limits.compareHeadsMs !== undefined) {
      this.#timers.push(setInterval(() => void this.#channelRegistry.compareHeads(), limits.compareHeadsMs));
    }
    const { onLost, onRecovered } = bus;
    bus.onLost = () => {
      onLost();
      this.#channelRegistry.suspectLoss();
    };
    bus.onRecovered = () => {
      onRecovered();
      this.#channelRegistry.suspectLoss();
      this.#channelRegistry.revalidateSpanning();
    };
  }

  get time(): number {
    return this.#time;
  }

  /** Whether it accepts no more. Until the last is closed it does: a proxy without health checks may send clients back to it. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Serves an open socket. Pass every message to `receive`, and call `onSocketClosed` at its end. */
  open(socket: SocketLike, meta: ConnectionMeta): Connection {
    const connection = new Connection(socket, meta, this);
    this.#connections.add(connection);
    this.#deps.metrics.connections.inc();
    this.#deps.metrics.connectionsActive.inc();
    if (this.isDraining) connection.close(DISCONNECT.shutdown);
    return connection;
  }

  /** Publishes to the subscribers of a channel on all nodes, without storing. */
  publish(event: EphemeralEvent): void {
    this.#deps.bus.publish(streamKey(event.tenantId, event.channel), { kind: "ephemeral", event });
  }

  stats(): HubStats {
    return {
      connections: this.#connections.size,
      lingeringSockets: this.#lingeringSockets,
      channels: this.#channelRegistry.counts(),
    };
  }

  /** Revalidates the connections of a principal and of the agents it owns, after a change of its rights. */
  revalidatePrincipal(tenantId: string, principalId: string): void {
    for (const connection of this.#connections) {
      const { actor } = connection;
      if (actor?.tenantId !== tenantId) continue;
      if (actor.principalId === principalId || actor.ownerId === principalId) this.#revalidation.add(connection);
    }
  }

  /** Called with every signal: ends subscriptions to what may be from a stream that their principal has lost access to. */
  onSignal(signal: Signal): void {
    this.#channelRegistry.revalidateSpanning(signal);
  }

  /** Revalidates connections from web origins after the allowed origins of a tenant changed. */
  revalidateOrigins(tenantId: string): void {
    for (const connection of this.#connections) {
      const { actor, meta } = connection;
      if (actor?.tenantId === tenantId && meta.isOriginAllowed !== undefined) this.#revalidation.add(connection);
    }
  }

  /** Resolves when a probe was received back from the bus; rejects after half a second. */
  probeBus(): Promise<void> {
    return this.#busProbe.probe();
  }

  /** Closes all connections, spread over a window so that they do not reconnect at once; running commands may end. */
  drain(): Promise<void> {
    return this.#draining ??= this.#drain();
  }

  /** Checks the deadlines of all connections; runs periodically. */
  tick(): void {
    const now = this.now();
    this.#time += Math.min(Math.max(0, now - this.#tickedAt), this.limits.tickMs * TICKS_MAX);
    this.#tickedAt = now;
    const due: Connection[] = [];
    for (const connection of this.#connections) {
      connection.tick();
      if (connection.revalidateAt <= this.#time) due.push(connection);
    }
    due.sort((one, other) => one.revalidateAt - other.revalidateAt);
    for (const connection of due.slice(0, REVALIDATIONS_PER_TICK)) {
      connection.revalidateAt = this.#time + this.limits.revalidateMs;
      this.#revalidation.add(connection);
    }
  }

  now(): number {
    return this.#deps.clock.now();
  }

  concurrencyGroupOf(command: Command): ConcurrencyGroup | undefined {
    return this.#commandHandler.concurrencyGroupOf(command);
  }

  eventFilterOf(actor: Actor): EventFilter | undefined {
    return this.#deps.eventFilterOf(actor);
  }

  run(connection: Connection, command: Command): Promise<void> {
    return this.#commandHandler.run(connection, command);
  }

  onReady(): void {
    const { metrics } = this.#deps;
    metrics.poolConnections.inc();
    metrics.poolActive.set(++this.#authenticated);
    this.#peak = Math.max(this.#peak, this.#authenticated);
    metrics.poolPeak.set(this.#peak);
  }

  pause(connection: Connection): void {
    this.#paused.add(connection);
    this.#resumeTimer ??= setTimeout(() => {
      this.#resumeTimer = undefined;
      const paused = [...this.#paused].slice(0, RESUMED_MAX);
      for (const connection of paused) this.#paused.delete(connection);
      for (const connection of paused) connection.resume();
      const [next] = this.#paused;
      if (next !== undefined) this.pause(next);
    }, RESUME_DELAY_MS);
  }

  onRejected(): void {
    this.#deps.metrics.commandsRefused.inc();
  }

  onDiscarded(count: number): void {
    this.#deps.metrics.poolDropped.inc(count);
  }

  onClosed(connection: Connection, disconnect: Disconnect | undefined, dropped: number): void {
    const { metrics } = this.#deps;
    this.#connections.delete(connection);
    // One that the gateway closed may last: a client that reads nothing must not get another one for each of them.
    if (!connection.wasClosedByGateway) this.#ownerSockets.remove(connection);
    this.#paused.delete(connection);
    metrics.connectionsActive.dec();
    if (connection.wasAuthenticated) metrics.poolActive.set(--this.#authenticated);
    this.onDiscarded(dropped);
    if (disconnect?.metric !== undefined) metrics.connectionErrors.inc({ type: disconnect.metric });
    if (disconnect !== undefined) this.#lingeringSockets++;
    log.info("connection closed", {
      client: connection.client,
      tenant: connection.actor?.tenantId,
      principal: connection.actor?.principalId,
      by: disconnect === undefined ? "client" : "gateway",
      code: disconnect?.code,
      reason: disconnect?.reason,
      ms: Math.round(this.#time - connection.openedAt),
    });
  }

  onSocketClosed(connection: Connection): void {
    if (!connection.wasClosedByGateway) return;
    this.#lingeringSockets--;
    this.#ownerSockets.remove(connection);
  }

  async #drain(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    const steps = Math.max(1, Math.floor(this.limits.drainMs / DRAIN_STEP_MS));
    const all = [...this.#connections];
    for (let step = 0; step < steps; step++) {
      const due = all.slice(0, Math.ceil(all.length * (step + 1) / steps));
      for (const connection of due) if (connection.isIdle) connection.close(DISCONNECT.shutdown);
      if (this.#connections.size === 0) break;
      await delay(DRAIN_STEP_MS);
    }
    this.#isDraining = true;
    for (const connection of [...this.#connections]) connection.close(DISCONNECT.shutdown);
    clearTimeout(this.#resumeTimer);
    this.flushScheduler.close();
    this.#channelRegistry.close();
    this.#busProbe.close();
  }
}
