// The browser client as it is served: every file, small, cached, under a policy that runs nothing else.
import assert from "node:assert/strict";
import { SCRIPTS, STYLES } from "@/transport/web/sources.ts";
import { packageFile, PACKAGES } from "@/transport/web/packages.ts";
import { staticImportsOf, toBrowserScript } from "@/transport/web/script.ts";
import { parseEmoji } from "@/core/text/emoji_list.ts";
import { ruleInWords } from "@/web/calendar/rule.ts";
import { findEmoji, toned } from "@/web/message/emoji_grid.ts";
import { createSampleGateway } from "./http_sample.ts";

const WEB = new URL("../../src/web/", import.meta.url);
/** Every script, and two files with styles: of all pages, and of views. */
const OWN_COUNT = Object.keys(SCRIPTS).length + 2;
const FIRST_LOAD_MAX_BYTES = 130_000;
const HTML = { token: null, headers: { accept: "text/html" } };

async function filesOf(folder: URL, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) found.push(...await filesOf(new URL(`${name}/`, folder), `${prefix}${name}/`));
    else found.push(prefix + name);
  }
  return found.toSorted();
}

Deno.test("the program contains every file of the client", async () => {
  const files = await filesOf(WEB);
  const own = Object.keys(SCRIPTS).filter((name) => name !== "core/text/emoji_list.ts");
  assert.deepEqual(own.toSorted(), files.filter((name) => name.endsWith(".ts")));
  const styles = files.filter((name) => name.endsWith(".css")).map((name) => name.replace(/^.*\//, ""));
  assert.deepEqual(Object.keys(STYLES).toSorted(), styles.toSorted());
});

Deno.test("/ is the client for browsers, and lists entry points for everybody else", async () => {
  const { call } = createSampleGateway();
  const page = await call("/", { token: null, headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } });
  assert.equal(page.status, 200);
  assert.match(page.headers.get("Content-Type") ?? "", /^text\/html/);
  const policy = page.headers.get("Content-Security-Policy") ?? "";
  for (
    const part of ["default-src 'none'", "script-src 'self'", "trusted-types push-worker", "frame-ancestors 'none'"]
  ) {
    assert.ok(policy.includes(part), part);
  }
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  const html = await page.text();
  assert.doesNotMatch(html, /https?:\/\//, "nothing is loaded from elsewhere");
  assert.doesNotMatch(
    html,
    /<style|style=|<script>|onload=|(?:href|src)="\//,
    "nothing inline, all addresses relative",
  );
  const index = await (await call("/", { token: null })).json();
  assert.equal(index.docs, "docs");
});

Deno.test("the page keeps its policy when a browser has it already", async () => {
  const { call } = createSampleGateway();
  const page = await call("/", HTML);
  await page.body?.cancel();
  const headers = { ...HTML.headers, "if-none-match": page.headers.get("ETag") ?? "" };
  const again = await call("/", { token: null, headers });
  assert.equal(again.status, 304);
  for (const name of ["Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options", "Vary", "ETag"]) {
    assert.equal(again.headers.get(name), page.headers.get(name), name);
  }
});

Deno.test("files of the client are cached permanently, compressed and found by their digest only", async () => {
  const { call } = createSampleGateway();
  const html = await (await call("/", HTML)).text();
  const paths = [...html.matchAll(/(?:href|src)="(app\/[^"]+)"/g)].map(([, path = ""]) => path);
  let bytes = html.length;
  for (const path of new Set(paths)) {
    const response = await call(`/${path}`, { token: null, headers: { "accept-encoding": "gzip" } });
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get("Cache-Control"), "public, max-age=31536000, immutable");
    assert.match(response.headers.get("Content-Type") ?? "", /^text\/(javascript|css)/);
    bytes += (await response.bytes()).length;
  }
  assert.ok(bytes <= FIRST_LOAD_MAX_BYTES, `the first load takes ${bytes} bytes`);
  const [path = ""] = paths;
  const smaller = await call(`/${path}`, { token: null, headers: { "accept-encoding": "br, gzip" } });
  assert.equal(smaller.headers.get("Content-Encoding"), "br");
  await smaller.body?.cancel();
  for (const wrong of [path.replace(/app\/[^/]+/, "app/old"), path.replace(/[^/]+$/, "nope.ts"), "app/x/__proto__"]) {
    assert.equal((await call(`/${wrong}`, { token: null })).status, 404, wrong);
  }
});

Deno.test("every import of the client and of its packages is a file of the client", async () => {
  const { call } = createSampleGateway();
  const html = await (await call("/", HTML)).text();
  const [folder = ""] = /app\/[^/"]+/.exec(html) ?? [];
  const worker = await (await call("/push_worker.js", { token: null })).text();
  const ofWorker = staticImportsOf(worker);
  assert.ok(ofWorker.every((name) => name.startsWith(`./${folder}/`)), `${ofWorker}`);
  const queue = ["main.ts", ...ofWorker.map((name) => name.slice(`./${folder}/`.length))];
  const seen = new Set(queue);
  for (const file of queue) {
    const response = await call(`/${folder}/${file}`, { token: null });
    assert.equal(response.status, 200, file);
    const script = await response.text();
    assert.doesNotMatch(script, /^(?:import|export)\b[^\n]*\bfrom\s*["'](?!\.\/)/m, `${file} imports what is no file`);
    const later = [...script.matchAll(/\bimport\("\.\/([^"]+)"\)/g)].map(([, name = ""]) => `./${name}`);
    for (const name of [...staticImportsOf(script), ...later]) {
      // Libraries mention imports in texts and examples, too.
      if (!name.startsWith("./")) continue;
      if (!seen.has(name.slice(2))) queue.push(name.slice(2));
      seen.add(name.slice(2));
    }
  }
  const unused = [...PACKAGES.keys()].filter((name) => !seen.has(packageFile(name)));
  assert.deepEqual(unused, [], "are in the program for nothing");
});

Deno.test("types and comments are removed from scripts, and names of imports become files", () => {
  const source = [
    "// A comment.",
    'import { type A, b } from "preact";',
    'import c from "./c.ts";',
    'const tick: string = "`";',
    "/** Says what. */",
    "export const text: string = `// stays` as string; // also stays",
    'export const later = () => import("./c.ts");',
  ].join("\n");
  const locate = (name: string) => ({ preact: "preact.js", "./c.ts": "x-c.ts" })[name];
  const script = toBrowserScript(source, { isTypeScript: true, locate });
  assert.doesNotMatch(script, /A comment|Says what|: string|type A| {2}/);
  assert.match(script, /from "\.\/preact\.js"/);
  assert.match(script, /from "\.\/x-c\.ts"/);
  assert.match(script, /import\("\.\/x-c\.ts"\)/);
  assert.match(script, /`\/\/ stays`/);
  assert.deepEqual(staticImportsOf(script), ["./preact.js", "./x-c.ts"]);
});

Deno.test("emoji are found by the names of the server and by everyday words", () => {
  const first = (typed: string) => findEmoji(typed)[0];
  for (
    const [typed, emoji, name] of [
      ["+1", "👍", "+1"],
      ["tada", "🎉", "tada"],
      ["par", "🎉", "party"],
      ["white check", "✅", "white_check_mark"],
      ["White_check_mark", "✅", "white_check_mark"],
      ["check", "✅", "check"],
      ["smile", "😄", "smile"],
      ["kiwi", "🥝", "kiwifruit"],
      ["smi", "😃", "smiley"],
      ["flag-at", "🇦🇹", "flag-at"],
      ["cote d ivoire", "🇨🇮", "flag_cote_d_ivoire"],
    ] as const
  ) assert.deepEqual(first(typed), { emoji, name }, typed);
  assert.equal(first("")?.emoji, "👍");
  assert.deepEqual(["👍", "☝️", "👩‍💻", "🎉", "🇦🇹"].map((one) => toned(one, "🏽")), ["👍🏽", "☝🏽", "👩🏽‍💻", "🎉", "🇦🇹"]);
  assert.deepEqual(findEmoji("nothing has this name"), []);
  // An everyday word hides no name. They are short.
  for (const [emoji, names] of parseEmoji()) {
    for (const name of names) if (name.length < 8) assert.equal(first(name)?.emoji, emoji, name);
  }
});

Deno.test("recurrence rules are shown in words", () => {
  const year = 2199;
  const last = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" })
    .format(new Date(year, 10, 8));
  const [monday, friday] = [1, 5].map((day) =>
    new Intl.DateTimeFormat(undefined, { weekday: "long" }).format(new Date(2024, 0, day))
  );
  const rules = {
    "FREQ=DAILY": "every day",
    "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR": "every working day",
    "FREQ=WEEKLY;INTERVAL=2;COUNT=1": "every two weeks, 1 time",
    [`FREQ=WEEKLY;UNTIL=${year}1108T235959`]: `every week, until ${last}`,
    [`FREQ=WEEKLY;WKST=MO;UNTIL=${year}1108`]: `every week, until ${last}`,
    [`FREQ=YEARLY;UNTIL=${year}1108T120000Z`]: `every year, until ${last}`,
    "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,FR;COUNT=10": `every 3 weeks on ${monday} and ${friday}, 10 times`,
    "FREQ=MONTHLY;BYDAY=1MO,-1FR": `every month on the first ${monday} and the last ${friday}`,
    "FREQ=MONTHLY;BYDAY=-3FR": "every month, by a rule of its own",
    "FREQ=MONTHLY;BYMONTHDAY=15": "every month, by a rule of its own",
  };
  for (const [rule, words] of Object.entries(rules)) assert.equal(ruleInWords(rule), words, rule);
});

Deno.test("the client is part of the program: it is served without network, disk or any other permission", async () => {
  const program = new URL("web_client_program.ts", import.meta.url).pathname;
  const args = ["run", "--quiet", "--no-prompt", "--no-check", "--cached-only", "--lock=tests/deno.lock", program];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd: new URL("../../", import.meta.url).pathname,
    env: { NO_COLOR: "1" },
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  assert.equal(Number(new TextDecoder().decode(stdout)), OWN_COUNT + PACKAGES.size);
});
