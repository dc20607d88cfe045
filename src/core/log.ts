// Structured logs: one JSON line an entry, filtered by `RUST_LOG`. Ids and codes only, never contents or tokens.
import {
  configure,
  getConsoleSink,
  getJsonLinesFormatter,
  getLogger,
  type Logger,
  type LogLevel,
  reset,
} from "@logtape/logtape";
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
    // As log lines show it, a target stands behind the name of the program.
    const target = left.split(/::|\./).at(-1) ?? left;
    if (parsed === undefined || target === "") return undefined;
    if (right === undefined || target === PROGRAM) level = parsed;
    else targets.set(target, parsed);
  }
  return { level, targets };
}

/** Starts logging to standard error. Call once; `stopLogging` flushes. */
export async function startLogging(filter: LogFilter): Promise<void> {
  await configure({
    reset: true,
    sinks: {
      lines: getConsoleSink({
        formatter: getJsonLinesFormatter({ properties: "flatten", message: "rendered", categorySeparator: "." }),
        levelMap: { trace: "error", debug: "error", info: "error", warning: "error", error: "error", fatal: "error" },
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

/** Which requests a failure was told of: one that ends many of them is told once for each. */
const told = new WeakMap<Fault, Set<string>>();

/** Logs the failure of a request, unless somebody who had it before has done so. */
export function logFailure(log: Logger, fault: Fault, fields: { requestId: string; [name: string]: unknown }): void {
  const requests = told.get(fault) ?? new Set();
  if (requests.has(fields.requestId)) return;
  told.set(fault, requests.add(fields.requestId));
  log[fault.kind.level]("failed", { ...fields, ...failureOf(fault) });
}

/** What the log tells of anything thrown: its code, and of what is behind it type, message and place, without its data. */
export function failureOf(thrown: unknown): { code: string; cause?: string } {
  const { code, cause } = Fault.from(thrown);
  if (cause === undefined) return { code };
  return {
    code,
    cause: cause instanceof Error ? `${cause.name}: ${cause.message}\n${cause.stack ?? ""}` : String(cause),
  };
}
