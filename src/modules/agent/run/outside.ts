// Runs of agents outside: a bot reports what it does, as the gateway would for its own agents. Every report can be repeated.
import { type Actor, hasScope } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { assertUnmuted, type RoomAccess } from "@/modules/room/mod.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import { reportedStep, type RunEnding } from "./ending.ts";
import { runFinished } from "./lifecycle.ts";
import type { PreparedPost } from "./poster.ts";
import { presentRun } from "./presenter.ts";
import type { RunPublisher } from "./publisher.ts";
import {
  EXTERNAL_TEXT_MAX,
  type Run,
  type RunAppend,
  type RunFinish,
  type RunPosition,
  type RunReport,
} from "./schema.ts";
import { RunStore } from "./store.ts";

/** Steps that an agent reports, and characters of all their texts: a reader of the run gets all of them at once. */
const STEPS_MAX = 200;
const STEPS_TEXT_MAX = 1_000_000;

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  ending: RunEnding;
  publisher: RunPublisher;
};

/** `text`: of the run, as it was then. */
type PreparedFinish = { text: string; post: PreparedPost };

export class OutsideRuns {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Continues the text of the current step at an offset; what is there already is not added again. */
  async append({ actor }: Context, { id, step, offset, text }: RunAppend): Promise<RunPosition> {
    const { store, publisher } = this.#deps;
    // If the run expires, its text is posted without the token.
    if (!hasScope(actor, "message.write")) {
      throw new Fault("scope_missing", "The text may become a message, and the token lacks the scope message.write");
    }
    const { run, added } = await store.write(async (tx) => {
      const run = await this.#require(tx, actor, id);
      const known = run.text.slice(offset);
      const isContinued = step === run.step && offset <= run.text.length &&
        (text.startsWith(known) || known.startsWith(text));
      if (!isContinued) throw mismatch(run);
      const added = text.slice(known.length);
      if (run.text.length + added.length > EXTERNAL_TEXT_MAX) {
        throw new Fault("limit_reached", `The text of a run has at most ${EXTERNAL_TEXT_MAX} characters`);
      }
      await this.#update(tx, run, added === "" ? {} : { text: run.text + added });
      return { run, added };
    });
    const length = run.text.length;
    if (added !== "") publisher.delta(run, step, length, added);
    return { step, offset: length + added.length };
  }

  /** Ends the current step, with its text, and begins the next one. */
  async step({ actor }: Context, { id, step, tool, input, result, status }: RunReport): Promise<RunPosition> {
    const { store, clock, publisher } = this.#deps;
    const run = await store.write(async (tx) => {
      const run = await this.#require(tx, actor, id);
      if (step === run.step - 1) return undefined;
      if (step !== run.step) throw mismatch(run);
      if (step >= STEPS_MAX) throw new Fault("limit_reached", `A run has at most ${STEPS_MAX} steps`);
      const runs = new RunStore(tx.db);
      const chars = await runs.countStepChars(run.tenant_id, run.id);
      if (chars + run.text.length + (input?.length ?? 0) + (result?.length ?? 0) > STEPS_TEXT_MAX) {
        throw new Fault("limit_reached", `The steps of a run have at most ${STEPS_TEXT_MAX} characters in all`);
      }
      const now = iso(clock.now());
      const reported = { status, tool: tool ?? null, input: input ?? null, result: result ?? null };
      await runs.putStep(reportedStep(run, run.text, now, reported));
      await this.#update(tx, run, { step: step + 1, text: "" });
      return run;
    });
    if (run !== undefined) publisher.step(run, { step, kind: "external", status, tool: tool ?? null });
    return { step: step + 1, offset: 0 };
  }

  /** Prepares `finish`: filters may decide on the text, and one that is too long for a message becomes a file. */
  async prepareFinish({ actor }: Context, { id, text }: RunFinish): Promise<PreparedFinish | undefined> {
    const { store, ending } = this.#deps;
    const run = await this.#find(store.db, actor, id);
    if (run.status !== "running") return undefined;
    return { text: run.text, post: await ending.prepareExternal(run, text ?? run.text, actor) };
  }

  /** Posts the text and ends the run. Finishing a finished run returns it. */
  async finish(
    { actor }: Context,
    { id, text, status, error }: RunFinish,
    prepared: PreparedFinish | undefined,
  ): Promise<Run> {
    const { store, ending } = this.#deps;
    return await store.enclose(async (tx) => {
      const run = await this.#find(tx.db, actor, id);
      if (run.status === status) return presentRun(run);
      if (run.status !== "running" || prepared === undefined) throw runFinished();
      if (text === undefined && run.text !== prepared.text) {
        throw new Fault("conflict", "The text has grown meanwhile: finish the run again");
      }
      const failure = status === "failed" ? { code: error?.code ?? "failed", detail: error?.detail ?? "" } : undefined;
      const ended = await ending.endExternal(tx, run, actor, status, {
        text: text ?? run.text,
        post: prepared.post,
        error: failure,
      });
      if (ended === undefined) throw runFinished();
      return presentRun(ended);
    });
  }

  /** The running run, for its agent. */
  async #require(tx: AnyTransaction, actor: Actor, id: string): Promise<RunRow> {
    const run = await this.#find(tx.db, actor, id);
    if (run.status !== "running") throw runFinished();
    return run;
  }

  async #find(db: AnyDatabase, actor: Actor, id: string): Promise<RunRow> {
    const run = await new RunStore(db).find(actor.tenantId, id);
    if (run === undefined || run.agent_id !== actor.principalId || run.is_external !== 1) throw notVisible("run");
    const grant = await this.#deps.roomAccess.find(actor, run.room_id, db);
    if (grant === undefined) throw notVisible("run");
    assertUnmuted(actor, grant.room);
    return run;
  }

  async #update(tx: AnyTransaction, run: RunRow, set: Partial<RunRow>): Promise<void> {
    const heartbeat = { heartbeat_at: iso(this.#deps.clock.now()) };
    const isRunning = await new RunStore(tx.db).update(
      run.tenant_id,
      run.id,
      { ...set, ...heartbeat },
      { status: ["running"] },
    );
    if (!isRunning) throw runFinished();
  }
}

function mismatch({ step, text }: RunRow): Fault {
  return new Fault("offset_mismatch", `The run is at step ${step}, offset ${text.length}, and continues there`);
}
