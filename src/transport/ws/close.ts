// Why a socket or a subscription ends: every code with its words, and whether the client comes back by itself.
import { isLongerThan } from "@/core/text.ts";

/** One way to end a connection. `metric` is the `type` under which `svc_connection_errors` counts it. */
export type Verdict = {
  code: number;
  /** Plain words: an empty reason or one that parses as JSON changes what clients do. */
  reason: string;
  reconnect: boolean;
  metric?:
    | "auth_timeout"
    | "auth_failed"
    | "origin"
    | "protocol"
    | "too_large"
    | "rate"
    | "slow_consumer"
    | "pong_timeout"
    | "internal";
};

const back = (code: number, reason: string, metric?: Verdict["metric"]): Verdict => verdict(code, reason, true, metric);
const final = (code: number, reason: string, metric?: Verdict["metric"]): Verdict =>
  verdict(code, reason, false, metric);

/** Clients reconnect after 3000–3499 and 4000–4499, and stay away after 3500–3999 and 1009. */
export const CLOSE = {
  shutdown: back(3001, "shutdown"),
  internal: back(3004, "internal server error", "internal"),
  expired: back(3005, "connection expired"),
  slow: back(3008, "slow", "slow_consumer"),
  insufficientState: back(3010, "insufficient state"),
  noPong: back(3012, "no pong", "pong_timeout"),
  tooManyRequests: back(3013, "too many requests", "rate"),
  invalidToken: final(3500, "invalid token", "auth_failed"),
  badRequest: final(3501, "bad request", "protocol"),
  stale: final(3502, "not authenticated in time", "auth_timeout"),
  forced: final(3503, "force disconnect"),
  // Terminal it would be for whoever comes back while the sockets of a network that is gone still count.
  connectionLimit: back(4429, "connection limit"),
  permissionDenied: final(3507, "permission denied", "auth_failed"),
  notAvailable: final(3508, "not available", "protocol"),
  tooLarge: final(1009, "message too large", "too_large"),
} as const satisfies Record<string, Verdict>;

/** The token is good, but its tenant does not let in pages of this origin. */
export const ORIGIN_REFUSED: Verdict = { ...CLOSE.permissionDenied, reason: "origin not allowed", metric: "origin" };

/** Codes of an unsubscribe push: from 2500 on the client subscribes again by itself. */
export const UNSUBSCRIBE = { ended: 2000, insufficientState: 2500 } as const;

const REASON_MAX_BYTES = 123;

/** The verdict with its own words, where they are fit to be a close reason. */
export function because(verdict: Verdict, reason: string): Verdict {
  return isPlainReason(reason) ? { ...verdict, reason } : verdict;
}

/** Whether clients take the text as a reason: there is one, it fits a close frame, and it is not JSON. */
export function isPlainReason(reason: string): boolean {
  if (reason.trim() === "" || isLongerThan(reason, REASON_MAX_BYTES)) return false;
  try {
    JSON.parse(reason);
    return false;
  } catch {
    return true;
  }
}

function verdict(code: number, reason: string, reconnect: boolean, metric: Verdict["metric"]): Verdict {
  return { code, reason, reconnect, ...(metric === undefined ? {} : { metric }) };
}
