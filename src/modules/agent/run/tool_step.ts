// One call of a tool. An operation of the gateway and the row that says so are one transaction: it runs exactly once. A tool
// from elsewhere is noted before its call: found without a result after a crash, its outcome is unknown and it is not repeated.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault, notVisible, RetryTransaction } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { isReadOnly, type Operation, type Preparation } from "@/core/operation.ts";
import { storableText, truncateText } from "@/core/text/text.ts";
import type { RoomsRead } from "@/modules/room/mod.ts";
import type { ModelToolCall } from "@/ports/model.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { type ApprovalGate, CallDenied, type CallEffect, type GatedCall, NeedsApproval } from "../approval/gate.ts";
import { ApprovalStore } from "../approval/store.ts";
import { type AgentTool, ToolFailed } from "../tool/tool.ts";
import type { ResolvedCall, Toolbox } from "../tool/toolbox.ts";
import type { AgentTables, RunRow, StepRow, StepStatus } from "../tables.ts";
import type { CallCause, CallOperation } from "./context.ts";
import { LeaseLost, type RunLifecycle } from "./lifecycle.ts";
import type { RunPoster } from "./poster.ts";
import { roomsReadBy, roomsReadJson, withRoomsRead } from "./presenter.ts";
import type { RunPublisher } from "./publisher.ts";
import type { RunActor, RunActors } from "./run_actor.ts";
import { RunStore } from "./store.ts";

const RESULT_MAX = 16_000;
const BOUNDS_HINT = "An agent finds only what everybody who asked, and everybody who reads its responses, can see";
const CALL_CUT = "The response ended within the arguments, so nothing was called. Call again with shorter ones";
/** Operations whose messages may mention other agents. */
const SENDING: ReadonlySet<string> = new Set(["message.send", "message.update"]);
/** The effect of a call that is asked about before it runs. */
const NO_EFFECT: CallEffect = { roomIds: [], readerIds: [] };

type ToolStepCall = {
  run: RunRow;
  /** Number of the step. */
  n: number;
  call: ModelToolCall;
  /** The row of the call, if it began before. */
  begun: StepRow | undefined;
  /** Whether the response ended within its arguments. */
  isCut: boolean;
  toolbox: Toolbox;
  signal: AbortSignal;
};
/** With its outcome. */
type Step = ToolStepCall & { status: StepStatus };

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  cpu: CpuBudget;
  actors: RunActors;
  gate: ApprovalGate;
  lifecycle: RunLifecycle;
  publisher: RunPublisher;
  poster: RunPoster;
  callOperation: CallOperation;
};
type Outcome = { status: StepStatus; result: string };

const log = logOf("agent");

export class ToolStep {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Resolves to the run afterwards; it waits if an approval or a reply is needed. Throws `LeaseLost`. */
  async run(call: ToolStepCall): Promise<RunRow> {
    const { publisher } = this.#deps;
    const step: Step = { ...call, status: "started" };
    let resolved: ResolvedCall;
    try {
      if (step.isCut) throw new Fault("bad_request", CALL_CUT);
      resolved = step.toolbox.resolve(step.call.name, step.call.input);
    } catch (thrown) {
      const unknown = { kind: "find", name: step.call.name, query: "" } as const;
      return await this.#record(step, unknown, failed(Fault.from(thrown)));
    }
    publisher.step(step.run, noticeOf(step, resolved));
    const run = await this.#call(step, resolved);
    publisher.step(run, noticeOf(step, resolved));
    return run;
  }

