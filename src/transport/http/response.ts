// Responses as plain data: stored for replays, turned into a Response once. Also the headers of every response, and problems.
import type { Fault, LimitState } from "@/core/fault.ts";
import type { StoredResponse } from "@/core/http/idempotency.ts";
import type { RouteForm } from "@/core/http/route.ts";

/** Status, headers and body of a response. */
export type ResponseData = StoredResponse;

/** `type` of a problem is this and the code. */
export const PROBLEM_TYPE = "urn:collab:problem:";

export function jsonResponse(status: number, body: string | null, headers: Record<string, string>): ResponseData {
  if (body !== null) headers["Content-Type"] = "application/json";
  return { status, headers, body };
}

/** What a problem says of its request. */
type FailedRequest = {
  path: string;
  requestId: string;
  hasToken: boolean;
  challenge: string | undefined;
  form: RouteForm | undefined;
};

/** A fault as a problem document (RFC 9457), or in the form of the route. */
export function faultResponse(request: FailedRequest, fault: Fault): ResponseData {
  const { status, title } = fault.spec;
  const headers: Record<string, string> = { "Content-Type": request.form?.type ?? "application/problem+json" };
  if (status === 401 || fault.code === "scope_missing") {
    headers["WWW-Authenticate"] = challengeFor(request, status === 401 ? "invalid_token" : "insufficient_scope");
  }
  if (fault.retryAfterMs !== undefined || status === 429 || status === 503 || fault.code === "idempotency_in_flight") {
    headers["Retry-After"] = String(Math.max(1, Math.ceil((fault.retryAfterMs ?? 1000) / 1000)));
  }
  if (fault.limit !== undefined) Object.assign(headers, limitHeaders(fault.limit));
  const own = request.form?.describe(fault);
  if (own !== undefined) return { status: own.status, headers, body: JSON.stringify(own.body) };
  const body = JSON.stringify({
    type: `${PROBLEM_TYPE}${fault.code}`,
    title,
    status,
    detail: fault.message,
    instance: request.path,
    code: fault.code,
    requestId: request.requestId,
    ...(fault.errors.length === 0 ? {} : { errors: fault.errors }),
  });
  return { status, headers, body };
}

/** `WWW-Authenticate` (RFC 6750): an error code only if a token was sent, and at least one parameter. */
function challengeFor({ hasToken, challenge }: FailedRequest, error: string): string {
  const parameters = [...hasToken ? [`error="${error}"`] : [], ...challenge === undefined ? [] : [challenge]];
  return `Bearer ${parameters.join(", ") || 'realm="gateway"'}`;
}

/** Default headers of a request's response; the response may add to them or override them. */
export function baseHeaders(requestId: string): Record<string, string> {
  return {
    "X-Request-Id": requestId,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
  };
}

/** State of the limit that applied: the general one, or the one that was exceeded. */
export function limitHeaders({ limit, remaining, resetMs }: LimitState): Record<string, string> {
  return {
    "RateLimit-Limit": String(limit),
    "RateLimit-Remaining": String(remaining),
    "RateLimit-Reset": String(Math.ceil(resetMs / 1000)),
  };
}
