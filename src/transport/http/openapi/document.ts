// `/openapi.json`: OpenAPI 3.1, generated at first use from the operations and routes that the server mounts.
import { runInSlices, type Steps } from "@/core/caller.ts";
import type { Operation } from "@/core/operation.ts";
import type { Route } from "@/core/http/route.ts";
import { Schemas } from "../../shared/json_schema.ts";
import { assetRoute, StaticAsset } from "../../shared/static_asset.ts";
import { IF_MATCH } from "../etag.ts";
import { type Collected, describeOperation, describeRoute, tagOf, tagOfRoute, templateOf } from "./operation.ts";
import { FIELD_ERROR_SCHEMA, HEADERS, PROBLEM_SCHEMA } from "./response.ts";

/** The source of the document. It is read when the document is generated, so `routes` may grow until then. */
type DocumentSource = {
  operations: readonly Operation[];
  routes: readonly Route[];
  /** A description for each tag of modules. */
  tags: Readonly<Record<string, string>>;
  version: string;
};

const PARAMETERS = {
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    description:
      "Makes retries safe: the first response for a key is stored for 24 hours and returned again. Use a key " +
      "for one request only.",
    schema: { type: "string", pattern: "^[\\x20-\\x7e]{1,255}$" },
  },
  IfMatch: {
    name: "If-Match",
    in: "header",
    description:
      'ETag of the version the change is based on, such as `"3.Zk2b9tq1Lw0x"`. Any other version fails with ' +
      "412; `*` skips the check. Writes without this header in their description refuse it.",
    schema: { type: "string", pattern: `^(?:\\*|${IF_MATCH.source.slice(1, -1)})$` },
  },
  IfNoneMatch: {
    name: "If-None-Match",
    in: "header",
    description:
      "ETag of the caller's copy; the response is 304 if the resource is unchanged. Writes refuse this header.",
    schema: { type: "string" },
  },
  RequestId: {
    name: "X-Request-Id",
    in: "header",
    description:
      "Id of the request in responses and logs, 1 to 64 of `A-Z a-z 0-9 _ . -`; generated if absent or invalid",
    schema: { type: "string" },
  },
};

const INTRODUCTION = `Rooms, messages, documents, tasks, calendars and meetings for people and AI agents.

- **Authenticate** with \`Authorization: Bearer <token>\`. On your own machine, \`deno task token --sub alice\` prints one;
  paste it into **Authorize** on this page. The sender of everything is the token's \`sub\`.
- **Failures** are [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problems. Switch on \`code\`; the texts may change.
  \`errors\` lists each invalid field.
- **Retry** safely: send an \`Idempotency-Key\`, and a \`clientMessageId\` with a message. After 429 and 503 wait for
  \`Retry-After\` seconds; \`RateLimit-*\` headers show the remaining requests. \`GET /v1/collaboration/me\` lists all limits.
- **Receive events** over \`/ws\` with any Centrifuge client, or list a room's events; \`/asyncapi.json\` describes
  them. Positions are the same on \`/ws\` and REST.

New fields and event types may be added to \`/v1\`: ignore those you do not know. \`HEAD\` is supported wherever \`GET\` is.
Times are UTC. Text is Unicode without NUL and lone surrogates.`;

const TRANSPORT_TAGS: Readonly<Record<string, string>> = {
  realtime: "WebSocket endpoints. `/asyncapi.json` describes their commands, events and close codes.",
  operation: "Health, metrics and documentation of the gateway.",
};

/** What newcomers look for, before what administers and extends it. */
export const FIRST_TAGS: readonly string[] = [
  "rooms",
  "messages",
  "unreads",
  "notifications",
  "search",
  "files",
  "documents",
  "tasks",
  "calendar",
  "meetings",
  "me",
  "principals",
  "invitations",
  "tokens",
  "auth",
  "agents",
  "ai",
];

/** The claims that the identity module reads; a test compares the names. */
const TOKENS = `An API token, or a JWT signed with the gateway's secret (HS256) or by its identity provider. JWT claims:
\`sub\`: id of the principal, which is created on first use. \`tenant\`, else \`tid\`: the tenant, by default \`default\`.
\`kind\`: \`human\`, \`agent\` or \`service\`. \`owner\`: owner of an agent. \`name\`: display name. \`role\`: role in the tenant,
ignored if the role was changed after \`iat\`. \`scope\`: space-separated scopes; absent means all that the role allows.
\`exp\`: required outside development. \`nbf\`. \`jti\`: required to revoke the token. \`iss\` and \`aud\`: as configured.
In tokens of the provider, scopes of OpenID Connect such as \`openid\` and the role \`authenticated\` are ignored.`;

/** The document, as text. */
function* openapiDocument({ operations, routes, tags: described, version }: DocumentSource): Steps<string> {
  const collected: Collected = { schemas: new Schemas(), responses: {} };
  const paths: Record<string, Record<string, unknown>> = {};
  const addPath = (method: string, path: string, described: Record<string, unknown>): void => {
    (paths[templateOf(path)] ??= {})[method.toLowerCase()] = described;
  };
  for (const operation of operations) {
    addPath(operation.http.method, operation.http.path, describeOperation(operation, collected));
    yield;
  }
  for (const route of routes) {
    addPath(route.method, route.path, describeRoute(route, collected));
    yield;
  }
  const descriptions = { ...described, ...TRANSPORT_TAGS };
  const tags = new Set([...operations.map(tagOf), ...routes.map(tagOfRoute)]);
  return collected.schemas.serialize({
    openapi: "3.1.0",
    info: {
      title: "Collaboration Gateway API",
      version,
      description: INTRODUCTION,
      license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
    },
    // Relative to this document, so that it works behind a path prefix of a proxy.
    servers: [{ url: ".", description: "The gateway that serves this document" }],
    security: [{ bearer: [] }],
    // After the first ones in the order of their first operation, which is the order of the modules.
    tags: [...new Set([...FIRST_TAGS.filter((name) => tags.has(name)), ...tags])].map((name) => ({
      name,
      description: descriptions[name] ?? name,
    })),
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: TOKENS } },
      headers: HEADERS,
      parameters: PARAMETERS,
      responses: collected.responses,
      schemas: { Problem: PROBLEM_SCHEMA, FieldError: FIELD_ERROR_SCHEMA },
    },
  });
}

/** The route that serves the document. */
export function openapiRoute(source: DocumentSource): Route {
  const asset = new StaticAsset("application/json", () => runInSlices(openapiDocument(source)));
  return assetRoute({
    name: "openapi.get",
    summary: "Get the OpenAPI document",
    path: "/openapi.json",
    description: "OpenAPI 3.1 document of the gateway",
  }, asset);
}