  async #call(step: Step, resolved: ResolvedCall): Promise<RunRow> {
    const { toolbox } = step;
    if (resolved.kind === "find") {
      const result = JSON.stringify(toolbox.find(resolved.query));
      return await this.#record(step, resolved, { status: "succeeded", result });
    }
    if (resolved.kind === "ask") return await this.#ask(step, resolved);
    if (resolved.kind === "source") return await this.#callSource(step, resolved, resolved.tool);
    return isReadOnly(resolved.operation)
      ? await this.#read(step, resolved, resolved.operation)
      : await this.#write(step, resolved, resolved.operation);
  }

  /** What it read bounds where the run may write without an approval. */
  async #read(step: Step, resolved: ResolvedCall, operation: Operation): Promise<RunRow> {
    const { actors, callOperation } = this.#deps;
    const { run } = step;
    const refused = await this.#askBefore(step, resolved);
    if (refused !== undefined) return refused;
    let read: RoomsRead = new Map();
    let outcome: Outcome;
    try {
      const actor = await actors.of(run);
      const output = await this.#within(
        actor,
        () => callOperation(actor, operation.name, resolvedInput(resolved), causeOf(run)),
      );
      read = actor.bounds.read;
      outcome = succeeded(output);
    } catch (thrown) {
      outcome = outcomeOf(thrown);
    }
    return await this.#record(step, resolved, outcome, read);
  }

  async #write(step: Step, resolved: ResolvedCall, operation: Operation): Promise<RunRow> {
    const { store, actors, callOperation } = this.#deps;
    const { run } = step;
    try {
      // A caller whose share of the CPU is used up waits here, not inside of the transaction.
      return await this.#within(await actors.of(run), async (actor) => {
        const preparation = await callOperation.prepare(actor, operation.name, resolvedInput(resolved), causeOf(run));
        return await store.enclose(async (tx) => {
          await this.#fence(tx, run);
          const outcome = await this.#tryWrite(step, resolved, operation, preparation);
          return outcome instanceof NeedsApproval
            ? await this.#waitForApproval(tx, step, resolved, outcome)
            : await this.#put(tx, step, resolved, outcome);
        });
      });
    } catch (thrown) {
      if (thrown instanceof LeaseLost || thrown instanceof RetryTransaction) throw thrown;
      // Such as a right that ended at the commit: nothing of the call was written.
      return await this.#record(step, resolved, outcomeOf(thrown));
    }
  }

  /** Runs the operation in a savepoint, which is undone if it fails or needs an approval. */
  async #tryWrite(
    step: Step,
    resolved: ResolvedCall,
    operation: Operation,
    preparation: Preparation | undefined,
  ): Promise<Outcome | NeedsApproval> {
    const { store, actors, gate, callOperation } = this.#deps;
    const { run } = step;
    try {
      return await store.enclose(async (inner) => {
        const actor = await actors.of(run, inner.db);
        const input = resolvedInput(resolved);
        const output = await callOperation(actor, operation.name, input, causeOf(run), preparation);
        const { checked, readerIds, read } = actor.bounds;
        const effect = { roomIds: checked, readerIds };
        await gate.assertAllowed(inner, gated(step, resolved), effect, withRoomsRead(run, read));
        this.#recheckBeforeCommit(inner, run, actor);
        if (SENDING.has(operation.name)) await this.#noteSent(inner, run, output);
        return succeeded(output);
      });
    } catch (thrown) {
      if (thrown instanceof RetryTransaction) throw thrown;
      return thrown instanceof NeedsApproval ? thrown : outcomeOf(thrown);
    }
  }

  /** Those who asked may have lost a right meanwhile: with the rooms locked, all of them are compared again. */
  #recheckBeforeCommit(tx: AnyTransaction, run: RunRow, { bounds }: RunActor): void {
    if (this.#deps.store.dialect === "sqlite") return;
    tx.checkBeforeCommit(`run ${run.id}`, async (last) => {
      const now = await this.#deps.actors.of(run, last.db);
      for (const roomId of [...bounds.checked]) {
        const [before, after] = [bounds.boundIn(roomId), now.bounds.boundIn(roomId)];
        if (after?.role !== before?.role) throw notVisible("room");
      }
    });
  }

  async #callSource(step: Step, resolved: ResolvedCall, tool: AgentTool): Promise<RunRow> {
    const { actors } = this.#deps;
    const { run, begun, n, signal } = step;
    if (begun?.status === "started" && !tool.isIdempotent) {
      const result = "The outcome of this call is unknown: the gateway stopped meanwhile. It was not repeated";
      return await this.#record(step, resolved, { status: "outcome_unknown", result });
    }
    const refused = await this.#askBefore(step, resolved);
    if (refused !== undefined) return refused;
    await this.#record(step, resolved, { status: "started", result: "" });
    const { tenant_id: tenantId, agent_id: agentId, room_id: roomId, id: runId } = run;
    const input = resolvedInput(resolved);
    let outcome: Outcome;
    try {
      // No operation looks at the rights of those who asked.
      await actors.of(run);
      const result = await tool.call({
        tenantId,
        agentId,
        roomId,
        runId,
        key: `${runId}.${n}`,
        agentHops: run.chain_depth,
        input,
        signal,
      });
      outcome = { status: "succeeded", result: truncateText(storableText(result), RESULT_MAX) };
    } catch (thrown) {
      // Given back to another node, which finds it started.
      if (signal.aborted) throw thrown;
      outcome = outcomeOf(thrown);
    }
    return await this.#record(step, resolved, outcome);
  }

  /** Resolves to the run if it waits for an approval or was denied one, and to nothing if the call may run. */
  async #askBefore(step: Step, resolved: ResolvedCall): Promise<RunRow | undefined> {
    const { store, gate } = this.#deps;
    try {
      await store.write((tx) => gate.assertAllowed(tx, gated(step, resolved), NO_EFFECT, new Map()));
      return undefined;
    } catch (thrown) {
      if (!(thrown instanceof NeedsApproval)) return await this.#record(step, resolved, outcomeOf(thrown));
      return await store.write(async (tx) => {
        await this.#fence(tx, step.run);
        return await this.#waitForApproval(tx, step, resolved, thrown);
      });
    }
  }

  /** The question is in the conversation, for all who read it later. */
  async #ask(step: Step, resolved: ResolvedCall & { kind: "ask" }): Promise<RunRow> {
    const { store, lifecycle, poster } = this.#deps;
    const { run } = step;
    try {
      // A notice notifies nobody: those who asked are notified of the question itself.
      const question = await poster.prepare(run, { text: resolved.question, type: "notice" });
      return await store.enclose(async (tx) => {
        await this.#fence(tx, run);
        const posted = await poster.post(run, question, { read: roomsReadBy(run) });
        if (posted instanceof Fault) return await this.#put(tx, step, resolved, failed(posted));
        await this.#put(tx, step, resolved, { status: "waiting", result: "" });
        return await lifecycle.wait(tx, run, "waiting_input", posted?.text ?? resolved.question);
      });
    } catch (thrown) {
      if (thrown instanceof LeaseLost || thrown instanceof RetryTransaction) throw thrown;
      return await this.#record(step, resolved, outcomeOf(thrown));
    }
  }

  async #waitForApproval(tx: AnyTransaction, step: Step, resolved: ResolvedCall, need: NeedsApproval): Promise<RunRow> {
    const { gate, lifecycle } = this.#deps;
    await this.#put(tx, step, resolved, { status: "waiting", result: "" });
    await gate.request(tx, gated(step, resolved), JSON.stringify(resolvedInput(resolved)), need);
    return await lifecycle.wait(tx, step.run, "waiting_approval", null);
  }

  async #record(step: Step, resolved: ResolvedCall, outcome: Outcome, read: RoomsRead = new Map()): Promise<RunRow> {
    return await this.#deps.store.write(async (tx) => {
      await this.#fence(tx, step.run);
      return await this.#put(tx, step, resolved, outcome, read);
    });
  }

  async #put(
    tx: AnyTransaction,
    step: Step,
    resolved: ResolvedCall,
    { status, result }: Outcome,
    read: RoomsRead = new Map(),
  ): Promise<RunRow> {
    const { run, n, call, begun } = step;
    const now = iso(this.#deps.clock.now());
    step.status = status;
    const runs = new RunStore(tx.db);
    const decided = status === "denied" ? await this.#commentOn(tx, run, call.callId) : undefined;
    await runs.putStep({
      tenant_id: run.tenant_id,
      run_id: run.id,
      n,
      kind: "tool",
      status,
      text: null,
      reason: null,
      calls_json: null,
      tool: truncateText(resolved.name, 64),
      call_id: call.callId,
      input: call.input,
      result: status === "started" || status === "waiting" ? null : result + (decided ?? ""),
      started_at: begun?.started_at ?? now,
      ended_at: status === "started" || status === "waiting" ? null : now,
    });
    const set = { step: n, text: "", read_rooms_json: roomsReadJson(withRoomsRead(run, read)), heartbeat_at: now };
    await runs.update(run.tenant_id, run.id, set);
    return { ...run, ...set };
  }

  async #commentOn(tx: AnyTransaction, run: RunRow, callId: string): Promise<string | undefined> {
    const approvals = await new ApprovalStore(tx.db).ofRun(run.tenant_id, run.id);
    const comment = approvals.find((approval) => approval.call_id === callId)?.comment;
    return comment === null || comment === undefined ? undefined : `. They said: ${comment}`;
  }

  async #noteSent(tx: AnyTransaction, run: RunRow, output: unknown): Promise<void> {
    const { id, sendAt = iso(this.#deps.clock.now()) } = output as { id: string; sendAt?: string };
    await new RunStore(tx.db).putSent({
      tenant_id: run.tenant_id,
      message_id: id,
      run_id: run.id,
      chain_depth: run.chain_depth,
      // It is forgotten some time after that.
      created_at: sendAt,
    });
  }

  /** Locks the run, which this node must still have. */
  async #fence(tx: AnyTransaction, run: RunRow): Promise<void> {
    const set = { heartbeat_at: iso(this.#deps.clock.now()) };
    const fence = { status: ["running"], leaseOwner: run.lease_owner ?? "" } as const;
    if (!await new RunStore(tx.db).update(run.tenant_id, run.id, set, fence)) throw new LeaseLost();
  }

  /** Runs the call on the CPU account of the actor, once it has time. */
  async #within<Result>(actor: RunActor, run: (actor: RunActor) => Promise<Result>): Promise<Result> {
    const account = this.#deps.cpu.accountOf(actor);
    await account.beginCall();
    try {
      return await run(actor);
    } finally {
      account.endCall();
    }
  }
}

