// An ordinary route as a value: what is not request → reply over an operation, such as file bodies, event streams, feeds.
import type { z } from "@zod/zod";
import type { Actor } from "./actor.ts";
import { parse } from "./dispatch.ts";
import { Fault, type FaultCode } from "./fault.ts";
import type { Rate } from "./operation.ts";

/** What a route's handler is told besides the request. */
export type RouteCall = {
  /** Decoded path parameters. */
  params: Readonly<Record<string, string>>;
  /** The parsed JSON body; `undefined` when there was none or the route reads it itself. */
  body: unknown;
  requestId: string;
  /** Headers of whatever the answer will be, a problem included; those of the handler's own Response win. */
  headers: Record<string, string>;
  /** The client's address, seen through trusted proxies. */
  ip: string;
  /**
   * Throws `origin_not_allowed` where the page that calls may not for this tenant. Done with the bearer token; only a public
   * route that finds out by itself which tenant it serves has to ask.
   */
  assertOrigin(tenantId: string): void;
  /** Runs `work` once for the request's Idempotency-Key, if it has one; `said` is what of the request is not in its address. */
  once<Result>(said: string, work: () => Promise<Result>): Promise<Result>;
  /** Ends when the client goes away or the time is up. */
  readonly signal: AbortSignal;
};

/** What the OpenAPI document says about a route besides what the route itself tells. */
export type RouteDocument = {
  parameters?: readonly Record<string, unknown>[];
  requestBody?: Record<string, unknown>;
  responses: Readonly<Record<string, Record<string, unknown>>>;
};

/** One route. Its handler throws Faults; status, headers and body of its Response are its own. */
export type Route = {
  /** `noun.verb`, the operationId. */
  name: string;
  summary: string;
  description?: string;
  tag: string;
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Hono syntax: `/v1/files/:fileId/content`. */
  path: string;
  /** `stream`: the handler reads `request.body` itself and bounds it. Default `json`. */
  body?: "json" | "stream";
  /** No time-out: an event stream, a long transfer. */
  isLong?: true;
  /** Codes the handler may throw beyond those every route may. */
  faults?: readonly FaultCode[];
  document: RouteDocument;
} & RouteHandler;

/** Who may call, and what answers. `scope` is checked before the handler runs. */
type RouteHandler =
  | {
    auth: "public";
    /** Own rate rule of what one address may call, besides that of failed authentications. */
    rate?: Rate;
    handle(request: Request, call: RouteCall): Promise<Response> | Response;
  }
  | {
    auth: "bearer";
    scope: string;
    handle(request: Request, call: RouteCall & { actor: Actor }): Promise<Response> | Response;
  };

/** The query of a route, which is as strict as that of an operation: no other parameters, and each at most once. */
export function queryOf<Shape extends z.ZodRawShape>(
  request: Request,
  schema: z.ZodObject<Shape>,
): z.output<z.ZodObject<Shape>> {
  const given = [...new URL(request.url).searchParams];
  const unknown = given.find(([name], place) =>
    !Object.hasOwn(schema.shape, name) || given.findIndex(([other]) => other === name) < place
  );
  if (unknown !== undefined) {
    const known = Object.keys(schema.shape).join(" and ");
    throw new Fault("unknown_parameter", `${unknown[0].slice(0, 64)}: expected ${known}, each at most once`);
  }
  return parse(schema, Object.fromEntries(given));
}

/** A `Content-Disposition` as RFC 6266 has it: a plain name for old clients, the true one as RFC 8187 wants it. */
export function dispositionOf(kind: "inline" | "attachment", name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]/g, "_").replaceAll(/["\\%]/g, "_");
  const whole = encodeURIComponent(name.toWellFormed())
    .replaceAll(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return `${kind}; filename="${plain}"; filename*=UTF-8''${whole}`;
}
