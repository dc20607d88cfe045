// The tools of an agent: operations that its configuration allows, a few of the run itself, and those of other sources.
import { hasScope, scopesOf } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { isObject } from "@/core/json.ts";
import { isReadOnly, nounOf, type Operation } from "@/core/operation.ts";
import {
  findUnsafeText,
  hasMoreValuesThan,
  isDeeperThan,
  JSON_DEPTH_MAX,
  JSON_VALUES_MAX,
  truncateText,
  unsafeTextFault,
} from "@/core/text/text.ts";
import type { ModelTool } from "@/ports/model.ts";
import { TOOLS_MAX } from "../schema.ts";
import type { AgentRow, RunRow } from "../tables.ts";
import type { AgentTool, ToolSource } from "./tool.ts";
import { operationTool, roomFieldOf, toolNameOf } from "./schema.ts";

/**
 * Kinds of resources that agents may work with: all of them belong to rooms, whose access bounds them. An operation whose result
 * others read as well reports these to the bounds of its actor, which `ApprovalGate` compares with what was read.
 */
const NOUNS: ReadonlySet<string> = new Set([
  "room",
  "member",
  "message",
  "reaction",
  "pin",
  "thread",
  "search",
  "task",
  "comment",
  "document",
  "event",
  "meeting",
  "memory",
]);
/** Of these, agents only read. */
const READ_NOUNS: ReadonlySet<string> = new Set(["room", "member", "thread", "search", "meeting"]);
/** Operations that a model is always shown, if the agent has them; the others it finds. */
const CORE = [
  "message.list",
  "message.send",
  "search.query",
  "room.list",
  "member.list",
  "task.list",
  "task.create",
  "task.update",
  "event.list",
  "event.create",
  "document.list",
  "document.read",
  "memory.search",
];
/** With no more than these, all are shown. */
const SHOWN_MAX = 16;
const FOUND_MAX = 8;

const FIND_TOOLS: ModelTool = {
  name: "find_tools",
  description: "Find more tools by what they do. Call them with call_tool",
  inputSchema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
};
const CALL_TOOL: ModelTool = {
  name: "call_tool",
  description: "Call a tool that find_tools returned",
  inputSchema: {
    type: "object",
    properties: { name: { type: "string" }, input: { type: "object" } },
    required: ["name", "input"],
  },
};
const ASK_USER: ModelTool = {
  name: "ask_user",
  description: "Ask the person who asked you a question, and wait for a reply. Only if you cannot continue without it",
  inputSchema: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
  isOptional: true,
};

/** What a call of a model means. */
export type ResolvedCall =
  | { kind: "operation"; operation: Operation; name: string; input: Record<string, unknown> }
  | { kind: "source"; tool: AgentTool; name: string; input: Record<string, unknown> }
  | { kind: "find"; name: string; query: string }
  | { kind: "ask"; name: string; question: string };

export class Toolbox {
  readonly modelTools: readonly ModelTool[];
  readonly #operations: ReadonlyMap<string, Operation>;
  readonly #sourced: ReadonlyMap<string, AgentTool>;
  readonly #askFirst: readonly string[];
  readonly #roomId: string;

  private constructor(agent: AgentRow, roomId: string, allowed: readonly Operation[], sourced: readonly AgentTool[]) {
    const named: string[] = JSON.parse(agent.tools_json);
    this.#roomId = roomId;
    this.#operations = new Map(allowed.map((operation) => [toolNameOf(operation.name), operation]));
    this.#sourced = new Map(sourced.map((tool) => [tool.name, tool]));
    this.#askFirst = JSON.parse(agent.ask_first_json);
    const isShown = ({ name }: Operation): boolean => CORE.includes(name) || named.includes(name);
    const shown = allowed.length <= SHOWN_MAX ? allowed : allowed.filter(isShown);
    const own = [
      ...shown.map(operationTool),
      ...sourced.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    ].slice(0, TOOLS_MAX - 3);
    this.modelTools = [...own, ...shown.length < allowed.length ? [FIND_TOOLS, CALL_TOOL] : [], ASK_USER];
  }

  static async of(
    agent: AgentRow,
    operations: ReadonlyMap<string, Operation>,
    sources: readonly ToolSource[],
    { room_id: roomId, scopes }: Pick<RunRow, "room_id" | "scopes">,
  ): Promise<Toolbox> {
    const patterns: string[] = JSON.parse(agent.tools_json);
    const granted = { scopes: scopesOf(scopes) };
    const allowed = [...operations.values()].filter((operation) =>
      isTool(operation) && matches(patterns, operation.name) && hasScope(granted, operation.access.scope)
    );
    const others = patterns.filter((name) => !operations.has(name));
    const sourced = await Promise.all(
      sources.map((source) => source.toolsOf(agent.tenant_id, agent.id, others, roomId)),
    );
    // A token that could not approve a call has none made without an approval either.
    const bounded = sourced.flat().map((tool) =>
      hasScope(granted, tool.scope ?? null) ? tool : { ...tool, needsApproval: true }
    );
    return new Toolbox(agent, roomId, allowed, bounded);
  }

