// A lint plugin that keeps the arrows of the architecture pointing one way, and files small.
import { dirname, join, normalize } from "node:path";
import { plainLanguageRule } from "./wording.ts";

/** A module may import only the `mod.ts` of those before it. */
const MODULE_ORDER = [
  "gateway",
  "tenant",
  "audit",
  "job",
  "usage",
  "identity",
  "erasure",
  "oauth",
  "invitation",
  "sign_in",
  "group",
  "scim",
  "notification",
  "push",
  "room",
  "permission",
  "file",
  "message",
  "saved_message",
  "hold",
  "command",
  "ai",
  "vector",
  "agent",
  "mcp",
  "search",
  "sync",
  "inbox",
  "document",
  "task",
  "meeting",
  "calendar",
  "memory",
  "webhook",
  "plugin",
  "transfer",
  "skill",
];
const FILE_MAX_LINES = 400;
/** A comment longer than any line should be: the formatter breaks lines of code only. */
const LONG_COMMENT = /^ *(?:\/\/|\/?\*).{140}/m;

const ALLOWED_IMPORTS: Readonly<Record<string, readonly string[]>> = {
  runtime: ["runtime"],
  core: ["core", "runtime"],
  ports: ["ports", "core"],
  adapters: ["adapters", "ports", "core", "runtime"],
  modules: ["modules", "ports", "core", "runtime"],
  transport: ["transport", "core", "runtime"],
  // Runs in browsers: it has nothing of the server but its API, and what is in both.
  web: ["web"],
};
/** Served to browsers, too. */
const IN_BROWSERS: ReadonlySet<string> = new Set(["core/text/emoji_list.ts"]);

const SQL_FILE = /^(?:(?:\w+_)?store|migrations?)\.ts$/;

function parseSourcePath(path: string): { layer: string; parts: string[] } | undefined {
  const at = path.lastIndexOf("/src/");
  if (at < 0) return undefined;
  const parts = path.slice(at + 5).split("/");
  // What composes the gateway sees all layers; none of them sees it.
  const isRoot = parts.length === 1 || parts[0] === "config";
  return { layer: isRoot ? "root" : parts[0] ?? "", parts };
}

/** What is wrong with an import of `specifier` in the file `filename`; `undefined` when nothing is. */
export function findImportViolation(filename: string, specifier: string): string | undefined {
  const from = parseSourcePath(normalize(filename).replaceAll("\\", "/"));
  if (from === undefined || from.layer === "root") return undefined;
  const file = from.parts.at(-1) ?? "";
  if (specifier.startsWith("@hono/") && !/^transport\/(?:http|shared)$/.test(from.parts.slice(0, 2).join("/"))) {
    return "hono belongs to transport/http and transport/shared";
  }
  if (specifier.startsWith("kysely") && !["ports", "adapters"].includes(from.layer) && !SQL_FILE.test(file)) {
    return "SQL lives in store.ts, *_store.ts, migrations.ts, ports and adapters";
  }
  const target = specifier.startsWith("@/")
    ? `/src/${specifier.slice(2)}`
    : specifier.startsWith(".")
    ? join(dirname(filename), specifier)
    : undefined;
  const to = target === undefined ? undefined : parseSourcePath(normalize(target).replaceAll("\\", "/"));
  if (to === undefined) return undefined;
  const isHubPort = from.layer === "transport" && to.layer === "ports";
  const isInBrowsers = from.layer === "web" && IN_BROWSERS.has(to.parts.join("/"));
  if (!(ALLOWED_IMPORTS[from.layer] ?? []).includes(to.layer) && !isHubPort && !isInBrowsers) {
    return `${from.layer} may not import ${to.layer}`;
  }
  if (from.layer !== "modules" || to.layer !== "modules" || from.parts[1] === to.parts[1]) return undefined;
  const [fromRank, toRank] = [MODULE_ORDER.indexOf(from.parts[1] ?? ""), MODULE_ORDER.indexOf(to.parts[1] ?? "")];
  if (toRank < 0 || fromRank < 0) return `add the module to MODULE_ORDER in tests/layers.ts`;
  if (toRank > fromRank) return `${from.parts[1]} comes before ${to.parts[1]} in MODULE_ORDER`;
  return to.parts[2] === "mod.ts" ? undefined : `import ${to.parts[1]} through its mod.ts`;
}

/** What opens connections: only these files may use it. */
const CONNECTING_MODULE = /^(?:node:(?:https?|http2|net|tls|dgram|dns)(?:\/promises)?|(?:npm:)?undici\b.*)$/;
const CONNECTING_FILES: ReadonlySet<string> = new Set([
  // The outbound port.
  "adapters/outbound/http.ts",
  // The database.
  "adapters/store/postgres/connection.ts",
]);
/** Its `health` asks the gateway itself, on this host. */
const FETCHING_FILES: ReadonlySet<string> = new Set(["main.ts"]);

const CLOCK_READING = /\b(?:performance\.now\(\)|Date\.now\(\) - | - Date\.now\(\))/;
const UPPER_BOUND = /<=?\s*(?:\d|[A-Z][A-Z_]+\b)/;

