// The entry point: environment → app → serve → signals → dispose. The only file that acts when it is imported.
import type { App } from "@/app.ts";
import { type Config, ConfigError, processEnvironment, readConfig } from "@/config/config.ts";
import { delay, systemTime } from "@/core/time/clock.ts";
import { isFault } from "@/core/fault.ts";
import { logBrokenResponse, logOf, startLogging, stopLogging } from "@/core/log.ts";
import { ensureDirectories, permissionHintFor } from "@/permissions.ts";
import { noticingRequests } from "@/runtime/input_tick.ts";
import { ignoreOversizedMessage } from "@/runtime/oversized_message.ts";
import { withoutPipelines } from "@/runtime/sent_ahead.ts";
import { serveLasting } from "@/runtime/serve.ts";
import { hasTelemetry } from "@/runtime/spans.ts";
import { mintToken, TOKEN_USAGE, UsageError } from "@/token.ts";
import { nearestName } from "@/core/input/suggestion.ts";
import manifest from "../deno.json" with { type: "json" };

/** Timeouts for running requests, and for the whole stop. */
const REQUEST_DRAIN_MS = 20_000;
const STOP_TIMEOUT_MS = 30_000;
/** One Ctrl-C arrives twice where `deno task` forwards a signal that the terminal has sent to both processes. */
const SIGNAL_DEBOUNCE_MS = 300;
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
const STORE_WAIT_MS = 30_000;
const USAGE =
  "usage: gateway [serve] | token --sub <id> … | health | backup <file> | restore [<file>] | dashboard | version | help\n" +
  "Settings are environment variables or lines of the file .env; .env.example lists them";
const HELP_OPTIONS: readonly string[] = ["--help", "-h"];
const VERSION_OPTIONS: readonly string[] = ["--version", "-V"];
/** Number of arguments of each command; `token` parses its own. */
const ARGUMENTS_MAX: Readonly<Record<string, number>> = {
  serve: 0,
  health: 0,
  backup: 1,
  restore: 1,
  dashboard: 0,
  version: 0,
};

const log = logOf("main");

async function main([first = "serve", ...args]: readonly string[]): Promise<number> {
  const command = VERSION_OPTIONS.includes(first) ? "version" : first;
  const wantsHelp = command === "help" || [command, ...args].some((part) => HELP_OPTIONS.includes(part));
  const wrong = wantsHelp ? undefined : wrongArgument(command, args);
  if (wrong !== undefined) {
    printError(`${wrong}\n${USAGE}`);
    return 2;
  }
  try {
    switch (wantsHelp ? "help" : command) {
      case "serve":
        return await serve(readConfig(processEnvironment()));
      case "token":
        print(await mintToken(readConfig(processEnvironment()), args));
        return 0;
      case "health":
        return await health(readConfig(processEnvironment()));
      case "backup":
        return await runBackup(readConfig(processEnvironment()), args);
      case "restore":
        return await runRestore(readConfig(processEnvironment()), args);
      case "version":
        print(manifest.version);
        return 0;
      case "dashboard":
        print((await import("@/dashboard.json", { with: { type: "text" } })).default);
        return 0;
      default:
        print(command === "token" ? TOKEN_USAGE : USAGE);
        return 0;
    }
  } catch (thrown) {
    printError(
      thrown instanceof ConfigError || command !== "serve" ? messageOf(thrown) : `Start failed: ${messageOf(thrown)}`,
    );
    const remedy = permissionHintFor(thrown);
    if (remedy !== undefined) printError(remedy);
    return thrown instanceof UsageError ? 2 : 1;
  }
}

/** The error of the command line, if there is one. */
function wrongArgument(command: string, args: readonly string[]): string | undefined {
  if (command === "token") return undefined;
  const most = ARGUMENTS_MAX[command];
  const option = [command, ...args].find((part) => part.startsWith("-"));
  if (option !== undefined) {
    const meant = nearestName(option.split("=")[0] ?? "", [...HELP_OPTIONS, ...VERSION_OPTIONS]);
    return `Unknown option ${option}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
  }
  if (most === undefined) {
    const meant = nearestName(command, ["token", "help", ...Object.keys(ARGUMENTS_MAX)]);
    return `Unknown command ${command}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
  }
  return args.length > most ? `Unexpected argument ${args[most]} of ${command}` : undefined;
}

