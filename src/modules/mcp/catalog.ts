// Tools of the MCP servers of a tenant, under names that models accept, and cached.
import type { Encryptor } from "@/core/crypto.ts";
import { type Clock, MINUTE_MS } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Metrics } from "@/core/metrics.ts";
import { compareText, truncateText } from "@/core/text/text.ts";
import { type AgentTool, type ToolCall, ToolFailed, type ToolSource } from "@/modules/agent/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type RemoteServers, type RemoteTool, ServerError, type Target } from "./client.ts";
import { TOOLS_MAX } from "./schema.ts";
import { type ServerRow, ServerStore, type ServerTables } from "./store.ts";

const CACHE_MS = 5 * MINUTE_MS;
/** A server that fails is not asked again at once. */
const FAILURE_CACHE_MS = 30_000;
const CACHED_MAX = 500;
const NAME_MAX_CHARS = 64;
const DESCRIPTION_MAX_CHARS = 1000;
const SCHEMA_MAX_CHARS = 8000;
/** Servers choose the status of their responses; the metric has a label for each hundred. */
const STATUS = /^(http_\d)\d\d$/;
/** A tool outside has no scope of its own: a token that may approve its calls may have them made. */
const APPROVAL_SCOPE = "run.write";
/** Calls of one tenant's agents at once. */
const CALLS_MAX = 8;

/** A tool under both names. */
type NamedTool = { name: string; remote: RemoteTool };
type Cached = { tools: Promise<NamedTool[]>; until: number };
type Deps = {
  store: Store<ServerTables>;
  clock: Clock;
  encryptor: Encryptor;
  servers: RemoteServers;
  metrics: Pick<Metrics, "mcpServerCalls">;
};

const log = logOf("mcp");

