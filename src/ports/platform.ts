// What every module is built on. A factory takes this, and by name the modules and settings that it needs.
import type { Clock } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { ConsumeRate, Dispatcher } from "@/core/dispatch.ts";
import type { EventFilterOf } from "@/core/event/event_view.ts";
import type { Holds } from "@/core/hold.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Module } from "@/core/module.ts";
import type { Cursors } from "@/core/page.ts";
import type { WriteBudget } from "@/core/limit/write_budget.ts";
import type { Blobs } from "./blob.ts";
import type { Bus } from "./bus.ts";
import type { Models } from "./model.ts";
import type { Outbound } from "./outbound.ts";
import type { Presence } from "./presence.ts";
import type { Store } from "./store.ts";
import type { VectorEngines } from "./vectors.ts";

export type Platform = {
  // Each module sees the store through its own tables.
  // deno-lint-ignore no-explicit-any
  store: Store<any>;
  clock: Clock;
  cursors: Cursors;
  bus: Bus;
  presence: Presence;
  blobs: Blobs;
  outbound: Outbound;
  /** Factor of the timeouts of plugins, endpoints and stops: 1, or more in tests, since their machine may be busy. */
  timeoutFactor: number;
  models: Models;
  vectors: VectorEngines;
  metrics: Metrics;
  cpu: CpuBudget;
  writeBudget: WriteBudget;
  holds: Holds;
  /** All modules. Complete once everything is built, so a factory must not read it. */
  modules: readonly Module[];
  /** This node, for `leaseOwner`; `undefined` where no other one can share its database. */
  nodeId: string | undefined;
  /** Calls an operation as every caller does. */
  dispatch: Dispatcher;
  /** Counts a call against a rate, for what is no operation; `undefined` when rate limits are off. */
  consumeRate: ConsumeRate | undefined;
  eventFilterOf: EventFilterOf;
};
