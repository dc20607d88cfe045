// `/openapi.json`: OpenAPI 3.1 from the very values that the server mounts, made once when first asked for.
import type { Operation } from "@/core/operation.ts";
import type { Route } from "@/core/route.ts";
import { Asset, ASSET_PARAMETERS, ASSET_RESPONSES } from "./asset.ts";
import { IF_MATCH } from "./etag.ts";
import {
  type Collected,
  describeOperation,
  describeRoute,
  tagOf,
  tagOfRoute,
  templateOf,
} from "./openapi_operation.ts";
import { HEADERS, PROBLEM_SCHEMA } from "./openapi_response.ts";
import { Schemas } from "./openapi_schema.ts";

/** What the document is made from. `routes` is read when the document is made, so it may still grow. */
export type DocumentSource = {
  operations: readonly Operation[];
  routes: readonly Route[];
  version: string;
};

const PARAMETERS = {
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    description:
      "Makes a repeated request safe: the first answer to a key is kept for 24 h and given again. One key, one request.",
    schema: { type: "string", pattern: "^[\\x20-\\x7e]{1,255}$" },
  },
  IfMatch: {
    name: "If-Match",
    in: "header",
    description:
      'ETag of the version the change is based on, such as `"3.Zk2b9tq1Lw0x"`; another version answers 412. `*` asks for none.',
    schema: { type: "string", pattern: `^(?:\\*|${IF_MATCH.source.slice(1, -1)})$` },
  },
  IfNoneMatch: {
    name: "If-None-Match",
    in: "header",
    description: "ETag the caller already has; an unchanged resource answers 304",
    schema: { type: "string" },
  },
  RequestId: {
    name: "X-Request-Id",
    in: "header",
    description: "Id to find this request by, 1 to 64 of `A-Z a-z 0-9 _ . -`; made when absent or of another form",
    schema: { type: "string" },
  },
};

/** What `Claims` of the identity module reads; a test compares the names. */
const TOKENS = `An API token, or a JWT signed with the gateway's secret (HS256) or by its identity provider. Its claims:
\`sub\`, the principal, which is there from its first token on; \`tenant\`, else \`tid\`, else the tenant is \`default\`;
\`kind\`: \`human\`, \`agent\` or \`service\`; \`owner\` of an agent; \`name\`; \`role\` in the tenant, which counts until it is
set later than \`iat\`; \`scope\`, a list with spaces, without which the token may all that the role allows; \`exp\`, which
only development does without; \`nbf\`; \`jti\`, by which a token can be logged out; \`iss\` and \`aud\` as the gateway asks for.`;

/** The document, as text. */
function openapiDocument({ operations, routes, version }: DocumentSource): string {
  const collected: Collected = { schemas: new Schemas(), responses: {} };
  const paths: Record<string, Record<string, unknown>> = {};
  const put = (method: string, path: string, described: Record<string, unknown>): void => {
    (paths[templateOf(path)] ??= {})[method.toLowerCase()] = described;
  };
  for (const operation of operations) {
    put(operation.http.method, operation.http.path, describeOperation(operation, collected));
  }
  for (const route of routes) put(route.method, route.path, describeRoute(route, collected));
  const tags = new Set([...operations.map(tagOf), ...routes.map(tagOfRoute)]);
  return collected.schemas.seal({
    openapi: "3.1.0",
    info: {
      title: "Collaboration Gateway API",
      version,
      description:
        "Rooms, messages, search and collaboration. Failures are RFC 9457 problems; `/v1` only grows, so ignore unknown fields. " +
        "Where there is `GET` there is `HEAD`; a method that a path has not answers 405. Text has neither NUL nor lone surrogates. " +
        "Bodies and answers are not compressed here, but for this page and its documents; what stands before may compress " +
        "answers. Calls are counted from the first one on until the time is over, and all are there again: `RateLimit-*` say " +
        "how it stands, and a 429 when in `Retry-After`. " +
        "`GET /v1/collaboration/me` has the limits; an operation with one of its own says so.",
      license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
    },
    // Relative to this document, so that a prefix which a proxy puts before all paths is kept.
    servers: [{ url: "." }],
    security: [{ bearer: [] }],
    // In the order of their first operation, which is the order of the modules.
    tags: [...tags].map((name) => ({ name, description: `Paths of ${name}` })),
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: TOKENS } },
      headers: HEADERS,
      parameters: PARAMETERS,
      responses: collected.responses,
      schemas: { Problem: PROBLEM_SCHEMA },
    },
  });
}

/** The route that serves the document. */
export function openapiRoute(source: DocumentSource): Route {
  const asset = new Asset("application/json", () => openapiDocument(source));
  return {
    name: "openapi.get",
    summary: "This document",
    tag: "operation",
    method: "GET",
    path: "/openapi.json",
    auth: "public",
    document: {
      parameters: ASSET_PARAMETERS,
      responses: {
        200: {
          description: "OpenAPI 3.1 document of the gateway",
          content: { "application/json": { schema: { type: "object" } } },
        },
        ...ASSET_RESPONSES,
      },
    },
    handle: (request) => asset.answer(request),
  };
}
