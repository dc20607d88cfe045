// The entry point: environment → app → serve → signals → dispose. The only file that acts when it is imported.
import { createApp } from "@/app.ts";
import { type Config, ConfigError, processEnviron, readConfig } from "@/config.ts";
import { thisMachine } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { logOf, startLogging, stopLogging } from "@/core/log.ts";
import { mintToken } from "@/token.ts";

/** Requests that run get this long to end, and the whole stop that long. */
const REQUESTS_MS = 20_000;
const DRAIN_MS = 30_000;
/** The server's own shutdown would overtake the close frames that were written just before it. */
const LAST_WORDS_MS = 50;
/** One Ctrl-C comes twice where `deno task` hands on what the terminal has sent to both. */
const ECHO_MS = 300;
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
const STORE_WAIT_MS = 30_000;
const USAGE = "usage: gateway [serve] | token --sub <id> … | health | backup <new file> | restore [<file>]";

const log = logOf("main");

async function main([command = "serve", ...args]: readonly string[]): Promise<number> {
  try {
    switch (command) {
      case "serve":
        return await serve(readConfig(processEnviron()));
      case "token":
        print(await mintToken(readConfig(processEnviron()), args));
        return 0;
      case "health":
        return await health(readConfig(processEnviron()));
      case "backup":
        return await backup(readConfig(processEnviron()), args);
      case "restore":
        return await restored(readConfig(processEnviron()), args);
      default:
        complain(USAGE);
        return 2;
    }
  } catch (error) {
    complain(
      error instanceof ConfigError || command !== "serve" ? messageOf(error) : `Start failed: ${messageOf(error)}`,
    );
    return 1;
  }
}

async function serve(config: Config): Promise<number> {
  const { settings } = config;
  await startLogging(settings.RUST_LOG);
  for (const warning of config.warnings) log.warn(warning);
  const app = await whenStoreAnswers(() => createApp(config, { machine: thisMachine }));
  const ended = Promise.withResolvers<void>();
  let askedAt: number | undefined;

  async function stop(signal: keyof typeof EXIT_CODES): Promise<void> {
    if (askedAt !== undefined) {
      if (performance.now() - askedAt < ECHO_MS) return;
      // Whoever asks twice does not want to wait, whatever it is that hangs; what was acknowledged is on disk already.
      log.warn("ended at once, as it was asked to stop a second time", { signal });
      Deno.exit(EXIT_CODES[signal]);
    }
    askedAt = performance.now();
    log.info("stopping", { signal });
    // A client that never lets go must not keep the process.
    const deadline = setTimeout(() => Deno.exit(1), DRAIN_MS);
    const enough = Promise.withResolvers<void>();
    const patience = setTimeout(enough.resolve, REQUESTS_MS);
    await app.drain();
    await new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS));
    await Promise.race([server.shutdown(), enough.promise]);
    clearTimeout(patience);
    await app[Symbol.asyncDispose]();
    clearTimeout(deadline);
    ended.resolve();
  }

  const server = listen({
    hostname: settings.SVC_HOST,
    port: settings.SVC_PORT,
    reusePort: settings.SVC_REUSE_PORT,
    onListen: ({ hostname, port }) =>
      log.info("listening", { url: `http://${hostname}:${port}`, env: settings.SVC_ENV }),
    onError: (error) => {
      log.error("unexpected", { cause: messageOf(error) });
      return new Response("Internal error", { status: 500 });
    },
  }, (request, info) => app.fetch(request, info.remoteAddr.hostname));
  globalThis.addEventListener("unhandledrejection", outliveLongText);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => void stop(signal));
  }
  await ended.promise;
  log.info("stopped");
  await stopLogging();
  return 0;
}

/** A message of a socket that is longer than any text can be rejects inside the runtime, which would end the process. */
function outliveLongText(event: PromiseRejectionEvent): void {
  const { reason } = event;
  if (!(reason instanceof TypeError) || !reason.message.includes("buffer exceeds maximum length")) return;
  event.preventDefault();
  log.warn("a socket's message was too long for the runtime", { cause: reason.message });
}

function listen(
  options: Deno.ServeTcpOptions,
  handler: Deno.ServeHandler<Deno.NetAddr>,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve(options, handler);
  } catch (cause) {
    throw new Error("SVC_HOST and SVC_PORT name no address to listen on", { cause });
  }
}

/** A database that starts beside us may take a while; one that is wrong is told at once. */
async function whenStoreAnswers<Result>(open: () => Promise<Result>): Promise<Result> {
  const until = performance.now() + STORE_WAIT_MS;
  while (true) {
    try {
      return await open();
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "unavailable" || performance.now() > until) throw error;
      log.warn("the database of SVC_DATABASE_URL cannot be used yet", { cause: messageOf(error) });
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

/** For container checks: 0 when the gateway on this machine is up. */
async function health({ settings }: Config): Promise<number> {
  const { SVC_HOST: host, SVC_PORT: port } = settings;
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host;
  const response = await fetch(`http://${name}:${port}/health`, { signal: AbortSignal.timeout(2000) });
  print(await response.text());
  return response.ok ? 0 : 1;
}

/** Copies the database while a gateway may be running. */
async function backup({ settings }: Config, [file]: readonly string[]): Promise<number> {
  if (file === undefined) throw new Error("Name the file to write: deno task backup copy.db");
  const { backUp } = await import("@/adapters/backup.ts");
  await backUp(settings.SVC_DATABASE_URL, file);
  print(`${file} holds the database; files and the secret in ${settings.SVC_DATA_DIR} are not in it`);
  return 0;
}

/** Takes a backup's database into use, or declares that one was. */
async function restored({ settings }: Config, [file]: readonly string[]): Promise<number> {
  const { restore } = await import("@/adapters/backup.ts");
  const old = await restore(settings.SVC_DATABASE_URL, file, thisMachine.clock);
  print(`Restored${old === undefined ? "" : `; the database that was there is now ${old}`}. Clients will read anew`);
  return 0;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

function print(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
}

function complain(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

if (import.meta.main) Deno.exit(await main(Deno.args));
