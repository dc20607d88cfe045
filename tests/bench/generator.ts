// The load generator seen from the outside: a process on the other core that takes orders and reports.
import type { Order as CrowdOrder, Report as CrowdReport } from "./crowd.ts";
import { DENO, pin } from "./server.ts";

const CROWD = "./crowd.ts";

export class Generator<Order = CrowdOrder, Report = CrowdReport> {
  readonly #child: Deno.ChildProcess;
  readonly #orders: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: ReadableStreamDefaultReader<string>;
  #buffered = "";

  constructor(script = CROWD) {
    const path = new URL(script, import.meta.url).pathname;
    const [command = "", ...args] = [...pin(1), ...DENO, path];
    this.#child = new Deno.Command(command, { args, stdin: "piped", stdout: "piped", stderr: "inherit" }).spawn();
    this.#orders = this.#child.stdin.getWriter();
    this.#lines = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  async order(order: Order): Promise<Report> {
    await this.#orders.write(new TextEncoder().encode(`${JSON.stringify(order)}\n`));
    while (!this.#buffered.includes("\n")) {
      const { value, done } = await this.#lines.read();
      if (done) throw new Error("the load generator ended");
      this.#buffered += value;
    }
    const end = this.#buffered.indexOf("\n");
    const line = this.#buffered.slice(0, end);
    this.#buffered = this.#buffered.slice(end + 1);
    return JSON.parse(line);
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}
