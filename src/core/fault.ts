// The one failure type that crosses a boundary, and the one table of what each code means to a caller.

/** What a fault code means over HTTP and `/ws`, and how loud it is in the log. */
export type FaultKind = {
  /** HTTP status of the problem document. */
  status: number;
  /** Human title, the same for every occurrence (RFC 9457 `title`). */
  title: string;
  /** The caller may try the same call again later. */
  retryable?: true;
  /** Level of the log line of the operation that failed. */
  level: "debug" | "info" | "warning" | "error";
};

const fault = (status: number, title: string, level: FaultKind["level"] = "debug"): FaultKind => ({
  status,
  title,
  level,
});
const passing = (status: number, title: string, level: FaultKind["level"] = "info"): FaultKind => ({
  status,
  title,
  level,
  retryable: true,
});

/** Every code a caller can meet. Clients switch on the code, never on the text. */
export const FAULTS = {
  bad_request: fault(400, "Bad request"),
  invalid_json: fault(400, "Body is not valid JSON"),
  invalid_cursor: fault(400, "Cursor is not valid"),
  unknown_parameter: fault(400, "Unknown query parameter"),
  unauthenticated: fault(401, "Authentication required"),
  token_expired: fault(401, "Token expired"),
  token_revoked: fault(401, "Token revoked"),
  forbidden: fault(403, "Not allowed"),
  scope_missing: fault(403, "Token lacks the scope"),
  origin_not_allowed: fault(403, "Origin not allowed"),
  agent_muted: fault(403, "Agent is muted here"),
  edit_window_closed: fault(403, "Edit window closed"),
  not_found: fault(404, "Not found"),
  route_not_found: fault(404, "No such route"),
  search_not_configured: fault(404, "Search is not configured"),
  method_not_allowed: fault(405, "Method not allowed"),
  not_acceptable: fault(406, "Not acceptable"),
  conflict: fault(409, "Conflict"),
  idempotency_in_flight: passing(409, "A request with this Idempotency-Key is in flight"),
  client_message_id_conflict: fault(409, "clientMessageId already used with other content"),
  room_archived: fault(409, "Room is archived"),
  slug_taken: fault(409, "Slug is taken"),
  handle_taken: fault(409, "Handle is taken"),
  banned: fault(409, "Banned from the room"),
  last_owner: fault(409, "The last owner cannot go"),
  epoch_changed: fault(409, "Stream was reset"),
  too_many_kinds: fault(409, "Too many kinds of reaction"),
  pin_limit: fault(409, "Too many pins"),
  limit_reached: fault(409, "Limit reached"),
  already_running: fault(409, "Already running"),
  already_claimed: fault(409, "Already claimed"),
  stale_revision: fault(409, "Based on an old revision"),
  busy_conflict: fault(409, "Time is taken"),
  meeting_active: fault(409, "A meeting is active"),
  meeting_full: fault(409, "Meeting is full"),
  recording_not_configured: fault(409, "Recording is not configured"),
  cycle: fault(409, "Would make a cycle"),
  gone: fault(410, "Gone"),
  length_required: fault(411, "Content-Length required"),
  version_mismatch: fault(412, "Version does not match"),
  payload_too_large: fault(413, "Payload too large"),
  unsupported_media_type: fault(415, "Unsupported media type"),
  range_not_satisfiable: fault(416, "Range not satisfiable"),
  validation_failed: fault(422, "Validation failed"),
  unknown_field: fault(422, "Unknown field"),
  idempotency_key_reused: fault(422, "Idempotency-Key reused with another request"),
  edit_not_matched: fault(422, "Edit does not match the text"),
  edit_ambiguous: fault(422, "Edit matches more than once"),
  anchor_not_found: fault(422, "Anchor not found"),
  recurrence_too_dense: fault(422, "Recurrence is too dense"),
  invalid_time_zone: fault(422, "Unknown time zone"),
  precondition_required: fault(428, "If-Match required"),
  rate_limited: passing(429, "Too many requests"),
  quota_exceeded: fault(429, "Quota exceeded", "info"),
  internal: { status: 500, title: "Internal error", retryable: true, level: "error" },
  unavailable: passing(503, "Temporarily unavailable", "warning"),
} satisfies Record<string, FaultKind>;

export type FaultCode = keyof typeof FAULTS;

/** One thing wrong with the input: where (JSON pointer), what kind, in words. */
export type FieldFault = { pointer: string; code: string; detail: string };

/** A message that starts with a pointer, `/field: what is wrong`, names the field as well as a list of errors would. */
function fieldIn(code: FaultCode, message: string): FieldFault[] {
  const [, pointer, detail] = code === "validation_failed" ? /^(\/[\w/]+): (.+)$/s.exec(message) ?? [] : [];
  return pointer === undefined || detail === undefined ? [] : [{ pointer, code: "invalid", detail }];
}

/** How a limit stands that was asked for one more: of so many calls, so many are left, and all are back in a while. */
export type LimitState = { limit: number; remaining: number; resetMs: number };

/** Thrown through work that is undone and runs again from its start: no failure, and nothing that anybody is told of. */
export class Again extends Error {}

/** A failure that a caller may see: `message` is safe to show, `cause` goes to the log only. */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  readonly errors: readonly FieldFault[];
  readonly retryAfterMs: number | undefined;
  /** The limit that refused the call. */
  readonly limit: LimitState | undefined;

  constructor(
    code: FaultCode,
    message: string,
    options: { cause?: unknown; errors?: readonly FieldFault[]; retryAfterMs?: number; limit?: LimitState } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors ?? fieldIn(code, message);
    this.retryAfterMs = options.retryAfterMs ?? options.limit?.resetMs;
    this.limit = options.limit;
  }

  /** A failure of one field of the input: where it is, what it is in a word, and in words. */
  static at(pointer: string, code: string, detail: string, of: FaultCode = "validation_failed"): Fault {
    return new Fault(of, `${pointer}: ${detail}`, { errors: [{ pointer, code, detail }] });
  }

  get kind(): FaultKind {
    return FAULTS[this.code];
  }

  /** Any thrown value as a Fault; what is not one becomes `internal` and keeps its text to itself. */
  static from(thrown: unknown): Fault {
    return thrown instanceof Fault ? thrown : new Fault("internal", "Something went wrong here", { cause: thrown });
  }
}
