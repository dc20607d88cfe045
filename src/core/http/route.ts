// A route as a value: HTTP endpoints that are no operation, such as file contents, event streams and feeds.
import { z } from "@zod/zod";
import type { Actor, TenantRole } from "../actor.ts";
import { parse } from "../dispatch.ts";
import { Fault, type FaultCode } from "../fault.ts";
import type { Rate } from "../operation.ts";

/** What a route's handler receives besides the request. */
export type RouteCall = {
  /** Decoded path parameters. */
  params: Readonly<Record<string, string>>;
  /** The parsed JSON body; `undefined` when there was none or the route reads it itself. */
  body: unknown;
  requestId: string;
  /** Headers of the response, also of a problem; those of the handler's own Response take precedence. */
  headers: Record<string, string>;
  /** The client's address, seen through trusted proxies. */
  ip: string;
  /** The same as it is counted: all addresses of an IPv6 customer are one. */
  readonly addressKey: string;
  /**
   * Throws `origin_not_allowed` unless the tenant allows the request's origin. Done for bearer tokens; only a public route that
   * determines the tenant by itself has to call it.
   */
  assertOrigin(tenantId: string): void;
  /** Runs `work` once for the request's Idempotency-Key, if it has one; `content` is the part of the request outside of its URL. */
  runOnce<Result>(content: string, work: () => Promise<Result>): Promise<Result>;
  /** A body for a Response that may be long: its memory is charged to the caller until it is read. */
  toBody(content: string | Uint8Array<ArrayBuffer>): BodyInit;
  /** Aborts when the client disconnects or the request times out. */
  readonly signal: AbortSignal;
};

/** How a protocol that has media types of its own shows bodies and failures. */
export type RouteForm = {
  /** Media type of failures, and of bodies besides JSON. */
  type: string;
  /** Name and schema of a failure in the OpenAPI document. */
  failure: { name: string; schema: Record<string, unknown> };
  describe(fault: Fault): { status: number; body: unknown };
  /** Start of the paths at which also requests without a route fail in this form. */
  below?: string;
};

/** What the OpenAPI document says about a route besides the route's own fields. */
export type RouteDocument = {
  parameters?: readonly Record<string, unknown>[];
  /** Examples of the parameters of the path, by their names. */
  examples?: Readonly<Record<string, string>>;
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
  /** Longest JSON body in bytes, if it differs from the general limit. */
  bodyMaxBytes?: number;
  /** Default: failures are problems, like those of operations. */
  form?: RouteForm;
  /** For event streams and long transfers. */
  hasNoTimeout?: true;
  /** Codes of the handler besides those of every route. */
  faults?: readonly FaultCode[];
  /** Read when the OpenAPI document is made, which few processes do: a getter where it has schemas. */
  document: RouteDocument;
} & RouteHandler;

/** Who may call, and the handler. `scope` and `tenant` are checked before the handler runs. */
type RouteHandler =
  | {
    auth: "public";
    /** Rate of one address, besides that of failed authentications. */
    rate?: Rate;
    handle(request: Request, call: RouteCall): Promise<Response> | Response;
  }
  | {
    auth: "bearer";
    /** Scope that the token needs; null: any token will do. */
    scope: string | null;
    /** Lowest role in the tenant; default: guest. */
    tenant?: TenantRole;
    /** Authenticates instead of the API, where other tokens are valid as well. */
    authenticate?: (token: string, request: Request) => Promise<Actor>;
    /** Parameters of `WWW-Authenticate` in a 401, besides an error code. */
    challenge?: (request: Request) => string | undefined;
    /** Who counts writes against the rate of the caller; default the route, by its method. */
    countsWrites?: "itself";
    handle(request: Request, call: RouteCall & { actor: Actor }): Promise<Response> | Response;
  };

/**
 * The schema of a parameter, a body or a response of a route in the OpenAPI document. The input form for responses, too, so that it allows
 * additional fields: responses may grow.
 */
export function routeSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _dialect, $defs: _named, ...rest } = z.toJSONSchema(schema, {
    io: "input",
    // The format says it, and clients that are generated from both do not compile.
    override: ({ jsonSchema }) => jsonSchema.format !== undefined && delete jsonSchema.pattern,
  });
  return rest;
}

/** A body of JSON, for the document. */
export function jsonBody(schema: object, example: unknown): Record<string, unknown> {
  return { required: true, content: { "application/json": { schema, example } } };
}

/** A response of JSON, for the document. */
export function jsonResponse(description: string, schema: object): Record<string, unknown> {
  return { description, content: { "application/json": { schema } } };
}

/** Parses the query of a route as strictly as that of an operation: no unknown parameters, each at most once. */
export function parseQuery<Shape extends z.ZodRawShape>(
  request: Request,
  schema: z.ZodObject<Shape>,
): z.output<z.ZodObject<Shape>> {
  const given = [...new URL(request.url).searchParams];
  const unknown = given.find(([name], index) =>
    !Object.hasOwn(schema.shape, name) || given.findIndex(([other]) => other === name) < index
  );
  if (unknown !== undefined) {
    const known = Object.keys(schema.shape).join(" and ");
    throw new Fault("unknown_parameter", `${unknown[0].slice(0, 64)}: expected ${known}, each at most once`);
  }
  return parse(schema, Object.fromEntries(given));
}

/** A `Content-Disposition` by RFC 6266: an ASCII name for old clients, and the real one encoded by RFC 8187. */
export function contentDisposition(kind: "inline" | "attachment", name: string): string {
  const ascii = name.replaceAll(/[^\x20-\x7e]/g, "_").replaceAll(/["\\%]/g, "_");
  const encoded = encodeURIComponent(name.toWellFormed())
    .replaceAll(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return `${kind}; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}
