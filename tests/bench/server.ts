// A server under load as a process of its own: started, pinned to a core where there are two, its CPU time read from outside.
import { freePort } from "../free_port.ts";
import { pause } from "../wait.ts";

const CLOCK_TICKS = 100;
const PAGE_KIB = 4;
const LOCK = new URL("../deno.lock", import.meta.url).pathname;

/** The heap that the gateway is started with; peers on Deno get it as well. */
const HEAP_FLAGS = taskArguments("start").filter((argument) => argument.startsWith("--v8-flags"));

/** Runs a script, with the packages of the tests. */
export const DENO_COMMAND = [
  Deno.execPath(),
  "run",
  ...HEAP_FLAGS,
  "--quiet",
  "--no-prompt",
  "--allow-all",
  `--lock=${LOCK}`,
];

/** Asked once: a process that is pinned sees fewer. */
const CORES = navigator.hardwareConcurrency;
/** Where a server runs by default; generators have the next core. */
export const FIRST_CORE = "0";
export const ANY_CORE = `0-${CORES - 1}`;

type Runtime = "deno" | "node";

export class Server {
  readonly url: string;
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** Starts `args` with PORT and SVC_PORT set, and waits until its port takes connections. */
  static async start(
    runtime: Runtime,
    args: string[],
    environment: Record<string, string>,
    cores = FIRST_CORE,
  ): Promise<Server> {
    const port = freePort();
    const program = runtime === "deno" ? DENO_COMMAND : ["node"];
    const [command = "", ...rest] = [...pin(cores), ...program, ...args];
    const child = new Deno.Command(command, {
      args: rest,
      env: { PORT: String(port), SVC_PORT: String(port), SVC_HOST: "127.0.0.1", ...environment },
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    const until = Date.now() + 20_000;
    while (true) {
      try {
        (await Deno.connect({ hostname: "127.0.0.1", port })).close();
        return new Server(child, `http://127.0.0.1:${port}`);
      } catch (error) {
        if (Date.now() > until) throw error;
        await pause(50);
      }
    }
  }

  /** CPU seconds used so far, in user and kernel mode, by all threads. */
  cpuSeconds(): number {
    const stat = Deno.readTextFileSync(`/proc/${this.#child.pid}/stat`);
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS;
  }

  /** Resident memory in KiB. */
  residentKib(): number {
    return Number(Deno.readTextFileSync(`/proc/${this.#child.pid}/statm`).split(" ")[1]) * PAGE_KIB;
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}

/** `taskset` where the machine has it and more than one core. */
export function pin(cores: string | number): string[] {
  return CORES > 1 ? ["taskset", "-c", String(cores)] : [];
}

/** Ties this process to cores, and with it what it starts from now on. */
export async function pinSelf(cores: string): Promise<void> {
  if (CORES === 1) return;
  await new Deno.Command("taskset", { args: ["-acp", cores, String(Deno.pid)], stdout: "null" }).output();
}

function taskArguments(name: string): string[] {
  const settings = JSON.parse(Deno.readTextFileSync(new URL("../../deno.json", import.meta.url)));
  return settings.tasks[name].command.split(" ");
}
