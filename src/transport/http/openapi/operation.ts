// Operations and routes in the OpenAPI document.
import { withoutUndefined } from "@/core/patch.ts";
import type { FaultCode } from "@/core/fault.ts";
import { isReadOnly, nounOf, type Operation } from "@/core/operation.ts";
import type { Route } from "@/core/http/route.ts";
import { describeCall } from "../../shared/call_description.ts";
import { describeField } from "../../shared/field_descriptions.ts";
import { type JsonSchema, omit, pascalCase, propertiesOf, type Schemas } from "../../shared/json_schema.ts";
import { hasBody, supportsIdempotency } from "../operation.ts";
import { hasJsonBody, refusesUnknownParameters } from "../route.ts";
import { formResponses, headerRefs, PROBLEM, problemCodes, problemResponses } from "./response.ts";

type Json = Record<string, unknown>;

/** Components collected while operations are described. */
export type Collected = { schemas: Schemas; responses: Record<string, Json> };

const COMMON_CODES: readonly FaultCode[] = [
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
/** What the server says about a body that it cannot read. */
const BODY_CODES: readonly FaultCode[] = ["invalid_json", "payload_too_large", "unsupported_media_type"];
const DESCRIPTIONS: Readonly<Record<number, string>> = {
  200: "Success",
  201: "Created",
  202: "Accepted; the work is done later",
  204: "Success, no body",
};
const LIMIT_HEADERS = ["X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/** `{id}` for `:id`. */
export function templateOf(path: string): string {
  return path.replaceAll(/:([A-Za-z0-9_]+)(?:\{[^}]*\})?/g, "{$1}");
}

/** Paths that are shown among others. */
const SHOWN_WITH: Readonly<Record<string, string>> = {
  "plugin": "plugins",
  "plugin-calls": "plugins",
  "hooks": "incoming",
};

/** The tag of an operation: the collection its path starts with, such as `rooms`. */
export function tagOf({ http }: Operation): string {
  return tagOfPath(http.path);
}

/** The first segment below `/v1` or `/v1/collaboration`; `operation` for other paths. */
function tagOfPath(path: string): string {
  const [, collection = "operation"] = /^\/v1\/(?:collaboration\/)?([a-z-]+)/.exec(path) ?? [];
  return SHOWN_WITH[collection] ?? collection;
}

/** The tag of a route: that of the operations with the same first segment, or its own. */
export function tagOfRoute({ path, tag }: Route): string {
  return tag !== "operation" && path.startsWith("/v1/") ? tagOfPath(path) : tag;
}

/** The operation object of an operation. */
export function describeOperation(operation: Operation, { schemas, responses }: Collected): Json {
  const input = schemas.of(operation.input, "input");
  const output = schemas.of(operation.output, "output");
  const pathNames = pathNamesOf(operation.http.path);
  const { properties, required } = propertiesOf(schemas, input);
  const isVersioned = propertiesOf(schemas, output).properties["version"]?.["type"] === "integer";
  const { access, http } = operation;
  const codes = codesOf(operation, pathNames, properties);
  return {
    operationId: operation.name,
    tags: [tagOf(operation)],
    summary: operation.summary,
    description: describeCall(operation),
    parameters: parametersOf(operation, pathNames, properties, required, isVersioned),
    ...bodyOf(operation, schemas, input, pathNames),
    responses: {
      ...successes(operation, { schemas, output, isVersioned }),
      ...problemResponses(codes, responses),
    },
    "x-problem-codes": problemCodes(codes),
    "x-access": access,
    ...http.bodyMaxBytes === undefined ? {} : { "x-body-max-bytes": http.bodyMaxBytes },
  };
}

/** The operation object of a route. */
export function describeRoute(route: Route, { schemas, responses }: Collected): Json {
  const codes: FaultCode[] = [
    // Every route rejects an invalid host, and a header with too long a list.
    "bad_request",
    ...route.auth === "bearer" ? COMMON_CODES : ["internal", "unavailable"] as const,
    ...refusesUnknownParameters(route) ? ["unknown_parameter"] as const : [],
    ...hasJsonBody(route) ? BODY_CODES : [],
    ...route.faults ?? [],
  ];
  const { requestBody } = route.document;
  const parameters = routeParametersOf(route);
  const name = pascalCase(route.name);
  const headers = headerRefs(route.auth === "bearer" ? LIMIT_HEADERS : ["X-Request-Id"]);
  const problems = route.form === undefined
    ? problemResponses(codes, responses)
    : formResponses(route.form, codes, responses);
  const own = Object.entries(route.document.responses).map(([status, response]) => {
    const described = withNamedSchema(response, "output", `${name}Output`, schemas);
    const { content } = described as { content?: Json };
    return [status, {
      ...described,
      headers: { ...headers, ...response["headers"] as Json | undefined }, // OpenAPI's header map
      // With a status that problems have as well, either is sent.
      ...status in problems ? { content: { ...content, "application/problem+json": { schema: PROBLEM } } } : {},
    }];
  });
  return {
    operationId: route.name,
    tags: [tagOfRoute(route)],
    summary: route.summary,
    description: route.description ?? route.summary,
    ...parameters.length === 0 ? {} : { parameters },
    ...requestBody === undefined
      ? {}
      : { requestBody: withNamedSchema(requestBody, "input", `${name}Request`, schemas) },
    ...route.auth === "public" ? { security: [] } : {},
    responses: { ...problems, ...Object.fromEntries(own) },
    "x-problem-codes": problemCodes(codes),
  };
}

/** The parameters that a route declares, and those of its path that it does not. */
function routeParametersOf(route: Route): Json[] {
  const { parameters = [], examples = {} } = route.document;
  const isDeclared = (name: string): boolean => parameters.some((own) => own["in"] === "path" && own["name"] === name);
  const derived = pathNamesOf(route.path).filter((name) => !isDeclared(name)).map((name) => ({
    name,
    in: "path",
    required: true,
    description: describeField(name, nounIn(route)),
    schema: { type: "string" },
  }));
  return [...derived, ...parameters].map((parameter: Json) => {
    const example = parameter["in"] === "path" ? examples[String(parameter["name"])] : undefined;
    return example === undefined ? parameter : { ...parameter, example };
  });
}

/** The body with its objects as named components. */
function withNamedSchema(body: Json, side: "input" | "output", name: string, schemas: Schemas): Json {
  const content = body["content"] as Record<string, { schema?: JsonSchema }> | undefined; // OpenAPI's media types
  if (content === undefined) return body;
  const named = Object.entries(content).map(([type, media]) => {
    if (media.schema?.["properties"] === undefined) return [type, media];
    // A copy: naming its parts changes it, and the route is described again for each handler.
    return [type, { ...media, schema: schemas.name(side, name, structuredClone(media.schema)) }];
  });
  return { ...body, content: Object.fromEntries(named) };
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
      description: description ?? describeField(name, nounIn(operation)),
      schema,
      ...Object.hasOwn(example, name) ? { example: example[name] } : {},
    };
  };
  const queryNames = hasBody(operation) && http.textBody === undefined
    ? []
    : Object.keys(properties).filter((name) =>
      !pathNames.includes(name) && name !== http.ifMatch && name !== http.textBody?.field
    );
  const ref = (name: string): Json => ({ $ref: `#/components/parameters/${name}` });
  return [
    ...pathNames.map((name) => parameter(name, "path")),
    ...queryNames.map((name) => parameter(name, "query")),
    ...http.ifMatch === undefined ? [] : [ref("IfMatch")],
    ...http.method === "GET" && isVersioned ? [ref("IfNoneMatch")] : [],
    ...supportsIdempotency(operation) ? [ref("IdempotencyKey")] : [],
    ref("RequestId"),
  ];
}

