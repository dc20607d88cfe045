// A lint plugin that keeps the arrows of the architecture pointing one way, and files small.
import { dirname, join, normalize } from "node:path";

/** A module may import only the `mod.ts` of those before it. */
const MODULE_ORDER = [
  "gateway",
  "tenant",
  "permission",
  "identity",
  "notification",
  "room",
  "file",
  "message",
  "search",
  "sync",
  "document",
  "task",
  "calendar",
  "meeting",
  "transfer",
];
const MODULE_FILES_MAX_LINES = 400;

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: ["core"],
  ports: ["ports", "core"],
  adapters: ["adapters", "ports", "core"],
  modules: ["modules", "ports", "core"],
  transport: ["transport", "core"],
};

function place(path: string): { layer: string; parts: string[] } | undefined {
  const at = path.lastIndexOf("/src/");
  if (at < 0) return undefined;
  const parts = path.slice(at + 5).split("/");
  return { layer: parts.length === 1 ? "root" : parts[0] ?? "", parts };
}

/** What is wrong with an import of `specifier` in the file `filename`; `undefined` when nothing is. */
export function importFault(filename: string, specifier: string): string | undefined {
  const from = place(normalize(filename).replaceAll("\\", "/"));
  if (from === undefined || from.layer === "root") return undefined;
  const file = from.parts.at(-1) ?? "";
  if (specifier.startsWith("@hono/") && from.parts.slice(0, 2).join("/") !== "transport/http") {
    return "hono belongs to transport/http";
  }
  if (specifier.startsWith("kysely") && !["ports", "adapters"].includes(from.layer) && file !== "store.ts") {
    return "SQL lives in store.ts, ports and adapters";
  }
  const target = specifier.startsWith("@/")
    ? `/src/${specifier.slice(2)}`
    : specifier.startsWith(".")
    ? join(dirname(filename), specifier)
    : undefined;
  const to = target === undefined ? undefined : place(normalize(target).replaceAll("\\", "/"));
  if (to === undefined) return undefined;
  const isHubPort = from.layer === "transport" && to.layer === "ports";
  if (!(MAY_IMPORT[from.layer] ?? []).includes(to.layer) && !isHubPort) {
    return `${from.layer} may not import ${to.layer}`;
  }
  if (from.layer !== "modules" || to.layer !== "modules" || from.parts[1] === to.parts[1]) return undefined;
  const [fromRank, toRank] = [MODULE_ORDER.indexOf(from.parts[1] ?? ""), MODULE_ORDER.indexOf(to.parts[1] ?? "")];
  if (toRank < 0 || fromRank < 0) return `add the module to MODULE_ORDER in tests/layers.ts`;
  if (toRank > fromRank) return `${from.parts[1]} comes before ${to.parts[1]} in MODULE_ORDER`;
  return to.parts[2] === "mod.ts" ? undefined : `import ${to.parts[1]} through its mod.ts`;
}

const plugin: Deno.lint.Plugin = {
  name: "layers",
  rules: {
    "one-way": {
      create(context) {
        const check = (node: Deno.lint.Node, specifier: string): void => {
          const message = importFault(context.filename, specifier);
          if (message !== undefined) context.report({ node, message });
        };
        return {
          ImportDeclaration: (node) => check(node, node.source.value),
          ExportNamedDeclaration: (node) => node.source && check(node, node.source.value),
          ExportAllDeclaration: (node) => check(node, node.source.value),
        };
      },
    },
    "small-file": {
      create(context) {
        return {
          "Program:exit"(node) {
            const lines = context.sourceCode.text.split("\n").length;
            if (lines > MODULE_FILES_MAX_LINES && context.filename.includes("/src/")) {
              context.report({ node, message: `${lines} lines; ${MODULE_FILES_MAX_LINES} at most, split it by noun` });
            }
          },
        };
      },
    },
  },
};

export default plugin;
