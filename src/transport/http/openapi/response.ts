// Responses of the OpenAPI document: problems by status with their codes and examples, and response headers.
import { Fault, type FaultCode, FAULTS } from "@/core/fault.ts";
import type { RouteForm } from "@/core/http/route.ts";
import { PROBLEM_TYPE } from "../response.ts";

type Json = Record<string, unknown>;

/** Response headers, as components. */
export const HEADERS: Readonly<Record<string, Json>> = {
  "X-Request-Id": header("Id of this request in problems and logs: the one sent, or a generated one", "string"),
  "RateLimit-Limit": header("Requests allowed by the limit; on 429, by the limit that was exceeded", "integer"),
  "RateLimit-Remaining": header("Requests remaining", "integer"),
  "RateLimit-Reset": header("Seconds until the limit is fully restored", "integer"),
  "Retry-After": header("Seconds to wait before the next attempt", "integer"),
  "ETag": header("Version of the resource as seen by the caller, for If-None-Match and If-Match", "string"),
  "Location": header("Path of the created resource", "string"),
  "Idempotency-Replayed": header(
    "`true` if this is the stored response to an earlier request with the same Idempotency-Key",
    "string",
  ),
  "WWW-Authenticate": header(
    "`Bearer`; with `error` if the token that was sent is not valid, or lacks a scope (RFC 6750)",
    "string",
  ),
};

/** The schema of every problem. */
export const PROBLEM_SCHEMA: Json = {
  type: "object",
  description: "RFC 9457 problem. Switch on `code`; texts may change.",
  required: ["type", "title", "status", "detail", "instance", "code", "requestId"],
  properties: {
    type: { type: "string", format: "uri", description: `\`${PROBLEM_TYPE}<code>\`` },
    title: { type: "string", description: "Short title, the same for every problem with this code" },
    status: { type: "integer", description: "HTTP status" },
    detail: { type: "string", description: "Explanation of this occurrence: what was expected and received" },
    instance: { type: "string", description: "Path of the request" },
    code: { type: "string", pattern: "^[a-z0-9_]+$", description: "Machine-readable problem code" },
    requestId: { type: "string", description: "Id of the request in the gateway's logs" },
    errors: {
      type: "array",
      description: "Invalid fields of the input",
      items: { $ref: "#/components/schemas/FieldError" },
    },
  },
};

/** The schema of a field that a problem is about. */
export const FIELD_ERROR_SCHEMA: Json = {
  type: "object",
  description: "A field of the input that is not valid",
  required: ["pointer", "code", "detail"],
  properties: {
    pointer: { type: "string", description: "JSON pointer (RFC 6901) to the field" },
    code: { type: "string", description: "Machine-readable error code" },
    detail: { type: "string", description: "Human-readable explanation" },
  },
};

export const PROBLEM = { $ref: "#/components/schemas/Problem" };

/** References to header components. */
export function headerRefs(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** Component names of the problem responses; one per status, so that generated clients are small. */
const PROBLEM_NAMES: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  410: "Gone",
  411: "LengthRequired",
  412: "PreconditionFailed",
  413: "PayloadTooLarge",
  415: "UnsupportedMediaType",
  416: "RangeNotSatisfiable",
  422: "UnprocessableContent",
  428: "PreconditionRequired",
  429: "TooManyRequests",
  500: "InternalServerError",
  502: "BadGateway",
  503: "ServiceUnavailable",
  504: "GatewayTimeout",
};

/** Responses for problem codes, one per status. The component has the body; the reference lists the expected codes. */
export function problemResponses(codes: Iterable<FaultCode>, components: Record<string, Json>): Json {
  const entries = codesByStatus(codes).map(([status, group]) => {
    const name = problemName(status);
    components[name] ??= problemResponse(status);
    return [String(status), {
      $ref: `#/components/responses/${name}`,
      description: group.map(describeCode).join("; "),
    }];
  });
  return Object.fromEntries(entries);
}

/** The same for a route whose failures have a form of their own. */
export function formResponses(form: RouteForm, codes: readonly FaultCode[], components: Record<string, Json>): Json {
  const { type, failure: { name, schema }, describe } = form;
  components[name] ??= { description: "The call failed", content: { [type]: { schema } } };
  const statuses = new Set(codes.map((code) => describe(new Fault(code, FAULTS[code].title)).status));
  return Object.fromEntries(
    [...statuses].map((status) => [String(status), { $ref: `#/components/responses/${name}` }]),
  );
}

/** The codes by status, for the extension `x-problem-codes` of an operation. */
export function problemCodes(codes: Iterable<FaultCode>): Json {
  return Object.fromEntries(codesByStatus(codes).map(([status, group]) => [String(status), group]));
}

function codesByStatus(codes: Iterable<FaultCode>): [number, FaultCode[]][] {
  const byStatus = Map.groupBy(new Set(codes), (code) => FAULTS[code].status);
  return [...byStatus].toSorted(([a], [b]) => a - b).map(([status, group]) => [status, group.toSorted()]);
}

function problemName(status: number): string {
  const name = PROBLEM_NAMES[status];
  if (name === undefined) throw new TypeError(`Expected a status with a component name, received ${status}`);
  return name;
}

function problemResponse(status: number): Json {
  const codes = Object.keys(FAULTS).filter((code): code is FaultCode => FAULTS[code as FaultCode].status === status // a key of the table, as Object.keys does not know
  );
  return {
    description: codes.map(describeCode).join("; "),
    headers: headerRefs([
      "X-Request-Id",
      ...status === 401 || status === 403 ? ["WWW-Authenticate"] : [],
      ...status === 401 ? [] : ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
      ...codes.some((code) => "retryable" in FAULTS[code]) ? ["Retry-After"] : [],
    ]),
    content: {
      "application/problem+json": {
        schema: PROBLEM,
        examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code)])),
      },
    },
  };
}

function describeCode(code: FaultCode): string {
  return `\`${code}\`: ${FAULTS[code].title}`;
}

function exampleOf(code: FaultCode): Json {
  const { status, title } = FAULTS[code];
  return {
    summary: title,
    value: {
      type: `${PROBLEM_TYPE}${code}`,
      title,
      status,
      detail: title,
      instance: "/v1/rooms",
      code,
      requestId: "8d6f1a52-7a0e-4d9c-9a5e-0d4e6f5c1b2a",
    },
  };
}

function header(description: string, type: string): Json {
  return { description, schema: { type } };
}
