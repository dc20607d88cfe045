// How a generator process is told what to do: orders on standard input, answers on standard output, one JSON line each.

/** The orders as they come. */
export async function* orders<Order>(): AsyncGenerator<Order> {
  let buffered = "";
  for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    buffered += chunk;
    const lines = buffered.split("\n");
    buffered = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line);
  }
}

/** Answers the order that came last. */
export function answer(report: unknown): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(report)}\n`));
}