  /** Throws a Fault that the model reads, if the call makes no sense. */
  resolve(name: string, text: string): ResolvedCall {
    const input = parseInput(text);
    if (name === CALL_TOOL.name) return this.#resolve(toolNameOf(stringIn(input, "name")), objectIn(input, "input"));
    if (name === FIND_TOOLS.name) return { kind: "find", name, query: stringIn(input, "query") };
    if (name === ASK_USER.name) return { kind: "ask", name, question: stringIn(input, "question") };
    return this.#resolve(name, input);
  }

  /** Whether each call of a tool needs an approval. What is deleted does not come back. */
  asksFirst(call: ResolvedCall): boolean {
    if (call.kind === "operation") {
      const { operation } = call;
      return matches(this.#askFirst, operation.name) || operation.http.method === "DELETE" && !isReadOnly(operation);
    }
    return call.kind === "source" &&
      ((call.tool.needsApproval ?? true) || this.#askFirst.some((pattern) => isNamed(call.name, pattern)));
  }

  /** Tools whose name or description has words of the query. */
  find(query: string): readonly ModelTool[] {
    const words = query.slice(0, 200).toLowerCase().split(/\s/).filter((word) => word.length > 2);
    const rated = [...this.#operations.values()].map(operationTool).map((tool) => {
      const text = tool.description.toLowerCase();
      const hitsOf = (word: string): number => (tool.name.includes(word) ? 2 : 0) + (text.includes(word) ? 1 : 0);
      return { tool, hits: words.reduce((sum, word) => sum + hitsOf(word), 0) };
    });
    return rated.filter(({ hits }) => hits > 0).toSorted((one, other) => other.hits - one.hits).slice(0, FOUND_MAX)
      .map(({ tool }) => tool);
  }

  #resolve(name: string, input: Record<string, unknown>): ResolvedCall {
    const operation = this.#operations.get(name);
    if (operation !== undefined) {
      const field = roomFieldOf(operation);
      const room = field === undefined ? {} : { [field]: this.#roomId };
      return { kind: "operation", operation, name: operation.name, input: { ...room, ...input } };
    }
    const tool = this.#sourced.get(name);
    if (tool !== undefined) return { kind: "source", tool, name, input };
    throw new Fault("not_found", `There is no tool ${truncateText(name, 64)}`);
  }
}

/** Whether agents may call the operation at all. */
export function isTool(operation: Operation): boolean {
  const noun = nounOf(operation.name);
  if (!NOUNS.has(noun) || operation.callsOut === true || operation.isSecret === true) return false;
  return isReadOnly(operation) || !READ_NOUNS.has(noun);
}

function matches(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => pattern === name || pattern === `${nounOf(name)}.*` || pattern === "*");
}

/** Whether a tool of a source, under its name for models, is what a configuration calls `wiki.search` or `wiki.*`. */
function isNamed(name: string, pattern: string): boolean {
  return pattern.endsWith(".*")
    ? name.startsWith(toolNameOf(pattern.slice(0, -1)))
    : pattern === "*" || name === toolNameOf(pattern);
}

/** Bounded as the bodies of requests are. */
function parseInput(text: string): Record<string, unknown> {
  const input = isDeeperThan(text, JSON_DEPTH_MAX) ? undefined : parseJson(text === "" ? "{}" : text);
  if (!isObject(input) || hasMoreValuesThan(text, JSON_VALUES_MAX)) {
    throw new Fault("bad_request", "Expected the arguments as a JSON object");
  }
  const unsafe = findUnsafeText(text, input);
  if (unsafe !== undefined) throw unsafeTextFault(unsafe);
  return input;
}

/** `undefined` for what is no JSON: models write what they like. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function stringIn(input: Record<string, unknown>, field: string): string {
  const value = input[field];
  if (typeof value === "string" && value.trim() !== "") return truncateText(value, 4000);
  throw new Fault("bad_request", `Expected a text in ${field}`);
}

function objectIn(input: Record<string, unknown>, field: string): Record<string, unknown> {
  const value = input[field];
  if (isObject(value)) return value;
  throw new Fault("bad_request", `Expected an object in ${field}`);
}
