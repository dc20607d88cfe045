// Runs the tests of a tier: `quick` needs no server and little time, `all` is every test. See README.md in this folder.
// To load the app takes longer than most test files run, so files share a few workers of the test runner, each of which loads
// it once. Files that measure the work of their thread share one with each other only, as others may leave work behind.
// A file with "Runs alone" in a comment has a worker of its own, as it measures memory or imports.
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

type TestFile = { path: string; text: string };

const FOLDER = import.meta.dirname ?? "";
/** Tests in these folders start processes, and load little of the app themselves. */
const PROCESS_DIRECTORIES = ["e2e", "fault"];
const RUNS_ALONE = /^\/\/ .*\bRuns alone\b/m;
const MEASURES_WORK = /^\/\/ Measures the work of its thread\b/m;

const [tier = "all", ...args] = Deno.args;
/** So many that the last ones to run keep all cores busy: with servers, some tests take long. */
const WORKERS = (tier === "quick" ? 3 : 5) * navigator.hardwareConcurrency;
const requestedFiles = args.filter(isTest);
const entryDirectory = await Deno.makeTempDir({ prefix: "gateway-tests-" });
try {
  const groups = requestedFiles.length > 0 ? [requestedFiles] : await writeEntries(await findTests(FOLDER));
  // Tests of faults and of real clients often wait, and so do those of PostgreSQL: more run at once than there are cores.
  const jobs = navigator.hardwareConcurrency + (groups.length > 1 ? 0 : 2);
  const codes = await Promise.all(groups.map((entries) => runTests(entries, jobs)));
  Deno.exitCode = codes.find((code) => code !== 0) ?? 0;
} finally {
  await Deno.remove(entryDirectory, { recursive: true });
}

async function runTests(entries: readonly string[], jobs: number): Promise<number> {
  const options = ["--quiet", "--no-check", "--lock=tests/deno.lock", "--allow-all", "--parallel"];
  const sanitizers = ["--sanitize-ops", "--sanitize-resources"];
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["test", ...options, ...sanitizers, ...args.filter((arg) => !isTest(arg)), ...entries],
    env: { TEST_TIER: tier, DENO_JOBS: `${jobs}` },
  }).spawn().status;
  return code;
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
 * What each runner starts, the longest first. Files that need a worker of their own, most of which wait for processes, have a runner
 * beside that of the modules which import about as much text each, and mostly compute. The quick tier, where these files have little
 * to do, has one runner for all.
 */
async function writeEntries(files: readonly TestFile[]): Promise<string[][]> {
  const { process = [], alone = [], measure = [], together = [] } = Object.groupBy(files, kindOf);
  const total = together.reduce((sum, { text }) => sum + text.length, 0);
  let length = 0;
  const shares = Map.groupBy(together, ({ text }) => Math.ceil((length += text.length) / total * WORKERS));
  const entries = await Promise.all([...shares].map(([share, members]) => writeEntry(`share_${share}`, members)));
  if (tier !== "quick") return [pathsOf([...process, ...measure, ...alone]), entries];
  return [[...entries, await writeEntry("measure", measure), await writeEntry("process", process), ...pathsOf(alone)]];
}

function pathsOf(files: readonly TestFile[]): string[] {
  return files.map(({ path }) => path);
}

/** A module that imports files, which share a worker. */
async function writeEntry(name: string, files: readonly TestFile[]): Promise<string> {
  const entry = join(entryDirectory, `${name}.ts`);
  await Deno.writeTextFile(entry, files.map(({ path }) => `import "${pathToFileURL(path)}";\n`).join(""));
  return entry;
}

function kindOf({ path, text }: TestFile): "process" | "alone" | "measure" | "together" {
  if (PROCESS_DIRECTORIES.includes(basename(dirname(path)))) return "process";
  if (RUNS_ALONE.test(text)) return "alone";
  return MEASURES_WORK.test(text) ? "measure" : "together";
}
