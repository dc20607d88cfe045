// Responses that are not sent for some time: long polls, streams without an end, what waits for its turn. Until a response has left,
// the runtime reads all that its client sends behind the request (see runtime/sent_ahead.ts). So the memory guard may cut it off.
import { TimeoutQueue } from "@/core/time/timeout_queue.ts";
import { closingResponse } from "@/runtime/sent_ahead.ts";
import type { GuardedResponse, MemoryGuard } from "../shared/memory_guard.ts";

/** Most responses are sent long before. */
const LATE_MS = 100;

export class LastingResponses {
  readonly #guard: Pick<MemoryGuard, "addResponse" | "deleteResponse">;
  readonly #pending = new TimeoutQueue(LATE_MS);

  constructor(guard: Pick<MemoryGuard, "addResponse" | "deleteResponse">) {
    this.#guard = guard;
  }

  /** What `work` resolves to, or one that ends the connection, if the guard cuts it off before. */
  run(work: Promise<Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      let late: GuardedResponse | undefined;
      let isCutOff = false;
      const shed = (): void => {
        isCutOff = true;
        resolve(closingResponse());
      };
      const stop = this.#pending.start(() => this.#guard.addResponse(late = { shed }));
      const end = (): void => {
        stop();
        if (late !== undefined) this.#guard.deleteResponse(late);
      };
      work.then((response) => {
        end();
        // Nobody waits for it, also if it fails.
        if (isCutOff) response.body?.cancel().catch(() => {});
        else resolve(response);
      }, (cause) => {
        end();
        reject(cause);
      });
    });
  }

  /** The response, whose body the guard may cut off if it has no known length. Others are sent as fast as they are read. */
  guard(response: Response): Response {
    if (response.body === null || response.headers.has("Content-Length")) return response;
    const reader = response.body.getReader();
    const end = (): void => this.#guard.deleteResponse(stream);
    let shed = (): void => {};
    const stream: GuardedResponse = { shed: () => shed() };
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        shed = () => {
          controller.error(new Error("Its client sends too much behind the request"));
          // Nobody reads on, also if it fails.
          reader.cancel().catch(() => {});
        };
      },
      async pull(controller) {
        const { done, value } = await reader.read().catch((cause) => {
          end();
          throw cause;
        });
        if (!done) return controller.enqueue(value);
        end();
        controller.close();
      },
      cancel(reason) {
        end();
        return reader.cancel(reason);
      },
    }, { highWaterMark: 0 });
    this.#guard.addResponse(stream);
    return new Response(body, response);
  }
}
