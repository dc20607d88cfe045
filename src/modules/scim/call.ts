// Calls of a provider: who makes them, and the operations of other modules that they are made of.
import type { Actor } from "@/core/actor.ts";
import type { Dispatcher } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import type { Client, Operation } from "@/core/operation.ts";

/** Who calls, and what the call is about. */
export type ScimCall = {
  actor: Actor;
  client: Client;
  requestId: string;
  /** Only this version is changed; null: any. */
  ifMatch: string | null;
};

/** Runs an operation for the caller; resolves to its output. */
export type DispatchOperation = (call: ScimCall, name: string, input: Record<string, unknown>) => Promise<unknown>;

/** What the scope `scim.manage` contains of others is what this module calls. */
const SCOPES: ReadonlySet<string> = new Set(["principal.manage", "group.manage"]);

export function createDispatch(dispatch: Dispatcher, operations: ReadonlyMap<string, Operation>): DispatchOperation {
  return async ({ actor, client, requestId }, name, input) => {
    const operation = operations.get(name);
    if (operation === undefined) throw new TypeError(`Expected an operation ${name}, received none`);
    const call = { actor: { ...actor, scopes: SCOPES }, client, input, requestId, via: "scim" };
    return (await dispatch(operation, { ...call, isCpuAccounted: true, hasTurn: true })).output;
  };
}

/** Throws unless the call is about this version of a resource. */
export function assertIfMatch({ ifMatch }: ScimCall, version: string, what: string): void {
  if (ifMatch === null || ifMatch === "*" || ifMatch === version) return;
  throw new Fault("version_mismatch", `The ${what} is at version ${version}`);
}
