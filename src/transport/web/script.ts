// Scripts for the browser: types and comments are removed, and imports name files of the same folder.
import * as nodeModule from "node:module";

// Deno has this function of Node.js, its types do not.
const { stripTypeScriptTypes } = nodeModule as unknown as { stripTypeScriptTypes(source: string): string };

const STRING = /"(?:[^"\\]|\\.)*"/g;
const IMPORT = /\b(from|import)([\s(]*)(["'])([^"'\s]{1,100})\3/g;

/** The browser's form of a module; `locate` returns the file of an imported name, or nothing if it is not ours. */
export function toBrowserScript(
  source: string,
  { isTypeScript, locate }: { isTypeScript: boolean; locate: (specifier: string) => string | undefined },
): string {
  const script = withoutComments(isTypeScript ? stripTypeScriptTypes(source) : source, isTypeScript);
  return script.replaceAll(IMPORT, (all, word: string, gap: string, quote: string, specifier: string) => {
    const file = locate(specifier);
    return file === undefined ? all : `${word}${gap}${quote}./${file}${quote}`;
  });
}

/** Names that a script imports when it is loaded, without those that it may load later. */
export function staticImportsOf(script: string): string[] {
  return [...script.matchAll(IMPORT)].filter(([, , gap = ""]) => !gap.includes("(")).map(([, , , , name = ""]) => name);
}

/** A style sheet without indentation, and comments that fill lines of their own. */
export function toBrowserStyle(source: string): string {
  return source.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("/*")).join(
    "\n",
  );
}

/**
 * Removes indentation, and comments that fill lines of their own; together they are half of what libraries contain. Own
 * templates are markup, which needs no indentation, and own scripts have spaces where types were; templates and strings of
 * libraries may be text.
 */
function withoutComments(script: string, isOwn: boolean): string {
  const lines: string[] = [];
  let isComment = false;
  // A template literal is left as it is. Nested ones may be mistaken for code, where whitespace matters as little.
  let isTemplate = false;
  for (const line of script.split("\n")) {
    const text = isOwn ? line.trim().replaceAll(/ {2,}/g, " ") : line.trim();
    if (isComment) isComment = !text.endsWith("*/");
    else if (!isTemplate && text.startsWith("/*") && (!text.includes("*/") || text.endsWith("*/"))) {
      isComment = !text.includes("*/");
    } else if (isTemplate || text !== "" && !text.startsWith("//")) {
      lines.push(isTemplate && !isOwn ? line : text);
      const ticks = text.replaceAll(STRING, "").split("`").length - 1;
      if (ticks % 2 === 1) isTemplate = !isTemplate;
    }
  }
  return lines.join("\n");
}
