// The single entry point of every operation: rate limit → authorize → validate → run → measure → translate failure.
// The transport has authenticated the caller; the rest is the same for all callers and transports.
import { z } from "@zod/zod";
import { type Actor, chargedTo, hasScope, isAtLeast, TENANT_ROLES } from "./actor.ts";
import { CallScope, chargeTo } from "./caller.ts";
import type { CpuBudget } from "./limit/cpu_budget.ts";
import { ERRORS_MAX, Fault, type FieldFault, RetryTransaction } from "./fault.ts";
import { fieldFaults } from "./input/field_fault.ts";
import { logFailure, logOf } from "./log.ts";
import type { Count, Distribution } from "./metric_family.ts";
import type { Metrics } from "./metrics.ts";
import {
  type Access,
  type AccessCheck,
  type Client,
  type Context,
  isAudited,
  isReadOnly,
  nounOf,
  type Operation,
  Outcome,
  type Preparation,
  type Rate,
  rateFor,
  type RecordCall,
} from "./operation.ts";
import { INPUT_ERRORS } from "./input/input_error.ts";
import { jsonPointer } from "./text/text.ts";
import type { WriteBudget } from "./limit/write_budget.ts";

/** One call of one operation. `input` is unknown until it has been parsed here. */
export type Call = {
  actor: Actor;
  input: unknown;
  requestId: string;
  /** The transport, for the log. */
  via: string;
  /** Absent if it began within the gateway. */
  readonly client?: Client | undefined;
  /** May be created on first use: read it only to listen to it. */
  signal?: AbortSignal | undefined;
  /** How many agents led to it, as the caller says. */
  readonly agentHops?: number | undefined;
  /** The transport has begun the call on the caller's CPU account, and ends it. */
  isCpuAccounted?: true;
  /** When the transport began it, before it authenticated the caller, by `performance.now()`; default: when it is dispatched. */
  startedAt?: number;
  /** What `prepare` of the dispatcher returned for it, or for the same call with the rights of that moment. */
  preparation?: Preparation | undefined;
  /** It had its turn on the thread before, since it is part of a transaction, for which others wait. */
  hasTurn?: boolean;
};

export type Dispatch = (operation: Operation, call: Call) => Promise<Outcome<unknown>>;

export type Dispatcher = Dispatch & {
  /**
   * Prepares a call that will run within a transaction. Never rejects: what it throws is the result of the call. `undefined` if the
   * operation prepares nothing.
   */
  prepare(operation: Operation, call: Call): Promise<Preparation | undefined>;
};

/** Counts one call against the caller's rate; throws `rate_limited`. */
export type ConsumeRate = (key: string, rate: Rate) => Promise<void>;

type Deps = {
  metrics: Metrics;
  /** `undefined` when rate limits are off. */
  consumeRate: ConsumeRate | undefined;
  /** Rate of all writes together, except those of operations with a rate of their own. */
  writeRate: Rate;
  /** A service may call this many times as often as a person; default 1. */
  serviceFactor?: number;
  /** Limits the bytes that callers write; absent where they are not counted. */
  writeBudget?: WriteBudget;
  /** Limits the CPU time of callers; absent where it is not counted. */
  cpu?: CpuBudget;
  /** The actor with its current rights; `undefined` if its principal or its token has ended. */
  revalidate?: (actor: Actor) => Promise<Actor | undefined>;
  /** Records calls for administrators; absent where nobody does. */
  record?: RecordCall;
};

/** What is created once for an operation: its input's parser, and its metrics with resolved labels. */
type Known = {
  input: z.ZodType;
  labels: { module: string; operation: string };
  ok: Count;
  latency: Distribution;
  isRecorded: boolean;
};

/**
 * A read that took longer is authorized again before its result leaves. What it read may be newer than its check: a process that was
 * frozen in between would return what was written after its caller was removed.
 */
const READ_GRANT_MAX_MS = 1000;
const PROTO_KEY = "__proto__";
/** Compiled inputs, by their schemas. Further gateways in a process, as tests have them, use those of the first. */
const compiledInputs = new WeakMap<z.ZodType, z.ZodType>();

const log = logOf("operation");

