// One response of the model: streamed to watchers, saved as it grows, and tried again from its start if it breaks.
import { type Clock, delay, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { storableText, truncateText } from "@/core/text/text.ts";
import type { AiCharge, AiService, AiStepEnd } from "@/modules/ai/mod.ts";
import { ModelError, type ModelMessage, type ModelTool, type ModelToolCall } from "@/ports/model.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { Store } from "@/ports/store.ts";
import { LeaseLost } from "./lifecycle.ts";
import { DeltaStream, type RunPublisher } from "./publisher.ts";
import { RunStore } from "./store.ts";

/**
 * A text that grows is saved within this time. Saves begin at multiples of it, so that runs which stream at the same time share a
 * commit: others wait for each.
 */
export const TEXT_SAVED_MS = 1000;
const SAVE_CHARS = 4096;
/** How often a response that broke off is tried again, or waited for as long as its provider asks. */
const RETRIES = 2;
/** A response longer than any that was asked for is cut. */
const CHARS_PER_TOKEN_MAX = 32;
const CALLS_MAX = 16;

export type ModelStepRequest = {
  charge: AiCharge;
  model: string | undefined;
  messages: readonly ModelMessage[];
  tools: readonly ModelTool[];
  maxOutputTokens: number;
};

export type ModelStepResult = { text: string; calls: readonly ModelToolCall[]; end: AiStepEnd };

type Deps = { store: Store<AgentTables>; clock: Clock; ai: Pick<AiService, "step">; publisher: RunPublisher };

export class ModelStep {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Throws Faults, `ModelError` and `LeaseLost`. */
  async run(run: RunRow, n: number, request: ModelStepRequest, signal: AbortSignal): Promise<ModelStepResult> {
    const { publisher } = this.#deps;
    publisher.step(run, { step: n, kind: "model", status: "started" });
    for (let retry = 0;; retry++) {
      try {
        return await this.#attempt(run, n, request, signal);
      } catch (thrown) {
        if (!(thrown instanceof ModelError) || !thrown.isRetryable || retry === RETRIES || signal.aborted) throw thrown;
        const { usage, retryAfterMs } = thrown;
        if (usage !== undefined) await this.restart(run, n);
        else if (retryAfterMs !== undefined) await delay(retryAfterMs, signal);
        else throw thrown;
      }
    }
  }

  /** The text of an unfinished step does not count: it starts again. Throws `LeaseLost`. */
  async restart(run: RunRow, n: number): Promise<void> {
    // In this order: who subscribes in between and reads the run would take what follows for a continuation of the old text.
    await this.#save(run, n, "");
    this.#deps.publisher.reset(run, n);
  }

  async #attempt(
    run: RunRow,
    n: number,
    { charge, ...request }: ModelStepRequest,
    signal: AbortSignal,
  ): Promise<ModelStepResult> {
    const { ai, publisher } = this.#deps;
    using deltas = new DeltaStream((offset, text) => publisher.delta(run, n, offset, text));
    const lost = new AbortController();
    const saver = new TextSaver((text) => this.#save(run, n, text), () => lost.abort());
    const textMax = request.maxOutputTokens * CHARS_PER_TOKEN_MAX;
    const calls: ModelToolCall[] = [];
    let unsafe = "";
    const step = ai.step(charge, request, AbortSignal.any([signal, lost.signal]));
    try {
      let result = await step.next();
      while (!result.done) {
        const part = result.value;
        if (part.kind === "tool" && calls.length < CALLS_MAX) {
          // The ids of models are not unique.
          const [name, input] = [storableText(part.name), storableText(part.input)];
          calls.push({ ...part, name, input, callId: callIdOf(n, calls.length) });
        } else if (part.kind === "text") {
          // Half a character waits for its other half.
          unsafe += part.text;
          const ready = truncateText(unsafe, unsafe.length);
          unsafe = unsafe.slice(ready.length);
          if (ready !== "") deltas.add(storableText(ready));
          saver.offer(deltas.text);
        } else if (part.kind === "reset") {
          unsafe = "";
          deltas.clear();
          await saver.clear();
          publisher.reset(run, n);
        }
        if (deltas.text.length > textMax) {
          throw new Fault("model_failed", "The response of the model is longer than requested");
        }
        result = await step.next();
      }
      deltas.flush();
      return {
        text: deltas.text,
        calls: calls.map(({ callId, name, input, signature }) => ({ callId, name, input, signature })),
        end: result.value,
      };
    } catch (thrown) {
      throw lost.signal.aborted ? new LeaseLost() : thrown;
    } finally {
      // Also when the text became too long: ends the call of the provider.
      await step.return({} as AiStepEnd);
      await saver.end();
      // By it, the node that continues knows that something was shown.
      if (signal.aborted) await saver.saveRest();
    }
  }

  async #save(run: RunRow, n: number, text: string): Promise<void> {
    const { store, clock } = this.#deps;
    const isSaved = await store.write((tx) =>
      new RunStore(tx.db).update(
        run.tenant_id,
        run.id,
        { step: n, text, heartbeat_at: iso(clock.now()) },
        { status: ["running"], leaseOwner: run.lease_owner ?? "" },
      )
    );
    if (!isSaved) throw new LeaseLost();
  }
}

/** The id of a call in a run. Mistral takes those of nine letters and digits only. */
function callIdOf(step: number, at: number): string {
  return `call${String(step).padStart(3, "0")}${String(at).padStart(2, "0")}`;
}

/** Saves a growing text: within a second after it has grown, or by 4 KiB, one save at a time. */
class TextSaver {
  readonly #save: (text: string) => Promise<void>;
  readonly #onLost: () => void;
  #text = "";
  #savedLength = 0;
  #isOver = false;
  #saving: Promise<void> | undefined;
  /** What the model has written is saved also while it pauses, for readers that arrive then. */
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(save: (text: string) => Promise<void>, onLost: () => void) {
    this.#save = save;
    this.#onLost = onLost;
  }

  offer(text: string): void {
    this.#text = text;
    if (this.#saving !== undefined) return;
    if (text.length - this.#savedLength >= SAVE_CHARS) return this.#begin();
    this.#timer ??= setTimeout(() => this.#begin(), TEXT_SAVED_MS - performance.now() % TEXT_SAVED_MS);
  }

  /** Saves that there is no text. Throws `LeaseLost`. */
  async clear(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#text = "";
    await this.#saving;
    this.#savedLength = 0;
    await this.#save("");
  }

  async end(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#timer);
    await this.#saving;
  }

  async saveRest(): Promise<void> {
    if (this.#text.length > this.#savedLength) this.#begin();
    await this.#saving;
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const text = this.#text;
    this.#savedLength = text.length;
    this.#saving = this.#save(text).catch((thrown) => {
      // Anything else is a database that does not answer now; the next save tries again.
      if (thrown instanceof LeaseLost) this.#onLost();
    }).finally(() => {
      this.#saving = undefined;
      if (!this.#isOver && this.#text.length > text.length) this.offer(this.#text);
    });
  }
}
