// MCP: servers of tools for agents.
export { type McpModule, mcpModule } from "./module.ts";
