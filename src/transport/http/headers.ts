// Headers of every answer: correlation, and what keeps a browser from misusing an answer.
import type { LimitState } from "@/core/fault.ts";

/** Fresh headers for one exchange; answers add to them or replace single ones. */
export function baseHeaders(requestId: string): Record<string, string> {
  return {
    "X-Request-Id": requestId,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
  };
}

/** How the limit stands that the call was counted against: the general one, or the one that refused it. */
export function limitHeaders({ limit, remaining, resetMs }: LimitState): Record<string, string> {
  return {
    "RateLimit-Limit": String(limit),
    "RateLimit-Remaining": String(remaining),
    "RateLimit-Reset": String(Math.ceil(resetMs / 1000)),
  };
}
