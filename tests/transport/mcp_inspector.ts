// The official inspector's command line, as a program: `deno run mcp_inspector.ts <url> --method tools/list`.
import "npm:@modelcontextprotocol/inspector-cli@1.0.3/build/index.js";
