// A run as parts of the AI SDK's UI message stream: what is stored, then what is published, without a gap and without a repeat.
import type { Actor } from "@/core/actor.ts";
import { type EphemeralEvent, mayEndAccess } from "@/core/event/event.ts";
import { fnv1a } from "@/core/text/hash.ts";
import { principalChanged } from "@/modules/identity/mod.ts";
import { type Bus, type BusMessage, type BusSubscription, CONTROL_TOPIC } from "@/ports/bus.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { AgentTables, RunRow, StepRow } from "../tables.ts";
import { runChannelOf } from "./publisher.ts";
import { callsOf } from "./steps.ts";
import { RunStore } from "./store.ts";

/** Where a stream is: the step, the length and the hash of its text so far, and which part comes after that text. */
export type StreamPosition = { step: number; length: number; phase: number; hash: number };
/** A part, and the position after it. */
export type UiPart = { part: Record<string, unknown>; position: StreamPosition };

/** What may wait for a client; the rest it gets from the store. */
const UNREAD_MAX_CHARS = 64 * 1024;
const STEPS_AT_ONCE = 4;

type Notice = { type: string; step: number; offset: number; text: string };

/** Calls the listener when the run changes, or nobody waits for it any longer; the returned function ends that. */
type OnChanged = (listener: () => void) => () => void;

/** Reads what is published on the channel of a run, and notices when it changed or the rights of its reader may have ended. */
export class RunNotices implements Disposable {
  readonly #notices: Notice[] = [];
  #unreadChars = 0;
  #isInterrupted = false;
  #isChanged = false;
  #wake: (() => void) | undefined;
  readonly #subscriptions: BusSubscription[] = [];

  static async of(
    bus: Bus,
    { tenant_id, id }: Pick<RunRow, "tenant_id" | "id">,
    reader: Pick<Actor, "principalId" | "ownerId">,
    onChanged: OnChanged,
  ): Promise<RunNotices> {
    const notices = new RunNotices();
    const listen = async (topic: string, listener: (message: BusMessage) => void): Promise<void> => {
      notices.#subscriptions.push(await bus.subscribe(topic, listener));
    };
    await listen(streamKey(tenant_id, runChannelOf(id)), (message) => {
      if (message.kind === "ephemeral") notices.#add(message.event);
    });
    await listen(CONTROL_TOPIC, (message) => {
      if (message.kind !== "signal") return;
      const { signal } = message;
      const ids = [reader.principalId, reader.ownerId];
      const isChanged = principalChanged.matches(signal) && signal.tenantId === tenant_id && ids.includes(signal.id);
      if (isChanged || mayEndAccess(signal, tenant_id, ids)) notices.#interrupt();
    });
    notices.#subscriptions.push({ close: onChanged(() => notices.#change()) });
    return notices;
  }

  /** Whether the rights are to be checked, and the run is to be read, before anything else is sent. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** To be called before both: what changes from now on, also while the run is read or parts are sent, ends the next wait. */
  resume(): void {
    this.#isInterrupted = false;
    this.#isChanged = false;
  }

  /** What was published since the last call, once there is something; nothing after the time, a change of the run or an interruption. */
  async next(ms: number): Promise<Notice[]> {
    if (this.#notices.length === 0 && !this.#isInterrupted && !this.#isChanged) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, ms);
      this.#wake = resolve;
      await promise;
      clearTimeout(timer);
      this.#wake = undefined;
    }
    this.#unreadChars = 0;
    return this.#notices.splice(0);
  }

  [Symbol.dispose](): void {
    for (const subscription of this.#subscriptions) subscription.close();
  }

  #add({ json }: EphemeralEvent): void {
    this.#unreadChars += json.length;
    // A client that does not read can get it from the store later.
    if (this.#unreadChars > UNREAD_MAX_CHARS) return this.#interrupt();
    const { type, data: { step, offset = 0, text = "" } } = JSON.parse(json);
    this.#notices.push({ type, step, offset, text });
    this.#wake?.();
  }

  #change(): void {
    this.#isChanged = true;
    this.#wake?.();
  }

  #interrupt(): void {
    this.#notices.length = 0;
    this.#unreadChars = 0;
    this.#isInterrupted = true;
    this.#wake?.();
  }
}

/** Parts of a step that come after all of its text. */
const [START_STEP, TEXT_START, TEXT, TEXT_END, FIRST_CALL, FINISH_STEP] = [1, 2, 3, 4, 5, 1000];

/** The state of one stream: which steps are complete, and how much of the current one was written. */
export class UiStream {
  readonly #store: Store<AgentTables>;
  readonly #runId: string;
  /** What a client that was cut off has received; until it is compared with the text of its step. */
  #resumed: StreamPosition | undefined;
  #step = 0;
  #text = "";
  #hash = fnv1a("");
  #isOpen = false;
  #resets = 0;

  constructor(store: Store<AgentTables>, runId: string, resumed?: StreamPosition) {
    this.#store = store;
    this.#runId = runId;
    this.#resumed = resumed;
    this.#step = resumed?.step ?? 0;
  }

  /** The first part. */
  start(): UiPart {
    return this.#part({ type: "start", messageId: this.#runId }, 0);
  }

