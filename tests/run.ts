// Runs the tests of a tier: `quick` needs no server and little time, `all` is every test. See README.md in this folder.
// To load the app takes longer than most test files run, so files share a few workers of the test runner, each of which loads
// it once. A file with "Runs alone" in a comment has a worker of its own, as it measures its thread, memory or imports.
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

type TestFile = { path: string; text: string };

const FOLDER = import.meta.dirname ?? "";
/** So many that the last ones to run keep all cores busy. */
const WORKERS = 10;
/** One more than there are cores: tests of faults and of real clients often wait. */
const JOBS = navigator.hardwareConcurrency + 1;
/** Tests in these folders start processes, and load little of the app themselves. */
const PROCESS_DIRECTORIES = ["e2e", "fault"];
const RUNS_ALONE = /^\/\/ .*\bRuns alone\b/m;

const [tier = "all", ...args] = Deno.args;
const requestedFiles = args.filter(isTest);
const entryDirectory = await Deno.makeTempDir({ prefix: "gateway-tests-" });
try {
  const entries = requestedFiles.length > 0 ? requestedFiles : await writeEntries(await findTests(FOLDER));
  const options = ["--quiet", "--no-check", "--lock=tests/deno.lock", "--allow-all", "--parallel"];
  const sanitizers = ["--sanitize-ops", "--sanitize-resources"];
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["test", ...options, ...sanitizers, ...args.filter((arg) => !isTest(arg)), ...entries],
    env: { TEST_TIER: tier, DENO_JOBS: `${JOBS}` },
  }).spawn().status;
  Deno.exitCode = code;
} finally {
  await Deno.remove(entryDirectory, { recursive: true });
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

/** What the runner starts: files that run alone, some of which take long, then modules that import about as much text each. */
async function writeEntries(files: readonly TestFile[]): Promise<string[]> {
  const { alone = [], together = [] } = Object.groupBy(files, (file) => runsAlone(file) ? "alone" : "together");
  const total = together.reduce((sum, { text }) => sum + text.length, 0);
  let length = 0;
  const shares = Map.groupBy(together, ({ text }) => Math.ceil((length += text.length) / total * WORKERS));
  const entries = alone.map(({ path }) => path);
  for (const [share, members] of shares) {
    const entry = join(entryDirectory, `share_${share}.ts`);
    await Deno.writeTextFile(entry, members.map(({ path }) => `import "${pathToFileURL(path)}";\n`).join(""));
    entries.push(entry);
  }
  return entries;
}

function runsAlone({ path, text }: TestFile): boolean {
  return PROCESS_DIRECTORIES.includes(basename(dirname(path))) || RUNS_ALONE.test(text);
}
