// The rules of our own that lint has.
import assert from "node:assert/strict";
import plugin, { findImportViolation } from "./layers.ts";

Deno.test("a test that bounds time that passes is reported, one that bounds work or waits is not", () => {
  const reports = (source: string, name = "some_test.ts") =>
    Deno.lint.runPlugin(plugin, name, source).map(({ id }) => id);
  const bounded = [
    "const at = performance.now(); run(); assert.ok(performance.now() - at < 5000);",
    "const at = performance.now(); run(); const ms = performance.now() - at; assert.ok(ms < SOON_MS, `${ms}`);",
    "let longest = 0; longest = Math.max(longest, performance.now() - last); assert.ok(longest <= 80);",
    "const [took, cpu] = [performance.now() - at, 1]; assert.ok(took < MAX_MS);",
    "const gone = Date.now() - closedAt; assert.ok(gone <= 3000);",
  ];
  for (const source of bounded) assert.deepEqual(reports(source), ["layers/no-elapsed-time-assertion"], source);
  const fine = [
    "const at = workedMs(); run(); assert.ok(workedMs() - at < 5000);",
    "const took = stopwatch(); run(); print(took());",
    "const times = []; times.push(performance.now() - at); assert.ok(medianOf(times) < 3 * medianOf(others));",
    "await until(() => isHere); assert.ok(count < 5);",
  ];
  for (const source of fine) assert.deepEqual(reports(source), [], source);
  assert.deepEqual(reports(bounded[0] ?? "", "bench.ts"), []);
});

Deno.test("what works around the runtime imports nothing of ours, and ports import nothing of it", () => {
  const fault = (from: string, to: string) => findImportViolation(`/app/src/${from}`, to);
  assert.equal(fault("runtime/memory.ts", "@/core/log.ts"), "runtime may not import core");
  assert.equal(fault("ports/bus.ts", "@/runtime/memory.ts"), "ports may not import runtime");
  for (const from of ["core/worker.ts", "adapters/kept.ts", "modules/file/serve.ts", "transport/ws/accept.ts"]) {
    assert.equal(fault(from, "@/runtime/memory.ts"), undefined);
    assert.match(fault(from, "@/config/config.ts") ?? "", /may not import root$/);
  }
});

Deno.test("SQL is in stores, migrations, ports and adapters only", () => {
  const fault = (from: string) => findImportViolation(`/app/src/${from}`, "kysely");
  for (
    const from of [
      "modules/room/store.ts",
      "modules/room/access_store.ts",
      "modules/room/migrations.ts",
      "core/migration.ts",
      "ports/list.ts",
    ]
  ) {
    assert.equal(fault(from), undefined, from);
  }
  for (const from of ["modules/room/service.ts", "core/page.ts", "transport/ws/hub.ts"]) {
    assert.match(fault(from) ?? "", /^SQL lives in /, from);
  }
});

Deno.test("a call that bypasses the outbound port is reported", () => {
  const reports = (name: string, source: string) =>
    Deno.lint.runPlugin(plugin, `/app/src/${name}`, source).map(({ id }) => id);
  for (
    const source of [
      'const response = await fetch("https://example.com");',
      "const response = await globalThis.fetch(url);",
      "const socket = new WebSocket(url);",
      "const connection = await Deno.connect({ port });",
      "const connection = await Deno.connectTls({ hostname, port });",
      'import http from "node:http"; export { http };',
      'import { connect } from "node:tls"; export { connect };',
      'import { lookup } from "node:dns/promises"; export { lookup };',
    ]
  ) {
    assert.deepEqual(reports("modules/room/service.ts", source), ["layers/outbound-door"], source);
    assert.deepEqual(reports("web/api.js", source), [], source);
  }
  assert.deepEqual(reports("adapters/outbound/http.ts", 'import https from "node:https"; export { https };'), []);
  for (const source of ["await outbound(url);", "await app.fetch(request);", "this.#fetch(url);"]) {
    assert.deepEqual(reports("modules/room/service.ts", source), [], source);
  }
});

Deno.test("a failure that is dropped without a word is reported, one that is handled or explained is not", () => {
  const reports = (source: string, name = "/app/src/core/some.ts") =>
    Deno.lint.runPlugin(plugin, name, source).map(({ id }) => id);
  const silent = [
    "try { await save(); } catch {}",
    "try { parse(); } catch {}",
    "try { return await read(); } catch { return undefined; }",
    "async function f() { await save().catch(() => {}); }",
    "void save().catch(() => undefined);",
    "save().then(done, () => false);",
  ];
  for (const source of silent) assert.deepEqual(reports(source), ["layers/no-silent-catch"], source);
  const fine = [
    "try { await save(); } catch (cause) { log.warn(String(cause)); }",
    "try { return parse(); } catch { return undefined; }",
    "try { await save(); } catch { return; } // A later one saves as well.",
    "// A later one saves as well.\nvoid save().catch(() => {});",
    "void save().catch(() => this.hasFailed = true);",
    "void save().catch((cause) => log.warn(String(cause)));",
  ];
  for (const source of fine) assert.deepEqual(reports(source), [], source);
  assert.deepEqual(reports(silent[0] ?? "", "/app/tests/some_test.ts"), []);
});

