// Tools: which operations a caller is offered, and how calls of them are answered. What they do, and who may, is decided by
// `dispatch`, as over HTTP.
import type { CallToolResult, Tool } from "@modelcontextprotocol/server";
import { z } from "@zod/zod";
import { type Actor, hasScope, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { withTimeout } from "@/core/time/clock.ts";
import { type Dispatch, parse } from "@/core/dispatch.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { type Client, isReadOnly, type Operation } from "@/core/operation.ts";
import { nearestName } from "@/core/input/suggestion.ts";
import { type Json, renderJson } from "./render.ts";
import { type ToolSchema, toolSchema } from "./tool_schema.ts";
import { type Verb, VERBS } from "./verbs.ts";

/** Longest text of a result; the rest is returned from an offset. */
export const RESULT_MAX_CHARS = 24_000;
const CALL_TIMEOUT_MS = 30_000;
const DESCRIPTION_MAX_CHARS = 240;
const NAMES_MAX = 5;
const QUERY_MAX_CHARS = 100;

/** One request: who asks, for what, until when. */
export type ToolContext = {
  actor: Actor;
  client: Client;
  requestId: string;
  /** How many agents led to the call, as the caller says. */
  agentHops: number;
  signal: AbortSignal;
  /** To be called before the first wait: what a message takes until then is charged to its caller. */
  endCharge: () => void;
  /** Only what changes nothing. */
  isReadOnly: boolean;
  toolsets: ReadonlySet<string>;
};

/** `tool` is made when it is first listed: its schema takes longer than most of a start. */
type Entry = { verb: Verb; operation: Operation; tool?: Tool };
type Deps = { operations: ReadonlyMap<string, Operation>; dispatch: Dispatch };

const OFFSET = { type: "integer", minimum: 0, description: "Continue a cut result from this character" };

const SEARCH_TOOL: Tool = {
  name: "operation_search",
  description: "Find operations beyond these tools by words of their names and summaries; with names, get their inputs",
  inputSchema: {
    type: "object",
    properties: {
      query: { type: "string", maxLength: QUERY_MAX_CHARS, description: "Words; absent: all operations" },
      names: { type: "array", maxItems: NAMES_MAX, items: { type: "string" } },
    },
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true },
};
const CALL_TOOL: Tool = {
  name: "operation_call",
  description: "Call an operation found by operation_search",
  inputSchema: {
    type: "object",
    properties: { name: { type: "string" }, input: { type: "object" }, offset: OFFSET },
    required: ["name"],
    additionalProperties: false,
  },
};
/** Inputs of the two, besides the offset; models write `null` for what they leave out, and longer queries and lists. */
const SearchInput = z.strictObject({ query: z.string().nullish(), names: z.array(z.string()).nullish() });
const CallInput = z.strictObject({ name: z.string(), input: z.unknown().optional() });

export class Tools {
  readonly #operations: ReadonlyMap<string, Operation>;
  readonly #dispatch: Dispatch;
  readonly #entries = new Map<string, Entry>();
  readonly #schemas = new Map<Operation, ToolSchema>();

  constructor({ operations, dispatch }: Deps) {
    this.#operations = operations;
    this.#dispatch = dispatch;
    for (const [name, verb] of Object.entries(VERBS)) {
      const operation = operations.get(verb.operation);
      // A module may be absent.
      if (operation !== undefined) this.#entries.set(name, { verb, operation });
    }
  }

  /** The tools that this caller can use. */
  list(context: ToolContext): Tool[] {
    const entries = [...this.#entries].filter(([, { verb, operation }]) =>
      context.toolsets.has(verb.toolset) && isOffered(operation, context)
    );
    return [...entries.map(([name, entry]) => entry.tool ??= toolOf(name, entry)), SEARCH_TOOL, CALL_TOOL];
  }

  /** Calls a tool; rejects for one that the caller does not have: an error of the protocol, unlike those of the tools. */
  async call(context: ToolContext, name: string, input: Json): Promise<CallToolResult> {
    const entry = this.#require(context, name);
    try {
      return textResult(await this.#run(context, name, entry, input));
    } catch (thrown) {
      return { ...textResult(describeFault(Fault.from(thrown))), isError: true };
    }
  }

  /** The whole result of an operation as text; throws its faults. */
  async read(
    context: ToolContext,
    operation: string,
    input: Json,
    render: (output: Json) => string = renderJson,
  ): Promise<string> {
    return render(await this.output(context, operation, input));
  }

  /** Whether the caller may call an operation here. */
  isOffered(context: ToolContext, name: string): boolean {
    const operation = this.#operations.get(name);
    return operation !== undefined && isOffered(operation, context);
  }

  /** The result of an operation; throws its faults. */
  async output(context: ToolContext, name: string, input: Json): Promise<Json> {
    const operation = this.#operations.get(name);
    if (operation === undefined || !isOffered(operation, context)) throw this.#unknown(context, name);
    const { actor, client, requestId, agentHops } = context;
    context.endCharge();
    const controller = new AbortController();
    const signal = AbortSignal.any([context.signal, controller.signal]);
    const outcome = await withTimeout(
      this.#dispatch(operation, { actor, client, input, requestId, agentHops, via: "mcp", signal }),
      CALL_TIMEOUT_MS,
    );
    if (outcome === undefined) {
      const fault = new Fault("unavailable", `The call took longer than ${CALL_TIMEOUT_MS / 1000} s`);
      controller.abort(fault);
      throw fault;
    }
    return (outcome.output ?? {}) as Json;
  }

  /** The tool of an operation; `undefined` for the two that are for all others. */
  #require(context: ToolContext, name: string): Entry | undefined {
    if (name === SEARCH_TOOL.name || name === CALL_TOOL.name) return undefined;
    const entry = this.#entries.get(name);
    if (entry === undefined) throw this.#unknown(context, name);
    if (!isOffered(entry.operation, context)) throw this.#unknown(context, entry.operation.name);
    return entry;
  }

  /** Models take operations for tools, and write their names in their own way. */
  #unknown(context: ToolContext, name: string): Fault {
    const offered = [...this.#operations.keys()].filter((one) => this.isOffered(context, one));
    // What is not offered was meant: another operation of its noun may do the opposite.
    const isMeant = this.#operations.has(name) && !offered.includes(name);
    const near = isMeant ? undefined : nearestName(name, offered);
    const hint = near === undefined ? "" : `; ${CALL_TOOL.name} runs ${near}`;
    return new Fault("not_found", `No such tool or operation for this token: ${name.slice(0, 80)}${hint}`);
  }

  async #run(
    context: ToolContext,
    name: string,
    entry: Entry | undefined,
    { offset = 0, ...input }: Json,
  ): Promise<string> {
    if (typeof offset !== "number" || !Number.isSafeInteger(offset) || offset < 0) {
      throw invalidField("/offset", "expected a number of characters");
    }
    if (name === SEARCH_TOOL.name) return cut(this.#search(context, input), offset, false);
    if (entry === undefined) {
      const call = parse(CallInput, input);
      // Dispatch refuses one that is no object.
      const text = await this.read(context, call.name, (call.input ?? {}) as Json);
      return cut(text, offset, this.#repeats(call.name));
    }
    const { verb, operation } = entry;
    const excess = verb.omit?.find((field) => Object.hasOwn(input, field));
    if (excess !== undefined) {
      throw Fault.forField(
        `/${excess}`,
        "unknown_field",
        "not a field of this tool; operation_call has it",
        "unknown_field",
      );
    }
    // A model has no id of its own to send again with; each call is one message.
    const own = operation.name === "message.send" ? { clientMessageId: crypto.randomUUID() } : {};
    const text = await this.read(context, operation.name, { ...verb.defaults, ...input, ...own }, verb.render);
    return cut(text, offset, isReadOnly(operation));
  }

  #repeats(name: string): boolean {
    const operation = this.#operations.get(name);
    return operation !== undefined && isReadOnly(operation);
  }

  #search(context: ToolContext, input: Json): string {
    const { query, names } = parse(SearchInput, input);
    const offered = [...this.#operations.values()].filter((operation) => isOffered(operation, context));
    if (names?.length) {
      const wanted = new Set(names.slice(0, NAMES_MAX));
      const found = offered.filter(({ name }) => wanted.has(name));
      if (found.length === 0) return "nothing found";
      return found.map((operation) => `${describe(operation)}\n${JSON.stringify(this.#schemaOf(operation))}`).join(
        "\n\n",
      );
    }
    const words = (query ?? "").slice(0, QUERY_MAX_CHARS).toLowerCase().split(/[^a-z]/).filter(Boolean);
    const found = offered.filter(({ name, summary }) => {
      const text = `${name} ${summary}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    return found.length === 0 ? "nothing found" : found.map(describe).join("\n");
  }

  #schemaOf(operation: Operation): ToolSchema {
    const known = this.#schemas.get(operation) ?? toolSchema(operation);
    this.#schemas.set(operation, known);
    return known;
  }
}

/** Whether the operation exists for this caller here. What returns secrets is not offered: a model's context is no place for them. */
function isOffered(operation: Operation, { actor, isReadOnly: onlyReads }: ToolContext): boolean {
  const { scope, tenant = "guest" } = operation.access;
  return operation.isSecret !== true && operation.disabled === undefined && hasScope(actor, scope) &&
    isAtLeast(TENANT_ROLES, actor.role, tenant) && (!onlyReads || isReadOnly(operation));
}

function toolOf(name: string, { verb: { omit, defaults }, operation }: Entry): Tool {
  const isReading = isReadOnly(operation);
  const schema = toolSchema(operation, omit);
  const properties = { ...schema.properties };
  for (const field of Object.keys(defaults ?? {})) {
    if (properties[field] !== undefined) properties[field] = { ...properties[field], default: defaults?.[field] };
  }
  if (isReading) properties["offset"] = OFFSET;
  return {
    name,
    description: describeShort(operation, omit),
    inputSchema: { ...schema, properties } as Tool["inputSchema"],
    annotations: isReading ? { readOnlyHint: true } : { destructiveHint: false },
  };
}

/** Without sentences about fields that the tool does not have. */
function describeShort({ summary, description = "" }: Operation, omitted: readonly string[] = []): string {
  const sentences = description.split(/\s+/).join(" ").split(". ");
  const fitting = sentences.filter((one) => one !== "" && !omitted.some((field) => one.includes(`\`${field}\``)));
  const text = [summary, ...fitting].join(". ");
  const end = text.lastIndexOf(". ", DESCRIPTION_MAX_CHARS);
  return text.length <= DESCRIPTION_MAX_CHARS || end < 0 ? text.slice(0, DESCRIPTION_MAX_CHARS) : text.slice(0, end);
}

function describe({ name, summary }: Operation): string {
  return `${name}: ${summary}`;
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: "text", text }] };
}

/** The part of a text from `offset`, with where to continue. */
function cut(text: string, offset: number, canContinue: boolean): string {
  if (text.length <= offset + RESULT_MAX_CHARS) return text.slice(offset).toWellFormed();
  const end = offset + RESULT_MAX_CHARS;
  const rest = canContinue ? `continue with offset=${end}` : "ask for less";
  return `${text.slice(offset, end).toWellFormed()}\n… cut at character ${end} of ${text.length}: ${rest}`;
}

function describeFault({ code, message, retryAfterMs }: Fault): string {
  const wait = retryAfterMs === undefined ? "" : `\nretry after ${Math.ceil(retryAfterMs / 1000)} s`;
  return `${code}: ${message}${wait}`;
}
