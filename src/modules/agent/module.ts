// The agent module: agents, their runs with the tools of these, approvals and schedules.
import { z } from "@zod/zod";
import type { Gauge } from "prom-client";
import type { Actor } from "@/core/actor.ts";
import type { Dispatcher } from "@/core/dispatch.ts";
import { defineJob } from "@/core/job.ts";
import { type Module, operationsOf } from "@/core/module.ts";
import type { Operation, Preparation } from "@/core/operation.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import type { FileWriter } from "@/modules/file/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { MessageFilter, RunMessages, TriggerAgents } from "@/modules/message/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { agentOperations } from "./api.ts";
import { agentArchive } from "./archive/section.ts";
import { approvalOperations } from "./approval/api.ts";
import { Deciders } from "./approval/deciders.ts";
import { ApprovalGate } from "./approval/gate.ts";
import { APPROVAL_EVENTS } from "./approval/schema.ts";
import { ApprovalService } from "./approval/service.ts";
import { ApprovalStore } from "./approval/store.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { RunAccess } from "./run/access.ts";
import { RUN_PATH, runOperations } from "./run/api.ts";
import { runChannel } from "./run/channel.ts";
import type { AssembleContext, CallCause, CallOperation } from "./run/context.ts";
import { RunEnding } from "./run/ending.ts";
import { ACTIVE_MAX_MS, RunExecutor } from "./run/executor.ts";
import { RunExpiry } from "./run/expiry.ts";
import { EXPIRE_JOB } from "./run/expiry_job.ts";
import { RunLifecycle, WAITING_NOTIFICATIONS } from "./run/lifecycle.ts";
import { ModelStep } from "./run/model_step.ts";
import { CHAIN_MAX } from "./run/origin.ts";
import { OutsideRuns } from "./run/outside.ts";
import { outsideOperations } from "./run/outside_api.ts";
import { RunPoster } from "./run/poster.ts";
import { RunPublisher } from "./run/publisher.ts";
import { RunActors } from "./run/run_actor.ts";
import { RunRefusals } from "./run/refusals.ts";
import { RUN_LIMITS, Runner } from "./run/runner.ts";
import { AgentScheduler, SCHEDULE_JOB } from "./run/schedule.ts";
import { RUN_EVENTS } from "./run/schema.ts";
import { type FindMessage, RunService } from "./run/service.ts";
import { RunSignals } from "./run/signals.ts";
import { RunRetention } from "./run/retention.ts";
import { RunStore } from "./run/store.ts";
import { RunStreams } from "./run/stream_route.ts";
import { ScheduleTakeover } from "./run/takeover.ts";
import { ToolStep } from "./run/tool_step.ts";
import { QUEUED_MAX, RunTriggers } from "./run/triggers.ts";
import { RunWaiter } from "./run/waiter.ts";
import { WaitingRuns } from "./run/waiting_runs.ts";
import { AGENT_EVENTS, OUTPUT_TOKENS_MAX, STEPS_MAX, TOOLS_MAX } from "./schema.ts";
import { AgentService } from "./service.ts";
import type { ToolSource } from "./tool/tool.ts";
import { ToolNames } from "./tool/names.ts";

const BATCH = 200;
/** As capabilities show them. */
const LIMITS = {
  tools: TOOLS_MAX,
  steps: STEPS_MAX,
  outputTokens: OUTPUT_TOKENS_MAX,
  activeSeconds: ACTIVE_MAX_MS / 1000,
  chainDepth: CHAIN_MAX,
  queuedRuns: QUEUED_MAX,
  ...RUN_LIMITS,
};

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  retention: RetentionService;
  ai: AiService;
  files: Pick<FileWriter, "write">;
  filter: MessageFilter;
  findMessage: FindMessage;
  notifications: Pick<NotificationService, "notify" | "markReadAbout">;
  /** The actor with its current rights; `undefined` if its token ended. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  /** What the model reads. */
  assembleContext: AssembleContext;
  /** Tools besides the operations of the gateway; complete once all modules are built. */
  toolSources: readonly ToolSource[];
};

export type AgentModule = Module & {
  triggerAgents: TriggerAgents;
  runMessages: RunMessages;
  takeover: ScheduleTakeover;
};

