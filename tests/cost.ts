// What something costs, on machines that differ and are busy with other tests.
import process from "node:process";

const STEPS = 30_000;

/** What this thread has worked so far, in ms, in steps of 10: what others do meanwhile counts for nothing. */
export function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** The time that so many steps of a calendar take here and now, in ms; more than a gateway spends on any one rule. */
export function affordableMs(): Promise<number> {
  return quickest(() => {
    let date = Temporal.ZonedDateTime.from("2026-03-02T09:00[UTC]");
    for (let step = 0; step < STEPS; step++) date = date.add({ days: 1 });
  });
}

/** The best of three, in ms: a rule that is really too slow is so every time. */
export async function quickest(run: () => unknown): Promise<number> {
  let best = Infinity;
  for (let attempt = 0; attempt < 3; attempt++) {
    const startedAt = performance.now();
    await run();
    best = Math.min(best, performance.now() - startedAt);
  }
  return best;
}
