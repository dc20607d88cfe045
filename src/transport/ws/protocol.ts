// The wire format: parses commands and encodes replies and pushes. See the Centrifuge client protocol, version 2.
import { z } from "@zod/zod";
import type { Fault, FaultCode } from "@/core/fault.ts";
import { INPUT_ERRORS } from "@/core/input/input_error.ts";
import { findUnsafeText, hasMoreValuesThan, isDeeperThan, JSON_VALUES_MAX, unsafeTextFault } from "@/core/text/text.ts";

const CHANNEL_MAX_CHARS = 255;
/** The depth of an HTTP body plus two envelopes. */
const DEPTH_MAX = 34;
const ID_MAX = 0xffff_ffff;

const channel = z.string().min(1).max(CHANNEL_MAX_CHARS).regex(/^[\x21-\x7e]+$/);
const offset = z.int().min(0).default(0);
const epoch = z.string().max(128).default("");
/** A protobuf body whose data is not JSON is passed on as a string. */
const DATA_ERROR = {
  error: ({ input }: { input: unknown }) => typeof input === "string" ? "expected an object with JSON data" : undefined,
};

/** The last position of a client before it disconnected. */
const Recovery = z.object({ recover: z.boolean().default(false), offset, epoch });
export type Recovery = z.output<typeof Recovery>;

/** The body of each command; unknown fields are ignored, as the protocol requires. */
export const COMMAND_SCHEMAS = {
  connect: z.object({ token: z.string().default(""), subs: z.record(z.string(), Recovery).default({}) }),
  subscribe: Recovery.extend({
    channel,
    flag: z.int().default(0),
    join_leave: z.boolean().default(false),
    type: z.int().default(0),
  }),
  unsubscribe: z.object({ channel: z.string() }),
  publish: z.object({ channel, data: z.unknown().optional() }, DATA_ERROR),
  presence: z.object({ channel }),
  presence_stats: z.object({ channel }),
  history: z.object({
    channel,
    limit: z.int().default(0),
    since: z.object({ offset, epoch }).optional(),
    reverse: z.boolean().default(false),
  }),
  rpc: z.object({
    method: z.string().default(""),
    data: z.unknown().optional(),
    baggage: z.string().optional(),
  }, DATA_ERROR),
  refresh: z.object({ token: z.string().default("") }),
  sub_refresh: z.object({ channel }),
  ping: z.unknown(),
} as const satisfies Record<string, z.ZodType>;

type Method = keyof typeof COMMAND_SCHEMAS;
/** The same schemas compiled, at first use. */
const parsers: { [Name in Method]?: z.ZodType } = {};
const METHODS = new Set(Object.keys(COMMAND_SCHEMAS));

/** `length`: the size that the command counts while it is queued. */
type CommandsByMethod = {
  [Name in Method]: { method: Name; id: number; length: number; body: z.output<(typeof COMMAND_SCHEMAS)[Name]> };
};
/** A command with a valid envelope and an invalid body; its error is sent in order. */
type InvalidCommand = { method: "invalid"; id: number; length: number; body: ReplyError };
export type CommandOf<Name extends Method> = CommandsByMethod[Name];
export type Command = CommandsByMethod[Method] | InvalidCommand;

/** A parsed message of a client: a command, or one of the two messages without an id. */
export type ParsedCommand = Command | "pong" | "send";

/** `error` of a reply. Clients retry only `temporary` errors. */
export type ReplyError = { code: number; message: string; temporary?: true };

/** The protocol's own errors. */
export const ERRORS = {
  internal: { code: 100, message: "internal server error", temporary: true },
  unauthorized: { code: 101, message: "unauthorized" },
  unknownChannel: { code: 102, message: "unknown channel" },
  permissionDenied: { code: 103, message: "permission denied" },
  methodNotFound: { code: 104, message: "method not found" },
  alreadySubscribed: { code: 105, message: "already subscribed" },
  limitExceeded: { code: 106, message: "limit exceeded" },
  badRequest: { code: 107, message: "bad request" },
  notAvailable: { code: 108, message: "not available" },
  tokenExpired: { code: 109, message: "token expired" },
  tooManyRequests: { code: 111, message: "too many requests", temporary: true },
  unrecoverable: { code: 112, message: "unrecoverable position" },
} as const satisfies Record<string, ReplyError>;

/** When each error is sent, for the AsyncAPI document. */
export const ERROR_MEANINGS: Readonly<Record<keyof typeof ERRORS, string>> = {
  internal: "Internal error, or the gateway is unavailable; retry later",
  unauthorized: "The token is no longer valid",
  unknownChannel: "No channel type has this name",
  permissionDenied: "The caller is not allowed to do this here, or cannot see the channel",
  methodNotFound: "No such command, or no such operation in `rpc`",
  alreadySubscribed: "The connection is already subscribed to this channel",
  limitExceeded: "Too many subscriptions, connections, or bytes in a publication",
  badRequest: "The command has an invalid field",
  notAvailable: "Not supported by this channel",
  tokenExpired: "The token has expired; connect with a new one",
  tooManyRequests: "The rate limit was exceeded and the command not executed; retry with backoff",
  unrecoverable: "The requested position is no longer in the log; read the state again",
};

