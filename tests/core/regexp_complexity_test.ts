// Every regular expression of the program takes time that grows with its text and no faster, whatever the text.
// Runs alone: it sees only expressions of modules that nothing has loaded yet.
import assert from "node:assert/strict";
import { analyse } from "npm:scslre@0.3.0";

const SRC = new URL("../../src/", import.meta.url);
/** These act when they are imported; the client needs a browser. */
const NOT_IMPORTED = /\/worker\.ts$|_worker\.ts$|\/src\/web\//;

type Expression = { location: string; source: string; flags: string };
type CallSite = { location: string };

async function* sourceFiles(folder: URL): AsyncGenerator<URL> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) yield* sourceFiles(new URL(`${name}/`, folder));
    else if (name.endsWith(".ts")) yield new URL(name, folder);
  }
}

/** What a file writes as `/…/`, and the lines where it makes expressions of texts. */
function expressionsIn(path: string, text: string): { literals: Expression[]; made: CallSite[] } {
  const literals: Expression[] = [];
  const made: CallSite[] = [];
  const placeOf = (node: Deno.lint.Node): string => `${path}:${text.slice(0, node.range[0]).split("\n").length}`;
  const isMade = (callee: Deno.lint.Node): boolean => callee.type === "Identifier" && callee.name === "RegExp";
  Deno.lint.runPlugin(
    {
      name: "expressions",
      rules: {
        all: {
          create: () => ({
            Literal(node) {
              if (!("regex" in node) || node.regex === undefined) return;
              literals.push({ location: placeOf(node), source: node.regex.pattern, flags: node.regex.flags });
            },
            NewExpression: (node) => void (isMade(node.callee) && made.push({ location: placeOf(node) })),
            CallExpression: (node) => void (isMade(node.callee) && made.push({ location: placeOf(node) })),
          }),
        },
      },
    },
    path,
    text,
  );
  return { literals, made };
}

/** Every expression that our files make of texts while `work` runs, with the line that makes it. */
async function recordExpressions(work: () => Promise<void>): Promise<Expression[]> {
  const made: Expression[] = [];
  const original = globalThis.RegExp;
  const frame = /\/src\/([^():]+:\d+):\d+/;
  const record = (expression: RegExp): RegExp => {
    // The first two lines are the error's and this recorder's; the next is what created the expression.
    const location = frame.exec(new Error().stack?.split("\n").slice(3, 4).join("") ?? "")?.[1];
    if (location !== undefined) made.push({ location, source: expression.source, flags: expression.flags });
    return expression;
  };
  globalThis.RegExp = new Proxy(original, {
    construct: (target, values, newTarget) => record(Reflect.construct(target, values, newTarget)),
    apply: (target, self, values) => record(Reflect.apply(target, self, values)),
  });
  try {
    await work();
  } finally {
    globalThis.RegExp = original;
  }
  return made;
}

/** Expressions that are made of what somebody asks: questions of every form. */
async function runQueries(): Promise<void> {
  const { Matcher } = await import("@/modules/search/matcher.ts");
  for (const question of ["a", "plain words", "東京 tower", "🇩🇪🇫🇷 flags", "👩‍💻 x 👍", '"a quoted text" -not']) {
    new Matcher(question);
  }
  const { AnyWordMatcher } = await import("@/modules/search/any_word_matcher.ts");
  for (const question of ["the release walking", "a b", "東京都庁 tower"]) AnyWordMatcher.of(question);
}

function findNonLinear({ location, source, flags }: Expression): string[] {
  return analyse({ source, flags }, { maxReports: 1 }).reports
    .map(({ type, exponential }) =>
      `${location} /${source}/${flags}: ${exponential ? "exponential" : "quadratic"} (${type})`
    );
}

Deno.test("the analysis finds expressions that are not linear", () => {
  const bad: [string, string][] = [["\\s+$", ""], ["^(a+)+$", ""], ["^a*a*$", "v"], ["^\\s*(.*?)\\s*$", "u"]];
  for (const [source, flags] of bad) assert.equal(findNonLinear({ location: "here", source, flags }).length, 1, source);
});

Deno.test("all regular expressions of the program are linear", async () => {
  const expressions: Expression[] = [];
  const sites = new Set<string>();
  const files: URL[] = [];
  for await (const file of sourceFiles(SRC)) {
    files.push(file);
    const path = file.pathname.slice(SRC.pathname.length);
    const { literals, made } = expressionsIn(path, await Deno.readTextFile(file));
    expressions.push(...literals);
    for (const { location } of made) sites.add(location);
  }
  const made = await recordExpressions(async () => {
    for (const file of files) if (!NOT_IMPORTED.test(file.pathname)) await import(file.href);
    await runQueries();
  });
  assert.ok(expressions.length > 100 && made.length > 10, `found ${expressions.length} literals, ${made.length} made`);
  const unseen = [...sites].filter((site) => !made.some(({ location }) => location === site));
  assert.deepEqual(unseen, [], "these make expressions that this test has not seen: make them when the file is loaded");
  assert.deepEqual([...expressions, ...made].flatMap(findNonLinear), []);
});