/** Builds the dispatcher. */
export function createDispatch(
  { metrics, consumeRate, writeRate, serviceFactor = 1, writeBudget, cpu, revalidate, record }: Deps,
): Dispatcher {
  const known = new Map<Operation, Known>();
  const rates = { writeRate, serviceFactor };
  /** Calls that run again; they were counted against the rate before. */
  const retried = new WeakSet<Call>();

  function knownOf(operation: Operation): Known {
    let found = known.get(operation);
    if (found === undefined) known.set(operation, found = create(operation, metrics));
    return found;
  }

  /** Counts a call. Most wait for nothing. */
  function admit(operation: Operation, { actor }: Call): Promise<void> | undefined {
    if (!isReadOnly(operation)) writeBudget?.assertAvailable(chargedTo(actor));
    return consumeRate === undefined ? undefined : limit(consumeRate, operation, actor, rates);
  }

  async function prepare(operation: Operation, call: Call): Promise<Preparation | undefined> {
    if (operation.prepare === undefined) return undefined;
    try {
      await admit(operation, call);
      if (operation.disabled !== undefined) throw operation.disabled();
      authorize(operation, call.actor);
      const account = cpu?.accountOf(call.actor);
      const work = () =>
        operation.prepare?.(new CallContext(operation, call), parse(knownOf(operation).input, call.input));
      return { result: await chargeTo(account, () => account === undefined ? work() : account.measure(work)) };
    } catch (thrown) {
      return { thrown };
    }
  }

  async function dispatch(operation: Operation, call: Call): Promise<Outcome<unknown>> {
    const startedAt = performance.now();
    const { input, ok, latency, labels, isRecorded } = knownOf(operation);
    // HTTP begins the call before it reads the body.
    const account = cpu?.accountOf(call.actor);
    const isFirst = !retried.has(call);
    let hasBegun = false;
    let scope: CallScope | undefined;
    try {
      if (isFirst && call.isCpuAccounted !== true) {
        const wait = account?.beginCall();
        if (wait !== undefined) await wait;
        hasBegun = true;
      }
      // What was prepared was counted then.
      const admission = isFirst && call.preparation === undefined ? admit(operation, call) : undefined;
      if (admission !== undefined) await admission;
      if (operation.disabled !== undefined) throw operation.disabled();
      authorize(operation, call.actor);
      if (isFirst && call.hasTurn !== true) {
        const turn = account?.takeTurn();
        if (turn !== undefined) await turn;
      }
      // Parsing, and what the operation does before its first wait, is the part that grows with the input.
      const checks: AccessCheck[] | undefined = isReadOnly(operation) ? [] : undefined;
      const run = () => runPrepared(operation, call, parse(input, call.input), checks, isRecorded ? record : undefined);
      const work = account === undefined ? run : () => account.measure(run);
      if (!isReadOnly(operation)) scope = new CallScope(call.actor, account, hopsAfter(call));
      const result = await (scope === undefined ? chargeTo(account, work) : scope.run(work));
      if (checks !== undefined && performance.now() - (call.startedAt ?? startedAt) > READ_GRANT_MAX_MS) {
        await authorizeAgain(operation, call, checks, revalidate);
      }
      ok.inc();
      if (log.isEnabledFor("debug")) log.debug("operation completed", logFields(operation, call, startedAt));
      return result instanceof Outcome ? result : new Outcome(result);
    } catch (thrown) {
      if (thrown instanceof RetryTransaction) {
        retried.add(call);
        throw thrown;
      }
      const fault = Fault.from(thrown);
      metrics.operationErrors.inc({ ...labels, code: fault.code });
      logFailure(log, fault, logFields(operation, call, startedAt));
      throw fault;
    } finally {
      scope?.end();
      if (hasBegun) account?.endCall();
      latency.observe((performance.now() - startedAt) / 1000);
    }
  }

  return Object.assign(dispatch, { prepare });
}

/** Throws unless the caller of a read may still have its result. */
async function authorizeAgain(
  operation: Operation,
  { actor }: Call,
  checks: readonly AccessCheck[],
  revalidate: Deps["revalidate"],
): Promise<void> {
  const current = revalidate === undefined ? actor : await revalidate(actor);
  if (current === undefined) throw new Fault("token_revoked", "The token or its principal ended during the call");
  authorize(operation, current);
  // Others bound what an agent may do for them, not its token.
  const bounded = { ...current, bounds: actor.bounds };
  for (const check of checks) await check(bounded);
}

/** Runs an operation, after its preparation. */
function runPrepared(
  operation: Operation,
  call: Call,
  input: unknown,
  checks: AccessCheck[] | undefined,
  record: RecordCall | undefined,
): Promise<unknown> {
  const { preparation, actor, requestId, via } = call;
  const context = new CallContext(operation, call, checks);
  const run = (prepared: unknown): Promise<unknown> =>
    record === undefined
      ? operation.run(context, input, prepared)
      : record({ operation, actor, input, requestId, via, client: call.client }, () =>
        operation.run(context, input, prepared));
  if (preparation !== undefined) {
    if ("thrown" in preparation) throw preparation.thrown;
    return run(preparation.result);
  }
  const preparing = operation.prepare?.(context, input);
  return preparing === undefined ? run(undefined) : preparing.then(run);
}