function bodyOf(operation: Operation, schemas: Schemas, input: JsonSchema, pathNames: readonly string[]): Json {
  if (!hasBody(operation)) return {};
  const body = omit(schemas, input, pathNames);
  const { properties, required } = propertiesOf(schemas, body);
  if (Object.keys(properties).length === 0) return {};
  const schema = schemas.name("input", `${pascalCase(operation.name)}Request`, body);
  const { textBody } = operation.http;
  const example = Object.entries((operation.example ?? {}) as Json).filter(([name]) => !pathNames.includes(name)); // an object, as inputs are
  return {
    requestBody: {
      required: required.length > 0,
      content: {
        "application/json": {
          schema,
          ...operation.example === undefined ? {} : { example: Object.fromEntries(example) },
        },
        ...textBody === undefined ? {} : {
          [textBody.type]: {
            schema: properties[textBody.field] ?? { type: "string" },
            ...withoutUndefined({ example: (operation.example as Json | undefined)?.[textBody.field] }),
          },
        },
      },
    },
  };
}

/** `output`: the schema for statuses without their own. */
function successes(
  operation: Operation,
  { schemas, output, isVersioned }: { schemas: Schemas; output: JsonSchema; isVersioned: boolean },
): Json {
  const { status, otherStatuses = [], method, hasLocation } = operation.http;
  const schemaOf = (code: number): JsonSchema => {
    const own = operation.outputs?.[code];
    return own === undefined ? output : schemas.of(own, "output");
  };
  const headers = [
    ...LIMIT_HEADERS,
    ...isVersioned ? ["ETag"] : [],
    ...supportsIdempotency(operation) ? ["Idempotency-Replayed"] : [],
  ];
  const entries = [...new Set([status, ...otherStatuses])].toSorted().map((code) => [
    String(code),
    {
      description: DESCRIPTIONS[code] ?? "Success",
      headers: headerRefs(hasLocation === true ? [...headers, "Location"] : headers),
      ...code === 204 ? {} : { content: { "application/json": { schema: schemaOf(code) } } },
    },
  ]);
  if (method === "GET" && isVersioned) {
    entries.push(["304", {
      description: "Not modified since the ETag in If-None-Match",
      headers: headerRefs(headers),
    }]);
  }
  return Object.fromEntries(entries);
}

