// Responses of the OpenAPI document: problems by status with their codes and examples, and the headers answers carry.
import { type FaultCode, FAULTS } from "@/core/fault.ts";
import { PROBLEM_TYPE } from "./problem.ts";

type Json = Record<string, unknown>;

/** Headers that answers carry, as components. */
export const HEADERS: Readonly<Record<string, Json>> = {
  "X-Request-Id": header("Id of this request in problems and logs: the one sent, or a new one", "string"),
  "RateLimit-Limit": header(
    "Requests the limit allows: the general one, or on 429 the one that refused the call",
    "integer",
  ),
  "RateLimit-Remaining": header("Requests left now", "integer"),
  "RateLimit-Reset": header("Seconds until all of them are allowed again", "integer"),
  "Retry-After": header("Seconds to wait before trying again", "integer"),
  "ETag": header("Version of the resource as this caller sees it, for If-None-Match and If-Match", "string"),
  "Location": header("Path of what was made", "string"),
  "Idempotency-Replayed": header("`true` when this is the kept answer to the same Idempotency-Key", "string"),
  "WWW-Authenticate": header("How to authenticate", "string"),
};

/** The schema of every problem. */
export const PROBLEM_SCHEMA: Json = {
  type: "object",
  description: "RFC 9457 problem. Switch on `code`; texts may change.",
  required: ["type", "title", "status", "detail", "instance", "code", "requestId"],
  properties: {
    type: { type: "string", format: "uri", description: `\`${PROBLEM_TYPE}<code>\`` },
    title: { type: "string", description: "The same for every problem of the code" },
    status: { type: "integer" },
    detail: { type: "string", description: "What was expected and received this time" },
    instance: { type: "string", description: "Path of the request" },
    code: { type: "string", pattern: "^[a-z0-9_]+$" },
    requestId: { type: "string" },
    errors: {
      type: "array",
      description: "What is wrong with which field",
      items: {
        type: "object",
        required: ["pointer", "code", "detail"],
        properties: {
          pointer: { type: "string", description: "JSON pointer (RFC 6901) into the input" },
          code: { type: "string" },
          detail: { type: "string" },
        },
      },
    },
  },
};

/** References to header components. */
export function headerRefs(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** Responses for fault codes, one a status; bodies are kept once in `components`. */
export function problemResponses(
  codes: Iterable<FaultCode>,
  components: Record<string, Json>,
  isLimited: boolean,
): Json {
  const byStatus = Map.groupBy(new Set(codes), (code) => FAULTS[code].status);
  const entries = [...byStatus].toSorted(([a], [b]) => a - b).map(([status, group]) => {
    const name = `Problem.${group.toSorted().join(".")}${isLimited ? "" : ".public"}`;
    components[name] ??= problemResponse(status, group.toSorted(), isLimited);
    return [String(status), { $ref: `#/components/responses/${name}` }];
  });
  return Object.fromEntries(entries);
}

function problemResponse(status: number, codes: readonly FaultCode[], isLimited: boolean): Json {
  return {
    description: codes.map((code) => `\`${code}\`: ${FAULTS[code].title}`).join("; "),
    headers: headerRefs([
      "X-Request-Id",
      ...isLimited && status !== 401 ? ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"] : [],
      ...status === 401 ? ["WWW-Authenticate"] : [],
      ...status === 429 || status === 503 || codes.includes("idempotency_in_flight") ? ["Retry-After"] : [],
    ]),
    content: {
      "application/problem+json": {
        schema: {
          allOf: [
            { $ref: "#/components/schemas/Problem" },
            { type: "object", properties: { code: { type: "string", enum: codes } } },
          ],
        },
        examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code)])),
      },
    },
  };
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
