// Modules of npm packages for the editor of live documents: CodeMirror, Yjs and the Hocuspocus provider. See packages.ts.
type Load = () => Promise<{ default: string }>;

/** Modules that their package does not export, or only in a variant for this runtime, as far as they are used. */
const REPLACED: Readonly<Record<string, string>> = {
  "lib0/webcrypto":
    "export const subtle = crypto.subtle;\nexport const getRandomValues = crypto.getRandomValues.bind(crypto);\n",
  "lib0/trait/equality": 'export const EqualityTraitSymbol = Symbol("Equality");\n' +
    "export const equals = (a, b) => a === b || !!a?.[EqualityTraitSymbol]?.(b);\n",
  "lib0/logging": "export const print = (...values) => console.log(...values);\n" +
    ["BOLD", "UNBOLD", "BLUE", "GREY", "GREEN", "RED", "PURPLE", "ORANGE", "UNCOLOR"]
      .map((name) => `export const ${name} = "";\n`).join("") +
    "export const warn = print, printError = print, createModuleLogger = () => print;\n",
};

const EXPORTED: Readonly<Record<string, Load>> = {
  "@codemirror/commands": () => import("@codemirror/commands", { with: { type: "text" } }),
  "@codemirror/language": () => import("@codemirror/language", { with: { type: "text" } }),
  "@codemirror/state": () => import("@codemirror/state", { with: { type: "text" } }),
  "@codemirror/streamparser": () => import("@codemirror/streamparser", { with: { type: "text" } }),
  "@codemirror/view": () => import("@codemirror/view", { with: { type: "text" } }),
  "@hocuspocus/common": () => import("@hocuspocus/common", { with: { type: "text" } }),
  "@hocuspocus/provider": () => import("@hocuspocus/provider", { with: { type: "text" } }),
  "@lezer/common": () => import("@lezer/common", { with: { type: "text" } }),
  "@lezer/highlight": () => import("@lezer/highlight", { with: { type: "text" } }),
  "@lezer/markdown": () => import("@lezer/markdown", { with: { type: "text" } }),
  "@lifeomic/attempt": () => import("@lifeomic/attempt", { with: { type: "text" } }),
  "@marijn/find-cluster-break": () => import("@marijn/find-cluster-break", { with: { type: "text" } }),
  "crelt": () => import("crelt", { with: { type: "text" } }),
  "style-mod": withAdoptedStyles,
  "w3c-keyname": () => import("w3c-keyname", { with: { type: "text" } }),
  "y-protocols/awareness": () => import("y-protocols/awareness", { with: { type: "text" } }),
  "y-protocols/sync": () => import("y-protocols/sync", { with: { type: "text" } }),
  "yjs": () => import("yjs", { with: { type: "text" } }),
  "lib0/array": () => import("lib0/array", { with: { type: "text" } }),
  "lib0/binary": () => import("lib0/binary", { with: { type: "text" } }),
  "lib0/buffer": () => import("lib0/buffer", { with: { type: "text" } }),
  "lib0/conditions": () => import("lib0/conditions", { with: { type: "text" } }),
  "lib0/decoding": () => import("lib0/decoding", { with: { type: "text" } }),
  "lib0/encoding": () => import("lib0/encoding", { with: { type: "text" } }),
  "lib0/environment": () => import("lib0/environment", { with: { type: "text" } }),
  "lib0/error": () => import("lib0/error", { with: { type: "text" } }),
  "lib0/function": () => import("lib0/function", { with: { type: "text" } }),
  "lib0/iterator": () => import("lib0/iterator", { with: { type: "text" } }),
  "lib0/map": () => import("lib0/map", { with: { type: "text" } }),
  "lib0/math": () => import("lib0/math", { with: { type: "text" } }),
  "lib0/metric": () => import("lib0/metric", { with: { type: "text" } }),
  "lib0/number": () => import("lib0/number", { with: { type: "text" } }),
  "lib0/object": () => import("lib0/object", { with: { type: "text" } }),
  "lib0/observable": () => import("lib0/observable", { with: { type: "text" } }),
  "lib0/promise": () => import("lib0/promise", { with: { type: "text" } }),
  "lib0/random": () => import("lib0/random", { with: { type: "text" } }),
  "lib0/set": () => import("lib0/set", { with: { type: "text" } }),
  "lib0/storage": () => import("lib0/storage", { with: { type: "text" } }),
  "lib0/string": () => import("lib0/string", { with: { type: "text" } }),
  "lib0/time": () => import("lib0/time", { with: { type: "text" } }),
};

/** Documents adopt its style sheets as shadow roots do: the policy of the page allows no style elements. */
async function withAdoptedStyles(): Promise<{ default: string }> {
  const { default: script } = await import("style-mod", { with: { type: "text" } });
  return { default: script.replace("!root.head && root.adoptedStyleSheets", "root.adoptedStyleSheets") };
}

export const EDITOR_PACKAGES: Readonly<Record<string, Load>> = {
  ...EXPORTED,
  ...Object.fromEntries(
    Object.entries(REPLACED).map(([name, script]) => [name, () => Promise.resolve({ default: script })]),
  ),
};
