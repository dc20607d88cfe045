// Work in steps, for tests that have no others to serve.
import type { Steps } from "@/core/caller.ts";

/** Runs all steps of work at once. */
export function runSteps<Result>(work: Steps<Result>): Result {
  let step = work.next();
  while (step.done !== true) step = work.next();
  return step.value;
}
