// One operation or route as the OpenAPI document tells it.
import type { FaultCode } from "@/core/fault.ts";
import { isRead, type Operation, type Rate } from "@/core/operation.ts";
import type { Route } from "@/core/route.ts";
import { headerRefs, problemResponses } from "./openapi_response.ts";
import { type JsonSchema, omit, propertiesOf, type Schemas } from "./openapi_schema.ts";
import { hasBody, isOnceable } from "./operation.ts";

type Json = Record<string, unknown>;

/** What is collected while operations are described. */
export type Collected = { schemas: Schemas; responses: Record<string, Json> };

const ALWAYS: readonly FaultCode[] = [
  "unauthenticated",
  "token_expired",
  "token_revoked",
  "scope_missing",
  "forbidden",
  "origin_not_allowed",
  "rate_limited",
  "internal",
  "unavailable",
];
const DESCRIPTIONS: Readonly<Record<number, string>> = {
  200: "The answer",
  201: "Made",
  202: "Accepted; it is done later",
  204: "Done; no body",
};
const LIMIT_HEADERS = ["X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/** `{id}` for `:id`. */
export function templateOf(path: string): string {
  return path.replaceAll(/:([A-Za-z0-9_]+)(?:\{[^}]*\})?/g, "{$1}");
}

/** The tag of an operation: the collection its path starts with, such as `rooms`. */
export function tagOf({ http }: Operation): string {
  return tagOfPath(http.path);
}

/** The first part of a path below `/v1` or `/v1/collaboration`; what serves no collection is `operation`. */
function tagOfPath(path: string): string {
  return /^\/v1\/(?:collaboration\/)?([a-z]+)/.exec(path)?.[1] ?? "operation";
}

/** The tag of a route: that of the operations beside it, or its own where it stands alone. */
export function tagOfRoute({ path, tag }: Route): string {
  return tag !== "operation" && path.startsWith("/v1/") ? tagOfPath(path) : tag;
}

/** The operation object of an operation. */
export function describeOperation(operation: Operation, { schemas, responses }: Collected): Json {
  const input = schemas.of(operation.input, "input");
  const output = schemas.of(operation.output, "output");
  const pathNames = pathNamesOf(operation.http.path);
  const { properties, required } = propertiesOf(schemas, input);
  const isVersioned = Object.hasOwn(propertiesOf(schemas, output).properties, "version");
  const { access, http } = operation;
  return {
    operationId: operation.name,
    tags: [tagOf(operation)],
    summary: operation.summary,
    description: [
      ...operation.description === undefined ? [] : [operation.description],
      `Needs ${access.scope === null ? "any token" : `the scope \`${access.scope}\``}${
        access.tenant === undefined ? "" : `, the tenant role ${access.tenant}`
      }${access.room === undefined ? "" : `, the room role ${access.room}`}${
        access.direct === undefined ? "" : `, in a direct room ${access.direct}`
      }.`,
      ...operation.rate === undefined ? [] : [inWords(operation.rate)],
    ].join("\n\n"),
    parameters: parametersOf(operation, pathNames, properties, required, isVersioned),
    ...bodyOf(operation, schemas, input, pathNames),
    responses: {
      ...successes(operation, output, isVersioned),
      ...problemResponses(codesOf(operation, pathNames, properties), responses, true),
    },
    "x-access": access,
    ...http.bodyMaxBytes === undefined ? {} : { "x-body-max-bytes": http.bodyMaxBytes },
  };
}

function inWords({ human, agent }: NonNullable<Operation["rate"]>): string {
  const calls = ({ burst, perSecond }: Rate): string => `${burst} calls in ${Math.ceil(burst / perSecond)} s`;
  return `At most ${calls(human)}${
    agent === undefined ? "" : `, of agents and services ${calls(agent).replace(" calls", "")}`
  }.`;
}

/** The operation object of a route. */
export function describeRoute(route: Route, { responses }: Collected): Json {
  const codes: FaultCode[] = [
    ...route.auth === "bearer" ? ALWAYS : ["internal", "unavailable"] as const,
    ...route.faults ?? [],
  ];
  const { parameters, requestBody } = route.document;
  const headers = headerRefs(route.auth === "bearer" ? LIMIT_HEADERS : ["X-Request-Id"]);
  const own = Object.entries(route.document.responses).map(([status, response]) => [
    status,
    { ...response, headers: { ...headers, ...response["headers"] as Json | undefined } }, // OpenAPI's header map
  ]);
  return {
    operationId: route.name,
    tags: [tagOfRoute(route)],
    summary: route.summary,
    ...route.description === undefined ? {} : { description: route.description },
    ...parameters === undefined ? {} : { parameters },
    ...requestBody === undefined ? {} : { requestBody },
    ...route.auth === "public" ? { security: [] } : {},
    responses: { ...problemResponses(codes, responses, route.auth === "bearer"), ...Object.fromEntries(own) },
  };
}

function parametersOf(
  operation: Operation,
  pathNames: readonly string[],
  properties: Record<string, JsonSchema>,
  required: readonly string[],
  isVersioned: boolean,
): Json[] {
  const { http } = operation;
  const example = (operation.example ?? {}) as Json; // an object, as inputs are
  const parameter = (name: string, where: "path" | "query"): Json => {
    const { description, ...schema } = properties[name] ?? { type: "string" };
    return {
      name,
      in: where,
      required: where === "path" || required.includes(name),
      description: description ?? `\`${name}\` of the input`,
      schema,
      ...Object.hasOwn(example, name) ? { example: example[name] } : {},
    };
  };
  const queryNames = hasBody(operation) && http.text === undefined
    ? []
    : Object.keys(properties).filter((name) =>
      !pathNames.includes(name) && name !== http.ifMatch && name !== http.text?.field
    );
  const ref = (name: string): Json => ({ $ref: `#/components/parameters/${name}` });
  return [
    ...pathNames.map((name) => parameter(name, "path")),
    ...queryNames.map((name) => parameter(name, "query")),
    ...http.ifMatch === undefined ? [] : [ref("IfMatch")],
    ...http.method === "GET" && isVersioned ? [ref("IfNoneMatch")] : [],
    ...isOnceable(operation) ? [ref("IdempotencyKey")] : [],
    ref("RequestId"),
  ];
}