async function serve(config: Config): Promise<number> {
  const { settings } = config;
  await startLogging(settings.RUST_LOG, settings.SVC_LOG_FORMAT, { isExported: hasTelemetry() });
  for (const warning of config.warnings) log.warn(warning);
  await ensureDirectories(config);
  // Only here: the other commands, health checks among them, take a fraction of the time that the app takes to load.
  const { createApp } = await import("@/app.ts");
  const app = await waitForStore(() => createApp(config, { timeSource: systemTime }));
  const ended = Promise.withResolvers<void>();
  let askedAt: number | undefined;
  const running = new Set<Promise<Response>>();

  function track(response: Promise<Response>): Promise<Response> {
    running.add(response);
    void response.then(() => running.delete(response));
    return response;
  }

  async function stop(signal: keyof typeof EXIT_CODES): Promise<void> {
    if (askedAt !== undefined) {
      if (performance.now() - askedAt < SIGNAL_DEBOUNCE_MS) return;
      // A second signal stops at once, whatever hangs; acknowledged writes are on disk already.
      log.warn("second signal received; exiting immediately", { signal });
      Deno.exit(EXIT_CODES[signal]);
    }
    askedAt = performance.now();
    // At a terminal there is no load balancer to wait for.
    const windowMs = signal === "SIGTERM" ? settings.SVC_DRAIN_SECONDS * 1000 : 0;
    log.info("stopping", { signal, windowMs });
    app.markDraining();
    await delay(windowMs);
    // A client that never disconnects must not keep the process running.
    const deadline = setTimeout(() => Deno.exit(1), STOP_TIMEOUT_MS);
    const enough = Promise.withResolvers<void>();
    const drainTimer = setTimeout(enough.resolve, REQUEST_DRAIN_MS);
    await app.drain();
    // To shut down breaks off bodies that are arriving, so requests that have begun end first.
    await Promise.race([Promise.all(running).then(() => server.shutdown()), enough.promise]);
    clearTimeout(drainTimer);
    await metricsServer?.shutdown();
    await app[Symbol.asyncDispose]();
    clearTimeout(deadline);
    ended.resolve();
  }

  // Before the log says that it listens: a caller that waits for that may stop it at once.
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => void stop(signal));
  const metricsServer = settings.SVC_METRICS_PORT === undefined ? undefined : listen("SVC_METRICS", {
    hostname: settings.SVC_METRICS_HOST,
    port: settings.SVC_METRICS_PORT,
    onListen: ({ hostname, port }) => log.info("metrics listening", { url: `http://${hostname}:${port}/metrics` }),
  }, (request) => app.fetchMetrics(request));
  const server = listen("SVC", {
    hostname: settings.SVC_HOST,
    port: settings.SVC_PORT,
    reusePort: settings.SVC_REUSE_PORT,
    onListen: ({ hostname, port }) =>
      log.info("listening", { url: `http://${hostname}:${port}`, env: settings.SVC_ENV }),
  }, (request, info) => {
    const response = app.fetch(request, info.remoteAddr.hostname);
    return response instanceof Promise ? track(response) : response;
  });
  // Only here: logs of other environments must not contain secrets.
  if (settings.SVC_ENV === "development") {
    await logOwnerAddress(app, settings.SVC_PUBLIC_URL ?? `http://localhost:${server.addr.port}`);
  }
  ignoreOversizedMessage((cause) => log.warn("WebSocket message too long for the runtime", { cause }));
  await ended.promise;
  log.info("stopped");
  await stopLogging();
  return 0;
}

async function logOwnerAddress(app: App, base: string): Promise<void> {
  try {
    const { href: url } = new URL(`${base}/#code=${await app.createOwnerCode()}`);
    log.info("open this address to sign in as the owner; it works once, for 15 minutes", { url });
  } catch (cause) {
    log.warn("no sign-in address could be created", { cause: messageOf(cause) });
  }
}

/** Serves at the address of `<prefix>_HOST` and `<prefix>_PORT`. */
function listen(
  prefix: string,
  options: Deno.ServeTcpOptions & { hostname: string; port: number },
  handler: Deno.ServeHandler<Deno.NetAddr>,
): Pick<Deno.HttpServer<Deno.NetAddr>, "addr" | "shutdown"> {
  const onError = (error: unknown): Response => {
    logBrokenResponse(log, error);
    return new Response("Internal error", { status: 500 });
  };
  try {
    return serveLasting(
      (port = options.port) => Deno.serve({ ...options, port, onError }, withoutPipelines(noticingRequests(handler))),
      (cause) =>
        log.error("connections are refused until others end; raise the limit of open files", {
          cause: messageOf(cause),
        }),
    );
  } catch (cause) {
    if (cause instanceof Deno.errors.AddrInUse) {
      const taken = `${options.hostname}:${options.port} is already in use, possibly by another gateway`;
      throw new Error(`${taken}: stop that process, or set ${prefix}_PORT to a free port`);
    }
    throw new Error(`${prefix}_HOST and ${prefix}_PORT: the gateway cannot listen on this address`, { cause });
  }
}

/** Waits for a database that starts at the same time; a wrong configuration fails at once. */
async function waitForStore<Result>(open: () => Promise<Result>): Promise<Result> {
  const until = performance.now() + STORE_WAIT_MS;
  while (true) {
    try {
      return await open();
    } catch (thrown) {
      if (!isFault(thrown, "unavailable") || performance.now() > until) throw thrown;
      log.warn("waiting for the database of SVC_DATABASE_URL", { cause: messageOf(thrown) });
      await delay(1000);
    }
  }
}

/** For container health checks: 0 when the gateway on this host is up. */
async function health({ settings }: Config): Promise<number> {
  const { SVC_HOST: host, SVC_PORT: port } = settings;
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host;
  const response = await fetch(`http://${name}:${port}/health`, { signal: AbortSignal.timeout(2000) });
  print(await response.text());
  return response.ok ? 0 : 1;
}

/** Creates a backup; a gateway may be running meanwhile. */
async function runBackup({ settings }: Config, [file]: readonly string[]): Promise<number> {
  if (file === undefined) throw new UsageError("Expected the path of the file to write: deno task backup copy.db");
  const { createBackup } = await import("@/adapters/store/backup.ts");
  await createBackup(settings.SVC_DATABASE_URL, file);
  print(`Database written to ${file}; uploaded files and secrets in ${settings.SVC_DATA_DIR} are not included`);
  return 0;
}

/** Restores a backup, or marks the database as restored. */
async function runRestore({ settings }: Config, [file]: readonly string[]): Promise<number> {
  const { restore } = await import("@/adapters/store/backup.ts");
  const old = await restore(settings.SVC_DATABASE_URL, file, systemTime.clock);
  print(
    `Restored${old === undefined ? "" : `; the previous database was moved to ${old}`}. Streams were reset: ` +
      "clients read their state again",
  );
  return 0;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

function print(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
}

function printError(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

if (import.meta.main) Deno.exit(await main(Deno.args));
