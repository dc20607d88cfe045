// The only failure type that crosses a boundary, and the table of what each code means to a caller.

/** What a fault code means over HTTP and `/ws`, and its level in the log. */
type FaultSpec = {
  /** HTTP status of the problem document. */
  status: number;
  /** Human title, the same for every occurrence (RFC 9457 `title`). */
  title: string;
  /** The caller may try the same call again later. */
  retryable?: true;
  /** Level of the log line of the operation that failed. */
  level: "debug" | "info" | "warn" | "error";
};

const fault = (status: number, title: string, level: FaultSpec["level"] = "debug"): FaultSpec => ({
  status,
  title,
  level,
});
const retryable = (status: number, title: string, level: FaultSpec["level"] = "info"): FaultSpec => ({
  status,
  title,
  level,
  retryable: true,
});

/** Every code that a caller can receive. Clients switch on the code, never on the text. */
export const FAULTS = {
  bad_request: fault(400, "Bad request"),
  invalid_json: fault(400, "Body is not valid JSON"),
  invalid_cursor: fault(400, "Cursor is not valid"),
  unknown_parameter: fault(400, "Unknown query parameter"),
  unauthenticated: fault(401, "Authentication required"),
  token_expired: fault(401, "Token expired"),
  token_revoked: fault(401, "Token revoked"),
  forbidden: fault(403, "Forbidden"),
  scope_missing: fault(403, "Missing scope"),
  origin_not_allowed: fault(403, "Origin not allowed"),
  agent_muted: fault(403, "Agent has read-only access"),
  skill_not_approved: fault(403, "Skill is not approved"),
  grant_missing: fault(403, "Grant missing"),
  edit_window_closed: fault(403, "Edit window closed"),
  not_found: fault(404, "Not found"),
  route_not_found: fault(404, "No such endpoint"),
  search_not_configured: fault(404, "Search is not configured"),
  ai_not_configured: fault(404, "No AI provider is configured"),
  push_not_configured: fault(404, "Push is not configured"),
  method_not_allowed: fault(405, "Method not allowed"),
  not_acceptable: fault(406, "Not acceptable"),
  conflict: fault(409, "Conflict"),
  response_not_stored: fault(409, "Response not stored"),
  idempotency_in_flight: retryable(409, "Request with this Idempotency-Key in progress"),
  client_message_id_conflict: fault(409, "clientMessageId already used with different content"),
  command_ambiguous: fault(409, "Several commands have this name"),
  legal_hold: fault(409, "Under legal hold"),
  room_archived: fault(409, "Room is archived"),
  slug_taken: fault(409, "Slug already taken"),
  handle_taken: fault(409, "Handle already taken"),
  banned: fault(409, "Banned from the room"),
  last_owner: fault(409, "Last owner"),
  stream_reset: fault(409, "Stream was reset"),
  reaction_limit: fault(409, "Too many different reactions"),
  limit_reached: fault(409, "Limit reached"),
  already_running: fault(409, "Already running"),
  agent_paused: fault(409, "Agent is paused"),
  run_finished: fault(409, "Run has finished"),
  offset_mismatch: fault(409, "Offset mismatch"),
  already_decided: fault(409, "Already decided"),
  already_claimed: fault(409, "Already claimed"),
  already_superseded: fault(409, "Already superseded"),
  stale_revision: fault(409, "Stale revision"),
  time_conflict: fault(409, "Time conflict"),
  meeting_active: fault(409, "A meeting is active"),
  meeting_full: fault(409, "Meeting is full"),
  recording_not_configured: fault(409, "Recording is not configured"),
  cycle: fault(409, "Cycle"),
  gone: fault(410, "Gone"),
  length_required: fault(411, "Content-Length required"),
  version_mismatch: fault(412, "Version mismatch"),
  payload_too_large: fault(413, "Payload too large"),
  unsupported_media_type: fault(415, "Unsupported media type"),
  range_not_satisfiable: fault(416, "Range not satisfiable"),
  validation_failed: fault(422, "Validation failed"),
  unknown_field: fault(422, "Unknown field"),
  idempotency_key_reused: fault(422, "Idempotency-Key reused with a different request"),
  edit_not_matched: fault(422, "Edit text not found"),
  edit_ambiguous: fault(422, "Edit text is ambiguous"),
  anchor_not_found: fault(422, "Anchor not found"),
  recurrence_too_complex: fault(422, "Recurrence too complex"),
  invalid_time_zone: fault(422, "Unknown time zone"),
  skill_invalid: fault(422, "Skill is not valid"),
  plugin_refused: fault(422, "Refused by a plugin"),
  model_unknown: fault(422, "Unknown model"),
  price_unknown: fault(422, "Price of the model unknown"),
  context_too_long: fault(422, "Context too long"),
  address_not_allowed: fault(422, "Address not allowed"),
  precondition_required: fault(428, "If-Match required"),
  rate_limited: retryable(429, "Too many requests"),
  quota_exceeded: fault(429, "Quota exceeded", "info"),
  budget_exceeded: fault(429, "AI budget exceeded", "info"),
  internal: { status: 500, title: "Internal error", retryable: true, level: "error" },
  command_failed: fault(502, "Command failed", "info"),
  plugin_failed: fault(502, "Plugin failed", "info"),
  model_failed: fault(502, "Model call failed", "warn"),
  unavailable: retryable(503, "Temporarily unavailable", "warn"),
  plugin_unavailable: retryable(503, "Plugin unavailable"),
  plugin_timeout: fault(504, "Plugin took too long", "info"),
} satisfies Record<string, FaultSpec>;

