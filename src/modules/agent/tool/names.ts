// Names of tools in the configuration of agents: there is such a tool when they are set. It may end later.
import { Fault, type FieldFault } from "@/core/fault.ts";
import { nounOf, type Operation } from "@/core/operation.ts";
import { suggestionFor } from "@/core/input/suggestion.ts";
import { ToolName } from "../schema.ts";
import type { ToolSource } from "./tool.ts";
import { isTool } from "./toolbox.ts";

/** Most names for which a known one is suggested. */
const SUGGESTIONS_MAX = 5;

type Deps = { operations: () => ReadonlyMap<string, Operation>; sources: readonly ToolSource[] };
type Named = { tools?: readonly string[] | undefined; askFirst?: readonly string[] | undefined };

export class ToolNames {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Throws `validation_failed` where no tool can have a name, unless the agent has it already. */
  async assertKnown(tenantId: string, { tools = [], askFirst = [] }: Named, before: readonly string[]): Promise<void> {
    const given = [
      ...tools.map((name, at) => ({ name, pointer: `/tools/${at}` })),
      ...askFirst.map((name, at) => ({ name, pointer: `/askFirst/${at}` })),
    ].filter(({ name }) => !before.includes(name));
    if (given.length === 0) return;
    const { operations, sources } = this.#deps;
    const others = (await Promise.all(sources.map((source) => source.patternsOf(tenantId)))).flat();
    const known = [...namesOf(operations()), ...others];
    const suggested = known.filter((name) => ToolName.safeParse(name).success);
    const isKnown = (name: string): boolean => known.includes(name) || others.some((pattern) => isLike(name, pattern));
    const errors = given.filter(({ name }) => !isKnown(name)).map(({ name, pointer }, at): FieldFault => ({
      pointer,
      code: "tool_unknown",
      detail: `agents have no tool ${name}${at < SUGGESTIONS_MAX ? suggestionFor(name, suggested) : ""}`,
    }));
    if (errors.length > 0) throw Fault.forFields(errors);
  }
}

/** The operations that agents may call, all of a kind, and all. */
function namesOf(operations: ReadonlyMap<string, Operation>): string[] {
  const names = operations.values().filter(isTool).map(({ name }) => name).toArray();
  return ["*", ...new Set(names.map((name) => `${nounOf(name)}.*`)), ...names];
}

function isLike(name: string, pattern: string): boolean {
  return pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1));
}
