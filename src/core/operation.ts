// An operation is a value: one definition of a use case, read by HTTP, OpenAPI, `/ws` rpc, limits, access checks and metrics.
import type { z } from "@zod/zod";
import { type Actor, isAdmin, type RoomRole, type TenantRole } from "./actor.ts";
import type { Fault, FaultCode } from "./fault.ts";

/** Who may call: token scope ∧ tenant role ∧ room role. Read by dispatch, `RoomAccess` and `permission.check`. */
export type Access = {
  /** Scope the token needs, `<module>.<read|write|manage>`; `null` = any token will do. */
  scope: string | null;
  /** Lowest tenant role; default `guest`. */
  tenant?: TenantRole;
  /** Lowest role in the room the call is about; checked by `RoomAccess` inside the call's own transaction. */
  room?: RoomRole;
  /** Instead of `room`, where the input may name no room: the lowest role in each room that it names. */
  namedRoom?: RoomRole;
  /** The same for admins of the tenant, where it differs. */
  namedRoomForAdmins?: RoomRole;
  /** The same in a direct room, where it differs: its members have equal rights. */
  direct?: RoomRole;
  /** Also allowed in an archived room (reads always are). */
  archived?: true;
  /** Also allowed for an agent that the room has muted (reads always are), such as leaving or moving its read position. */
  muted?: true;
  /** Changes only the caller's own data, such as a read position, so the room is not locked for it. */
  ownOnly?: true;
};

/** Lowest role in a room of this kind, for a caller with this role in the tenant. */
export function requiredRoomRole(
  kind: string | undefined,
  { room, namedRoom, namedRoomForAdmins = namedRoom, direct }: Access,
  actor: Pick<Actor, "role">,
): RoomRole | undefined {
  if (kind === "direct" && direct !== undefined) return direct;
  return room ?? (isAdmin(actor) ? namedRoomForAdmins : namedRoom);
}

/**
 * A rate rule: on average `perSecond`, up to `burst` at once. Calls are counted in a fixed window (`ports/limiter.ts`): `burst` calls
 * within `burst / perSecond` seconds from the first. Within one process a `TokenBucket` refills continuously.
 */
export type Rate = { perSecond: number; burst: number };

/** Rate rules by kind of caller: agents may have another one, services have a configured multiple of that for people. */
export type Rates = { human: Rate; agent?: Rate };

/** The rate rule in force for a caller. */
export function rateFor({ kind }: Pick<Actor, "kind">, { human, agent = human }: Rates, serviceFactor: number): Rate {
  if (kind === "human") return human;
  return kind === "agent" ? agent : { perSecond: human.perSecond * serviceFactor, burst: human.burst * serviceFactor };
}

/** How the operation is reached over HTTP. Path parameters, query and body are merged into one input. */
type HttpBinding = {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Hono syntax: `/v1/rooms/:id`. */
  path: string;
  /** Status of the usual response; others that an `Outcome` may have are in `otherStatuses`. */
  status: 200 | 201 | 202 | 204;
  otherStatuses?: readonly (200 | 201 | 202 | 204)[];
  /** Whether each `Outcome` has the `location` of what was created. */
  hasLocation?: true;
  /** Input field set from `If-Match`; the response's `version` becomes the ETag. */
  ifMatch?: string;
  /** Longest body in bytes, if it differs from the general limit. */
  bodyMaxBytes?: number;
  /** Nesting and number of values of a JSON body, if they differ from the general limits. */
  bodyDepthMax?: number;
  bodyValuesMax?: number;
  /** A body of this type is the text of this input field, unchanged; the other fields are then in the query. */
  textBody?: TextBody;
};

export type TextBody = { type: string; field: string };

/** Throws unless the actor, with the rights that it has now, still has the access that a read was granted. */
export type AccessCheck = (actor: Actor) => Promise<unknown>;

/** What every call of `run` receives besides its input. */
export type Context = {
  actor: Actor;
  requestId: string;
  /** The access rule of the operation; inner checks such as those of `RoomAccess` read the room role from it. */
  access: Access;
  /** Name of the operation being run. */
  operation: string;
  /** Whether the operation only reads. */
  isReadOnly: boolean;
  /** How many agents led to what the call does, with an agent outside that passes the number on; see `core/agent_hops.ts`. */
  readonly agentHops?: number | undefined;
  /** What grants access to a read adds its check, which is repeated before the result leaves if the read was slow. */
  readonly checks?: AccessCheck[] | undefined;
  /** Aborts when the caller disconnects or the request times out; long polls listen to it. Created on first use; copies lack it. */
  readonly signal?: AbortSignal | undefined;
};