function create(operation: Operation, metrics: Metrics): Known {
  const labels = { module: nounOf(operation.name), operation: operation.name };
  const input = compiledInputs.get(operation.input) ?? z.compile(operation.input);
  compiledInputs.set(operation.input, input);
  return {
    input,
    labels,
    ok: metrics.operations.labels(labels),
    latency: metrics.operationLatency.labels(labels),
    isRecorded: isAudited(operation),
  };
}

async function limit(
  consume: ConsumeRate,
  operation: Operation,
  actor: Actor,
  { writeRate, serviceFactor }: { writeRate: Rate; serviceFactor: number },
): Promise<void> {
  const own = operation.rate;
  if (own !== undefined) await consume(rateKey(operation.name, actor), rateFor(actor, own, serviceFactor));
  else if (!isReadOnly(operation)) {
    await consume(writeRateKey(actor), rateFor(actor, { human: writeRate }, serviceFactor));
  }
}

/**
 * What an operation knows of its call. A class, since each object literal with a getter has a hidden class of its own: slow to
 * create, and it retains the whole request until the next full collection.
 */
class CallContext implements Context {
  readonly actor: Actor;
  readonly requestId: string;
  readonly access: Access;
  readonly operation: string;
  readonly isReadOnly: boolean;
  readonly checks: AccessCheck[] | undefined;
  readonly #call: Call;

  constructor(operation: Operation, call: Call, checks?: AccessCheck[]) {
    this.actor = call.actor;
    this.requestId = call.requestId;
    this.access = operation.access;
    this.operation = operation.name;
    this.isReadOnly = isReadOnly(operation);
    this.checks = checks;
    this.#call = call;
  }

  get signal(): AbortSignal | undefined {
    return this.#call.signal;
  }

  get agentHops(): number | undefined {
    return this.#call.agentHops ? hopsAfter(this.#call) : undefined;
  }
}

/** How many agents led to what a call does: an agent outside is one more, a run was counted with those before it. */
function hopsAfter({ actor, client, agentHops = 0 }: Call): number {
  return agentHops + (actor.kind === "agent" && client !== undefined ? 1 : 0);
}

/** Throws unless the caller's token and role in the tenant suffice for an operation or a route. */
export function authorize(
  { name, access }: { name: string; access: Pick<Operation["access"], "scope" | "tenant"> },
  actor: Actor,
): void {
  const { scope, tenant = "guest" } = access;
  if (!hasScope(actor, scope)) throw new Fault("scope_missing", `The token lacks the scope ${scope}`);
  if (!isAtLeast(TENANT_ROLES, actor.role, tenant)) {
    throw new Fault("forbidden", `${name} requires the tenant role ${tenant}, the caller has ${actor.role}`);
  }
}

/** The rate key of all writes of a principal and its agents, over any transport. */
export function writeRateKey(actor: Actor): string {
  return rateKey("writes", actor);
}

/** The rate key of calls of this kind by a principal and its agents. */
export function rateKey(what: string, actor: Actor): string {
  return `${what}:${chargedTo(actor)}`;
}

/** Parses unknown input; throws a Fault that names every field that is wrong. */
export function parse<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const reserved = findProtoKey(input, []);
  if (reserved !== undefined) {
    throw Fault.forField(jsonPointer(reserved), "unknown_field", "reserved name", "unknown_field");
  }
  const parsed = schema.safeParse(input ?? {}, INPUT_ERRORS);
  if (parsed.success) return parsed.data;
  const all = parsed.error.issues.slice(0, ERRORS_MAX).flatMap((issue) => fieldFaults(issue, schema));
  const isUnknown = ({ code }: FieldFault): boolean => code === "unknown_field";
  // First: a misspelled name is often the reason why another is missing.
  const errors = [...all.filter(isUnknown), ...all.filter((error) => !isUnknown(error))].slice(0, ERRORS_MAX);
  throw Fault.forFields(errors, all.every(isUnknown) ? "unknown_field" : "validation_failed");
}

/** The path of a field `__proto__`, which parsing would drop silently to prevent prototype pollution. */
function findProtoKey(value: unknown, path: readonly PropertyKey[]): readonly PropertyKey[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Object.hasOwn(value, PROTO_KEY)) return [...path, PROTO_KEY];
  // Faster than `Object.entries`: this runs for every message that is sent.
  for (const name in value) {
    const part = (value as Record<string, unknown>)[name];
    const found = typeof part === "object" && part !== null ? findProtoKey(part, [...path, name]) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

function logFields(
  operation: Operation,
  call: Call,
  startedAt: number,
): { requestId: string; [name: string]: unknown } {
  return {
    operation: operation.name,
    requestId: call.requestId,
    tenant: call.actor.tenantId,
    principal: call.actor.principalId,
    via: call.via,
    ms: Math.round((performance.now() - startedAt) * 100) / 100,
  };
}