function codesOf(
  operation: Operation,
  pathNames: readonly string[],
  properties: Record<string, JsonSchema>,
): Set<FaultCode> {
  const codes = new Set<FaultCode>([
    ...COMMON_CODES,
    "bad_request",
    "unknown_parameter",
    "validation_failed",
    "unknown_field",
    ...operation.faults ?? [],
  ]);
  const add = (isPossible: boolean, ...more: FaultCode[]): void => {
    if (isPossible) { for (const code of more) codes.add(code); }
  };
  add(operation.http.status !== 204, "not_acceptable");
  add(pathNames.length > 0, "not_found");
  add(hasBody(operation), ...BODY_CODES);
  add(operation.http.ifMatch !== undefined, "version_mismatch");
  add(supportsIdempotency(operation), "idempotency_in_flight", "response_not_stored", "idempotency_key_reused");
  add(supportsIdempotency(operation) && operation.isSecret === true, "conflict");
  const { room, muted } = operation.access;
  add(room !== undefined && muted !== true && !isReadOnly(operation), "agent_muted");
  add(Object.hasOwn(properties, "cursor"), "invalid_cursor");
  return codes;
}

/** What an id in the path refers to: `scheduled message` for `scheduled_message.read`. */
function nounIn({ name }: { name: string }): string {
  return nounOf(name).replaceAll("_", " ");
}

function pathNamesOf(path: string): string[] {
  return [...path.matchAll(/:([A-Za-z0-9_]+)/g)].map(([, name = ""]) => name);
}
