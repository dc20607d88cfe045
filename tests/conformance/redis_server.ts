// A real Redis for tests: the one at TEST_REDIS_URL, or one of our own that can be stopped, frozen and started again.
import { Redis } from "ioredis";
import { freePort } from "../free_port.ts";
import { hasRedisServer, redisUrl } from "../tier.ts";
import { until } from "../wait.ts";

/** A server of the test's own, on a free port, that keeps nothing on disk. */
export class RedisServer {
  readonly #port = freePort();
  #process: Deno.ChildProcess | undefined;

  get url(): string {
    return `redis://127.0.0.1:${this.#port}/0`;
  }

  async start(): Promise<void> {
    const args = ["--port", String(this.#port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    // A replica takes its copy without a file.
    args.push("--repl-diskless-load", "swapdb", "--repl-diskless-sync-delay", "0");
    this.#process = new Deno.Command("redis-server", { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
    await until(() => isListening(this.#port));
  }

  async stop(): Promise<void> {
    this.#process?.kill("SIGKILL");
    await this.#process?.status;
    this.#process = undefined;
  }

  /** Makes it a replica; the connections that it has stay open. */
  async demote(master: RedisServer): Promise<void> {
    await sendRedisCommand(this.url, "REPLICAOF", "127.0.0.1", String(master.#port));
  }

  async promote(): Promise<void> {
    await sendRedisCommand(this.url, "REPLICAOF", "NO", "ONE");
  }

  freeze(): void {
    this.#process?.kill("SIGSTOP");
  }

  unfreeze(): void {
    this.#process?.kill("SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

export { hasRedisServer };

/** Whether any Redis can be had: tests that need one are skipped otherwise. */
export const hasRedis = hasRedisServer || redisUrl !== undefined;

/** A server of our own, started. */
export async function startRedis(): Promise<RedisServer> {
  const server = new RedisServer();
  await server.start();
  return server;
}

/** Runs `body` with the URL of a Redis and a prefix nobody else uses there. */
export async function withRedis(body: (url: string, prefix: string) => Promise<void>): Promise<void> {
  const prefix = `test:${crypto.randomUUID()}:`;
  if (redisUrl !== undefined) return await body(redisUrl, prefix);
  await using server = await startRedis();
  await body(server.url, prefix);
}

/** Sends one command on a connection of its own. */
export async function sendRedisCommand(url: string, name: string, ...args: string[]): Promise<unknown> {
  const client = new Redis(url);
  const ended = new Promise((resolve) => client.once("end", resolve));
  try {
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
    await ended;
  }
}

async function isListening(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}
