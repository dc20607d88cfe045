// Which webhooks this node delivers: those that follow a stream with new events, whose wait is over, or that another node left.
import { chargeTo, runAsSystem } from "@/core/caller.ts";
import { type Clock, iso, withTimeout } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { roomOfStream, type StoredEvent } from "@/core/event/event.ts";
import { newId } from "@/core/id.ts";
import { leaseOwner, type Leases } from "@/core/lease.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { WebhookTables } from "../tables.ts";
import { LEASE_MS, type LeaseDeps, WebhookLease } from "./lease.ts";
import type { WebhookReader } from "./reader.ts";
import type { WebhookReleaser } from "./releaser.ts";
import { DeliveryRun, PAUSE_MS } from "./run.ts";
import { DeliveryStore, type WebhookKey } from "./store.ts";

const TICK_MS = 1000;
/** Commits of so long are handled together. */
const GATHER_MS = 20;
const DUE_MAX = 100;
/** Time of one tick for looking at webhooks that no commit named: after a crash, a commit may have been missed. */
const SCAN_MS = 10;
const SCAN_PAGE = 10;
/** Smaller steps back are corrections of the clock. */
const CLOCK_SET_BACK_MS = 1000;
/** How long a stop waits for attempts under way. */
const STOP_MS = 3000;
/** Events after which a webhook of all rooms may have another room. */
const JOINING: ReadonlySet<string> = new Set(["room.created", "member.joined"]);

const log = logOf("webhook");

type Deps = LeaseDeps & {
  store: Store<WebhookTables>;
  clock: Clock;
  cpu: CpuBudget;
  metrics: Metrics;
  reader: WebhookReader;
  releaser: WebhookReleaser;
  nodeId: string | undefined;
};
type Committed = { streams: Set<string>; hasJoins: boolean };

export class WebhookDispatcher {
  readonly #deps: Deps;
  readonly #warnTickFailed = rateLimitedWarning(log, "looking for webhooks with work failed");
  readonly #running = new Map<string, Promise<void>>();
  /** Webhooks that got events while they ran, by key. */
  readonly #again = new Map<string, WebhookKey>();
  /** Webhooks that another node had leased, by key. */
  readonly #busy = new Map<string, WebhookKey>();
  /** What was committed since the last look, by tenant. */
  readonly #committed = new Map<string, Committed>();
  readonly #ending = new AbortController();
  readonly #cutting = new AbortController();
  #isStopping = false;
  #tick: ReturnType<typeof setInterval> | undefined;
  #gather: ReturnType<typeof setTimeout> | undefined;
  #ticking: Promise<void> | undefined;
  /** Ends with all looks at commits that have begun. */
  #looking: Promise<void> = Promise.resolve();
  #scanned: WebhookKey = { tenant_id: "", id: "" };
  #isFirstScan = true;
  /** Latest time that was acted on since the last tick began. At the start it is not known whether the clock was set back since. */
  #actedAt = Infinity;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The leases of all nodes. */
  get leases(): Leases {
    const { store, clock } = this.#deps;
    return {
      owners: () => new DeliveryStore(store.db).leaseOwners(),
      expire: (owners) => store.write((tx) => new DeliveryStore(tx.db).expireLeases(owners, iso(clock.now() - 1))),
    };
  }

  start(): void {
    const tick = (): void => {
      this.#ticking ??= runAsSystem(() => this.#runTick()).finally(() => this.#ticking = undefined);
    };
    this.#tick = setInterval(tick, TICK_MS);
    tick();
  }

