// A PostgreSQL of the test's own, that can be stopped and started again. TEST_POSTGRES_URL says that one may be run here.
import { freePort } from "../free_port.ts";

const FOLDER = "/usr/lib/postgresql";

/** `bin` of the newest version Debian has installed; absent when there is none. */
const bin = newestBin();

/** Whether a server of our own can be run. */
export const hasPostgresServer = bin !== undefined;

export class PostgresServer {
  readonly url: string;
  readonly #folder: string;
  readonly #port: number;

  readonly #settings: readonly string[];

  private constructor(folder: string, port: number, settings: readonly string[]) {
    this.#folder = folder;
    this.#port = port;
    this.#settings = settings;
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  }

  /** `settings` such as `fsync=off`. */
  static async open(settings: readonly string[] = []): Promise<PostgresServer> {
    const folder = await Deno.makeTempDir({ prefix: "gateway-postgres-", dir: "/tmp" });
    if (Deno.uid() === 0) await run("chown", "postgres", folder);
    const server = new PostgresServer(folder, freePort(), settings);
    await asPostgres(
      `${bin}/initdb`,
      "-D",
      `${folder}/data`,
      "-U",
      "postgres",
      "-A",
      "trust",
      "-E",
      "UTF8",
      "--no-sync",
    );
    await server.start();
    return server;
  }

  /** A copy that follows it, and takes over what it commits a moment later. */
  async standby(): Promise<PostgresServer> {
    const folder = await Deno.makeTempDir({ prefix: "gateway-postgres-", dir: "/tmp" });
    if (Deno.uid() === 0) await run("chown", "postgres", folder);
    await asPostgres(`${bin}/pg_basebackup`, "-D", `${folder}/data`, "-d", this.url, "-R", "-c", "fast", "--no-sync");
    const standby = new PostgresServer(folder, freePort(), this.#settings);
    await standby.start();
    return standby;
  }

  /** Makes a standby the server that counts. */
  async promote(): Promise<void> {
    await asPostgres(`${bin}/pg_ctl`, "promote", "-w", "-D", `${this.#folder}/data`);
  }

  async start(): Promise<void> {
    const settings = ["listen_addresses=127.0.0.1", "max_connections=100", ...this.#settings];
    const options = `-p ${this.#port} -k ${this.#folder} ${settings.map((setting) => `-c ${setting}`).join(" ")}`;
    await asPostgres(
      `${bin}/pg_ctl`,
      "start",
      "-w",
      "-D",
      `${this.#folder}/data`,
      "-l",
      `${this.#folder}/log`,
      "-o",
      options,
    );
  }

  /** `fast` ends every session first; `immediate` is a crash, after which the server recovers from its own log. */
  async stop(mode: "fast" | "immediate"): Promise<void> {
    await asPostgres(`${bin}/pg_ctl`, "stop", "-w", "-D", `${this.#folder}/data`, "-m", mode);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("immediate").catch(() => {}); // A failed test may have left it stopped.
    await Deno.remove(this.#folder, { recursive: true });
  }
}

function newestBin(): string | undefined {
  try {
    const versions = [...Deno.readDirSync(FOLDER)].map(({ name }) => Number(name)).sort((a, b) => b - a);
    return versions[0] === undefined ? undefined : `${FOLDER}/${versions[0]}/bin`;
  } catch {
    return undefined;
  }
}

/** PostgreSQL refuses to run as root. */
async function asPostgres(command: string, ...args: string[]): Promise<void> {
  if (Deno.uid() !== 0) return await run(command, ...args);
  await run("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", command, ...args);
}

async function run(command: string, ...args: string[]): Promise<void> {
  // Not piped: a server keeps what it inherits open for as long as it runs.
  const { code } = await new Deno.Command(command, { args, cwd: "/", stdin: "null", stdout: "null", stderr: "null" })
    .output();
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ended with ${code}`);
}