/** The context as a read-only one: a caller that created a resource may read it in the response. */
export function asReadOnly(context: Context): Context {
  return context.isReadOnly ? context : { ...context, isReadOnly: true };
}

type OutcomeOptions = {
  status?: 200 | 201 | 202 | 204;
  location?: string;
  /** The output as JSON, where it is encoded already. */
  json?: string | undefined;
};

/** A result that needs more than a body: another status, a Location. */
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

/** How `prepare` of an operation ended: with its result, or with what the call throws. */
export type Preparation = { result: unknown } | { thrown: unknown };

/** The preparation of an operation that runs with the input as it is. */
export const NOTHING_PREPARED: Preparation = { result: undefined };

type Item = Readonly<Record<string, unknown>>;

/** How a list or a read finds what is the caller's own, for a copy of their data. */
export type OwnData = {
  /** Inputs, besides those of a page; default: one without fields. */
  inputs?: (nowMs: number) => readonly Item[];
  /** Which items are the caller's; default: all of them. */
  isOwn?: (item: Item, principalId: string) => boolean;
  /** The operation that reads, by its id, what the list leaves out of an item. */
  readBy?: string;
};

/** One use case. `name` is `noun.verb` and doubles as operationId, rpc method and metric label. */
export type Operation<Input extends z.ZodType = z.ZodType, Output extends z.ZodType = z.ZodType, Prepared = unknown> = {
  name: string;
  summary: string;
  description?: string;
  access: Access;
  http: HttpBinding;
  /** A strict object; unknown fields are rejected by name. */
  input: Input;
  output: Output;
  /** Schemas of single statuses, where the shape of the response depends on the status. */
  outputs?: Readonly<Record<number, z.ZodType>>;
  /** The response contains a secret that is shown once and not stored: a token, a secret URL. */
  isSecret?: true;
  /** Codes of this operation besides those of every operation. */
  faults?: readonly FaultCode[];
  /**
   * Waits for a service outside, with a time limit of its own. Its response cannot commit together with its effects, so it takes
   * no Idempotency-Key.
   */
  callsOut?: true;
  /** Present while the feature is disabled: the fault that every call fails with after authentication. */
  disabled?: (() => Fault) | undefined;
  /** A valid input, for the documents and the tests; path and query values included. */
  example?: z.input<Input>;
  /** Present if it has data of one person. */
  ownData?: OwnData;
  /** Whether calls are recorded in the audit log; default: if they change what they need a scope to manage. */
  audited?: boolean;
  /** Own rate rule besides the general ones. Calls of agents count for their owner. */
  rate?: Rates;
  /**
   * Consecutive calls of this operation on one connection may run concurrently; only where the service preserves their order.
   * Any other command on a connection waits for the one before it.
   */
  concurrent?: true;
  /**
   * What must not happen within a transaction, which would wait for it, such as asking the filters of a room. `run` may be part of
   * one. Returns nothing where there is nothing to prepare.
   */
  prepare?(context: Context, input: z.output<Input>): Promise<Prepared> | undefined;
  /** `prepared` is what `prepare` resolved to. */
  run(
    context: Context,
    input: z.output<Input>,
    prepared?: Prepared,
  ): Promise<z.output<Output> | Outcome<z.output<Output>>>;
};

/** Where a call came from: the address seen through trusted proxies, and the program as it names itself. */
export type Client = { ip: string; userAgent?: string | undefined };

/** A call that is recorded in the audit log, with its parsed input; `via` is the transport. */
export type RecordedCall = {
  operation: Operation;
  actor: Actor;
  input: unknown;
  requestId: string;
  via: string;
  client: Client | undefined;
};
/** Runs the call, and records it if it succeeds. */
export type RecordCall = (call: RecordedCall, run: () => Promise<unknown>) => Promise<unknown>;

/** Declares an operation, with the types of `run` inferred from its schemas, and from what it prepares. */
export function defineOperation<Input extends z.ZodType, Output extends z.ZodType, Prepared = unknown>(
  operation: Operation<Input, Output, Prepared>,
): Operation {
  return operation as unknown as Operation;
}

/** The noun of a name `noun.verb`. */
export function nounOf(name: string): string {
  return name.slice(0, name.indexOf("."));
}

/** Whether calls are recorded for administrators: changes that need a scope that manages something, and what says so. */
export function isAudited(operation: Operation): boolean {
  return operation.audited ?? (operation.access.scope?.endsWith(".manage") === true && !isReadOnly(operation));
}

/** Whether the operation changes nothing. */
export function isReadOnly(operation: Operation): boolean {
  return operation.http.method === "GET" || operation.access.scope?.endsWith(".read") === true;
}
