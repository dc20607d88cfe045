// Modules of npm packages for the editor of rich documents: ProseMirror, and its binding to Yjs. See packages.ts.
type Load = () => Promise<{ default: string }>;

export const RICH_PACKAGES: Readonly<Record<string, Load>> = {
  "@tiptap/y-tiptap": () => import("@tiptap/y-tiptap", { with: { type: "text" } }),
  "orderedmap": () => import("orderedmap", { with: { type: "text" } }),
  "prosemirror-commands": () => import("prosemirror-commands", { with: { type: "text" } }),
  "prosemirror-inputrules": () => import("prosemirror-inputrules", { with: { type: "text" } }),
  "prosemirror-keymap": () => import("prosemirror-keymap", { with: { type: "text" } }),
  "prosemirror-model": () => import("prosemirror-model", { with: { type: "text" } }),
  "prosemirror-schema-list": () => import("prosemirror-schema-list", { with: { type: "text" } }),
  "prosemirror-state": () => import("prosemirror-state", { with: { type: "text" } }),
  "prosemirror-tables": () => import("prosemirror-tables", { with: { type: "text" } }),
  "prosemirror-transform": () => import("prosemirror-transform", { with: { type: "text" } }),
  "prosemirror-view": withSanitizedPaste,
  "lib0/diff": () => import("lib0/diff", { with: { type: "text" } }),
  // Only of this is used of what has many dependencies.
  "lib0/dom": () => Promise.resolve({ default: "export const doc = document;\n" }),
  "lib0/eventloop": () => import("lib0/eventloop", { with: { type: "text" } }),
  // Only used for marks that may be on a text several times, which the schema of the client does not have.
  "lib0/hash/sha256": () =>
    Promise.resolve({ default: 'export const digest = () => {\nthrow new Error("Not used");\n};\n' }),
  "lib0/mutex": () => import("lib0/mutex", { with: { type: "text" } }),
};

const READ_HTML = "elt.innerHTML = maybeWrapTrusted(html);";
const READ_SANITIZED = "const sanitizer = new Sanitizer();\nsanitizer.setDataAttributes(true);\n" +
  "elt.setHTML(html, { sanitizer });";

/** HTML from the clipboard is read by the sanitizer of the browser: the policy of the page allows no trusted types. */
async function withSanitizedPaste(): Promise<{ default: string }> {
  const { default: script } = await import("prosemirror-view", { with: { type: "text" } });
  if (!script.includes(READ_HTML)) throw new Error("prosemirror-view reads HTML in another way");
  return { default: script.replace(READ_HTML, READ_SANITIZED) };
}
