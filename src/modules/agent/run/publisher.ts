// What watchers of a run receive while it runs. Nothing of it is stored: they read the run to catch up.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { Bus } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";
import type { RunRow, StepStatus } from "../tables.ts";

const PUBLISH_MS = 100;

type WatchedRun = Pick<RunRow, "tenant_id" | "id" | "agent_id">;
type StepNotice = {
  step: number;
  kind: "model" | "tool" | "external";
  status: StepStatus;
  tool?: string | null;
  callId?: string | null;
  input?: unknown;
};

export function runChannelOf(runId: string): string {
  return `run:${runId}`;
}

export class RunPublisher {
  readonly #deps: { bus: Bus; clock: Clock };

  constructor(deps: { bus: Bus; clock: Clock }) {
    this.#deps = deps;
  }

  delta(run: WatchedRun, step: number, offset: number, text: string): void {
    this.#publish(run, "run.delta", { runId: run.id, step, offset, text });
  }

  step(run: WatchedRun, { tool = null, callId = null, ...notice }: StepNotice): void {
    this.#publish(run, "run.step", { runId: run.id, ...notice, tool, callId });
  }

  /** What was published of the step's text does not count: it starts again. */
  reset(run: WatchedRun, step: number): void {
    this.#publish(run, "run.reset", { runId: run.id, step });
  }

  #publish({ tenant_id: tenantId, id, agent_id: agentId }: WatchedRun, type: string, data: unknown): void {
    const { bus, clock } = this.#deps;
    const channel = runChannelOf(id);
    const actor = { id: agentId, kind: "agent" };
    const json = JSON.stringify({ type, at: iso(clock.now()), actor, data });
    bus.publish(streamKey(tenantId, channel), { kind: "ephemeral", event: { tenantId, channel, json } });
  }
}

/** Gathers the text of a step, and publishes it in parts: at most one each 100 ms. */
export class DeltaStream implements Disposable {
  readonly #publish: (offset: number, text: string) => void;
  #text = "";
  /** The end of the text that is not published yet: to cut it off the whole text would copy that for each part. */
  #unpublished = "";
  #publishedAt = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(publish: (offset: number, text: string) => void) {
    this.#publish = publish;
  }

  get text(): string {
    return this.#text;
  }

  add(text: string): void {
    this.#text += text;
    this.#unpublished += text;
    if (this.#timer !== undefined) return;
    // Not in this tick: what was read together is published together.
    const waitMs = Math.max(0, this.#publishedAt + PUBLISH_MS - performance.now());
    this.#timer = setTimeout(() => this.flush(), waitMs);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const text = this.#unpublished;
    if (text === "") return;
    this.#unpublished = "";
    this.#publish(this.#text.length - text.length, text);
    this.#publishedAt = performance.now();
  }

  /** The text starts again. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#text = this.#unpublished = "";
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