export class ServerCatalog implements ToolSource {
  readonly #deps: Deps;
  readonly #cache = new LruMap<string, Cached>(CACHED_MAX);
  readonly #running = new Map<string, number>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Tools that an agent names: each by itself, or all of a server as `<id>.*`. */
  async toolsOf(tenantId: string, _agentId: string, names: readonly string[]): Promise<readonly AgentTool[]> {
    const wanted = new Set(names);
    const rows = (await new ServerStore(this.#deps.store.db).list(tenantId))
      .filter(({ id }) => names.some((name) => name.startsWith(`${id}.`) || name.startsWith(`${id}_`)));
    const tools = await Promise.all(rows.map(async (row) => {
      const all = await this.#cachedTools(row);
      const isWanted = ({ name }: NamedTool): boolean =>
        wanted.has(`${row.id}.*`) || wanted.has(name) || wanted.has(`${row.id}.${name.slice(row.id.length + 1)}`);
      return all.filter(isWanted).map((tool) => this.#agentTool(row, tool));
    }));
    return tools.flat();
  }

  /** Any name of a server that is there: its tools change, and it may not respond now. */
  async patternsOf(tenantId: string): Promise<readonly string[]> {
    const rows = await new ServerStore(this.#deps.store.db).list(tenantId);
    return rows.flatMap(({ id }) => [`${id}.*`, `${id}_*`]);
  }

  /** The tools of a server now; throws a `ServerError`. */
  async listTools(row: ServerRow, signal?: AbortSignal): Promise<NamedTool[]> {
    return nameTools(row, await this.#counted(() => this.#deps.servers.listTools(this.#targetOf(row), signal)));
  }

  async #cachedTools(row: ServerRow): Promise<NamedTool[]> {
    const { clock } = this.#deps;
    // A change of the server is another version, so another entry.
    const key = `${row.tenant_id} ${row.id} ${row.version}`;
    const cached = this.#cache.get(key);
    if (cached !== undefined && cached.until > clock.now()) return await cached.tools;
    const entry: Cached = { tools: this.listTools(row), until: clock.now() + CACHE_MS };
    this.#cache.set(key, entry);
    entry.tools = entry.tools.catch((cause) => {
      log.warn("listing the tools of an MCP server failed", {
        tenant: row.tenant_id,
        server: row.id,
        code: codeOf(cause),
      });
      entry.until = clock.now() + FAILURE_CACHE_MS;
      // The agent keeps the tools that the server had, whose calls fail with the reason. Without any, it works without them.
      return cached?.tools ?? [];
    });
    return await entry.tools;
  }

  #agentTool(row: ServerRow, { name, remote }: NamedTool): AgentTool {
    return {
      name,
      description: `${truncateText(remote.description ?? remote.name, DESCRIPTION_MAX_CHARS)} (server ${row.id})`,
      inputSchema: remote.inputSchema,
      isIdempotent: false,
      needsApproval: row.needs_approval === 1,
      scope: APPROVAL_SCOPE,
      call: ({ input, signal, agentHops }) => this.#call(row, remote.name, input, { signal, agentHops }),
    };
  }

  async #call(
    row: ServerRow,
    name: string,
    input: Record<string, unknown>,
    options: Pick<ToolCall, "signal" | "agentHops">,
  ): Promise<string> {
    const { tenant_id: tenantId, id } = row;
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= CALLS_MAX) throw new Fault("rate_limited", "Too many calls of MCP servers at once; retry later");
    this.#running.set(tenantId, running + 1);
    try {
      // It may have been deleted or changed since the tool was offered.
      const current = await new ServerStore(this.#deps.store.db).find(tenantId, id);
      if (current?.version !== row.version) throw new Fault("not_found", `The server ${id} was changed or deleted`);
      const call = () => this.#deps.servers.callTool(this.#targetOf(current), name, input, options);
      const { text, isError } = await this.#counted(call);
      if (isError) throw new ToolFailed(text);
      return text;
    } catch (thrown) {
      if (thrown instanceof ServerError) throw new Fault("unavailable", `The server ${id} failed: ${thrown.code}`);
      throw thrown;
    } finally {
      const left = (this.#running.get(tenantId) ?? 1) - 1;
      if (left > 0) this.#running.set(tenantId, left);
      else this.#running.delete(tenantId);
    }
  }

  async #counted<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      const result = await work();
      this.#deps.metrics.mcpServerCalls.inc({ outcome: "ok" });
      return result;
    } catch (thrown) {
      this.#deps.metrics.mcpServerCalls.inc({ outcome: codeOf(thrown).replace(STATUS, "$1xx") });
      throw thrown;
    }
  }

  #targetOf({ tenant_id: tenantId, id, url, headers_encrypted: encrypted }: ServerRow): Target {
    const text = encrypted === null ? undefined : this.#deps.encryptor.decrypt(encrypted, headersContext(tenantId, id));
    // With headers that can no longer be decrypted, the server refuses the call, which says what to do.
    return { url, headers: text === undefined ? {} : JSON.parse(text) };
  }
}

/** What headers are encrypted for. */
export function headersContext(tenantId: string, id: string): string {
  return `${tenantId}/${id}`;
}

export function codeOf(error: unknown): string {
  return error instanceof ServerError ? error.code : "internal";
}

/** The tools that may be used, under unique names of `a-z _`; what is too long to be offered is left out. */
function nameTools({ id, tools_json: json }: ServerRow, tools: readonly RemoteTool[]): NamedTool[] {
  const allowed: string[] = JSON.parse(json);
  const named = new Map<string, RemoteTool>();
  for (const remote of tools.toSorted((one, other) => compareText(one.name, other.name))) {
    if (named.size >= TOOLS_MAX) break;
    if (allowed.length > 0 && !allowed.includes(remote.name)) continue;
    if (remote.inputSchema.type !== "object" || JSON.stringify(remote.inputSchema).length > SCHEMA_MAX_CHARS) continue;
    const name = `${id}_${remote.name.slice(0, NAME_MAX_CHARS).toLowerCase().replaceAll(/[^a-z]/g, "_")}`
      .slice(0, NAME_MAX_CHARS - 3);
    named.set(freeName(name, named), remote);
  }
  return [...named].map(([name, remote]) => ({ name, remote }));
}

/** The name, or with letters behind it where another tool has it. */
function freeName(name: string, taken: ReadonlyMap<string, unknown>): string {
  if (!taken.has(name)) return name;
  const letters = [..."abcdefghijklmnopqrstuvwxyz"];
  const names = letters.values().flatMap((first) =>
    ["", ...letters].values().map((second) => `${name}_${first}${second}`)
  );
  return names.find((one) => !taken.has(one)) ?? name;
}
