// MCP: servers of tools for agents.
export { mcpModule } from "./module.ts";
