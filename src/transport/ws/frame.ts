// The wire format: what clients may send, parsed once, and what they get, encoded. See the Centrifuge client protocol, v2.
import { z } from "@zod/zod";
import type { Fault, FaultCode } from "@/core/fault.ts";
import { findUnsafeText, isDeeperThan } from "@/core/text.ts";
import { unsafeText } from "../http/body.ts";

const CHANNEL_MAX_CHARS = 255;
/** A body as deep as an HTTP one, inside two envelopes. */
const DEPTH_MAX = 34;
const ID_MAX = 0xffff_ffff;

const channel = z.string().min(1).max(CHANNEL_MAX_CHARS).regex(/^[\x21-\x7e]+$/);
const offset = z.int().min(0).default(0);
const epoch = z.string().max(128).default("");
/** Over protobuf, data is bytes until it shows to be JSON; where it does not, the body comes as a text. */
const WITH_DATA = {
  error: ({ input }: { input: unknown }) =>
    typeof input === "string" ? "expected an object, whose data is JSON" : undefined,
};

/** Where a client stood when it was last connected. */
const Recovery = z.object({ recover: z.boolean().default(false), offset, epoch });
export type Recovery = z.output<typeof Recovery>;

/** The body of each command; fields that mean nothing here are ignored, as the protocol asks. */
export const BODIES = {
  connect: z.object({ token: z.string().default(""), subs: z.record(z.string(), Recovery).default({}) }),
  subscribe: Recovery.extend({
    channel,
    flag: z.int().default(0),
    join_leave: z.boolean().default(false),
    type: z.int().default(0),
  }),
  unsubscribe: z.object({ channel: z.string() }),
  publish: z.object({ channel, data: z.unknown().optional() }, WITH_DATA),
  presence: z.object({ channel }),
  presence_stats: z.object({ channel }),
  history: z.object({
    channel,
    limit: z.int().default(0),
    since: z.object({ offset, epoch }).optional(),
    reverse: z.boolean().default(false),
  }),
  rpc: z.object({ method: z.string().default(""), data: z.unknown().optional() }, WITH_DATA),
  refresh: z.object({ token: z.string().default("") }),
  sub_refresh: z.object({ channel }),
  ping: z.unknown(),
} as const satisfies Record<string, z.ZodType>;

type Method = keyof typeof BODIES;
/** The same schemas as functions, made at first use. */
const parsers: { [Name in Method]?: z.ZodType } = {};
const METHODS = new Set(Object.keys(BODIES));

/** `length` is what the command weighs while it waits. */
type Commands = {
  [Name in Method]: { method: Name; id: number; length: number; body: z.output<(typeof BODIES)[Name]> };
};
/** A command whose envelope is fine and whose body is not; answered in its turn. */
type InvalidCommand = { method: "invalid"; id: number; length: number; body: WireError };
export type CommandOf<Name extends Method> = Commands[Name];
export type Command = Commands[Method] | InvalidCommand;

/** One line from a client: a command, or one of the two things that have no id. */
export type Line = Command | "pong" | "send";

/** `error` of a reply. Clients retry only what says `temporary`. */
export type WireError = { code: number; message: string; temporary?: true };

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
} as const satisfies Record<string, WireError>;

/** A failure of a command, as its reply will say it. */
export class WireFault extends Error {
  override readonly name = "WireFault";
  readonly error: WireError;

  constructor(error: WireError, detail?: string) {
    super(error.message);
    this.error = detail === undefined ? error : { ...error, message: `${error.message}: ${detail}` };
  }
}

/** Parses one line; `undefined` when it breaks the protocol, which ends the connection. */
export function parseLine(text: string): Line | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return undefined;
  const fields = parsed as Record<string, unknown>; // an object, as just checked
  const { id } = fields;
  const [method, more] = Object.keys(fields).filter((key) => key !== "id");
  if (more !== undefined) return undefined;
  if (id === undefined) return method === undefined ? "pong" : method === "send" ? "send" : undefined;
  if (typeof id !== "number" || !Number.isInteger(id) || id < 1 || id > ID_MAX || method === undefined) {
    return undefined;
  }
  const { length } = text;
  if (!isMethod(method)) return invalid(id, length, ERRORS.methodNotFound);
  if (isDeeperThan(text, DEPTH_MAX)) return invalid(id, length, ERRORS.badRequest, `nested deeper than ${DEPTH_MAX}`);
  const badText = findUnsafeText(text, parsed);
  // As over HTTP, the input of an operation is where a pointer into it starts.
  if (badText !== undefined) return invalid(id, length, wireErrorOf(unsafeText(badText.replace(/^\/rpc\/data/, ""))));
  const body = (parsers[method] ??= z.compile(BODIES[method])).safeParse(fields[method]);
  if (!body.success) return invalid(id, length, ERRORS.badRequest, issueOf(body.error));
  // The table above ties each method to its body; the compiler cannot follow that through the lookup.
  return { method, id, length, body: body.data } as Command;
}

/** What the caller of an operation sees of a fault: HTTP statuses are codes here as well. */
export function wireErrorOf(fault: Fault): WireError {
  const { status, retryable } = fault.kind;
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

/** What somebody who asks for a channel sees of a fault: whether it exists is not told to those who may not know. */
export function channelErrorOf(fault: Fault): WireError {
  if (fault.kind.status >= 500 || fault.kind.status === 429 || fault.kind.status === 401) return wireErrorOf(fault);
  if (MALFORMED.has(fault.code)) return { ...ERRORS.badRequest, message: `bad request: ${fault.message}` };
  if (fault.code === "not_found") return ERRORS.permissionDenied;
  return { ...ERRORS.permissionDenied, message: `permission denied: ${fault.message}` };
}

/** A successful reply; `body` is encoded. */
export function encodeReply(id: number, method: string, body: string): string {
  return `{"id":${id},"${method}":${body}}`;
}

/** A failed reply. */
export function encodeError(id: number, error: WireError): string {
  return `{"id":${id},"error":${JSON.stringify(error)}}`;
}

/** A publication of the log, as it stands in replies and pushes. */
export function encodePublication(json: string, seq: number): string {
  return `{"data":${json},"offset":${seq}}`;
}

/** A push to a channel; `body` is encoded. */
export function encodePush(channel: string, kind: "pub" | "join" | "leave" | "unsubscribe", body: string): string {
  return `{"push":{"channel":${JSON.stringify(channel)},"${kind}":${body}}}`;
}

/** The server's heartbeat, and the client's answer to it. */
export const PING = "{}";

function isMethod(key: string): key is Method {
  return METHODS.has(key);
}

function invalid(id: number, length: number, error: WireError, detail?: string): InvalidCommand {
  return { method: "invalid", id, length, body: new WireFault(error, detail).error };
}

/** What is wrong first: where, below `place`, and in words. */
export function issueOf(error: z.ZodError, ...place: string[]): string {
  const issue = error.issues[0];
  if (issue === undefined) return "it does not fit";
  const path = [...place, ...issue.path];
  return path.length === 0 ? issue.message : `${path.join(".")}: ${issue.message}`;
}