function gated({ run, call, toolbox }: Step, resolved: ResolvedCall): GatedCall {
  return { run, callId: call.callId, tool: resolved.name, asksFirst: toolbox.asksFirst(resolved) };
}

function resolvedInput(resolved: ResolvedCall): Record<string, unknown> {
  return "input" in resolved ? resolved.input : {};
}

/** What a run calls comes after the agents that led to it. */
function causeOf({ id, chain_depth }: RunRow): CallCause {
  return { requestId: id, agentHops: chain_depth };
}

function noticeOf({ n, call, status }: Step, resolved: ResolvedCall) {
  return {
    step: n,
    kind: "tool",
    status,
    tool: resolved.name,
    callId: call.callId,
    input: resolvedInput(resolved),
  } as const;
}

function succeeded(output: unknown): Outcome {
  const text = JSON.stringify(output) ?? "null";
  const result = text.length <= RESULT_MAX ? text : `${truncateText(text, RESULT_MAX)}… (cut)`;
  return { status: "succeeded", result };
}

function failed({ code, message }: Fault): Outcome {
  return { status: "failed", result: JSON.stringify({ error: code, detail: message }) };
}

function outcomeOf(thrown: unknown): Outcome {
  if (thrown instanceof LeaseLost) throw thrown;
  if (thrown instanceof CallDenied) return { status: "denied", result: "This call was denied by a person" };
  if (thrown instanceof ToolFailed) {
    return { status: "failed", result: truncateText(storableText(`The tool failed: ${thrown.message}`), RESULT_MAX) };
  }
  const fault = Fault.from(thrown);
  if (!(thrown instanceof Fault)) log.warn("calling a tool failed", failureOf(thrown));
  // Otherwise the model says that nothing is there to a person who sees it.
  return failed(fault.code === "not_found" ? new Fault("not_found", `${fault.message}. ${BOUNDS_HINT}`) : fault);
}