export type FaultCode = keyof typeof FAULTS;

/** One error of the input: its JSON pointer, its code, and a description. */
export type FieldFault = { pointer: string; code: string; detail: string };

/** Most errors in a response, and most of them in its text. */
export const ERRORS_MAX = 50;
const DETAILED_MAX = 5;

/** The first errors as one text: callers of `/ws` and MCP see nothing else. */
function describeErrors(errors: readonly FieldFault[]): string {
  const texts = errors.slice(0, DETAILED_MAX).map(({ pointer, detail }) =>
    `${pointer === "" ? "input" : pointer}: ${detail}`
  );
  const more = errors.length - texts.length;
  return [...texts, ...more === 0 ? [] : [`${more} more`]].join("; ");
}

/** The state of a rate limit: `remaining` of `limit` calls are left, and all are available again after `resetMs`. */
export type LimitState = { limit: number; remaining: number; resetMs: number };

/** Thrown to roll back work and run it again from its start. It is no failure: it is neither logged nor returned to a caller. */
export class RetryTransaction extends Error {}

/** A fault without its class; `new Fault(code, message, data)` restores it. */
export type FaultData = Pick<Fault, "code" | "message" | "errors">;

/** A failure that a caller may see: `message` is safe to show, `cause` is logged only. */
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
    options: {
      cause?: unknown;
      errors?: readonly FieldFault[];
      retryAfterMs?: number | undefined;
      limit?: LimitState;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors ?? [];
    this.retryAfterMs = options.retryAfterMs ?? options.limit?.resetMs;
    this.limit = options.limit;
  }

  /** Errors of fields of the input. */
  static forFields(errors: readonly FieldFault[], of: FaultCode = "validation_failed"): Fault {
    return new Fault(of, describeErrors(errors), { errors: errors.slice(0, ERRORS_MAX) });
  }

  /** An error of one field of the input. */
  static forField(pointer: string, code: string, detail: string, of?: FaultCode): Fault {
    return Fault.forFields([{ pointer, code, detail }], of);
  }

  /** What another thread can receive: the class is lost on the way. */
  get data(): FaultData {
    const { code, message, errors } = this;
    return { code, message, errors };
  }

  get spec(): FaultSpec {
    return FAULTS[this.code];
  }

  /** Any thrown value as a Fault; what is not one becomes `internal`, without its text. */
  static from(thrown: unknown): Fault {
    return thrown instanceof Fault ? thrown : new Fault("internal", "Internal error", { cause: thrown });
  }
}

/** Whether what was thrown is a Fault with this code. */
export function isFault(thrown: unknown, code: FaultCode): thrown is Fault {
  return thrown instanceof Fault && thrown.code === code;
}

/** The Fault for a resource that does not exist. */
export function notFound(what: string): Fault {
  return new Fault("not_found", `No such ${what}`);
}

/** The same where the caller may not learn whether it exists. */
export function notVisible(what: string): Fault {
  return notFound(`${what}, or not visible to the caller`);
}

/** A 422 that names the field. */
export function invalidField(pointer: string, detail: string): Fault {
  return Fault.forField(pointer, "invalid", detail);
}

/** Throws a 422 that names each of the ids, a list at `pointer` of the input, that was not found. */
export function assertAllFound(
  ids: readonly string[],
  found: ReadonlySet<string>,
  pointer: string,
  detailOf: (id: string) => string,
): void {
  const errors = ids.flatMap((id, at) =>
    found.has(id) ? [] : [{ pointer: `${pointer}/${at}`, code: "not_found", detail: detailOf(id) }]
  );
  if (errors.length > 0) throw Fault.forFields(errors);
}
