// Faults as problem documents (RFC 9457): the one place where a failure becomes an HTTP answer.
import type { Fault } from "@/core/fault.ts";
import type { Answer } from "./answer.ts";
import type { Exchange } from "./exchange.ts";
import { limitHeaders } from "./headers.ts";

/** `type` of a problem is this and the code. */
export const PROBLEM_TYPE = "urn:collab:problem:";

/** The answer that tells a fault. */
export function problemAnswer(
  exchange: Pick<Exchange, "path" | "requestId">,
  fault: Fault,
  headers: Record<string, string> = {},
): Answer {
  const { status, title } = fault.kind;
  headers["Content-Type"] = "application/problem+json";
  if (status === 401) headers["WWW-Authenticate"] = 'Bearer error="invalid_token"';
  if (fault.retryAfterMs !== undefined || status === 429 || status === 503 || fault.code === "idempotency_in_flight") {
    headers["Retry-After"] = String(Math.max(1, Math.ceil((fault.retryAfterMs ?? 1000) / 1000)));
  }
  if (fault.limit !== undefined) Object.assign(headers, limitHeaders(fault.limit));
  const body = JSON.stringify({
    type: `${PROBLEM_TYPE}${fault.code}`,
    title,
    status,
    detail: fault.message,
    instance: exchange.path,
    code: fault.code,
    requestId: exchange.requestId,
    ...(fault.errors.length === 0 ? {} : { errors: fault.errors }),
  });
  return { status, headers, body };
}
