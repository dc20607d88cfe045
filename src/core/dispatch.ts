// The one door to every operation: rate limit → authorise → validate → run → measure → translate failure.
// The transport has authenticated the caller; everything else is the same whoever calls and however.
import { z } from "@zod/zod";
import type { Counter, Histogram } from "prom-client";
import { type Actor, hasScope, isAtLeast, TENANT_ROLES } from "./actor.ts";
import { Again, Fault, type FieldFault } from "./fault.ts";
import { logFailure, logOf } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { type Access, type Context, isRead, type Operation, Outcome, type Rate } from "./operation.ts";
import { jsonPointer } from "./text.ts";

/** One call of one operation. `input` is unknown until it has been parsed here. */
export type Call = {
  actor: Actor;
  input: unknown;
  requestId: string;
  /** Which door the call came through, for the log. */
  via: string;
  /** May be made on first use: read it only to listen to it. */
  signal?: AbortSignal | undefined;
};

export type Dispatch = (operation: Operation, call: Call) => Promise<Outcome<unknown>>;

/** Counts one call against the caller's buckets; throws `rate_limited`. Replaced by nothing when limits are off. */
export type TakeRate = (key: string, rate: Rate) => Promise<void>;

type Deps = {
  metrics: Metrics;
  /** `undefined` when rate limits are off. */
  takeRate: TakeRate | undefined;
  /** What all writes together may, besides those of an operation with a rate of its own. */
  writes: Rate;
};

/** What is made once for an operation: its input's parser, and what it is counted by, with the labels looked up. */
type Prepared = {
  input: z.ZodType;
  labels: { module: string; operation: string };
  ok: Counter.Internal;
  latency: Histogram.Internal<string>;
};

const LOST = "__proto__";
const log = logOf("operation");

/** Builds the dispatcher. */
export function createDispatch({ metrics, takeRate, writes }: Deps): Dispatch {
  const known = new Map<Operation, Prepared>();
  /** Calls that run again; they were counted against the rate before. */
  const again = new WeakSet<Call>();

  function prepare(operation: Operation): Prepared {
    const labels = { module: operation.name.slice(0, operation.name.indexOf(".")), operation: operation.name };
    const prepared = {
      input: z.compile(operation.input),
      labels,
      ok: metrics.operations.labels(labels),
      latency: metrics.operationLatency.labels(labels),
    };
    known.set(operation, prepared);
    return prepared;
  }

  return async function dispatch(operation, call) {
    const startedAt = performance.now();
    const prepared = known.get(operation) ?? prepare(operation);
    try {
      if (takeRate !== undefined && !again.has(call)) await limit(takeRate, writes, operation, call.actor);
      if (operation.off !== undefined) throw operation.off();
      authorise(operation, call.actor);
      const input = parse(prepared.input, call.input);
      const result = await operation.run(new Running(operation, call), input);
      prepared.ok.inc();
      if (log.isEnabledFor("debug")) log.debug("ok", fields(operation, call, startedAt));
      return result instanceof Outcome ? result : new Outcome(result);
    } catch (thrown) {
      if (thrown instanceof Again) {
        again.add(call);
        throw thrown;
      }
      const fault = Fault.from(thrown);
      metrics.operationErrors.inc({ ...prepared.labels, code: fault.code });
      logFailure(log, fault, fields(operation, call, startedAt));
      throw fault;
    } finally {
      prepared.latency.observe((performance.now() - startedAt) / 1000);
    }
  };
}

/**
 * What an operation knows of the call that runs it. A class, since each literal with a getter is an object of a shape of its
 * own: slow to make, and its shape holds the whole request until the next full collection.
 */
class Running implements Context {
  readonly actor: Actor;
  readonly requestId: string;
  readonly access: Access;
  readonly operation: string;
  readonly isRead: boolean;
  readonly #call: Call;

