// Runs the tests of a tier: `quick` needs no server and little time, `all` is every test. See README.md in this folder.
// To load the app takes longer than most test files run, so files share a few workers of the test runner, each of which loads
// it once. Files that measure the work of their thread share one with each other only, as others may leave work behind; so do
// those that start processes, which mostly wait.
// A file with "Runs alone" in a comment has a worker of its own, as it measures memory or imports.
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

type TestFile = { path: string; text: string };

const FOLDER = import.meta.dirname ?? "";
const ROOT = dirname(FOLDER);
const RUNS_ALONE = /^\/\/ .*\bRuns alone\b/m;
const MEASURES_WORK = /^\/\/ Measures the work of its thread\b/m;

const [tier = "all", ...args] = Deno.args;
/** So many that the last ones to run keep all cores busy: with servers, some tests take long. */
const WORKERS = (tier === "quick" ? 3 : 7) * navigator.hardwareConcurrency;
const requestedFiles = args.filter(isTest);
const entryDirectory = await Deno.makeTempDir({ prefix: "gateway-tests-" });
try {
  const isWhole = requestedFiles.length === 0;
  const gateway = isWhole && tier !== "quick" ? await bundleGateway() : undefined;
  const groups = isWhole ? await writeEntries(await findTests(FOLDER)) : [requestedFiles];
  // Tests of faults and of real clients often wait, and so do those of PostgreSQL: more run at once than there are cores.
  const jobs = navigator.hardwareConcurrency + (groups.length > 1 ? 0 : 2);
  const environment = { DENO_JOBS: `${jobs}`, ...(gateway === undefined ? {} : { TEST_GATEWAY: gateway }) };
  const codes = await Promise.all(groups.map((entries) => runTests(entries, environment)));
  Deno.exitCode = codes.find((code) => code !== 0) ?? 0;
} finally {
  await Deno.remove(entryDirectory, { recursive: true });
}

async function runTests(entries: readonly string[], environment: Record<string, string>): Promise<number> {
  const options = ["--quiet", "--no-check", "--lock=tests/deno.lock", "--allow-all", "--parallel"];
  const sanitizers = ["--sanitize-ops", "--sanitize-resources"];
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["test", ...options, ...sanitizers, ...args.filter((arg) => !isTest(arg)), ...entries],
    env: { TEST_TIER: tier, ...environment },
  }).spawn().status;
  return code;
}

/**
 * Bundles the gateway, for the processes of it that a whole run starts: each then takes half the CPU time to start. Returns the entry
 * point; `undefined` if it cannot be bundled, then they start from the sources.
 */
async function bundleGateway(): Promise<string | undefined> {
  const folder = join(entryDirectory, "gateway");
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--code-splitting", "--outdir", folder, join(ROOT, "src/main.ts")],
  }).spawn().status;
  if (!success) return undefined;
  // A bundle looks for the modules of its workers beside itself.
  for (const [, worker = ""] of (await Deno.readTextFile(join(ROOT, "deno.json"))).matchAll(/--include (\S+)/g)) {
    const source = pathToFileURL(join(ROOT, worker));
    await Deno.writeTextFile(join(folder, basename(worker)), `import "${source}";\n`);
  }
  return join(folder, "main.js");
}

function isTest(name: string): boolean {
  return name.endsWith("_test.ts");
}

/** In the order of their names. The quick tier has no faults: processes that are killed and start again take long. */
async function findTests(folder: string): Promise<TestFile[]> {
  const files: TestFile[] = [];
  const found = await Array.fromAsync(Deno.readDir(folder));
  for (const { name, isDirectory } of found.sort((a, b) => a.name < b.name ? -1 : 1)) {
    const path = join(folder, name);
    if (isTest(name)) files.push({ path, text: await Deno.readTextFile(path) });
    else if (isDirectory && !(tier === "quick" && name === "fault")) files.push(...await findTests(path));
  }
  return files;
}

/**
 * What each runner starts, the longest first. Files that start processes, most of which wait for them, have a runner beside that of
 * the modules which mostly compute. The quick tier, where these files have little to do, has one runner for all.
 */
async function writeEntries(files: readonly TestFile[]): Promise<string[][]> {
  const { alone = [], measure = [], e2e = [], fault = [], share = [] } = Object.groupBy(files, kindOf);
  const shares = await writeShares("share", share, WORKERS);
  const isQuick = tier === "quick";
  const others = [
    ...await writeShares("e2e", e2e, isQuick ? 1 : 4),
    ...await writeShares("fault", fault, 3),
    ...await writeShares("measure", measure, isQuick ? 1 : 3),
    ...alone.map(({ path }) => path),
  ];
  return isQuick ? [[...shares, ...others]] : [others, shares];
}

/** Modules that import about as much text each, and whose files share a worker. */
async function writeShares(name: string, files: readonly TestFile[], count: number): Promise<string[]> {
  const total = files.reduce((sum, { text }) => sum + text.length, 0);
  let length = 0;
  const shares = Map.groupBy(files, ({ text }) => Math.ceil((length += text.length) / total * count));
  return await Promise.all([...shares].map(async ([share, members]) => {
    const entry = join(entryDirectory, `${name}_${share}.ts`);
    await Deno.writeTextFile(entry, members.map(({ path }) => `import "${pathToFileURL(path)}";\n`).join(""));
    return entry;
  }));
}

function kindOf({ path, text }: TestFile): "e2e" | "fault" | "alone" | "measure" | "share" {
  const folder = basename(dirname(path));
  if (folder === "e2e" || folder === "fault") return folder;
  if (RUNS_ALONE.test(text)) return "alone";
  return MEASURES_WORK.test(text) ? "measure" : "share";
}
