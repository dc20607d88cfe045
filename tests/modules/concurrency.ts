// Calls that are all under way before the first of them can end.
import type { ApiResponse, Harness } from "../harness.ts";
import { pause } from "../wait.ts";

/** Responses of calls that have all begun before the first of them can end, since rows that they need are locked. */
export async function callConcurrently(
  { app: { store } }: Harness,
  hold: (tx: Parameters<Parameters<typeof store.write>[0]>[0]) => Promise<unknown>,
  ...calls: (() => Promise<ApiResponse>)[]
): Promise<ApiResponse[]> {
  const held = Promise.withResolvers<void>();
  const enough = Promise.withResolvers<void>();
  const holding = store.write(async (tx) => {
    await hold(tx);
    held.resolve();
    await enough.promise;
  });
  await held.promise;
  const answers = calls.map((call) => call());
  await pause(200);
  enough.resolve();
  await holding;
  return await Promise.all(answers);
}

/** Statuses in order of size. */
export function sortedStatuses(answers: readonly ApiResponse[]): number[] {
  return answers.map(({ status }) => status).toSorted();
}
