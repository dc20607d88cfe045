// Merges concurrent calls into shared runs.

/**
 * Runs `work` one run at a time. Each call resolves with a run that begins after the call; calls that wait for the same run
 * share it.
 */
export function coalesce<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<Result> | undefined;
  return function run() {
    if (next !== undefined) return next;
    const result = running.then(() => {
      next = undefined;
      return work();
    });
    next = result;
    // Callers of a run receive its failure; the next run only waits for its end.
    running = result.catch(() => {});
    return result;
  };
}
