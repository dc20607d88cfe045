// `GET /ai/runs/:id/stream`: a run as server-sent events, from its beginning or from where a client was cut off.
import { exampleId } from "@/core/id.ts";
import { type Actor, chargedTo } from "@/core/actor.ts";
import { nextSlice } from "@/core/caller.ts";
import { eventBody } from "@/core/http/event_stream.ts";
import type { Route } from "@/core/http/route.ts";
import { Places } from "@/core/limit/slots.ts";
import { MINUTE_MS } from "@/core/time/clock.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { RunAccess } from "./access.ts";
import { TEXT_SAVED_MS } from "./model_step.ts";
import { RunNotices, type StreamPosition, type UiPart, UiStream } from "./ui_stream.ts";
import type { RunWaiter } from "./waiter.ts";

/** Streams on a node. */
const STREAMS = { perOwner: 8, perTenant: 128, perNode: 512 };
/** How soon a run is read again where nothing is published; what is missing in between is read at once. */
const RECHECK_MS = 5000;
/** How soon, until all that was published before the stream began is in the store. */
const CATCH_UP_MS = TEXT_SAVED_MS + 200;
const PING_MS = 15_000;
/** A client that takes nothing for twice this time gives its place to others. */
const STALL_MS = MINUTE_MS;

type Deps = {
  store: Store<AgentTables>;
  bus: Bus;
  access: RunAccess;
  waiter: RunWaiter;
  /** The actor with its current rights; `undefined` if its token ended. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
};

export class RunStreams {
  readonly #deps: Deps;
  readonly #places = new Places("streams of runs", STREAMS);

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  route(path: string): Route {
    return {
      name: "run.stream",
      summary: "Stream a run as server-sent events",
      description:
        "Speaks the UI message stream protocol of the AI SDK, version 1: all of the run from its beginning, then what it does, " +
        "up to `finish`. After a disconnect, `Last-Event-ID` continues where the last event ended. A response that broke off and starts " +
        "again is announced by a part `data-reset`. A client that reads nothing for two minutes is disconnected. Requires the scope `run.read`.",
      tag: "run",
      method: "GET",
      path,
      auth: "bearer",
      scope: "run.read",
      hasNoTimeout: true,
      faults: ["not_found", "rate_limited"],
      document: {
        examples: { id: exampleId("run") },
        parameters: [{
          name: "Last-Event-ID",
          in: "header",
          required: false,
          description: "Id of the last event that was received",
          schema: { type: "string", pattern: "^\\d{1,6}\\.\\d{1,9}\\.\\d{1,4}\\.\\d{1,10}$" },
        }],
        responses: {
          200: {
            description: "The parts of the run",
            headers: {
              "x-vercel-ai-ui-message-stream": { description: "Version of the protocol", schema: { type: "string" } },
            },
            content: { "text/event-stream": { schema: { type: "string" } } },
          },
        },
      },
      handle: async (request, { actor, params, signal }) => {
        // Before the run is read: what is refused costs nothing.
        using place = new DisposableStack();
        place.use(this.#places.enter(chargedTo(actor)));
        await nextSlice();
        const run = await this.#deps.access.findReadable(actor, params.id ?? "");
        const after = positionIn(request.headers.get("Last-Event-ID"));
        const left = new AbortController();
        const events = this.#events(actor, run, after, AbortSignal.any([signal, left.signal]));
        return new Response(this.#stream(events, left, place.move()), {
          headers: {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
            "x-vercel-ai-ui-message-stream": "v1",
          },
        });
      },
    };
  }

  #stream(
    events: AsyncGenerator<string, undefined>,
    left: AbortController,
    place: Disposable,
  ): ReadableStream<Uint8Array> {
    return eventBody(events, {
      stallMs: STALL_MS,
      draining: this.#deps.waiter.draining,
      onEnd() {
        left.abort();
        place[Symbol.dispose]();
      },
    });
  }

  async *#events(
    actor: Actor,
    run: RunRow,
    after: StreamPosition | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<string, undefined> {
    const { store, bus, access, waiter } = this.#deps;
    const { id } = run;
    // Before the run is read, so that nothing in between is missed.
    using notices = await RunNotices.of(bus, run, actor, (listener) => waiter.onChanged(run, listener, signal));
    const stream = new UiStream(store, id, after);
    let queue = after === undefined ? [stream.start()] : [];
    let [hasMore, isEnded] = [true, false];
    let isBehind = true;
    let pingAt = performance.now() + PING_MS;
    const isOpen = (): boolean => !signal.aborted && !waiter.draining.aborted;
    while (isOpen()) {
      // Many that start at once, or wait for one run, leave others their turn in between.
      await nextSlice();
      notices.resume();
      const current = await this.#deps.revalidate(actor);
      if (current === undefined) return;
      const found = await access.findReadable(current, id);
      // What is left from before an interruption comes first.
      if (queue.length === 0) ({ parts: queue, hasMore, isEnded } = await stream.stored(found));
      else hasMore = true;
      yield* takeFrom(queue, notices, after);
      if (queue.length > 0) continue;
      if (isEnded) {
        yield "data: [DONE]\n\n";
        return;
      }
      let isContinuous = !hasMore;
      const recheckAt = performance.now() + (isBehind ? CATCH_UP_MS : RECHECK_MS);
      while (isContinuous && !notices.isInterrupted && performance.now() < recheckAt && isOpen()) {
        const received = await notices.next(recheckAt - performance.now());
        if (received.length === 0) break;
        for (const notice of received) {
          const published = stream.published(notice);
          if (published === undefined || notice.type === "run.step") isContinuous = false;
          else queue.push(...published);
          isBehind ||= published === undefined;
        }
        yield* takeFrom(queue, notices, after);
      }
      if (performance.now() >= recheckAt) isBehind = false;
      if (performance.now() > pingAt) {
        pingAt = performance.now() + PING_MS;
        yield ": ping\n\n";
      }
    }
  }
}

/** Sends parts until none is left, or the rights of the reader are to be checked. */
function* takeFrom(
  queue: UiPart[],
  notices: RunNotices,
  after: StreamPosition | undefined,
): Generator<string, undefined> {
  while (!notices.isInterrupted) {
    const part = queue.shift();
    if (part === undefined) return;
    if (isAfter(part, after)) yield eventOf(part);
  }
}

function eventOf({ part, position: { step, length, phase, hash } }: UiPart): string {
  return `id: ${step}.${length}.${phase}.${hash}\ndata: ${JSON.stringify(part)}\n\n`;
}

function positionIn(header: string | null): StreamPosition | undefined {
  const found = /^(\d{1,6})\.(\d{1,9})\.(\d{1,4})\.(\d{1,10})$/.exec(header?.slice(0, 40) ?? "");
  const [step = 0, length = 0, phase = 0, hash = 0] = found?.slice(1).map(Number) ?? [];
  return found === null ? undefined : { step, length, phase, hash };
}

/** Whether a client that received everything up to a position lacks the part. */
function isAfter({ position, part }: UiPart, after: StreamPosition | undefined): boolean {
  if (after === undefined || position.step !== after.step || position.hash !== after.hash) return true;
  return position.phase > after.phase || part.type === "finish" || part.type === "error" || part.type === "abort";
}
