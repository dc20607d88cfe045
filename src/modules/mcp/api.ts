// Operations on the MCP servers whose tools agents may use.
import { z } from "@zod/zod";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome, type Rates } from "@/core/operation.ts";
import { McpServer, McpServerPut, McpServerRef, McpServerTest } from "./schema.ts";
import type { ServerService } from "./service.ts";

const PATH = "/v1/collaboration/mcp/servers";
const MANAGE = { scope: "ai.manage", tenant: "admin" } as const;
const TEST_RATE: Rates = { human: { perSecond: 0.2, burst: 10 } };

export function mcpApi(servers: ServerService): ModuleApi {
  return {
    tags: { mcp_server: "MCP servers outside, whose tools agents of the tenant may use." },
    operations: [
      defineOperation({
        name: "mcp_server.list",
        summary: "List the MCP servers that agents may use",
        access: MANAGE,
        http: { method: "GET", path: PATH, status: 200 },
        input: z.strictObject({}),
        output: z.object({ items: z.array(McpServer) }).meta({ id: "McpServers" }),
        async run(context) {
          return { items: await servers.list(context) };
        },
      }),
      defineOperation({
        name: "mcp_server.put",
        summary: "Allow an MCP server, or change how it is used",
        description:
          "An agent gets its tools by their names in its own list: `<id>.<tool>`, or `<id>.*` for all of them.",
        access: MANAGE,
        http: { method: "PUT", path: `${PATH}/:id`, status: 200, otherStatuses: [201], ifMatch: "version" },
        input: McpServerPut,
        output: McpServer,
        faults: ["address_not_allowed", "limit_reached", "version_mismatch"],
        example: {
          id: "wiki",
          url: "https://wiki.example.com/mcp",
          headers: { Authorization: "Bearer replace-this-with-a-token" },
          tools: ["search"],
        },
        async run(context, input) {
          const { server, isNew } = await servers.put(context, input);
          return new Outcome(server, { status: isNew ? 201 : 200 });
        },
      }),
      defineOperation({
        name: "mcp_server.delete",
        summary: "Delete an MCP server with its headers",
        access: MANAGE,
        http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
        input: McpServerRef,
        output: z.void(),
        faults: ["not_found"],
        example: { id: "wiki" },
        run: (context, { id }) => servers.delete(context, id),
      }),
      defineOperation({
        name: "mcp_server.test",
        summary: "Test an MCP server: list its tools now",
        access: MANAGE,
        http: { method: "POST", path: `${PATH}/:id/test`, status: 200 },
        callsOut: true,
        rate: TEST_RATE,
        input: McpServerRef,
        output: McpServerTest,
        faults: ["not_found"],
        example: { id: "wiki" },
        run: (context, { id }) => servers.test(context, id),
      }),
    ],
  };
}
