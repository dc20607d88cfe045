// MCP servers in the API.
import { z } from "@zod/zod";
import { boundedRecord } from "@/core/json.ts";
import { BaseVersion } from "@/core/patch.ts";

export const SERVERS_MAX = 10;
export const TOOLS_MAX = 50;
const HEADERS_MAX = 10;

/** Prefix of the names of its tools. */
const ServerId = z.string().regex(/^[a-z][a-z_]{0,18}[a-z]$/, "expected 2 to 20 characters of a-z _")
  .describe("Id of the server; names of its tools begin with it");
const HeaderName = z.string().regex(/^[A-Za-z][A-Za-z0-9-]{0,63}$/, "expected the name of a header")
  .refine(
    (name) => !RESERVED_HEADERS.has(name.toLowerCase()),
    "expected a header that the protocol does not use itself",
  );
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  ...["host", "connection", "content-length", "content-type", "content-encoding", "transfer-encoding", "upgrade"],
  ...["accept", "accept-encoding", "expect", "te", "trailer", "mcp-protocol-version", "mcp-session-id", "mcp-method"],
  ...["mcp-name", "last-event-id"],
]);
const HeaderValue = z.string().regex(/^[\x20-\x7e]{1,2000}$/, "expected 1 to 2000 printable ASCII characters");
const ToolName = z.string().regex(/^[\w./-]{1,128}$/, "expected the name of a tool, as the server names it");

export const McpServer = z.object({
  id: z.string(),
  url: z.string().describe("Address of its endpoint"),
  headerNames: z.array(z.string()).describe("Names of the headers that are sent; their values are never returned"),
  tools: z.array(z.string()).describe("Tools that agents may use, as the server names them; empty: all"),
  needsApproval: z.boolean().describe("Whether each call needs an approval in the room"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "McpServer" });
export type McpServer = z.output<typeof McpServer>;

export const McpServerRef = z.strictObject({ id: ServerId });

export const McpServerPut = z.strictObject({
  id: ServerId,
  url: z.url({ protocol: /^https?$/ }).max(500)
    .describe("Address of its endpoint with HTTPS; private hosts only if the operator allows them"),
  headers: boundedRecord(HeaderName, HeaderValue, HEADERS_MAX, "headers").nullable().optional().describe(
    "Headers of each request, such as `Authorization`, stored encrypted; absent: unchanged, null: none. Required " +
      "again with another address",
  ),
  tools: z.array(ToolName).max(TOOLS_MAX).default([])
    .describe("Tools that agents may use, as the server names them; empty: all"),
  needsApproval: z.boolean().default(true)
    .describe(
      "Whether each call needs an approval in the room; without one, agents send what they read to the server. Where a " +
        "token that asked lacks the scope `run.write`, each call needs one in any case",
    ),
  version: BaseVersion,
});
export type McpServerPut = z.output<typeof McpServerPut>;

export const McpServerTest = z.object({
  ok: z.boolean().describe("Whether the server listed its tools"),
  code: z.string().nullable().describe("Why it did not, such as `connection_failed` or `http_404`; null if it did"),
  tools: z.array(z.object({
    name: z.string().describe("Name by which an agent is given the tool, in its list of tools"),
    description: z.string().describe("Description of the tool, as the server gives it"),
  })).describe("Its tools, without those that are not allowed"),
  durationMs: z.int().describe("How long it took"),
}).meta({ id: "McpServerTest" });
export type McpServerTest = z.output<typeof McpServerTest>;
