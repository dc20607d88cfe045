// The map in `src/README.md` names what is there: after a rename it is the map that is wrong.
import assert from "node:assert/strict";

const ROOT = new URL("../", import.meta.url);

/** All names in code spans, without arguments and placeholders. */
function namesIn(text: string): string[] {
  const prose = text.replaceAll(/^```[^]*?^```/gm, "");
  const spans = [...prose.matchAll(/`([^`]+)`/g)].flatMap(([, span = ""]) => span.split(" "));
  return [...new Set(spans.map((span) => span.replace(/[(<…].*$/, "").replace(/[,)]$/, "")))].filter((name) =>
    name !== ""
  );
}

async function sourceOf(folder: URL): Promise<string> {
  let source = "";
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) source += await sourceOf(new URL(`${name}/`, folder));
    else if (name.endsWith(".ts")) source += await Deno.readTextFile(new URL(name, folder));
  }
  return source;
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(new URL(path, ROOT)).then(() => true, () => false);
}

Deno.test("everything that src/README.md names is there", async () => {
  const map = await Deno.readTextFile(new URL("src/README.md", ROOT));
  const source = await sourceOf(new URL("src/", ROOT)) + await Deno.readTextFile(new URL("tests/layers.ts", ROOT));
  const commands = Deno.readTextFileSync(new URL("deno.json", ROOT));
  const missing: string[] = [];
  for (const name of namesIn(map)) {
    // A module's files have the same names in every folder.
    const paths = [`src/${name}`, name, `src/modules/room/${name}`];
    const found = (await Promise.all(paths.map(exists))).includes(true);
    if (!found && !source.includes(name) && !commands.includes(name)) missing.push(name);
  }
  assert.deepEqual(missing, []);
  assert.ok(map.split("\n").length <= 200, "a map fits on a few screens");
});
