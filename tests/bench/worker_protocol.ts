// How a generator process is controlled: orders on standard input, responses on standard output, one JSON line each.
import process from "node:process";

/** The orders as they come. */
export async function* readRequests<Order>(): AsyncGenerator<Order> {
  let buffered = "";
  for await (const chunk of process.stdin) {
    buffered += String(chunk);
    const lines = buffered.split("\n");
    buffered = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line);
  }
}

/** Responds to the last order. */
export function writeReport(report: unknown): void {
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
