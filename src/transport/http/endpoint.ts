// An endpoint of the server: a method, a path and a handler. Operations and routes become endpoints.
import { Fault } from "@/core/fault.ts";
import { readListHeader } from "@/core/http/request.ts";
import { parseAcceptHeader } from "../shared/static_asset.ts";
import type { RequestContext } from "./request_context.ts";

export type Endpoint = {
  method: string;
  /** Hono syntax; also the `path` label of the metrics. */
  path: string;
  handle(context: RequestContext, params: Record<string, string>): Promise<Response>;
};

/** Default limit of JSON bodies: the longest message fits even if all characters are escaped. */
export const BODY_MAX_BYTES = 256 * 1024;

/** Media ranges that include JSON, most specific first: the first one in the header decides. */
const JSON_RANGES = ["application/json", "application/*", "*/*"];

/** Throws if the caller does not accept JSON. */
export function assertAcceptsJson(request: Request): void {
  const accept = readListHeader(request.headers, "Accept");
  if (accept === null || accept === "*/*" || accept === "application/json" || accept === "") return;
  const isWanted = parseAcceptHeader(accept);
  if (JSON_RANGES.map((range) => isWanted.get(range)).find((wanted) => wanted !== undefined) === true) return;
  throw new Fault("not_acceptable", "The response is application/json, which the Accept header excludes");
}