  /** What is stored and was not written yet, some steps at once; whether all is written and the run has ended. */
  async stored(run: RunRow): Promise<{ parts: UiPart[]; hasMore: boolean; isEnded: boolean }> {
    const { tenant_id, id } = run;
    const steps = await new RunStore(this.#store.db).stepsFrom(tenant_id, id, this.#step, STEPS_AT_ONCE);
    const parts = steps.flatMap((step) => this.#complete(step));
    if (steps.length === STEPS_AT_ONCE) return { parts, hasMore: true, isEnded: false };
    const isEnded = run.finished_at !== null;
    // Also what was said until it was cancelled.
    const isShown = run.status === "running" || isEnded;
    if (isShown && run.step === this.#step) parts.push(...this.#writeUpTo(run.text, false));
    return { parts: isEnded ? [...parts, ...this.#end(run)] : parts, hasMore: false, isEnded };
  }

  /** What follows from a notice; `undefined` if something before it is missing. */
  published({ type, step, offset, text }: Notice): UiPart[] | undefined {
    if (this.#resumed !== undefined) return undefined;
    if (step !== this.#step) return step < this.#step || type !== "run.delta" ? [] : undefined;
    if (type === "run.reset") return this.#text === "" ? [] : this.#reset();
    if (type !== "run.delta") return [];
    if (offset > this.#text.length) return undefined;
    return this.#write(text.slice(this.#text.length - offset));
  }

  #complete(step: StepRow): UiPart[] {
    if (step.kind === "tool") return this.#completeTool(step);
    // Some responses only call tools.
    const parts = (step.text ?? "") === ""
      ? [this.#part({ type: "start-step" }, START_STEP)]
      : [...this.#writeUpTo(step.text ?? "", true), ...this.#closeText()];
    for (const [n, { callId, name, input }] of callsOf(step).entries()) {
      const call = { toolCallId: callId, toolName: name, input: parsed(input), dynamic: true };
      parts.push(this.#part({ type: "tool-input-available", ...call }, FIRST_CALL + n));
    }
    if (step.kind === "external" && step.tool !== null) {
      const call = {
        toolCallId: `step-${step.n}`,
        toolName: step.tool,
        input: parsed(step.input ?? ""),
        dynamic: true,
      };
      parts.push(this.#part({ type: "tool-input-available", ...call }, FIRST_CALL));
      parts.push(this.#part(outputOf(call.toolCallId, step), FIRST_CALL + 1));
    }
    parts.push(this.#part({ type: "finish-step" }, FINISH_STEP));
    this.#next(step.n + 1);
    return parts;
  }

  #completeTool(step: StepRow): UiPart[] {
    if (step.ended_at === null) return [];
    this.#next(step.n + 1);
    return [this.#part(outputOf(step.call_id, step), 0)];
  }

  #end({ status, error_code, error_detail }: RunRow): UiPart[] {
    const parts = this.#closeText();
    if (status === "cancelled") {
      const reason = error_detail === null ? {} : { reason: error_detail };
      parts.push(this.#part({ type: "abort", ...reason }, FINISH_STEP));
    } else if (status !== "succeeded") {
      parts.push(this.#part({ type: "error", errorText: error_detail ?? error_code ?? status }, FINISH_STEP));
    }
    return [...parts, this.#part({ type: "finish" }, FINISH_STEP)];
  }

  /** The text of the step is known up to here. What was written and is not a beginning of it does not count. */
  #writeUpTo(text: string, isWhole: boolean): UiPart[] {
    if (this.#resumed !== undefined) {
      const { length, hash, phase } = this.#resumed;
      // A save is older than what was published before the client was cut off.
      if (text.length < length && !isWhole) return [];
      this.#resumed = undefined;
      this.#isOpen = phase >= TEXT_START && phase < TEXT_END;
      this.#append(text.slice(0, length));
      if (this.#hash >>> 0 !== hash) return [...this.#reset(), ...this.#write(text)];
    }
    if (text.startsWith(this.#text)) return this.#write(text.slice(this.#text.length));
    if (this.#text.startsWith(text) && !isWhole) return [];
    return [...this.#reset(), ...this.#write(text)];
  }

  #write(text: string): UiPart[] {
    if (text === "") return [];
    const opening = this.#isOpen ? [] : [
      ...this.#resets === 0 ? [this.#part({ type: "start-step" }, START_STEP)] : [],
      this.#part({ type: "text-start", id: this.#textId() }, TEXT_START),
    ];
    this.#isOpen = true;
    this.#append(text);
    return [...opening, this.#part({ type: "text-delta", id: this.#textId(), delta: text }, TEXT)];
  }

  #append(text: string): void {
    this.#text += text;
    this.#hash = fnv1a(text, this.#hash);
  }

  #closeText(): UiPart[] {
    if (!this.#isOpen) return [];
    this.#isOpen = false;
    return [this.#part({ type: "text-end", id: this.#textId() }, TEXT_END)];
  }

  #reset(): UiPart[] {
    const data = { runId: this.#runId, step: this.#step, textId: this.#textId() };
    const parts = [...this.#closeText(), this.#part({ type: "data-reset", data }, TEXT_END)];
    this.#clearText();
    this.#resets++;
    return parts;
  }

  #next(step: number): void {
    this.#step = step;
    this.#resumed = undefined;
    this.#clearText();
    this.#isOpen = false;
    this.#resets = 0;
  }

  #clearText(): void {
    this.#text = "";
    this.#hash = fnv1a("");
  }

  #textId(): string {
    return this.#resets === 0 ? `text-${this.#step}` : `text-${this.#step}-${this.#resets}`;
  }

  #part(part: Record<string, unknown>, phase: number): UiPart {
    return { part, position: { step: this.#step, length: this.#text.length, phase, hash: this.#hash >>> 0 } };
  }
}

/** What a call resulted in. */
function outputOf(toolCallId: string | null, { status, result }: StepRow): Record<string, unknown> {
  return status === "failed" || status === "outcome_unknown"
    ? { type: "tool-output-error", toolCallId, errorText: result ?? "", dynamic: true }
    : { type: "tool-output-available", toolCallId, output: parsed(result ?? ""), dynamic: true };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // Models write what they like, and results are text as well.
    return json;
  }
}
