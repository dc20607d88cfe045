// A lint rule against words of a private language: each is refused where a standard term exists, which is the remedy.

/** Where words are: in texts that users see, or in comments and titles of tests. */
type TextKind = "text" | "comment";

/** Words that are refused, and what to write instead; some are plain English in a comment. */
const DISCOURAGED_WORDS: readonly (readonly [words: RegExp, remedy: string, allowedIn?: "comment"])[] = [
  [/\b(told|tells?|telling)\b/i, "publish, notify, log or return"],
  [/\b(hears?|heard|hearing)\b/i, "receive or subscribe"],
  [/\bkept\b/i, "stored, retained, cached or unchanged"],
  [/\b(held|takes? hold)\b/i, "locked or stored"],
  [/\blet(s|ting)? (in|go|out)\b/i, "authorize, admit or release"],
  [/\b(comes?|came|coming) (in|out|to be|of it)\b/i, "imported, received or created"],
  [/\b(goes|went|gone)\b/i, "deleted, expired, exported or released"],
  [/\b(anew|once more)\b/i, "again, or the verb: rebuild, reset, regenerate"],
  [/\bwhom\b/i, "caller, client, principal or member", "comment"],
  [/\bwho(m?)ever\b/i, "caller, client, principal or member"],
  [/\b(somebody|someone|nobody|no one)\b/i, "caller, client, principal or member", "comment"],
  [/\bone('s|self)\b/i, "the caller's", "comment"],
  [/\b(sought|unsought)\b/i, "indexed or found"],
  [/\bdoors?\b/i, "endpoint"],
  [/\bmade\b/i, "created", "comment"],
  [/\bsmall pictures?\b/i, "thumbnail"],
  [/\bthings?\b/i, "resource"],
  [/\b(an|the|its|this|each) answer\b|\banswers\b/i, "response, result or RSVP"],
  [/\bpromised\b/i, "enqueued"],
  [/\bpatience\b/i, "timeout"],
  [/\bbeats?\b/i, "heartbeat"],
  [/\bholes?\b/i, "gap"],
  [/\bfor later\b/i, "scheduled"],
  [/\b(given|gave|gives?) up\b/i, "failed permanently, aborted"],
  [/\b(is|are) away\b/i, "unavailable"],
  [/\blooked at\b/i, "checked, revalidated or read"],
  [/\blooked (up|into)\b/i, "checked, revalidated or read", "comment"],
  [/\b(brought|brings?)\b/i, "import, restore or apply"],
  [/\bput back\b/i, "restored"],
  [/\bstands?\b/i, "is"],
  [/\bmend(s|ed|ing)?\b/i, "repair or fix"],
  [/\bfolders?\b/i, "directory", "comment"],
  [/\b(any|no) more\b(?! than)/i, "no longer", "comment"],
  [/^Who\b/, "the noun: members, attendees, senders", "comment"],
  [/(?<!there )\b(is|are) no (?!longer\b)/i, "is not a", "comment"],
  [/\bfor ever\b/i, "permanently", "comment"],
  [/\ba while\b/i, "the time and its unit", "comment"],
  [/\b(there|here|where)(of|in|upon|with|by)\b/i, "of it, in it, with it"],
];

/** What registers a test or a step. */
const TEST_CALL = /^(?:Deno\.test|slowTest|testOn\w+|\w+\.step)$/;

/** The word of the dialect in `text` and what to write instead; `undefined` when there is none. */
function findDiscouragedWord(text: string, kind: TextKind): string | undefined {
  for (const [words, remedy, allowedIn] of DISCOURAGED_WORDS) {
    if (kind === allowedIn) continue;
    const [found] = words.exec(text) ?? [];
    if (found !== undefined) return `"${found}" is dialect; write: ${remedy}`;
  }
  return undefined;
}

/** The rule for texts and comments of the source, and for comments and titles of tests. */
export const plainLanguageRule: Deno.lint.Rule = {
  create(context) {
    const check = (
      node: Deno.lint.Node | Deno.lint.LineComment | Deno.lint.BlockComment,
      text: string,
      kind: TextKind,
    ): void => {
      const message = findDiscouragedWord(text, kind);
      if (message !== undefined) context.report({ range: node.range, message });
    };
    const comments: Deno.lint.LintVisitor = {
      "Program:exit"() {
        for (const comment of context.sourceCode.getAllComments()) {
          check(comment, comment.value.replaceAll(/`[^`]*`/g, ""), "comment");
        }
      },
    };
    if (context.filename.includes("/tests/")) {
      return {
        ...comments,
        CallExpression({ callee, arguments: [title] }) {
          if (title?.type !== "Literal" || typeof title.value !== "string") return;
          if (TEST_CALL.test(context.sourceCode.getText(callee))) check(title, title.value, "comment");
        },
      };
    }
    if (!context.filename.includes("/src/")) return {};
    return {
      ...comments,
      // LogTape has two names for this level; lines and RUST_LOG show this one.
      'CallExpression[callee.property.name="warning"]'(node) {
        context.report({ node, message: "one name a level: log.warn" });
      },
      // Without a space it is a code, a key or a path.
      Literal(node) {
        if (typeof node.value === "string" && node.value.includes(" ")) check(node, node.value, "text");
      },
      TemplateElement(node) {
        const isCode = node.parent.type === "TemplateLiteral" &&
          node.parent.parent.type === "TaggedTemplateExpression";
        if (!isCode && node.cooked.includes(" ")) check(node, node.cooked, "text");
      },
    };
  },
};
