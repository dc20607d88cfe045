// How a run ends: its last step, its message and its status are one transaction. No message exists before.
import type { Actor } from "@/core/actor.ts";
import { type Clock, delay, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Message } from "@/modules/message/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentTables, RunRow, StepRow } from "../tables.ts";
import type { RunFailure, RunLifecycle } from "./lifecycle.ts";
import { noticeOf, type PreparedPost, type RunPoster } from "./poster.ts";
import { askersOf, roomsReadBy } from "./presenter.ts";
import type { RunActors } from "./run_actor.ts";
import { RunStore } from "./store.ts";

/** Failures that are not posted in the room. */
const QUIET: ReadonlySet<string> = new Set(["loop_stopped", "agent_paused"]);
const RETRIES = 5;
const RETRY_MS = 1000;
const RETRY_MAX_MS = 5000;

type Deps = { store: Store<AgentTables>; clock: Clock; actors: RunActors; lifecycle: RunLifecycle; poster: RunPoster };

export class RunEnding {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Posts the text and ends the run, with its last step. Throws `LeaseLost`. */
  async succeed(
    run: RunRow,
    text: string,
    lastStep: StepRow,
    set: Partial<RunRow>,
    signal: AbortSignal,
  ): Promise<void> {
    const { poster } = this.#deps;
    for (let retry = 0;; retry++) {
      try {
        const post = await poster.prepare(run, { text: text.trim() });
        return await this.#succeed(run, post, text, lastStep, set);
      } catch (thrown) {
        // The response is paid for; what may pass, such as a rate limit, is waited for.
        if (!(thrown instanceof Fault) || !thrown.spec.retryable || retry === RETRIES || signal.aborted) throw thrown;
        await delay(Math.min(thrown.retryAfterMs ?? RETRY_MS, RETRY_MAX_MS), signal);
      }
    }
  }

  async #succeed(
    run: RunRow,
    post: PreparedPost,
    text: string,
    lastStep: StepRow,
    set: Partial<RunRow>,
  ): Promise<void> {
    const { store, lifecycle, poster } = this.#deps;
    await store.enclose(async (tx) => {
      const ended = await poster.post(run, post, { read: roomsReadBy({ ...run, ...set }) });
      await new RunStore(tx.db).putStep(lastStep);
      if (ended instanceof Fault) {
        const error = { code: ended.code, detail: `The response could not be posted: ${ended.message}` };
        // The text stays readable in the run.
        const outputMessageId = await this.#postFailure(tx, run, error);
        await lifecycle.end(tx, run, "failed", { error, outputMessageId, set: { ...set, text } });
      } else {
        const outputMessageId = ended?.id ?? await this.#postEmptyNotice(tx, run);
        await lifecycle.end(tx, run, "succeeded", { outputMessageId, set: { ...set, text: "" } });
      }
    });
  }

  /** Ends the run with an error, and posts it in the room if a person waits for the run. Throws `LeaseLost`. */
  async fail(run: RunRow, error: RunFailure): Promise<void> {
    const { store, lifecycle } = this.#deps;
    await store.enclose(async (tx) => {
      const outputMessageId = await this.#postFailure(tx, run, error);
      await lifecycle.end(tx, run, "failed", { error, outputMessageId });
    });
  }

  /** Ends a run that waits and cannot continue, as `fail`; part of the transaction. */
  async abandon(tx: AnyTransaction, run: RunRow, error: RunFailure): Promise<void> {
    const outputMessageId = await this.#postFailure(tx, run, error);
    await this.#deps.lifecycle.stop(tx, run, "failed", { error, outputMessageId });
  }

  /** People learn of an empty response as well, unless the agent has sent a message meanwhile. */
  async #postEmptyNotice(tx: AnyTransaction, run: RunRow): Promise<string | null> {
    const steps = await new RunStore(tx.db).steps(run.tenant_id, run.id);
    const hasSent = steps.some(({ tool, status }) => tool === "message.send" && status === "succeeded");
    if (hasSent || !isWaitedFor(run)) return null;
    return idOf(await this.#deps.poster.post(run, noticeOf("I have nothing to say to this.")));
  }

  /** Posts why there is no response, if a person waits for it; returns the id of the message. */
  async #postFailure(tx: AnyTransaction, run: RunRow, error: RunFailure): Promise<string | null> {
    const { actors, poster } = this.#deps;
    // If one of several has left, the others learn why they get no response.
    const askers = error.code === "not_found" ? await actors.remainingAskers(run, tx.db) : askersOf(run);
    if (askers.length === 0 || !isWaitedFor(run) || QUIET.has(error.code)) return null;
    const addressed = { ...run, asker_ids_json: JSON.stringify(askers) };
    return idOf(await poster.post(addressed, noticeOf(`I could not finish this: ${error.detail}`)));
  }

  /** Prepares what a run of an agent outside posts: as the caller, or as the run if it ends without a call. */
  async prepareExternal(run: RunRow, text: string, caller?: Actor): Promise<PreparedPost> {
    return await this.#deps.poster.prepare(run, { text: text.trim() }, caller);
  }

  /** Ends a run of an agent outside, whose text is posted however it ended; part of the transaction. */
  async endExternal(
    tx: AnyTransaction,
    run: RunRow,
    actor: Actor | undefined,
    status: "succeeded" | "failed" | "expired",
    { text, error, post }: { text: string; error?: RunFailure | undefined; post: PreparedPost },
  ): Promise<RunRow | undefined> {
    const posted = await this.#deps.poster.post(run, post, actor === undefined ? {} : { actor });
    if (posted instanceof Fault && status === "succeeded") throw posted;
    const outputMessageId = idOf(posted);
    // Who watches it later reads all of it.
    if (text !== "") await new RunStore(tx.db).putStep(reportedStep(run, text, iso(this.#deps.clock.now())));
    const options = { outputMessageId, set: { text: "" }, error };
    return await this.#deps.lifecycle.stop(tx, run, status, options);
  }
}

/** The row of the current step of an agent outside. */
export function reportedStep(run: RunRow, text: string, endedAt: string, more: Partial<StepRow> = {}): StepRow {
  return {
    tenant_id: run.tenant_id,
    run_id: run.id,
    n: run.step,
    kind: "external",
    status: "succeeded",
    text: text === "" ? null : text,
    reason: null,
    calls_json: null,
    tool: null,
    call_id: null,
    input: null,
    result: null,
    started_at: run.heartbeat_at,
    ended_at: endedAt,
    ...more,
  };
}

/** Whether people wait for the response in the room: it is to a message, and not to one of an agent. */
function isWaitedFor({ trigger_message_id: messageId, chain_depth: chainDepth }: RunRow): boolean {
  return messageId !== null && chainDepth === 1;
}

function idOf(posted: Message | Fault | undefined): string | null {
  return posted === undefined || posted instanceof Fault ? null : posted.id;
}
