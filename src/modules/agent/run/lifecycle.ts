// How runs start, wait and end: each change with its event in one transaction.
import { type Actor, intersectScopes, scopesOf, textOfScopes } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import { storableText, truncateText } from "@/core/text/text.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { ApprovalStore } from "../approval/store.ts";
import type { RunRow } from "../tables.ts";
import { expiryJob } from "./expiry_job.ts";
import { askersOf, presentRun } from "./presenter.ts";
import { RUN_ERROR_MAX } from "./schema.ts";
import { runChanged } from "./signals.ts";
import { RunStore, UNFINISHED } from "./store.ts";

/** `scopes`: of the token that it came with. */
type Reply = { text: string; scopes: Actor["scopes"] };
/** `reply`: what the model provider says about it. */
export type RunFailure = { code: string; detail: string; reply?: string | undefined };

/** Another node has the run, or it ended: what this one wanted to write does not count. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** Kinds of notifications for those who asked. */
export const WAITING_NOTIFICATIONS = {
  waiting_approval: "approval_requested",
  waiting_input: "question_asked",
} as const;

/** Whether it waits for an approval or a reply. */
export function isWaiting({ status }: Pick<RunRow, "status">): boolean {
  return status in WAITING_NOTIFICATIONS;
}

export function runFinished(): Fault {
  return new Fault("run_finished", "The run has finished");
}

type Ended = "succeeded" | "failed" | "cancelled" | "expired";
type EndOptions = { outputMessageId?: string | null; error?: RunFailure | undefined; set?: Partial<RunRow> };
type Deps = {
  clock: Clock;
  ai: Pick<AiService, "releaseRun">;
  metrics: Pick<Metrics, "aiRuns">;
  notifications: Pick<NotificationService, "notify" | "markReadAbout">;
};

export class RunLifecycle {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The first node begins with it; `run` names the message that it responds to. Throws `LeaseLost`. */
  async start(tx: AnyTransaction, run: RunRow, contextSeq: number): Promise<RunRow> {
    const now = this.#now();
    const set = { started_at: now, context_seq: contextSeq, trigger_message_id: run.trigger_message_id };
    return await this.#change(tx, run, set, "run.started");
  }

  /** Waits without a node, until it is queued again. Throws `LeaseLost`. */
  async wait(
    tx: AnyTransaction,
    run: RunRow,
    status: keyof typeof WAITING_NOTIFICATIONS,
    question: string | null,
  ): Promise<RunRow> {
    const set = { status, question, text: "", lease_owner: null, lease_until: null, heartbeat_at: this.#now() };
    await tx.enqueue(expiryJob(run, this.#deps.clock.now()));
    const waiting = await this.#change(tx, run, set, "run.waiting");
    await this.#notifyAskers(tx, run, status);
    return waiting;
  }

  /** Those who asked may look at another room meanwhile. */
  async #notifyAskers(tx: AnyTransaction, run: RunRow, status: keyof typeof WAITING_NOTIFICATIONS): Promise<void> {
    const { tenant_id: tenantId, id, agent_id: principalId, room_id: roomId, trigger_message_id: messageId } = run;
    const askers = await new RoomStore(tx.db).viewers(tenantId, roomId, askersOf(run));
    await this.#deps.notifications.notify({
      tenantId,
      principalIds: askers.filter(({ kind, my_role }) => kind === "human" && my_role !== null).map((asker) => asker.id),
      kind: WAITING_NOTIFICATIONS[status],
      actor: { principalId, kind: "agent" },
      roomId,
      ...messageId === null ? {} : { message: { id: messageId, seq: Number(run.seq) } },
      resource: { type: "run", id },
    });
  }

  /** Continues a run that waited; false if it does not wait. */
  async resume(tx: AnyTransaction, run: RunRow, given: Partial<RunRow> = {}): Promise<boolean> {
    const now = this.#now();
    // To continue is no further attempt.
    const attempt = Math.max(0, run.attempt - 1);
    const set = { ...given, status: "queued", attempt, question: null, queued_at: now, heartbeat_at: now } as const;
    if (!isWaiting(run)) return false;
    const status = [run.status];
    if (!await new RunStore(tx.db).update(run.tenant_id, run.id, set, { status })) return false;
    tx.signal(runChanged.create(run.tenant_id, run.id));
    await this.#markRead(run);
    return true;
  }

