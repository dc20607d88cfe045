// Structured logs, filtered by `RUST_LOG`: text on a terminal, JSON lines elsewhere. Ids and codes only, never contents or tokens.
import {
  configure,
  getConsoleSink,
  getJsonLinesFormatter,
  getLogger,
  getTextFormatter,
  type Logger,
  type LogLevel,
  type LogRecord,
  reset,
} from "@logtape/logtape";
import { MINUTE_MS } from "./time/clock.ts";
import { Fault } from "./fault.ts";

const LEVELS: ReadonlyMap<string, LogLevel | null> = new Map([
  ["off", null],
  ["error", "error"],
  ["warn", "warning"],
  ["info", "info"],
  ["debug", "debug"],
  ["trace", "trace"],
]);

const PROGRAM = "gateway";

/** A parsed `RUST_LOG`: the level of everything, and of single targets (module and transport names). */
export type LogFilter = { level: LogLevel | null; targets: ReadonlyMap<string, LogLevel | null> };

/** Parses `level` or `target=level`, comma separated; `undefined` when a part is neither. */
export function parseLogFilter(text: string): LogFilter | undefined {
  let level: LogLevel | null = "info";
  const targets = new Map<string, LogLevel | null>();
  for (const part of text.split(",").map((piece) => piece.trim()).filter((piece) => piece !== "")) {
    const [left = "", right] = part.split("=", 2);
    const parsed = LEVELS.get((right ?? left).toLowerCase());
    // A target may be prefixed with the program's name, as log entries show it.
    const target = left.split(/::|\./).at(-1) ?? left;
    if (parsed === undefined || target === "") return undefined;
    if (right === undefined || target === PROGRAM) level = parsed;
    else targets.set(target, parsed);
  }
  return { level, targets };
}

/** How entries are written: `auto` is text on a terminal, else JSON. */
type LogFormat = "auto" | "text" | "json";

const json = getJsonLinesFormatter({ properties: "flatten", message: "rendered", categorySeparator: "." });
const text = getTextFormatter({
  timestamp: "time",
  level: (level) => level === "warning" ? "WARN" : level.toUpperCase(),
  format: ({ timestamp, level, message, record }) =>
    `${timestamp} ${level.padEnd(5)} ${record.category.slice(1).join(".")}: ${message}${fieldsOf(record)}`,
});

/** Properties as `name=value`; those with spaces in quotes, and causes of several lines below. */
function fieldsOf({ properties }: LogRecord): string {
  return Object.entries(properties).map(([name, value]) => {
    const shown = typeof value === "string" ? value : JSON.stringify(value) ?? "undefined";
    if (shown.includes("\n")) return `\n  ${name}: ${shown.trimEnd().replaceAll("\n", "\n  ")}`;
    return ` ${name}=${typeof value === "string" && /[\s"=]/.test(shown) ? JSON.stringify(shown) : shown}`;
  }).join("");
}

/** Methods of the console that write to standard error, at every level. */
const STANDARD_ERROR = {
  trace: "error",
  debug: "error",
  info: "error",
  warning: "error",
  error: "error",
  fatal: "error",
} as const;

/**
 * Starts logging to standard error. Call once; `stopLogging` flushes. What the runtime exports has the severity of the console's
 * method: if `isExported`, each level has its own, which writes those below `warning` to standard output.
 */
export async function startLogging(
  filter: LogFilter,
  format: LogFormat,
  { isExported }: { isExported: boolean },
): Promise<void> {
  const isText = format === "text" || format === "auto" && Deno.stderr.isTerminal();
  await configure({
    reset: true,
    sinks: {
      lines: getConsoleSink({
        formatter: isText ? text : json,
        ...isExported ? {} : { levelMap: STANDARD_ERROR },
      }),
    },
    loggers: [
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["lines"] },
      { category: [PROGRAM], lowestLevel: filter.level, sinks: ["lines"] },
      ...[...filter.targets].map(([target, lowestLevel]) => ({
        category: [PROGRAM, target],
        lowestLevel,
        sinks: ["lines"],
        parentSinks: "override" as const,
      })),
    ],
  });
}

export async function stopLogging(): Promise<void> {
  await reset();
}

/** The log of one target: a module or transport name. */
export function logOf(target: string): Logger {
  return getLogger([PROGRAM, target]);
}

/**
 * A warning that may be frequent, such as while a database is unavailable: at most one entry a minute, with the number of
 * those `omitted` since the last.
 */
export function rateLimitedWarning(log: Logger, message: string): (fields: Record<string, unknown>) => void {
  let [loggedAt, omitted] = [-Infinity, 0];
  return (fields) => {
    const now = performance.now();
    if (now - loggedAt < MINUTE_MS) return void omitted++;
    log.warn(message, omitted === 0 ? fields : { ...fields, omitted });
    [loggedAt, omitted] = [now, 0];
  };
}

/** Requests for which a failure was logged: one that ends several requests is logged once for each. */
const loggedFaults = new WeakMap<Fault, Set<string>>();

/** Logs the failure of a request, unless it has been logged already. */
export function logFailure(log: Logger, fault: Fault, fields: { requestId: string; [name: string]: unknown }): void {
  const requests = loggedFaults.get(fault) ?? new Set();
  if (requests.has(fields.requestId)) return;
  loggedFaults.set(fault, requests.add(fields.requestId));
  log[fault.spec.level]("request failed", { ...fields, ...failureOf(fault) });
}

/** Logs what broke off a response that had begun. A store that failed meanwhile is no error of ours. */
export function logBrokenResponse(log: Logger, thrown: unknown): void {
  log[Fault.from(thrown).spec.level]("a response was broken off", failureOf(thrown));
}

/** The log fields of a thrown value: its code, and of its cause the type, message and stack, without data. */
export function failureOf(thrown: unknown): { code: string; cause?: string } {
  const { code, cause } = Fault.from(thrown);
  if (cause === undefined) return { code };
  return {
    code,
    cause: cause instanceof Error ? `${cause.name}: ${cause.message}\n${cause.stack ?? ""}` : String(cause),
  };
}