function bodyOf(operation: Operation, schemas: Schemas, input: JsonSchema, pathNames: readonly string[]): Json {
  if (!hasBody(operation)) return {};
  const schema = omit(schemas, input, pathNames);
  const { properties, required } = propertiesOf(schemas, schema);
  if (Object.keys(properties).length === 0) return {};
  const { text } = operation.http;
  const example = Object.entries((operation.example ?? {}) as Json).filter(([name]) => !pathNames.includes(name)); // an object, as inputs are
  return {
    requestBody: {
      required: required.length > 0,
      content: {
        "application/json": {
          schema,
          ...operation.example === undefined ? {} : { example: Object.fromEntries(example) },
        },
        ...text === undefined ? {} : { [text.type]: { schema: properties[text.field] ?? { type: "string" } } },
      },
    },
  };
}

function successes(operation: Operation, output: JsonSchema, isVersioned: boolean): Json {
  const { status, also = [], method } = operation.http;
  const headers = [
    ...LIMIT_HEADERS,
    ...isVersioned ? ["ETag"] : [],
    ...isOnceable(operation) ? ["Idempotency-Replayed"] : [],
  ];
  const entries = [...new Set([status, ...also])].toSorted().map((code) => [
    String(code),
    {
      description: DESCRIPTIONS[code] ?? "The answer",
      headers: headerRefs(code === 201 ? [...headers, "Location"] : headers),
      ...code === 204 ? {} : { content: { "application/json": { schema: output } } },
    },
  ]);
  if (method === "GET" && isVersioned) {
    entries.push(["304", { description: "Not changed since the tag in If-None-Match", headers: headerRefs(headers) }]);
  }
  return Object.fromEntries(entries);
}

function codesOf(
  operation: Operation,
  pathNames: readonly string[],
  properties: Record<string, JsonSchema>,
): Set<FaultCode> {
  const codes = new Set<FaultCode>([
    ...ALWAYS,
    "bad_request",
    "unknown_parameter",
    "not_acceptable",
    "validation_failed",
    "unknown_field",
    ...operation.faults ?? [],
  ]);
  const add = (isPossible: boolean, ...more: FaultCode[]): void => {
    if (isPossible) { for (const code of more) codes.add(code); }
  };
  add(pathNames.length > 0, "not_found");
  add(hasBody(operation), "invalid_json", "payload_too_large", "unsupported_media_type");
  add(operation.http.ifMatch !== undefined, "version_mismatch");
  add(isOnceable(operation), "idempotency_in_flight", "idempotency_key_reused");
  add(isOnceable(operation) && operation.isSecret === true, "conflict");
  const { room, muted } = operation.access;
  add(room !== undefined && muted !== true && !isRead(operation), "agent_muted");
  add(Object.hasOwn(properties, "cursor"), "invalid_cursor");
  return codes;
}

function pathNamesOf(path: string): string[] {
  return [...path.matchAll(/:([A-Za-z0-9_]+)/g)].map(([, name = ""]) => name);
}