  /** Notes the streams of a commit. */
  onCommit(events: readonly StoredEvent[]): void {
    if (this.#tick === undefined || this.#isStopping) return;
    for (const { tenantId, stream, type } of events) {
      if (roomOfStream(stream) === undefined) continue;
      const committed = this.#committed.get(tenantId) ?? { streams: new Set(), hasJoins: false };
      committed.streams.add(stream);
      committed.hasJoins ||= JOINING.has(type);
      this.#committed.set(tenantId, committed);
    }
    if (this.#committed.size === 0) return;
    this.#gather ??= runAsSystem(() =>
      setTimeout(() => {
        this.#gather = undefined;
        const before = this.#looking;
        // The one before may take longer.
        this.#looking = this.#lookAtCommitted().then(() => before);
      }, GATHER_MS)
    );
  }

  /** Wakes one webhook, after a change of its settings. */
  wake(key: WebhookKey): void {
    if (this.#tick !== undefined) runAsSystem(() => this.#launch(key));
  }

  /** Begins no more runs; waits for attempts under way, then cuts them off. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#tick);
    clearTimeout(this.#gather);
    this.#gather = undefined;
    await Promise.all([this.#ticking, this.#looking]);
    const ends = Promise.all(this.#running.values());
    this.#ending.abort();
    await withTimeout(ends, STOP_MS);
    this.#cutting.abort();
    await Promise.all(this.#running.values());
  }

  async #runTick(): Promise<void> {
    const { store, clock } = this.#deps;
    try {
      if (this.#isFirstScan && store.dialect === "sqlite") {
        await store.write((tx) => new DeliveryStore(tx.db).releaseAll());
      }
      await this.#rescheduleFuture();
      const due = await new DeliveryStore(store.db).due(iso(clock.now()), DUE_MAX);
      const busy = [...this.#busy.values()];
      this.#busy.clear();
      for (const key of [...due, ...busy]) this.#launch(key);
      await this.#scan();
    } catch (cause) {
      this.#warnTickFailed(failureOf(cause));
    }
  }

  /** After the start, and whenever the clock was set back. */
  async #rescheduleFuture(): Promise<void> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    const actedAt = this.#actedAt;
    // Runs that begin while it writes raise it again.
    this.#actedAt = now;
    if (now >= actedAt - CLOCK_SET_BACK_MS) return;
    const limits = { now: iso(now), pauseBy: iso(now + PAUSE_MS), leaseBy: iso(now + LEASE_MS) };
    try {
      await store.write((tx) => new DeliveryStore(tx.db).rescheduleFuture(limits));
    } catch (cause) {
      // The next tick tries again.
      this.#actedAt = Math.max(this.#actedAt, actedAt);
      throw cause;
    }
  }

  /** Looks at webhooks in turn; at all of them after the start. */
  async #scan(): Promise<void> {
    const { store } = this.#deps;
    const until = performance.now() + SCAN_MS;
    while (!this.#isStopping && (this.#isFirstScan || performance.now() < until)) {
      const keys = await new DeliveryStore(store.db).after(this.#scanned, SCAN_PAGE);
      for (const tenantId of new Set(keys.map((key) => key.tenant_id))) await this.#followJoinedRooms(tenantId);
      for (const key of keys) this.#launch(key);
      const isEnd = keys.length < SCAN_PAGE;
      this.#scanned = isEnd ? { tenant_id: "", id: "" } : keys.at(-1) ?? this.#scanned;
      if (!isEnd) continue;
      this.#isFirstScan = false;
      return;
    }
  }

  async #lookAtCommitted(): Promise<void> {
    const { store } = this.#deps;
    const committed = [...this.#committed];
    this.#committed.clear();
    try {
      for (const [tenantId, { streams, hasJoins }] of committed) {
        if (hasJoins) await this.#followJoinedRooms(tenantId);
        for (const key of await new DeliveryStore(store.db).followers(tenantId, [...streams])) this.#launch(key);
      }
    } catch (cause) {
      // The scan finds them.
      log.warn("looking for the webhooks of a commit failed", failureOf(cause));
    }
  }

  async #followJoinedRooms(tenantId: string): Promise<void> {
    const { store, clock } = this.#deps;
    if (!await new DeliveryStore(store.db).hasUnfollowed(tenantId)) return;
    await store.write((tx) => new DeliveryStore(tx.db).followJoinedRooms(tenantId, iso(clock.now())));
  }

  #launch(key: WebhookKey): void {
    if (this.#isStopping) return;
    const name = streamKey(key.tenant_id, key.id);
    if (this.#running.has(name)) {
      this.#again.set(name, key);
      return;
    }
    const run = this.#run(key).catch((cause) => {
      log.warn("delivering a webhook failed", { webhook: key.id, tenant: key.tenant_id, ...failureOf(cause) });
      this.#busy.set(name, key);
    }).finally(() => {
      this.#running.delete(name);
      const again = this.#again.get(name);
      this.#again.delete(name);
      if (again !== undefined) this.#launch(again);
    });
    this.#running.set(name, run);
  }

  async #run(key: WebhookKey): Promise<void> {
    const { store, clock, cpu, reader, releaser, nodeId } = this.#deps;
    const deliveries = new DeliveryStore(store.db);
    const startedAt = clock.now();
    this.#actedAt = Math.max(this.#actedAt, startedAt);
    const now = iso(startedAt);
    const row = await deliveries.find(key);
    if (row === undefined || row.is_enabled === 0) return;
    if (row.next_attempt_at !== null && row.next_attempt_at > now) return;
    if (!await deliveries.hasWork(key, now)) {
      if (row.next_attempt_at !== null) await store.write((tx) => new DeliveryStore(tx.db).endWait(key, now));
      return;
    }
    const owner = leaseOwner(nodeId, newId("lease"));
    const until = iso(startedAt + LEASE_MS);
    const leased = await store.write((tx) => new DeliveryStore(tx.db).lease(key, owner, { now, until }));
    if (leased === undefined) {
      this.#busy.set(streamKey(key.tenant_id, key.id), key);
      return;
    }
    const account = cpu.accountOfKey(`${leased.tenant_id}/${leased.charged_id}`);
    await chargeTo(account, async () => {
      const lease = new WebhookLease(this.#deps, leased, { cut: this.#cutting.signal, end: this.#ending.signal });
      try {
        await new DeliveryRun({ store, clock, reader, account }, lease).execute();
      } finally {
        await releaser.release(lease);
      }
    });
  }
}
