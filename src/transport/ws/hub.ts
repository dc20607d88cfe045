// The hub: every connection of this node, the feeds they listen to, the deadlines they live by, and their orderly end.
import type { ChannelKind } from "@/core/channel.ts";
import type { Clock } from "@/core/clock.ts";
import type { Dispatch } from "@/core/dispatch.ts";
import type { EphemeralEvent } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Operation } from "@/core/operation.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Presence } from "@/ports/presence.ts";
import { type EventLog, streamKey } from "@/ports/store.ts";
import { Canary } from "./canary.ts";
import { CLOSE, type Verdict } from "./close.ts";
import { Commands } from "./commands.ts";
import { Entrance, type Identity } from "./connect.ts";
import { Connection, type ConnectionHost, type ConnectionMeta, type Overlap, type SocketLike } from "./connection.ts";
import { Feeds } from "./feeds.ts";
import type { Command } from "./frame.ts";
import { History } from "./history.ts";
import type { WsLimits } from "./limits.ts";
import { Pages } from "./pages.ts";
import { Pool } from "./pool.ts";
import { Revalidation } from "./revalidation.ts";
import { Subscriber } from "./subscribe.ts";

/** Grouped by what they are about: where events come from, what clients may ask for, who they are, and how much. */
export type HubDeps = Identity & {
  bus: Bus;
  log: EventLog;
  presence: Presence;
  channels: readonly ChannelKind[];
  operations: ReadonlyMap<string, Operation>;
  dispatch: Dispatch;
  metrics: Metrics;
  clock: Clock;
  limits: WsLimits;
  version: string;
};

export type HubStats = {
  connections: number;
  /** Sockets we closed whose peer has not answered; their memory cannot be had back before it does. */
  zombies: number;
  /** Channels with a subscriber on this node, by prefix. */
  channels: Readonly<Record<string, number>>;
};

/** After a pause of the process, deadlines move on by no more than this many ticks. */
const TICKS_MAX = 3;
/** So that many thousand idle sockets do not keep the store busy; of more, those that wait longest come first. */
const REVALIDATIONS_PER_TICK = 100;
const STALL_MS = 20;
const DRAIN_STEP_MS = 25;

const log = logOf("ws");

export class Hub implements ConnectionHost {
  readonly limits: WsLimits;
  readonly pool: Pool;
  readonly #deps: HubDeps;
  readonly #feeds: Feeds;
  readonly #subscriber: Subscriber;
  readonly #commands: Commands;
  readonly #revalidation: Revalidation;
  readonly #canary: Canary;
  readonly #connections = new Set<Connection>();
  readonly #stalled = new Set<Connection>();
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #stallTimer: ReturnType<typeof setTimeout> | undefined;
  #time = 0;
  #tickedAt: number;
  #inPool = 0;
  #peak = 0;
  #zombies = 0;
  #draining: Promise<void> | undefined;

