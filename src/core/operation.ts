// An operation is a value: one definition of a use case, read by HTTP, OpenAPI, `/ws` rpc, limits, rights and metrics.
import type { z } from "@zod/zod";
import type { Actor, RoomRole, TenantRole } from "./actor.ts";
import type { Fault, FaultCode } from "./fault.ts";

/** Who may call: token scope ∧ tenant role ∧ room role. Read by dispatch, `room.enter` and `permission.check`. */
export type Access = {
  /** Scope the token needs, `<module>.<read|write|manage>`; `null` = any token will do. */
  scope: string | null;
  /** Lowest tenant role; default `guest`. */
  tenant?: TenantRole;
  /** Lowest role in the room the call is about; checked by `room.enter` inside the call's own transaction. */
  room?: RoomRole;
  /** The same in a direct room, where it differs: there nobody is above the other. */
  direct?: RoomRole;
  /** The call is also fine in an archived room (reads always are). */
  archived?: true;
  /** The call is also fine for an agent the room has muted (reads always are): it takes itself out, or says what it read. */
  muted?: true;
};

/** Lowest role in a room of this kind. */
export function roomRoleIn(kind: string | undefined, { room, direct = room }: Access): RoomRole | undefined {
  return kind === "direct" ? direct : room;
}

/**
 * A rate rule: `burst` calls within the time that so many take at `perSecond`, counted from the first of them; when it is
 * over, all are there again at once.
 */
export type Rate = { perSecond: number; burst: number };

/** How the operation is reached over HTTP. Path parameters, query and body are merged into one input. */
export type HttpBinding = {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Hono syntax: `/v1/rooms/:id`. */
  path: string;
  /** Status of the usual answer; others an `Outcome` may carry are listed in `also`. */
  status: 200 | 201 | 202 | 204;
  also?: readonly (200 | 201 | 202 | 204)[];
  /** Input field filled from `If-Match`; the answer's `version` makes the ETag. */
  ifMatch?: string;
  /** Longest body in bytes, when not the general limit. */
  bodyMaxBytes?: number;
  /** A body of this type is the text of this field of the input, as it is; the others then stand in the query. */
  text?: TextBody;
};

export type TextBody = { type: string; field: string };

/** What every call of `run` is told besides its input. */
export type Context = {
  actor: Actor;
  requestId: string;
  /** The rights of the operation being run; inner checks such as `room.enter` read the room role from here. */
  access: Access;
  /** Name of the operation being run. */
  operation: string;
  /** Whether the operation only reads. */
  isRead: boolean;
  /** Ends when the caller went away or the request timed out; long polls listen to it. Made on first use; copies lack it. */
  readonly signal?: AbortSignal | undefined;
};

/** The call as one that only reads: who has made something may look at it. */
export function asRead(context: Context): Context {
  return context.isRead ? context : { ...context, isRead: true };
}

type OutcomeOptions = {
  status?: 200 | 201 | 202 | 204;
  location?: string;
  /** The output as JSON, where it has been made already. */
  json?: string | undefined;
};

/** An answer that needs more than a body: another status, a Location. */
export class Outcome<Output> {
  readonly output: Output;
  readonly status: 200 | 201 | 202 | 204 | undefined;
  readonly location: string | undefined;
  readonly #json: string | undefined;

  constructor(output: Output, { status, location, json }: OutcomeOptions = {}) {
    this.output = output;
    this.status = status;
    this.location = location;
    this.#json = json;
  }

  /** The output as JSON; `null` where there is none. */
  get json(): string {
    return this.#json ?? JSON.stringify(this.output) ?? "null";
  }
}

/** One use case of the product. `name` is `noun.verb` and doubles as operationId, rpc method and metric label. */
export type Operation<Input extends z.ZodType = z.ZodType, Output extends z.ZodType = z.ZodType> = {
  name: string;
  summary: string;
  description?: string;
  access: Access;
  http: HttpBinding;
  /** A strict object; unknown fields are refused and named. */
  input: Input;
  output: Output;
  /** The answer holds something that is shown once and kept nowhere: a token, an address that nobody can guess. */
  isSecret?: true;
  /** Codes this operation may answer beyond those every operation may. */
  faults?: readonly FaultCode[];
  /** Present while what it does is switched off: makes what every authenticated caller is told, whatever was asked. */
  off?: (() => Fault) | undefined;
  /** One input that works, for the documents; path and query values included. */
  example?: z.input<Input>;
  /** Own rate rule besides the general ones; agents may have another. */
  rate?: { human: Rate; agent?: Rate };
  /**
   * Calls of this operation that follow each other on one connection may overlap; only where the service keeps their
   * order by itself. Everything else on a connection waits for the command before it.
   */
  overlaps?: true;
  run(context: Context, input: z.output<Input>): Promise<z.output<Output> | Outcome<z.output<Output>>>;
};

/** Declares an operation; keeps the types of its schemas inside and forgets them outside. */
export function defineOperation<Input extends z.ZodType, Output extends z.ZodType>(
  operation: Operation<Input, Output>,
): Operation {
  return operation as unknown as Operation;
}

/** Whether the operation changes nothing. */
export function isRead(operation: Operation): boolean {
  return operation.http.method === "GET" || operation.access.scope?.endsWith(".read") === true;
}