/** Codes of an unsubscribe push: from 2500 on the client subscribes again by itself. */
export const UNSUBSCRIBE = { ended: 2000, insufficientState: 2500 } as const;

/** When each code is sent, for the AsyncAPI document. */
export const UNSUBSCRIBE_MEANINGS: Readonly<Record<keyof typeof UNSUBSCRIBE, string>> = {
  ended: "Access to the channel ended: the caller left, was removed or banned, or the channel was deleted",
  insufficientState: "The stream was reset or has a gap, or the caller's view of it changed; subscribe again",
};

/** The failure of a command, with the error of its reply. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
  readonly error: ReplyError;

  constructor(error: ReplyError, detail?: string) {
    super(error.message);
    this.error = detail === undefined ? error : { ...error, message: `${error.message}: ${detail}` };
  }
}

/** Parses a message; `undefined` if it violates the protocol, which closes the connection. */
export function parseCommand(text: string): ParsedCommand | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return undefined;
  const fields = parsed as Record<string, unknown>; // an object, as just checked
  const { id } = fields;
  const [method, extra] = Object.keys(fields).filter((key) => key !== "id");
  if (extra !== undefined) return undefined;
  if (id === undefined) return method === undefined ? "pong" : method === "send" ? "send" : undefined;
  if (typeof id !== "number" || !Number.isInteger(id) || id < 1 || id > ID_MAX || method === undefined) {
    return undefined;
  }
  const { length } = text;
  if (!isMethod(method)) return invalidCommand(id, length, ERRORS.methodNotFound);
  if (isDeeperThan(text, DEPTH_MAX)) {
    return invalidCommand(id, length, ERRORS.badRequest, `nested deeper than ${DEPTH_MAX} levels`);
  }
  if (hasMoreValuesThan(text, JSON_VALUES_MAX)) {
    return invalidCommand(id, length, ERRORS.badRequest, `has more than ${JSON_VALUES_MAX} values`);
  }
  const pointer = findUnsafeText(text, parsed);
  // As over HTTP, pointers start at the input of the operation.
  if (pointer !== undefined) {
    return invalidCommand(id, length, replyErrorOf(unsafeTextFault(pointer.replace(/^\/rpc\/data/, ""))));
  }
  const body = (parsers[method] ??= z.compile(COMMAND_SCHEMAS[method])).safeParse(fields[method], INPUT_ERRORS);
  if (!body.success) return invalidCommand(id, length, ERRORS.badRequest, describeIssue(body.error));
  // The table above ties each method to its body; the compiler cannot follow that through the lookup.
  return { method, id, length, body: body.data } as Command;
}

/** The error of a failed operation: its code is the HTTP status. */
export function replyErrorOf(fault: Fault): ReplyError {
  const { status, retryable } = fault.spec;
  const message = `${fault.code}: ${fault.message}`;
  if (fault.code === "token_expired") return ERRORS.tokenExpired;
  if (status === 401) return { ...ERRORS.unauthorized, message };
  if (status === 429) return { ...ERRORS.tooManyRequests, message };
  if (status >= 500) return { ...ERRORS.internal, message };
  return { code: status, message, ...(retryable ? { temporary: true } : {}) };
}

const MALFORMED: ReadonlySet<FaultCode> = new Set([
  "bad_request",
  "validation_failed",
  "unknown_field",
  "payload_too_large",
]);

/** The error of a failed channel command: it does not reveal whether a hidden channel exists. */
export function channelErrorOf(fault: Fault): ReplyError {
  if (fault.spec.status >= 500 || fault.spec.status === 429 || fault.spec.status === 401) return replyErrorOf(fault);
  if (MALFORMED.has(fault.code)) return { ...ERRORS.badRequest, message: `bad request: ${fault.message}` };
  if (fault.code === "not_found") return ERRORS.permissionDenied;
  return { ...ERRORS.permissionDenied, message: `permission denied: ${fault.message}` };
}

/** A successful reply; `body` is encoded. */
export function encodeReply(id: number, method: string, body: string): string {
  return `{"id":${id},"${method}":${body}}`;
}

/** A failed reply. */
export function encodeError(id: number, error: ReplyError): string {
  return `{"id":${id},"error":${JSON.stringify(error)}}`;
}

/** A stored publication, in replies and pushes. */
export function encodePublication(json: string, seq: number): string {
  return `{"data":${json},"offset":${seq}}`;
}

/** A push to a channel; `body` is encoded. */
export function encodePush(channel: string, kind: "pub" | "join" | "leave" | "unsubscribe", body: string): string {
  return `{"push":{"channel":${JSON.stringify(channel)},"${kind}":${body}}}`;
}

/** The ping of the server, and the pong of the client. */
export const PING = "{}";

function isMethod(key: string): key is Method {
  return METHODS.has(key);
}

function invalidCommand(id: number, length: number, error: ReplyError, detail?: string): InvalidCommand {
  return { method: "invalid", id, length, body: new ProtocolError(error, detail).error };
}

/** The first issue: its path, below `prefix`, and its message. */
export function describeIssue(error: z.ZodError, ...prefix: string[]): string {
  const issue = error.issues[0];
  if (issue === undefined) return "invalid value";
  const path = [...prefix, ...issue.path];
  return path.length === 0 ? issue.message : `${path.join(".")}: ${issue.message}`;
}