/** Finds tests that bound time that passes: a busy machine has no such bounds. */
function createElapsedTimeTracker(): { note(text: string): void; isBounded(text: string): boolean } {
  const timed = new Set<string>();
  return {
    /** `text` declares or assigns variables. */
    note(text) {
      const [, left = "", right = ""] = /^(.*?[^=<>!])=(?![=>])(.*)$/s.exec(text) ?? [];
      if (!CLOCK_READING.test(right) || right.includes("=>")) return;
      for (const [name] of left.matchAll(/[A-Za-z_]\w*/g)) timed.add(name);
    },
    isBounded(text) {
      const isTimed = CLOCK_READING.test(text) || [...timed].some((name) => new RegExp(`\\b${name}\\b`).test(text));
      return isTimed && UPPER_BOUND.test(text);
    },
  };
}

/** Whether a comment is in a piece of code, in its statement before it, or above that statement. */
function hasExplanation(text: string, node: Deno.lint.Node): boolean {
  let statement = node;
  while (!/Statement$|Declaration$|Definition$/.test(statement.type) && "parent" in statement) {
    statement = statement.parent as Deno.lint.Node;
  }
  const above = text.slice(0, statement.range[0]).split("\n").at(-2) ?? "";
  const lineEnd = text.indexOf("\n", node.range[1]);
  return /^\s*(?:\/\/|\*\/|\/\*)/.test(above) || /\/\/ /.test(text.slice(statement.range[0], lineEnd));
}

const plugin: Deno.lint.Plugin = {
  name: "layers",
  rules: {
    "import-direction": {
      create(context) {
        const check = (node: Deno.lint.Node, specifier: string): void => {
          const message = findImportViolation(context.filename, specifier);
          if (message !== undefined) context.report({ node, message });
        };
        return {
          ImportDeclaration: (node) => check(node, node.source.value),
          ExportNamedDeclaration: (node) => node.source && check(node, node.source.value),
          ExportAllDeclaration: (node) => check(node, node.source.value),
        };
      },
    },
    "outbound-door": {
      create(context) {
        const path = parseSourcePath(context.filename)?.parts.join("/") ?? "";
        // The browser client calls the gateway alone.
        if (path === "" || path.startsWith("web/")) return {};
        const report = (node: Deno.lint.Node): void =>
          context.report({ node, message: "calls leave the gateway by platform.outbound alone" });
        return {
          ImportDeclaration(node) {
            const isType = node.importKind === "type";
            if (CONNECTING_MODULE.test(node.source.value) && !isType && !CONNECTING_FILES.has(path)) report(node);
          },
          "CallExpression, NewExpression"(node: Deno.lint.CallExpression | Deno.lint.NewExpression) {
            const called = context.sourceCode.getText(node.callee);
            if (called === "fetch" && FETCHING_FILES.has(path)) return;
            if (
              /^(?:(?:globalThis\.)?(?:fetch|WebSocket|EventSource)|Deno\.(?:connect\w*|createHttpClient))$/.test(
                called,
              )
            ) {
              report(node);
            }
          },
        };
      },
    },
    "no-elapsed-time-assertion": {
      create(context) {
        if (!context.filename.endsWith("_test.ts")) return {};
        const { note, isBounded } = createElapsedTimeTracker();
        const textOf = (node: Deno.lint.Node) => context.sourceCode.getText(node);
        return {
          VariableDeclarator: (node) => note(textOf(node)),
          AssignmentExpression: (node) => note(textOf(node)),
          'CallExpression[callee.object.name="assert"]'(node: Deno.lint.CallExpression) {
            const [condition] = node.arguments;
            if (condition === undefined || !isBounded(textOf(condition))) return;
            context.report({ node, message: "bounds time that passes: wait for what must happen, or count work" });
          },
        };
      },
    },
    "no-silent-catch": {
      create(context) {
        if (!context.filename.includes("/src/")) return {};
        const { text } = context.sourceCode;
        const report = (node: Deno.lint.Node): void => {
          if (hasExplanation(text, node)) return;
          context.report({
            node,
            message: "drops a failure: handle or log it, or say in a comment why nothing is lost",
          });
        };
        return {
          // What waits for nothing fails for its input, which its name says.
          CatchClause(node) {
            const awaits = /\b(?:await|yield)\b/.test(context.sourceCode.getText(node.parent.block));
            if (node.param === null && (awaits || node.body.body.length === 0)) report(node);
          },
          CallExpression(node) {
            const { callee, arguments: [first, second] } = node;
            if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return;
            const handler = { catch: first, then: second }[callee.property.name];
            if (handler?.type !== "ArrowFunctionExpression" || handler.params.length > 0) return;
            // It does nothing, or only gives a value.
            if (/^(?:\{\s*\}|[\w.]+|\[\])$/.test(context.sourceCode.getText(handler.body))) report(handler);
          },
        };
      },
    },
    "plain-language": plainLanguageRule,
    "max-lines": {
      create(context) {
        return {
          "Program:exit"(node) {
            const lines = context.sourceCode.text.split("\n").length;
            if (lines > FILE_MAX_LINES && context.filename.includes("/src/")) {
              context.report({ node, message: `${lines} lines; ${FILE_MAX_LINES} at most, split it by noun` });
            }
            const [comment] = LONG_COMMENT.exec(context.sourceCode.text) ?? [];
            if (comment !== undefined) context.report({ node, message: `break the line of this comment: ${comment}` });
          },
        };
      },
    },
  },
};

export default plugin;
