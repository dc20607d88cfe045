// MCP servers that admins allow: their headers are stored encrypted and never returned.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion } from "@/core/patch.ts";
import { assertAddressAllowed, type Outbound } from "@/ports/outbound.ts";
import type { Store } from "@/ports/store.ts";
import { codeOf, headersContext, type ServerCatalog } from "./catalog.ts";
import { type McpServer, type McpServerPut, type McpServerTest, SERVERS_MAX } from "./schema.ts";
import { type ServerRow, ServerStore, type ServerTables } from "./store.ts";

/** A stream without events: its lock serializes changes of the servers of a tenant. */
const CHANGES_LOCK = "mcp:servers";
const DESCRIPTION_MAX_CHARS = 300;

type Deps = {
  store: Store<ServerTables>;
  clock: Clock;
  outbound: Outbound;
  encryptor: Encryptor;
  catalog: ServerCatalog;
  /** Where clients reach the gateway itself. */
  publicUrl: string | undefined;
  /** Whether operations have names that begin with this. */
  isNoun: (name: string) => boolean;
};
type Headers = Pick<ServerRow, "headers_encrypted" | "header_names_json">;

export class ServerService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list({ actor }: Context): Promise<McpServer[]> {
    return (await new ServerStore(this.#deps.store.db).list(actor.tenantId)).map(present);
  }

  /** Creates or replaces a server; resolves to it, and to whether it is new. */
  async put({ actor }: Context, input: McpServerPut): Promise<{ server: McpServer; isNew: boolean }> {
    const { store, clock, isNoun } = this.#deps;
    const { tenantId } = actor;
    const url = this.#checkAddress(input.url);
    if (isNoun(input.id)) {
      throw Fault.forField("/id", "reserved", "expected another id: operations have names like this");
    }
    return await store.write(async (tx) => {
      await tx.lock(tenantId, CHANGES_LOCK);
      const servers = new ServerStore(tx.db);
      const before = await servers.find(tenantId, input.id);
      assertVersion("server", before?.version ?? 0, input.version);
      if (before === undefined && (await servers.list(tenantId)).length >= SERVERS_MAX) {
        throw new Fault("limit_reached", `A tenant has at most ${SERVERS_MAX} MCP servers`);
      }
      const now = iso(clock.now());
      const row: ServerRow = {
        tenant_id: tenantId,
        id: input.id,
        url,
        ...this.#headers(tenantId, input, url, before),
        tools_json: JSON.stringify([...new Set(input.tools)]),
        needs_approval: input.needsApproval ? 1 : 0,
        version: (before?.version ?? 0) + 1,
        created_at: before?.created_at ?? now,
        updated_at: now,
      };
      await servers.put(row);
      return { server: present(row), isNew: before === undefined };
    });
  }

  async delete({ actor }: Context, id: string): Promise<void> {
    const { store } = this.#deps;
    const isDeleted = await store.write((tx) => new ServerStore(tx.db).remove(actor.tenantId, id));
    if (!isDeleted) throw notFound("MCP server");
  }

  /** Lists the tools of a server. Throws only what is not about the server. */
  async test({ actor, signal }: Context, id: string): Promise<McpServerTest> {
    const row = await new ServerStore(this.#deps.store.db).find(actor.tenantId, id);
    if (row === undefined) throw notFound("MCP server");
    const startedAt = performance.now();
    const elapsed = () => Math.round(performance.now() - startedAt);
    try {
      const tools = await this.#deps.catalog.listTools(row, signal);
      const shown = tools.map(({ name, remote }) => ({
        name: `${id}.${name.slice(id.length + 1)}`,
        description: (remote.description ?? "").slice(0, DESCRIPTION_MAX_CHARS).toWellFormed(),
      }));
      return { ok: true, code: null, tools: shown, durationMs: elapsed() };
    } catch (thrown) {
      return { ok: false, code: codeOf(thrown), tools: [], durationMs: elapsed() };
    }
  }

  /** The headers that are stored. They are not sent to another address: who sets that one may not know them. */
  #headers(tenantId: string, { id, headers }: McpServerPut, url: string, before: ServerRow | undefined): Headers {
    if (headers === undefined) {
      if (before === undefined || before.headers_encrypted === null) {
        return { headers_encrypted: null, header_names_json: "[]" };
      }
      const { headers_encrypted, header_names_json } = before;
      if (before.url === url) return { headers_encrypted, header_names_json };
      throw Fault.forField("/headers", "required", "expected the headers again, since the address changes; or null");
    }
    const names = Object.keys(headers ?? {});
    if (names.length === 0) return { headers_encrypted: null, header_names_json: "[]" };
    return {
      headers_encrypted: this.#deps.encryptor.encrypt(JSON.stringify(headers), headersContext(tenantId, id)),
      header_names_json: JSON.stringify(names),
    };
  }

  /** Agents that call the gateway for each other as strangers would have no bound on how often. */
  #isOwnEndpoint({ origin, pathname }: URL): boolean {
    const { publicUrl } = this.#deps;
    return publicUrl !== undefined && `${origin}${pathname}` === new URL(`${publicUrl}/mcp`).href;
  }

  /** The address as it is stored. */
  #checkAddress(text: string): string {
    assertAddressAllowed(this.#deps.outbound, text, "/url");
    const url = new URL(text);
    if (url.hash !== "") throw invalidField("/url", "expected an address without a fragment");
    if (this.#isOwnEndpoint(url)) {
      throw invalidField("/url", "expected another server: agents have the operations of this gateway as tools");
    }
    return url.href;
  }
}

function present(row: ServerRow): McpServer {
  return {
    id: row.id,
    url: row.url,
    headerNames: JSON.parse(row.header_names_json),
    tools: JSON.parse(row.tools_json),
    needsApproval: row.needs_approval === 1,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
