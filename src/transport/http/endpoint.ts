// An endpoint of the server: a method, a path and a handler. Operations and routes become endpoints.
import { Fault } from "@/core/fault.ts";
import { acceptsType } from "../shared/static_asset.ts";
import type { RequestContext } from "./request_context.ts";

export type Endpoint = {
  method: string;
  /** Hono syntax; also the `path` label of the metrics. */
  path: string;
  handle(context: RequestContext, params: Record<string, string>): Promise<Response>;
};

/** One that is created at its first request: all of them take as long as the modules do, and most are never asked for. */
export function lazyEndpoint({ method, path }: Pick<Endpoint, "method" | "path">, create: () => Endpoint): Endpoint {
  let endpoint: Endpoint | undefined;
  return { method, path, handle: (context, params) => (endpoint ??= create()).handle(context, params) };
}

/** Default limit of JSON bodies: the longest message fits even if all characters are escaped. */
export const BODY_MAX_BYTES = 256 * 1024;

/** Throws if the caller does not accept JSON. */
export function assertAcceptsJson(request: Request): void {
  if (acceptsType(request.headers, "application/json")) return;
  throw new Fault("not_acceptable", "The response is application/json, which the Accept header excludes");
}
