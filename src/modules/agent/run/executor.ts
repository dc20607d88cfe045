// Executes a run: a response of the model, the tools that it calls, the next response, until it calls none. Each step is stored when
// it is complete, so that any node can continue after it.
import { chargeTo } from "@/core/caller.ts";
import { chargedId } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Operation } from "@/core/operation.ts";
import { type AiService, MODEL_FAILURES, type Used } from "@/modules/ai/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { ModelError, type ModelStepEnd } from "@/ports/model.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { AgentStore, type NamedAgentRow } from "../store.ts";
import type { AgentTables, RunRow, StepRow } from "../tables.ts";
import { Toolbox } from "../tool/toolbox.ts";
import type { ToolSource } from "../tool/tool.ts";
import { type AssembleContext, situationText } from "./context.ts";
import type { RunEnding } from "./ending.ts";
import { LeaseLost, type RunFailure, type RunLifecycle } from "./lifecycle.ts";
import type { ModelStep, ModelStepRequest, ModelStepResult } from "./model_step.ts";
import { askersOf, roomsReadJson, withRoomsRead } from "./presenter.ts";
import type { RunActor, RunActors } from "./run_actor.ts";
import { nextCallOf, promptOf, textBefore } from "./steps.ts";
import { RunStore } from "./store.ts";
import type { ToolStep } from "./tool_step.ts";

export const ACTIVE_MAX_MS = 300_000;
/** A run whose node ended so often may be the cause. */
const ATTEMPTS_MAX = 6;
/** Share of a model's context for what it reads at first; the rest is for tools and responses. */
const CONTEXT_SHARE = 0.5;
const CONTEXT_MAX_TOKENS = 32_000;
/** The same of files, besides. */
const FILES_SHARE = 0.25;
const FILES_MAX_TOKENS = 16_000;
const QUESTION_DELETED: RunFailure = { code: "not_found", detail: "The message that asked was deleted" };
/** What follows a text that the model did not end by itself, and why there is none if it said nothing. */
const CUTS: Readonly<Partial<Record<ModelStepEnd["reason"], { note: string; failure: string }>>> = {
  length: {
    note: "\n\n… (cut: the limit of a run is reached)",
    failure: "The model reached the limit of its response before it said anything",
  },
  filtered: {
    note: "\n\n… (cut by the filter of the model provider)",
    failure: "The filter of the model provider stopped the response",
  },
};

type ExecutorDeps = {
  store: Store<AgentTables>;
  clock: Clock;
  cpu: CpuBudget;
  ai: Pick<AiService, "requireModel">;
  identity: Pick<IdentityService, "findEnabled">;
  actors: RunActors;
  lifecycle: RunLifecycle;
  modelStep: ModelStep;
  toolStep: ToolStep;
  ending: RunEnding;
  assembleContext: AssembleContext;
  operations: () => ReadonlyMap<string, Operation>;
  toolSources: readonly ToolSource[];
};

export class RunExecutor {
  readonly #deps: ExecutorDeps;

  constructor(deps: ExecutorDeps) {
    this.#deps = deps;
  }

  /**
   * Executes a claimed run until it ends or waits. Throws when the signal aborts, and when the store does not answer: then the run
   * continues elsewhere.
   */
  async execute(run: RunRow, signal: AbortSignal): Promise<void> {
    const tooLong = new AbortController();
    const timer = setTimeout(() => tooLong.abort(), Math.max(1, ACTIVE_MAX_MS - Number(run.active_ms)));
    try {
      await this.#execute(run, AbortSignal.any([signal, tooLong.signal]));
    } catch (thrown) {
      if (thrown instanceof LeaseLost || signal.aborted) throw thrown;
      const failure = tooLong.signal.aborted
        ? { code: "timed_out", detail: `It took longer than ${ACTIVE_MAX_MS / 1000} seconds` }
        : failureFrom(thrown, run.attempt);
      if (failure === undefined) throw thrown;
      await this.#deps.ending.fail(run, failure);
    } finally {
      clearTimeout(timer);
    }
  }

