// The scopes that there are: those of all operations and routes.
import { Fault } from "./fault.ts";
import type { Module } from "./module.ts";
import { suggestionFor } from "./input/suggestion.ts";

const ACTION = /\.\w+$/;

/** Throws for a scope, in the list at `pointer`, that allows nothing. */
export function assertScopesExist(modules: readonly Module[], scopes: readonly string[], pointer: string): void {
  const unknown = describeUnknownScope(modules, scopes);
  if (unknown !== undefined) throw Fault.forField(`${pointer}/${unknown.at}`, "unknown_scope", unknown.detail);
}

/** The first scope that nothing needs, and which one may have been meant; `undefined` if all exist. */
export function describeUnknownScope(
  modules: readonly Module[],
  scopes: readonly string[],
): { at: number; detail: string } | undefined {
  const own = modules.flatMap(({ operations, routes = [] }) => [
    ...operations.flatMap(({ access }) => access.scope ?? []),
    ...routes.flatMap((route) => route.auth === "bearer" ? route.scope ?? [] : []),
  ]);
  const known = new Set(["*", ...own, ...own.map((scope) => scope.replace(ACTION, ".*"))]);
  const at = scopes.findIndex((scope) => !known.has(scope));
  const scope = scopes[at];
  return scope === undefined ? undefined : { at, detail: `no scope ${scope}${suggestionFor(scope, [...known])}` };
}