  /** Continues a run with the reply to its question; false if it has no open question. */
  async reply(tx: AnyTransaction, run: RunRow, { text, scopes }: Reply): Promise<boolean> {
    if (run.status !== "waiting_input") return false;
    // The reply is a further request.
    const narrowed = textOfScopes(intersectScopes(scopesOf(run.scopes), scopes));
    if (!await this.resume(tx, run, { scopes: narrowed })) return false;
    const runs = new RunStore(tx.db);
    const asked = (await runs.steps(run.tenant_id, run.id)).find(({ status }) => status === "waiting");
    if (asked !== undefined) await runs.putStep({ ...asked, status: "succeeded", result: text, ended_at: this.#now() });
    return true;
  }

  /** The run no longer waits for those who asked. */
  #markRead(run: RunRow): Promise<void> {
    return this.#deps.notifications.markReadAbout(run.tenant_id, askersOf(run), { type: "run", id: run.id });
  }

  /** The node that executes it ends it. Throws `LeaseLost`. */
  async end(tx: AnyTransaction, run: RunRow, status: Ended, options: EndOptions = {}): Promise<RunRow> {
    const ended = await this.#change(tx, run, this.#ending(status, options), "run.finished");
    await this.#clean(tx, ended);
    return ended;
  }

  /** Ends a run from outside, whatever it does; `undefined` if it has ended before. */
  async stop(tx: AnyTransaction, run: RunRow, status: Ended, options: EndOptions = {}): Promise<RunRow | undefined> {
    const runs = new RunStore(tx.db);
    const set = this.#ending(status, options);
    if (!await runs.update(run.tenant_id, run.id, set, { status: UNFINISHED })) return undefined;
    const ended = { ...run, ...set };
    await tx.emit(runEvent(ended, "run.finished"));
    tx.signal(runChanged.create(run.tenant_id, run.id));
    await this.#markRead(run);
    await this.#clean(tx, ended);
    return ended;
  }

  async #change(tx: AnyTransaction, run: RunRow, set: Partial<RunRow>, event: string): Promise<RunRow> {
    const fence = { status: ["running"], ...run.lease_owner === null ? {} : { leaseOwner: run.lease_owner } } as const;
    // What was used is noted in the row only.
    const changed = await new RunStore(tx.db).change(run.tenant_id, run.id, set, fence);
    if (changed === undefined) throw new LeaseLost();
    await tx.emit(runEvent(changed, event));
    tx.signal(runChanged.create(run.tenant_id, run.id));
    return changed;
  }

  #ending(status: Ended, { outputMessageId, error, set }: EndOptions): Partial<RunRow> {
    const now = this.#now();
    return {
      ...set,
      status,
      question: null,
      queue_key: null,
      lease_owner: null,
      lease_until: null,
      finished_at: now,
      heartbeat_at: now,
      output_message_id: outputMessageId ?? null,
      error_code: error?.code ?? null,
      error_detail: error === undefined ? null : truncateText(error.detail, RUN_ERROR_MAX),
      error_reply: error?.reply === undefined ? null : truncateText(storableText(error.reply), RUN_ERROR_MAX),
    };
  }

  /** Nothing of an ended run stays open: neither approvals nor reservations. */
  async #clean(tx: AnyTransaction, run: RunRow): Promise<void> {
    const voided = await new ApprovalStore(tx.db).voidPending(run.tenant_id, run.id);
    if (voided.length > 0) {
      await tx.emit(...voided.map((id) => decidedEvent(run, id, { status: "void", decidedBy: null })));
    }
    if (run.status !== "succeeded") await this.#deps.ai.releaseRun(tx, run.tenant_id, run.id);
    this.#deps.metrics.aiRuns.inc({ outcome: run.status });
  }

  #now(): string {
    return iso(this.#deps.clock.now());
  }
}

/** An event about a run. Readers from whom its trigger is hidden receive it without content. */
export function eventBase(
  { tenant_id, room_id, agent_id, seq }: RunRow,
): Pick<EventDraft, "tenantId" | "stream" | "actor" | "effect"> {
  return {
    tenantId: tenant_id,
    stream: roomStream(room_id),
    actor: { principalId: agent_id, kind: "agent" },
    effect: { kind: "concerns", seq: Number(seq) },
  };
}

/** An approval of a run was decided, or ended with it; by default the agent is the actor. */
export function decidedEvent(
  run: RunRow,
  approvalId: string,
  decision: { status: string; decidedBy: string | null },
  actor?: EventDraft["actor"],
): EventDraft {
  const base = eventBase(run);
  const data = { approvalId, runId: run.id, agentId: run.agent_id, roomId: run.room_id, ...decision };
  return { ...base, type: "approval.decided", actor: actor ?? base.actor, data };
}

function runEvent(run: RunRow, type: string): EventDraft {
  const { text: _text, ...head } = presentRun(run);
  return { ...eventBase(run), type, data: { run: head } };
}
