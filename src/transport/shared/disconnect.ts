// Why a socket is closed: each close code with its reason, and whether the client reconnects.
import { isLongerThan, truncateText } from "@/core/text/text.ts";

/** One way to end a connection. `metric` is the `type` under which `svc_connection_errors` counts it. */
export type Disconnect = {
  code: number;
  /** Plain text: clients treat an empty reason, or one that parses as JSON, differently. */
  reason: string;
  /** When it is used, for the AsyncAPI document. */
  meaning: string;
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
    | "internal"
    | undefined;
};

type Create = (code: number, reason: string, meaning: string, metric?: Disconnect["metric"]) => Disconnect;
const reconnectable: Create = (code, reason, meaning, metric) => ({ code, reason, meaning, reconnect: true, metric });
const permanent: Create = (code, reason, meaning, metric) => ({ code, reason, meaning, reconnect: false, metric });

/** Clients reconnect after 3000–3499 and 4000–4499, but not after 3500–3999 and 1009. */
export const DISCONNECT = {
  shutdown: reconnectable(3001, "shutdown", "The node is shutting down; reconnect and recover on another one"),
  internal: reconnectable(3004, "internal server error", "An unexpected error in the gateway", "internal"),
  expired: reconnectable(3005, "connection expired", "The token has expired; reconnect with a new one"),
  slow: reconnectable(
    3008,
    "slow",
    "The outbox is full, or those of its tenant are: the client reads too slowly",
    "slow_consumer",
  ),
  insufficientState: reconnectable(
    3010,
    "insufficient state",
    "The principal's stream was reset or has a gap; reconnect and recover",
  ),
  memory: reconnectable(3011, "memory", "The node closes connections because it is low on memory; reconnect later"),
  noPong: reconnectable(3012, "no pong", "The client did not answer a ping in time", "pong_timeout"),
  tooManyRequests: reconnectable(
    3013,
    "too many requests",
    "The client ignored many 111 errors, or sent too much before it was connected",
    "rate",
  ),
  invalidToken: permanent(
    3500,
    "invalid token",
    "The token is not valid, or the token in `refresh` belongs to another principal; the reason says why",
    "auth_failed",
  ),
  badRequest: permanent(
    3501,
    "bad request",
    "The frame violates the protocol, or the first command is not `connect`",
    "protocol",
  ),
  stale: permanent(
    3502,
    "not authenticated in time",
    "No `connect` with a valid token was received in time",
    "auth_timeout",
  ),
  forced: permanent(3503, "force disconnect", "The token was revoked, or the principal or its owner was disabled"),
  // Not permanent: the sockets of a lost network still count when its clients reconnect.
  connectionLimit: reconnectable(4429, "connection limit", "Too many connections from this address or on this node"),
  permissionDenied: permanent(3507, "permission denied", "The token does not permit connecting", "auth_failed"),
  notAvailable: permanent(3508, "not available", "`send` is not supported; use `rpc`", "protocol"),
  tooLarge: permanent(1009, "message too large", "A frame or the `connect` command is too long", "too_large"),
} as const satisfies Record<string, Disconnect>;

/** The token is valid, but its tenant does not allow the web origin. */
export const ORIGIN_NOT_ALLOWED: Disconnect = {
  ...DISCONNECT.permissionDenied,
  reason: "origin not allowed",
  metric: "origin",
};

/** The first frame was not `connect`. */
export const CONNECT_EXPECTED: Disconnect = {
  ...DISCONNECT.badRequest,
  reason: 'expected first frame: {"id":1,"connect":{"token":"<access token>"}}',
};

const REASON_MAX_BYTES = 123;

/** The disconnect with this reason, if it is a valid close reason. */
export function withReason(disconnect: Disconnect, reason: string): Disconnect {
  return isPlainReason(reason) ? { ...disconnect, reason } : disconnect;
}

/** The disconnect whose reason also has this detail, or as much of its start as a close frame can contain. */
export function withDetail(disconnect: Disconnect, detail: string): Disconnect {
  return withReason(disconnect, truncateText(`${disconnect.reason}: ${detail}`, REASON_MAX_BYTES));
}

/** Whether clients show the text as the reason: it is not empty, fits a close frame, and is not JSON. */
export function isPlainReason(reason: string): boolean {
  if (reason.trim() === "" || isLongerThan(reason, REASON_MAX_BYTES)) return false;
  try {
    JSON.parse(reason);
    return false;
  } catch {
    return true;
  }
}
