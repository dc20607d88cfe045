// One attempt: signs a payload, sends it to the endpoint, and says what its response means.
import { baggageOf } from "@/core/agent_hops.ts";
import type { Clock } from "@/core/time/clock.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import { signedHeaders } from "../signature.ts";
import type { Payload } from "./payload.ts";
import { retryAfterMs } from "./retry.ts";

const TOTAL_MS = 15_000;
/** The endpoint is unable to receive; it is not about the event. Redirects are not followed, so they are among them. */
const UNAVAILABLE: ReadonlySet<number> = new Set([408, 425, 429]);

type Endpoint = { url: string; secrets: readonly string[] };
export type Attempt = {
  outcome: "delivered" | "unavailable" | "refused" | "gone";
  httpStatus: number | null;
  error: string | null;
  durationMs: number;
  retryAfterMs: number | undefined;
};

type Deps = { outbound: Outbound; clock: Clock };

export class WebhookSender {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Sends once. Never throws; an aborted attempt counts as one without a response. */
  async send({ url, secrets }: Endpoint, { id, body, agentHops = 0 }: Payload, signal?: AbortSignal): Promise<Attempt> {
    const { outbound, clock } = this.#deps;
    const timestamp = Math.floor(clock.now() / 1000);
    const startedAt = performance.now();
    const attempt = (
      outcome: Attempt["outcome"],
      rest: Partial<Pick<Attempt, "httpStatus" | "error" | "retryAfterMs">>,
    ): Attempt => ({
      outcome,
      httpStatus: null,
      error: null,
      retryAfterMs: undefined,
      durationMs: Math.round(performance.now() - startedAt),
      ...rest,
    });
    try {
      const response = await outbound(url, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/json",
          "user-agent": "collaboration-gateway-webhook/1",
          ...baggageOf(agentHops),
          ...signedHeaders(secrets, { id, timestamp, body }),
        },
        signal,
      }, { totalMs: TOTAL_MS, bodyMaxBytes: Infinity });
      // Only the status counts: the body is not read.
      await response.body?.cancel();
      const httpStatus = response.status;
      const outcome = outcomeOf(httpStatus);
      return attempt(outcome, {
        httpStatus,
        retryAfterMs: outcome === "unavailable"
          ? retryAfterMs(response.headers.get("retry-after"), clock.now())
          : undefined,
      });
    } catch (thrown) {
      if (thrown instanceof OutboundError) return attempt("unavailable", { error: thrown.code });
      if (signal?.aborted === true) return attempt("unavailable", { error: "cancelled" });
      throw thrown;
    }
  }
}

function outcomeOf(status: number): Attempt["outcome"] {
  if (status >= 200 && status < 300) return "delivered";
  if (status === 410) return "gone";
  return UNAVAILABLE.has(status) || status < 400 || status >= 500 ? "unavailable" : "refused";
}