  constructor(deps: HubDeps) {
    const { bus, log: eventLog, presence, metrics, limits, clock } = deps;
    this.#deps = deps;
    this.limits = limits;
    this.pool = new Pool(limits.shards, (pushes) => pushes > 0 && metrics.poolSent.inc(pushes));
    const pages = new Pages(eventLog);
    this.#feeds = new Feeds({ bus, log: eventLog, pages, presence, repairDelayMs: limits.repairDelayMs });
    this.#canary = new Canary(bus);
    this.#subscriber = new Subscriber({
      feeds: this.#feeds,
      pages,
      channels: deps.channels,
      limits,
      onUnrecovered: () => metrics.connectionErrors.inc({ type: "recovery_failed" }),
    });
    this.#commands = new Commands({
      entrance: new Entrance({
        identity: deps,
        subscriber: this.#subscriber,
        feeds: this.#feeds,
        clock,
        limits,
        version: deps.version,
        onLegacyToken: () => metrics.connectionErrors.inc({ type: "legacy_query_token" }),
      }),
      subscriber: this.#subscriber,
      history: new History(eventLog, limits),
      presence,
      operations: deps.operations,
      dispatch: deps.dispatch,
      clock,
      outboxMaxBytes: limits.outboxMaxBytes,
      publish: (event) => this.publish(event),
    });
    this.#revalidation = new Revalidation(this.#subscriber, deps.revalidate);
    this.#tickedAt = clock.now();
    this.#timers.push(setInterval(() => this.tick(), limits.tickMs));
    if (limits.compareHeadsMs !== undefined) {
      this.#timers.push(setInterval(() => void this.#feeds.compareHeads(), limits.compareHeadsMs));
    }
    const { onRecovered } = bus;
    bus.onRecovered = () => {
      onRecovered();
      void this.#feeds.compareHeads();
    };
  }

  get time(): number {
    return this.#time;
  }

  get isDraining(): boolean {
    return this.#draining !== undefined;
  }

  /** Takes over an open socket. Give it every message (`receive`) and its end (`gone`). */
  open(socket: SocketLike, meta: ConnectionMeta): Connection {
    const connection = new Connection(socket, meta, this);
    this.#connections.add(connection);
    this.#deps.metrics.connections.inc();
    this.#deps.metrics.connectionsActive.inc();
    if (this.isDraining) connection.close(CLOSE.shutdown);
    return connection;
  }

  /** Publishes to the subscribers of a channel, on all nodes, without a place in the log. */
  publish(event: EphemeralEvent): void {
    this.#deps.bus.publish(streamKey(event.tenantId, event.channel), { kind: "ephemeral", event });
  }

  stats(): HubStats {
    return { connections: this.#connections.size, zombies: this.#zombies, channels: this.#feeds.counts() };
  }

  /** Something became of a principal: its connections, and those of agents it owns, are looked at again now. */
  rightsMoved(tenantId: string, principalId: string): void {
    for (const connection of this.#connections) {
      const { actor } = connection;
      if (actor?.tenantId !== tenantId) continue;
      if (actor.principalId === principalId || actor.ownerId === principalId) this.#revalidation.add(connection);
    }
  }

  /** The origins that a tenant lets in changed: connections of such pages are looked at again now. */
  originsMoved(tenantId: string): void {
    for (const connection of this.#connections) {
      const { actor, meta } = connection;
      if (actor?.tenantId === tenantId && meta.mayActIn !== undefined) this.#revalidation.add(connection);
    }
  }

  /** Resolves when a probe came back through the bus; rejects after two seconds. */
  canary(): Promise<void> {
    return this.#canary.probe();
  }

  /** Closes everybody, spread over a window so that they do not come back all at once; commands that run may end. */
  drain(): Promise<void> {
    return this.#draining ??= this.#drain();
  }

  /** Looks at the deadlines of all connections; runs by itself. */
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

  overlapOf(command: Command): Overlap | undefined {
    return this.#commands.overlapOf(command);
  }

  run(connection: Connection, command: Command): Promise<void> {
    return this.#commands.run(connection, command);
  }

  welcomed(): void {
    const { metrics } = this.#deps;
    metrics.poolConnections.inc();
    metrics.poolActive.set(++this.#inPool);
    this.#peak = Math.max(this.#peak, this.#inPool);
    metrics.poolPeak.set(this.#peak);
  }

  stalled(connection: Connection): void {
    this.#stalled.add(connection);
    this.#stallTimer ??= setTimeout(() => {
      this.#stallTimer = undefined;
      const waiting = [...this.#stalled];
      this.#stalled.clear();
      for (const one of waiting) one.resume();
    }, STALL_MS);
  }

  dropped(count: number): void {
    this.#deps.metrics.poolDropped.inc(count);
  }

  closed(connection: Connection, verdict: Verdict | undefined, dropped: number): void {
    const { metrics } = this.#deps;
    this.#connections.delete(connection);
    this.#stalled.delete(connection);
    metrics.connectionsActive.dec();
    if (connection.wasWelcome) metrics.poolActive.set(--this.#inPool);
    this.dropped(dropped);
    if (verdict?.metric !== undefined) metrics.connectionErrors.inc({ type: verdict.metric });
    if (verdict !== undefined) this.#zombies++;
    log.info("closed", {
      client: connection.client,
      tenant: connection.actor?.tenantId,
      principal: connection.actor?.principalId,
      by: verdict === undefined ? "client" : "gateway",
      code: verdict?.code,
      reason: verdict?.reason,
      ms: Math.round(this.#time - connection.openedAt),
    });
  }

  gone(connection: Connection): void {
    if (connection.wasClosedByUs) this.#zombies--;
  }

  async #drain(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    const steps = Math.max(1, Math.floor(this.limits.drainMs / DRAIN_STEP_MS));
    const all = [...this.#connections];
    for (let step = 0; step < steps; step++) {
      const due = all.slice(0, Math.ceil(all.length * (step + 1) / steps));
      for (const connection of due) if (connection.isIdle) connection.close(CLOSE.shutdown);
      if (this.#connections.size === 0) break;
      await new Promise((resolve) => setTimeout(resolve, DRAIN_STEP_MS));
    }
    for (const connection of [...this.#connections]) connection.close(CLOSE.shutdown);
    clearTimeout(this.#stallTimer);
    this.pool.close();
    this.#feeds.close();
    this.#canary.close();
  }
}