export function agentModule(platform: Platform, deps: Deps): AgentModule {
  const { store, clock, metrics, holds } = platform;
  const { agents, scheduler, triggers, takeover, ...parts } = createParts(platform, deps);
  const { runner, runs, outside, approvals, streams, expiry, waiter, waiting, signals, access, actors } = parts;
  const retention = new RunRetention({ store, clock, holds, retention: deps.retention });
  return {
    name: "agent",
    leases: runner.leases,
    migrations,
    erases,
    tags: {
      agents: "Agents: principals that respond with a language model.",
      run: "Runs of agents: what they do about a message or a request.",
      approval: "Calls of agents that wait for the decision of a person.",
      grant: "Decisions that apply to more than one call of an agent.",
    },
    archive: agentArchive(store),
    events: [...AGENT_EVENTS, ...RUN_EVENTS, ...APPROVAL_EVENTS],
    operations: [
      ...agentOperations(agents),
      ...runOperations(runs),
      ...outsideOperations(outside),
      ...approvalOperations(approvals),
    ],
    notificationKinds: Object.fromEntries(Object.values(WAITING_NOTIFICATIONS).map((kind) => [kind, null])),
    resourceScopes: { run: "run.read" },
    routes: [streams.route(`${RUN_PATH}/:id/stream`)],
    jobs: [
      defineJob({
        kind: SCHEDULE_JOB,
        payload: z.strictObject({ agentId: z.string(), at: z.string() }),
        run: ({ tenantId, payload }) => scheduler.run(tenantId, payload),
      }),
      defineJob({
        kind: EXPIRE_JOB,
        payload: z.strictObject({ runId: z.string() }),
        run: ({ tenantId, payload }) => expiry.check(tenantId, payload.runId),
      }),
    ],
    channels: [runChannel(access)],
    gauges: [{ gauge: metrics.aiRunsActive, collect: (gauge) => countRuns(gauge, store) }],
    onCommit: (events) => waiting.onCommit(events),
    maintenance: { agentRuns: () => retention.removeOldRuns(), waitingRuns: () => waiting.checkAll() },
    async purgeRoom(tenantId, roomId) {
      await store.write((tx) => new ApprovalStore(tx.db).removeGrants(tenantId, { roomId }));
      while (await store.write((tx) => new RunStore(tx.db).removeOfRoom(tenantId, roomId, BATCH)) === BATCH);
    },
    start() {
      signals.start();
      runner.start();
    },
    async drain() {
      waiter.drain();
      await runner.drain();
    },
    async stop() {
      await runner.drain();
      await waiting.stop();
      await signals.stop();
    },
    capability: () => ({ limits: LIMITS }),
    triggerAgents: (tx, trigger) => triggers.onMessage(tx, trigger),
    runMessages: {
      actorOf: (tx, tenantId, scheduledId) => actors.ofScheduled(tx, tenantId, scheduledId),
      sent: (tx, tenantId, scheduledId, messageId) => new RunStore(tx.db).renameSent(tenantId, scheduledId, messageId),
    },
    takeover,
  };
}

/** The services of the module. The return type is inferred: it names each by its class. */
function createParts(platform: Platform, deps: Deps) {
  const { store, clock, cursors, bus, cpu, metrics, modules, dispatch, nodeId, timeoutFactor } = platform;
  const { roomAccess, identity, ai, files, filter, findMessage, toolSources, assembleContext } = deps;
  let known: ReturnType<typeof operationsOf> | undefined;
  const operations = () => known ??= operationsOf(modules);
  const callOperation = createCallOperation(dispatch, operations);
  const signals = new RunSignals(bus);
  const lifecycle = new RunLifecycle({ clock, ai, metrics, notifications: deps.notifications });
  const publisher = new RunPublisher({ bus, clock });
  const actors = new RunActors({ store, identity, roomAccess });
  const access = new RunAccess({ store, roomAccess });
  const deciders = new Deciders({ identity, roomAccess, access, operations });
  const gate = new ApprovalGate({ clock, identity, access, deciders });
  const poster = new RunPoster({ store, clock, actors, filter, callOperation, files });
  const ending = new RunEnding({ store, clock, actors, lifecycle, poster });
  const executor = new RunExecutor({
    store,
    clock,
    cpu,
    ai,
    identity,
    actors,
    lifecycle,
    ending,
    operations,
    toolSources,
    modelStep: new ModelStep({ store, clock, ai, publisher }),
    toolStep: new ToolStep({ store, clock, cpu, actors, gate, lifecycle, publisher, poster, callOperation }),
    assembleContext,
  });
  const runner = new Runner({ store, clock, nodeId, executor, signals, timeoutFactor });
  const waiter = new RunWaiter({ store, signals });
  const refusals = new RunRefusals({ store, clock, actors, callOperation });
  const triggers = new RunTriggers({ clock, identity, lifecycle, refusals });
  const toolNames = new ToolNames({ operations, sources: toolSources });
  const takeover = new ScheduleTakeover({ roomAccess });
  const agents = new AgentService({ store, clock, cursors, identity, ai, lifecycle, takeover, roomAccess, toolNames });
  const scheduler = new AgentScheduler({ store, clock, identity, roomAccess });
  const common = { store, clock, cursors, roomAccess, access, lifecycle };
  const { revalidate } = deps;
  const runs = new RunService({ ...common, identity, waiter, filter, callOperation, findMessage, revalidate });
  const outside = new OutsideRuns({ store, clock, roomAccess, ending, publisher });
  const streams = new RunStreams({ store, bus, access, waiter, revalidate });
  const approvals = new ApprovalService({ ...common, deciders });
  const expiry = new RunExpiry({ store, clock, lifecycle, ending });
  const waiting = new WaitingRuns({ store, roomAccess, actors, ending });
  return {
    signals,
    access,
    actors,
    runner,
    waiter,
    waiting,
    triggers,
    takeover,
    agents,
    scheduler,
    runs,
    outside,
    streams,
    approvals,
    expiry,
  };
}

function createCallOperation(dispatch: Dispatcher, operations: () => ReadonlyMap<string, Operation>): CallOperation {
  const find = (name: string): Operation => {
    const operation = operations().get(name);
    if (operation === undefined) throw new TypeError(`Expected an operation, received ${name}`);
    return operation;
  };
  const fixed = { via: "run", isCpuAccounted: true, hasTurn: true } as const;
  const call = async (actor: Actor, name: string, input: unknown, cause: CallCause, preparation?: Preparation) =>
    (await dispatch(find(name), { actor, input, preparation, ...cause, ...fixed })).output;
  return Object.assign(call, {
    prepare: (actor: Actor, name: string, input: unknown, cause: CallCause) =>
      dispatch.prepare(find(name), { actor, input, ...cause, ...fixed }),
  });
}

async function countRuns(gauge: Gauge<string>, store: Platform["store"]): Promise<void> {
  gauge.reset();
  for (const { status, count } of await new RunStore(store.db).countByStatus()) gauge.set({ state: status }, count);
}