  async #execute(claimed: RunRow, signal: AbortSignal): Promise<void> {
    const { store, cpu, actors, ending } = this.#deps;
    if (claimed.attempt > ATTEMPTS_MAX) {
      return await ending.fail(claimed, { code: "interrupted", detail: "The gateway stopped several times meanwhile" });
    }
    await this.#requireAgent(claimed);
    let run = claimed.started_at === null ? await this.#start(claimed) : claimed;
    if (run.status !== "running") return;
    if (run.attempt > 1 || run.text !== "") await this.#restartResponse(run);
    const account = cpu.accountOf(await actors.of(run));
    await chargeTo(account, async () => {
      while (run.status === "running") {
        if (signal.aborted) throw new ModelError("cancelled", { isRetryable: false });
        const startedAt = performance.now();
        // A tool that was taken from the agent meanwhile is not called.
        const agent = await this.#requireAgent(run);
        const steps = await new RunStore(store.db).steps(run.tenant_id, run.id);
        const next = await this.#next(run, agent, steps, signal);
        run = { ...next, active_ms: Number(next.active_ms) + Math.round(performance.now() - startedAt) };
      }
    });
  }

  /** What another node showed of a response that it did not complete does not count, whether it was saved or not. */
  async #restartResponse(run: RunRow): Promise<void> {
    const { store, modelStep } = this.#deps;
    const steps = await new RunStore(store.db).steps(run.tenant_id, run.id);
    if (nextCallOf(steps) === undefined) await modelStep.restart(run, steps.length);
  }

  async #requireAgent({ tenant_id, agent_id }: RunRow): Promise<NamedAgentRow> {
    const agent = await new AgentStore(this.#deps.store.db).find(tenant_id, agent_id);
    if (agent === undefined) throw new Fault("not_found", "The agent was deleted");
    if (agent.is_paused === 1) throw new Fault("agent_paused", "The agent is paused");
    return agent;
  }

  /** A run whose questions were all deleted while it waited is cancelled instead. */
  async #start(run: RunRow): Promise<RunRow> {
    const { store, lifecycle } = this.#deps;
    const { head } = await store.log.position(run.tenant_id, roomStream(run.room_id));
    return await store.write(async (tx) => {
      if (run.trigger_kind === "call" || run.trigger_kind === "schedule") return await lifecycle.start(tx, run, head);
      const question = await new RunStore(tx.db).findQuestion(run);
      return question === undefined
        ? await lifecycle.end(tx, run, "cancelled", { error: QUESTION_DELETED })
        : await lifecycle.start(tx, { ...run, trigger_message_id: question }, head);
    });
  }

  /** The next step; resolves to the run after it. */
  async #next(run: RunRow, agent: NamedAgentRow, steps: readonly StepRow[], signal: AbortSignal): Promise<RunRow> {
    const { toolStep, operations, toolSources } = this.#deps;
    const toolbox = await Toolbox.of(agent, operations(), toolSources, run);
    const next = nextCallOf(steps);
    if (next === undefined) return await this.#respond(run, agent, steps, toolbox, signal);
    return await toolStep.run({ run, n: next.begun?.n ?? steps.length, ...next, toolbox, signal });
  }

  async #respond(
    run: RunRow,
    agent: NamedAgentRow,
    steps: readonly StepRow[],
    toolbox: Toolbox,
    signal: AbortSignal,
  ): Promise<RunRow> {
    const { actors, modelStep, ending, store, clock } = this.#deps;
    const left = agent.max_steps - steps.filter(({ kind }) => kind === "model").length;
    if (left <= 0) throw new StepsExceeded(`The agent may respond ${agent.max_steps} times in a run`);
    const n = steps.length;
    const actor = await actors.of(run);
    const request = await this.#requestOf(run, agent, actor, steps, toolbox);
    const startedAt = iso(clock.now());
    const result = await modelStep.run(run, n, request, signal);
    const row = stepRowOf(run, n, result, { startedAt, endedAt: iso(clock.now()) });
    const read_rooms_json = roomsReadJson(withRoomsRead(run, actor.bounds.read));
    const set = { active_ms: Number(run.active_ms), step: n, read_rooms_json };
    const text = textBefore(steps) + result.text;
    const continues = result.calls.length > 0 ||
      result.end.reason === "length" && result.text.trim() !== "" && left > 1;
    if (!continues) {
      const cut = CUTS[result.end.reason];
      if (cut !== undefined && text.trim() === "") throw new Fault("model_failed", cut.failure);
      await ending.succeed(run, text + (cut?.note ?? ""), row, set, signal);
      return { ...run, ...set, status: "succeeded" };
    }
    await store.write(async (tx) => {
      const runs = new RunStore(tx.db);
      const isMine = await runs.update(run.tenant_id, run.id, { ...set, text: "" }, {
        status: ["running"],
        leaseOwner: run.lease_owner ?? "",
      });
      if (!isMine) throw new LeaseLost();
      await runs.putStep(row);
    });
    return { ...run, ...set, text: "" };
  }

  async #requestOf(
    run: RunRow,
    agent: NamedAgentRow,
    actor: RunActor,
    steps: readonly StepRow[],
    toolbox: Toolbox,
  ): Promise<ModelStepRequest> {
    const { ai, identity, assembleContext, clock } = this.#deps;
    const { contextTokens, id, images = true } = await ai.requireModel(run.tenant_id, agent.model ?? undefined);
    const budgetTokens = Math.floor(Math.min(CONTEXT_MAX_TOKENS, contextTokens * CONTEXT_SHARE));
    const askerIds = askersOf(run);
    const askers = await identity.findEnabled(run.tenant_id, askerIds);
    const situation = situationText(run, [...askers.values()], clock.now());
    const files = { images, tokens: Math.floor(Math.min(FILES_MAX_TOKENS, contextTokens * FILES_SHARE)) };
    const context = await assembleContext({ actor, agent, run, situation, budgetTokens, files });
    const [askerId = chargedId(actor)] = askerIds;
    const leftTokens = contextTokens - budgetTokens - context.fileTokens;
    const maxOutputTokens = Math.min(agent.max_output_tokens, Math.max(1, leftTokens));
    const tools = toolbox.modelTools;
    return {
      charge: {
        tenantId: run.tenant_id,
        // For an agent that asks, its owner pays.
        principalId: askers.get(askerId)?.owner_id ?? askerId,
        agentId: run.agent_id,
        roomId: run.room_id,
        runId: run.id,
        reservation: `${run.id}.${steps.length}`,
        onUsed: (tx: AnyTransaction, used: Used) => new RunStore(tx.db).addUsage(run.tenant_id, run.id, used),
        agentTokensPerDay: agent.tokens_per_day === null ? undefined : Number(agent.tokens_per_day),
      },
      model: id,
      messages: promptOf(context.messages, steps, tools, contextTokens - maxOutputTokens),
      tools,
      maxOutputTokens,
    };
  }
}

