// The scopes that there are: those of all operations.
import { Fault } from "./fault.ts";
import type { Module } from "./module.ts";
import { suggestionFor } from "./suggestion.ts";

const ACTION = /\.\w+$/;

/** Throws for a scope, in the list at `pointer`, that allows nothing, since no operation has it. */
export function assertScopesExist(modules: readonly Module[], scopes: readonly string[], pointer: string): void {
  const own = modules.flatMap(({ operations }) => operations.flatMap(({ access }) => access.scope ?? []));
  const known = new Set(["*", ...own, ...own.map((scope) => scope.replace(ACTION, ".*"))]);
  for (const [at, scope] of scopes.entries()) {
    if (known.has(scope)) continue;
    throw Fault.forField(`${pointer}/${at}`, "unknown_scope", `no scope ${scope}${suggestionFor(scope, [...known])}`);
  }
}
