// The load generator seen from the outside: a process on the other core that takes orders and reports.
import type { LoadReport as CrowdReport, LoadRequest as CrowdOrder } from "./load_clients.ts";
import { DENO_COMMAND, pin } from "./server.ts";

const LOAD_CLIENTS = "./load_clients.ts";

export class LoadGenerator<Order = CrowdOrder, Report = CrowdReport> {
  readonly #child: Deno.ChildProcess;
  readonly #requests: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: ReadableStreamDefaultReader<string>;
  #buffered = "";

  /** `isBackground`: takes only the time that the other generators leave. */
  constructor(script = LOAD_CLIENTS, { isBackground = false } = {}) {
    const path = new URL(script, import.meta.url).pathname;
    const [command = "", ...args] = [...isBackground ? ["nice", "-n", "19"] : [], ...pin(1), ...DENO_COMMAND, path];
    this.#child = new Deno.Command(command, { args, stdin: "piped", stdout: "piped", stderr: "inherit" }).spawn();
    this.#requests = this.#child.stdin.getWriter();
    this.#lines = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  async request(order: Order): Promise<Report> {
    await this.#requests.write(new TextEncoder().encode(`${JSON.stringify(order)}\n`));
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
