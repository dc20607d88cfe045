// What the server mounts: a method, a path, and the function that answers. Operations and routes both become one.
import { Fault } from "@/core/fault.ts";
import type { Exchange } from "./exchange.ts";

/** One mounted method and path. */
export type Endpoint = {
  method: string;
  /** Hono syntax; also the `path` label of the metrics. */
  path: string;
  answer(exchange: Exchange, params: Record<string, string>): Promise<Response>;
};

/** JSON bodies are this long at most, unless an operation says otherwise. */
export const BODY_MAX_BYTES = 1024 * 1024;

/** The media ranges that JSON is in; the most specific one that a caller names counts. */
const JSON_RANGES = ["application/json", "application/*", "*/*"];

/** Refuses a caller that would not understand JSON. */
export function requireAcceptsJson(request: Request): void {
  const accept = request.headers.get("Accept");
  if (accept === null || accept === "*/*" || accept === "application/json" || accept === "") return;
  const isWanted = wishesOf(accept);
  if (JSON_RANGES.map((range) => isWanted.get(range)).find((wanted) => wanted !== undefined) === true) return;
  throw new Fault("not_acceptable", "Answers are application/json; the Accept header excludes it");
}

/** What a header such as `Accept` names, in lower case, and whether it is wanted: of weight 0 it is not. */
export function wishesOf(header: string): ReadonlyMap<string, boolean> {
  return new Map(
    header.toLowerCase().split(",").map((wish) => {
      const [name = "", ...parameters] = wish.split(";").map((part) => part.trim());
      return [name, !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))];
    }),
  );
}