  constructor(operation: Operation, call: Call) {
    this.actor = call.actor;
    this.requestId = call.requestId;
    this.access = operation.access;
    this.operation = operation.name;
    this.isRead = isRead(operation);
    this.#call = call;
  }

  get signal(): AbortSignal | undefined {
    return this.#call.signal;
  }
}

/** Throws unless the caller's token and role in the tenant suffice for the operation. */
export function authorise(operation: Operation, actor: Actor): void {
  const { scope, tenant = "guest" } = operation.access;
  if (!hasScope(actor, scope)) throw new Fault("scope_missing", `The token lacks the scope ${scope}`);
  if (!isAtLeast(TENANT_ROLES, actor.role, tenant)) {
    throw new Fault("forbidden", `${operation.name} needs the tenant role ${tenant}, the caller is ${actor.role}`);
  }
}

async function limit(takeRate: TakeRate, writes: Rate, operation: Operation, actor: Actor): Promise<void> {
  const own = operation.rate;
  if (own !== undefined) {
    await takeRate(keyOf(operation.name, actor), actor.kind === "human" ? own.human : own.agent ?? own.human);
  } else if (!isRead(operation)) {
    await takeRate(writesOf(actor), writes);
  }
}

/** What all writes of a principal are counted under, by whatever door they come. */
export function writesOf(actor: Actor): string {
  return keyOf("writes", actor);
}

function keyOf(what: string, { tenantId, principalId }: Actor): string {
  return `${what}:${tenantId}/${principalId}`;
}

/** Parses unknown input; throws a Fault that names every field that is wrong. */
export function parse<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const lost = lostField(input, []);
  if (lost !== undefined) {
    throw Fault.at(jsonPointer(lost), "unknown_field", "No field can have this name", "unknown_field");
  }
  const parsed = schema.safeParse(input ?? {});
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.flatMap(fieldFaults).slice(0, 50);
  const first = errors[0];
  const onlyUnknown = errors.every((error) => error.code === "unknown_field");
  throw new Fault(
    onlyUnknown ? "unknown_field" : "validation_failed",
    first === undefined
      ? "The input does not fit"
      : `${first.pointer === "" ? "input" : first.pointer}: ${first.detail}`,
    { errors },
  );
}

function fieldFaults(issue: z.core.$ZodIssue): FieldFault[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      pointer: jsonPointer([...issue.path, key]),
      code: "unknown_field",
      detail: "Unknown field",
    }));
  }
  if (issue.code === "invalid_union") {
    // What is nearest to what was given says best what is wrong with it, unless a field belongs to another form.
    const [nearest = []] = issue.errors.toSorted((one, other) => one.length - other.length);
    if (nearest.length > 0 && nearest.every(({ code }) => code !== "unrecognized_keys")) {
      return nearest.flatMap((inner) => fieldFaults({ ...inner, path: [...issue.path, ...inner.path] }));
    }
  }
  const isTime = issue.code === "invalid_format" && issue.format === "datetime";
  const detail = isTime ? "Expected a time such as 2026-03-01T09:00:00Z" : issue.message;
  return [{ pointer: jsonPointer(issue.path), code: issue.code, detail }];
}

/** The path of a field that parsing would drop without a word, lest it becomes what objects inherit from. */
function lostField(value: unknown, path: readonly PropertyKey[]): readonly PropertyKey[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Object.hasOwn(value, LOST)) return [...path, LOST];
  // Not by entries: this looks at every message that is sent.
  for (const name in value) {
    const part = (value as Record<string, unknown>)[name];
    const found = typeof part === "object" && part !== null ? lostField(part, [...path, name]) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

function fields(operation: Operation, call: Call, startedAt: number): { requestId: string; [name: string]: unknown } {
  return {
    operation: operation.name,
    requestId: call.requestId,
    tenant: call.actor.tenantId,
    principal: call.actor.principalId,
    via: call.via,
    ms: Math.round((performance.now() - startedAt) * 100) / 100,
  };
}