Deno.test("words of a private language are refused in texts, comments and titles of tests, not in queries and code", () => {
  const reports = (source: string, name = "/app/src/some.ts") =>
    Deno.lint.runPlugin(plugin, name, source).map(({ id, message }) => `${id}: ${message}`);
  const refused = 'layers/plain-language: "told" is dialect; write: publish, notify, log or return';
  for (
    const source of [
      'log.warn("a client was told");',
      "throw new Fault(code, `the ${name} was told`);",
      'const text = "some " + "of it was told";',
    ]
  ) assert.deepEqual(reports(source), [refused], source);
  for (
    const source of [
      'const told = "told"; throw new Error(`the ${told} file`);',
      "sql`select told from event`;",
      "// Nobody waits. `told` is a name.\nrun();",
    ]
  ) assert.deepEqual(reports(source), [], source);
  assert.deepEqual(reports("// It was told.\nrun();"), [refused]);
  assert.deepEqual(reports('log.warn("it was told");', "/app/tests/some.ts"), []);
  for (const source of ["// It was told.\nrun();", 'Deno.test("it is told", run);', 't.step("it is told", run);']) {
    assert.deepEqual(reports(source, "/app/tests/some.ts"), [refused], source);
  }
  assert.deepEqual(reports('log.warning("failed");'), ["layers/plain-language: one name a level: log.warn"]);
});

Deno.test("no file of the source imports itself through others, types included", async () => {
  const imports = await readImports(/^(?:import|export|\}) [^"\n]*?from "([^"]+)"/gm);
  assert.ok(imports.size > 100);
  // What imports nothing that is left is in no cycle.
  for (let before = Infinity; imports.size < before;) {
    before = imports.size;
    for (const [file, paths] of imports) if (!paths.some((path) => imports.has(path))) imports.delete(file);
  }
  assert.deepEqual([...imports.keys()], []);
});

Deno.test("nothing is exported that no other file names", async () => {
  const exported = await readMatches(
    /^export (?:async )?(?:abstract )?(?:function\*?|const|class|type|interface) (\w+)/gm,
  );
  const words = [...await readMatches(/\b([A-Za-z_]\w*)/g), ...await readMatches(/\b([A-Za-z_]\w*)/g, TESTS)];
  const files = new Map<string, number>();
  for (const [, found] of words) for (const word of new Set(found)) files.set(word, (files.get(word) ?? 0) + 1);
  const unused = [...exported].flatMap(([file, names]) =>
    names.filter((name) => files.get(name) === 1).map((name) => `${file.slice(SOURCE.href.length)}: ${name}`)
  );
  assert.deepEqual(unused, []);
});

Deno.test("threads that start for one file load neither schemas nor the database", async () => {
  const imports = await readImports(/^(?:import(?! type)|export|\}) [^"\n]*?from "([^"]+)"/gm);
  for (
    const worker of ["transfer/format/json_worker.ts", "calendar/ics/ics_worker.ts", "file/image/thumbnail_worker.ts"]
  ) {
    const loaded = new Set([new URL(`modules/${worker}`, SOURCE).href]);
    for (const file of loaded) for (const path of imports.get(file) ?? []) loaded.add(path);
    assert.ok(loaded.has(new URL("core/worker.ts", SOURCE).href));
    assert.deepEqual(["@zod/zod", "kysely"].filter((name) => loaded.has(name)), [], worker);
  }
});

Deno.test("a module changes no table of another", async () => {
  const moduleOf = (file: string) => /\/modules\/(\w+)/.exec(file)?.[1];
  const created = await readMatches(/(?:create table |createTable\(")(\w+)/g);
  const owners = new Map([...created].flatMap(([file, tables]) => tables.map((table) => [table, moduleOf(file)])));
  assert.equal(owners.get("message"), "message");
  const changed = await readMatches(
    /(?:\.(?:insertInto|updateTable|deleteFrom|insertMany)\(\s*"|insert into |update |delete from )(\w+)/g,
  );
  const found = [...changed].flatMap(([file, tables]) =>
    tables.flatMap((table) => {
      const [from, owner] = [moduleOf(file), owners.get(table)];
      return from === undefined || owner === undefined || owner === from ? [] : [`${from} changes ${table}`];
    })
  );
  // A message moves its room up in lists, and its readers forward; both rows are locked with the room's stream.
  assert.deepEqual([...new Set(found)].sort(), ["message changes member", "message changes room"]);
});

const SOURCE = new URL("../src/", import.meta.url);
const TESTS = new URL("./", import.meta.url);

/** What each file of the source imports by statements of this form: addresses of files, names of packages. */
async function readImports(statement: RegExp): Promise<Map<string, string[]>> {
  const matches = await readMatches(statement);
  return new Map([...matches].map(([file, paths]) => [file, paths.map((path) => addressOf(path, file))]));
}

/** The first group of each match in each file of the source, by the file's address. */
async function readMatches(pattern: RegExp, folder = SOURCE): Promise<Map<string, string[]>> {
  const matches = new Map<string, string[]>();
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const url = new URL(isDirectory ? `${name}/` : name, folder);
    if (isDirectory) { for (const [file, found] of await readMatches(pattern, url)) matches.set(file, found); }
    else if (name.endsWith(".ts")) {
      matches.set(url.href, [...(await Deno.readTextFile(url)).matchAll(pattern)].map(([, group = ""]) => group));
    }
  }
  return matches;
}

function addressOf(path: string, importer: string): string {
  if (path.startsWith("@/")) return new URL(path.slice(2), SOURCE).href;
  return path.startsWith(".") ? new URL(path, importer).href : path;
}
