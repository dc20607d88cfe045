// What something costs, on machines that differ and are busy with other tests: work of this thread, never time that passes.
import assert from "node:assert/strict";
import process from "node:process";
import { nextTick } from "@/core/time/clock.ts";

/** In which Linux counts the work of a process. */
const TICKS_PER_SECOND = 100;
/** Far above the work of any step of a test, unless it is superlinear. */
export const CPU_LIMIT_MS = 10_000;
const REFERENCE_STEPS = 60_000;
/** So much work is measured exactly, in steps of 10 ms. */
const SAMPLE_MIN_MS = 100;

/** What this thread has worked so far, in ms, in steps of 10: what others do meanwhile counts for nothing. */
export function cpuTimeMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Of the thread that reads it, as Linux counts it: nanoseconds of work, and of waiting for a processor. */
const SCHEDULING_PATH = "/proc/thread-self/schedstat";

/**
 * Until it is disposed of, no time passes by `performance.now` while this thread waits for a processor: what a busy machine does for
 * others is not charged to callers of a gateway. Time passes as ever where the system does not count that.
 */
export function leaveOutWaitsForProcessor(): Disposable {
  const { now } = performance;
  const buffer = new Uint8Array(64);
  const file = openIfExists(SCHEDULING_PATH);
  const readWaitedMs = (): number => {
    file?.seekSync(0, Deno.SeekMode.Start);
    const [, waited = "0"] = new TextDecoder().decode(buffer.subarray(0, file?.readSync(buffer) ?? 0)).split(" ");
    return Number(waited) / 1e6;
  };
  const waitedBefore = readWaitedMs();
  let [last, readAt, waitedMs] = [0, -Infinity, 0];
  performance.now = () => {
    const time = now.call(performance);
    // To read it takes longer than much of what is measured.
    if (time - readAt >= 1) [readAt, waitedMs] = [time, readWaitedMs() - waitedBefore];
    return last = Math.max(last, time - waitedMs);
  };
  return {
    [Symbol.dispose]() {
      performance.now = now;
      file?.close();
    },
  };
}

function openIfExists(path: string): Deno.FsFile | undefined {
  try {
    return Deno.openSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The result of work that must not take this thread long, whatever its input is. */
export async function withinCpuLimit<Result>(work: Promise<Result>): Promise<Result> {
  const startedAt = cpuTimeMs();
  const result = await work;
  const ms = cpuTimeMs() - startedAt;
  assert.ok(ms < CPU_LIMIT_MS, `took ${ms} ms`);
  return result;
}

/** What a process has worked so far, all its threads together. */
export function cpuSeconds(pid: number): number {
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** The work of so many steps of a calendar here and now, in ms; more than a gateway spends on any one rule. */
export function measureReferenceMs(): Promise<number> {
  return measureCpuMs(() => {
    let date = Temporal.ZonedDateTime.from("2026-03-02T09:00[UTC]");
    for (let step = 0; step < REFERENCE_STEPS; step++) date = date.add({ days: 1 });
  });
}

/** The work of one run, in ms: of as many as an exact measurement takes, up to `runsMax`. `readMs` reads the work so far. */
export async function measureCpuMs(run: () => unknown, runsMax = 1000, readMs = cpuTimeMs): Promise<number> {
  const startedAt = readMs();
  let [runs, ms] = [0, 0];
  while (runs < runsMax && ms < SAMPLE_MIN_MS) {
    await run();
    runs++;
    ms = readMs() - startedAt;
  }
  return ms / runs;
}

/** The work of the cheapest of so many runs, in ms: the others may have had garbage to collect, or colder caches. */
export async function measureMinCpuMs(run: () => unknown, runs: number): Promise<number> {
  let least = Infinity;
  for (let done = 0; done < runs; done++) least = Math.min(least, await measureCpuMs(run, 1));
  return least;
}

/** The most that work may stall its thread, as a share of all of it. */
const STALL_MAX = 0.4;

/** Asserts that others get their turn while `work` is done. It is done again if it stalled: garbage may have been collected. */
export async function assertYields(work: () => Promise<unknown>): Promise<void> {
  const shares: number[] = [];
  while (shares.length < 3) {
    shares.push(await measureLongestStall(work));
    if (Math.min(...shares) < STALL_MAX) return;
  }
  assert.fail(`stalled for ${shares} of its work`);
}

/** The most work without a turn for anything else while `work` was done, as a share of all of it. */
async function measureLongestStall(work: () => Promise<unknown>): Promise<number> {
  const startedAt = cpuTimeMs();
  let [last, longest, isOver] = [startedAt, 0, false];
  const watching = (async () => {
    while (!isOver) {
      await nextTick();
      longest = Math.max(longest, cpuTimeMs() - last);
      last = cpuTimeMs();
    }
  })();
  await work();
  isOver = true;
  await watching;
  return longest / Math.max(SAMPLE_MIN_MS, cpuTimeMs() - startedAt);
}

/** The time from now on, for reports: as text, since no test bounds it. */
export function startStopwatch(): () => string {
  const startedAt = performance.now();
  return () => `${Math.round(performance.now() - startedAt)} ms`;
}
