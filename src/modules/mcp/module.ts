// The MCP module: servers outside whose tools agents may use. The gateway's own endpoint `/mcp` is a transport.
import { Encryptor } from "@/core/crypto.ts";
import type { Module } from "@/core/module.ts";
import type { ToolSource } from "@/modules/agent/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { mcpApi } from "./api.ts";
import { headersContext, ServerCatalog } from "./catalog.ts";
import { RemoteServers } from "./client.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { SERVERS_MAX, TOOLS_MAX } from "./schema.ts";
import { ServerService } from "./service.ts";

type Deps = { secrets: readonly Uint8Array[]; publicUrl: string | undefined; version: string };

type McpModule = Module & { tools: ToolSource };

export function mcpModule(platform: Platform, { secrets, publicUrl, version }: Deps): McpModule {
  const { store, clock, outbound, metrics, modules } = platform;
  const encryptor = new Encryptor(secrets, "mcp server");
  const servers = new RemoteServers(outbound, version);
  const catalog = new ServerCatalog({ store, clock, encryptor, servers, metrics });
  const isNoun = (name: string): boolean =>
    modules.some((module) => module.operations.some((operation) => operation.name.startsWith(`${name}.`)));
  return {
    name: "mcp",
    migrations,
    erases,
    encrypted: [{
      table: "mcp_server",
      column: "headers_encrypted",
      encryptor,
      contextOf: ({ tenant_id, id }) => headersContext(tenant_id, id),
    }],
    ...mcpApi(new ServerService({ store, clock, outbound, encryptor, catalog, publicUrl, isNoun })),
    capability: () => ({
      revisions: ["2026-07-28", "2025-11-25", "2025-06-18"],
      servers: SERVERS_MAX,
      toolsPerServer: TOOLS_MAX,
    }),
    tools: catalog,
  };
}
