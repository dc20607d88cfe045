// One line for each fault: what was done, and the result.
import type { History } from "./history.ts";

/** Prints the counts of a history that has been verified. */
export function printReport(what: string, history: History, counts: Record<string, number>): void {
  const words = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");
  printLine(`${what}: ${words}, ${history.failures} attempts cut off; 0 lost, 0 doubled, 0 out of order`);
}

/** Prints a line beside the test's own result. The runner keeps to itself what a parallel, quiet run prints, so past it. */
export function printLine(text: string): void {
  try {
    Deno.writeTextFileSync("/dev/stderr", `${text}\n`, { append: true });
  } catch {
    // deno-lint-ignore no-console -- the counts are what somebody who doubts the promise wants to see
    console.log(text);
  }
}