class StepsExceeded extends Error {}

/** What fails the run; `undefined` for what may succeed when the run continues. */
function failureFrom(thrown: unknown, attempt: number): RunFailure | undefined {
  if (thrown instanceof StepsExceeded) return { code: "steps_exceeded", detail: thrown.message };
  if (thrown instanceof ModelError) {
    const { code, reply } = thrown;
    return { code: "model_failed", detail: `${MODEL_FAILURES[code]} (${code})`, reply };
  }
  if (!(thrown instanceof Fault)) {
    // An error of the database at first; what fails in the same way twice is an error of ours.
    return attempt === 1 ? undefined : { code: "internal", detail: "Internal error" };
  }
  if (thrown.spec.retryable) return undefined;
  return { code: thrown.code, detail: thrown.message };
}

function stepRowOf(
  { tenant_id, id }: RunRow,
  n: number,
  { text, calls, end }: ModelStepResult,
  { startedAt, endedAt }: { startedAt: string; endedAt: string },
): StepRow {
  return {
    tenant_id,
    run_id: id,
    n,
    kind: "model",
    status: "succeeded",
    text,
    reason: end.reason,
    calls_json: calls.length === 0 ? null : JSON.stringify(calls),
    tool: null,
    call_id: null,
    input: null,
    result: null,
    started_at: startedAt,
    ended_at: endedAt,
  };
}
