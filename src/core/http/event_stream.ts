// Server-sent events as the body of a response. A client that does not read them in time is disconnected.
import { failureOf, logOf } from "../log.ts";

const log = logOf("http");

type Options = {
  /** A client that takes nothing for up to twice this time is disconnected. */
  stallMs: number;
  /** Aborts when the node stops: then `events` ends, and nothing waits for a client. */
  draining: AbortSignal;
  /** Called once, when nothing more is sent. */
  onEnd?: () => void;
};

export function eventBody(
  events: AsyncGenerator<string, undefined>,
  { stallMs, draining, onEnd }: Options,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  /** For how many ticks of the timer an event has waited for the client; `undefined` while the client waits for one. */
  let waitedTicks: number | undefined;
  let isEnded = false;
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined;
  const end = (): void => {
    if (isEnded) return;
    isEnded = true;
    clearInterval(timer);
    draining.removeEventListener("abort", onDrain);
    onEnd?.();
  };
  const timer = setInterval(() => {
    if (waitedTicks === undefined || ++waitedTicks < 2) return;
    end();
    stream?.error(new Error("The client takes nothing"));
    void events.return(undefined);
  }, stallMs);
  const onDrain = (): void => {
    if (waitedTicks === undefined) return;
    end();
    stream?.close();
    void events.return(undefined);
  };
  draining.addEventListener("abort", onDrain);
  return new ReadableStream({
    start(controller) {
      stream = controller;
    },
    // The runtime pulls the next event once it could write the one before.
    async pull(controller) {
      waitedTicks = undefined;
      try {
        const { value, done } = await events.next();
        if (isEnded) return;
        if (done !== true) {
          waitedTicks = 0;
          return controller.enqueue(encoder.encode(value));
        }
      } catch (thrown) {
        // Such as a right that ended: the client asks again, and reads why.
        log.debug("a stream of events ended", failureOf(thrown));
        if (isEnded) return;
      }
      end();
      controller.close();
    },
    async cancel() {
      end();
      await events.return(undefined);
    },
  });
}
