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

/** Refuses a caller that would not understand JSON. */
export function requireAcceptsJson(request: Request): void {
  const accept = request.headers.get("Accept");
  if (accept === null || accept === "*/*" || accept === "application/json" || accept === "") return;
  for (const range of accept.toLowerCase().split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    const isWanted = !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
    if (isWanted && (type === "*/*" || type === "application/*" || type === "application/json")) return;
  }
  throw new Fault("not_acceptable", "Answers are application/json; the Accept header excludes it");
}
