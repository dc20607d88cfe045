// The endpoints of SCIM (RFC 7644), in its media type, with its errors.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { parse } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { publicAddressOf } from "@/core/public_address.ts";
import { clientOf, matchesIfNoneMatch } from "@/core/request.ts";
import { type Route, type RouteCall, type RouteForm, routeSchema } from "@/core/route.ts";
import { GROUPS, listOf, PAGE_MAX, RESOURCE_TYPES, SCHEMAS, SERVICE_PROVIDER_CONFIG } from "./discovery.ts";
import { conditionOf, EVERYONE, FILTER_MAX_CHARS } from "./filter.ts";
import {
  attributeOf,
  ERROR_SCHEMA,
  GivenUser,
  type Json,
  LIST_SCHEMA,
  Patch,
  readJson,
  ScimError,
  ShownUser,
  type User,
  UserPage,
  withoutUrn,
} from "./schema.ts";
import type { ScimCall, ScimUsers } from "./service.ts";

type Deps = { users: ScimUsers; publicUrl: string | undefined };
type Call = RouteCall & { actor: Actor };

const TYPE = "application/scim+json";
const USERS_PATH = "/scim/v2/Users";
const USER_PATH = `${USERS_PATH}/:id`;
const BODY_MAX_BYTES = 64 * 1024;
const PAGE_DEFAULT = 100;
/** Of what is wrong with the input, as RFC 7644 names it. */
const ERROR_TYPES: ReadonlySet<string> = new Set([
  ...["invalidFilter", "invalidPath", "invalidValue", "noTarget", "mutability"],
]);
const FORM: RouteForm = {
  type: TYPE,
  failure: { name: "ScimError", schema: routeSchema(ScimError) },
  describe(fault) {
    const status = fault.spec.status === 422 ? 400 : fault.spec.status;
    const own = fault.errors.find(({ code }) => ERROR_TYPES.has(code))?.code;
    const scimType = own ?? (fault.code === "conflict" ? "uniqueness" : status === 400 ? "invalidValue" : undefined);
    const body = { schemas: [ERROR_SCHEMA], status: String(status), detail: fault.message, scimType };
    return { status, body };
  },
};
/** Other parameters, such as those that sort, are ignored. */
const Query = z.object({
  filter: z.string().max(FILTER_MAX_CHARS).optional(),
  startIndex: z.coerce.number().int().max(Number.MAX_SAFE_INTEGER).default(1),
  count: z.coerce.number().int().default(PAGE_DEFAULT),
});
const PROJECTION = ["attributes", "excludedAttributes"].map((name) => ({
  name,
  in: "query",
  description: "Names of attributes, separated by commas",
  schema: { type: "string" },
}));
const LIST_PARAMETERS = [
  { name: "filter", in: "query", description: 'Such as `userName eq "ada"`', schema: { type: "string" } },
  { name: "startIndex", in: "query", description: "Of the first user, from 1", schema: { type: "integer" } },
  { name: "count", in: "query", description: `Users of the page, at most ${PAGE_MAX}`, schema: { type: "integer" } },
];
/** Those that are always returned. */
const ALWAYS: ReadonlySet<string> = new Set(["schemas", "id"]);

export function scimRoutes(deps: Deps): Route[] {
  return [...discoveryRoutes(), ...readRoutes(deps), ...writeRoutes(deps)];
}

const shared = {
  tag: "scim",
  auth: "bearer",
  scope: "scim.manage",
  form: FORM,
  bodyMaxBytes: BODY_MAX_BYTES,
  // Operations on principals count them.
  countsWrites: "itself",
} as const;

const ofUsers = { ...shared, tenant: "admin" } as const;

function discoveryRoutes(): Route[] {
  const documents = {
    ServiceProviderConfig: ["scim.config", "Get what is supported of SCIM", SERVICE_PROVIDER_CONFIG],
    ResourceTypes: ["scim.types", "List the kinds of resources", listOf(RESOURCE_TYPES)],
    Schemas: ["scim.schemas", "List the attributes that are stored", listOf(SCHEMAS)],
    Groups: ["scim.groups", "List groups: there are none", listOf(GROUPS)],
  } as const;
  const resources = {
    ResourceTypes: ["scim.type", "Get a kind of resource", RESOURCE_TYPES],
    Schemas: ["scim.schema", "Get the attributes that are stored of a kind of resource", SCHEMAS],
  } as const;
  return [
    ...Object.entries(documents).map(([path, [name, summary, body]]) =>
      discoveryRoute({ path, name, summary }, () => body)
    ),
    ...Object.entries(resources).map(([path, [name, summary, known]]) => ({
      ...discoveryRoute({ path: `${path}/:id`, name, summary }, (call) => {
        const found = known.find(({ id }) => id === idOf(call));
        if (found === undefined) throw new Fault("not_found", `Expected ${known.map(({ id }) => id).join(" or ")}`);
        return found;
      }),
      faults: ["not_found"] as const,
    })),
  ];
}

function discoveryRoute(
  { path, ...named }: { path: string; name: string; summary: string },
  read: (call: Call) => Json,
): Route {
  return {
    ...shared,
    ...named,
    method: "GET",
    path: `/scim/v2/${path}`,
    document: { responses: { "200": success("The document", {}) } },
    handle: (_request: Request, call: Call) => Response.json(read(call), { headers: { "Content-Type": TYPE } }),
  };
}

function readRoutes(deps: Deps): Route[] {
  const { users } = deps;
  return [
    {
      ...ofUsers,
      name: "scim_user.list",
      summary: "List provisioned people",
      method: "GET",
      path: USERS_PATH,
      document: {
        parameters: [...LIST_PARAMETERS, ...PROJECTION],
        responses: { "200": success("A page of users", routeSchema(UserPage)) },
      },
      async handle(request: Request, call: Call) {
        const { filter, startIndex, count } = parse(Query, queryOf(request));
        const [first, limit] = [Math.max(1, startIndex), Math.min(PAGE_MAX, Math.max(0, count))];
        const condition = filter === undefined ? EVERYONE : conditionOf(filter);
        const { total, page } = await users.list(call.actor, condition, { offset: first - 1, limit });
        const project = projectionOf(request);
        const resources = page.map((user) => project(located(user, request, deps)));
        const position = { totalResults: total, startIndex: first, itemsPerPage: page.length };
        return respond(call, { schemas: [LIST_SCHEMA], ...position, Resources: resources });
      },
    },
    {
      ...ofUsers,
      name: "scim_user.read",
      summary: "Get a provisioned person",
      method: "GET",
      path: USER_PATH,
      faults: ["not_found"],
      document: {
        parameters: PROJECTION,
        responses: {
          "200": success("The user", routeSchema(ShownUser)),
          "304": { description: "As in If-None-Match" },
        },
      },
      async handle(request: Request, call: Call) {
        const user = located(await users.read(call.actor, idOf(call)), request, deps);
        const isKnown = matchesIfNoneMatch(request.headers, user.meta.version.replace("W/", ""));
        return isKnown ? new Response(null, { status: 304 }) : respondUser(call, request, user);
      },
    },
  ];
}

function writeRoutes(deps: Deps): Route[] {
  const { users } = deps;
  const change = { ...ofUsers, path: USER_PATH, faults: ["not_found", "conflict", "version_mismatch"] } as const;
  const requestBody = given(GivenUser, {
    userName: "ada@example.com",
    externalId: "ada",
    name: { givenName: "Ada", familyName: "Lovelace" },
    emails: [{ value: "ada@example.com", primary: true }],
    active: true,
    roles: [{ value: "member", primary: true }],
  });
  const responses = { "200": success("The user", routeSchema(ShownUser)) };
  return [
    {
      ...ofUsers,
      name: "scim_user.create",
      summary: "Provision a person",
      description:
        "The person has the id `externalId`, or `userName` without one: what the identity provider has as `sub` in its " +
        "tokens. Who signed in before is the same person.",
      method: "POST",
      path: USERS_PATH,
      faults: ["conflict"],
      document: { requestBody, responses: { "201": success("The user", routeSchema(ShownUser)) } },
      async handle(request: Request, call: Call) {
        const user = await users.create(callOf(call, request), readJson(call.body));
        return respondUser(call, request, located(user, request, deps), 201);
      },
    },
    {
      ...change,
      name: "scim_user.replace",
      summary: "Replace what is known of a provisioned person",
      method: "PUT",
      document: { requestBody, responses },
      async handle(request: Request, call: Call) {
        const user = await users.replace(callOf(call, request), idOf(call), readJson(call.body));
        return respondUser(call, request, located(user, request, deps));
      },
    },
    {
      ...change,
      name: "scim_user.update",
      summary: "Change a provisioned person, or disable one with `active` false",
      method: "PATCH",
      document: {
        requestBody: given(Patch, { Operations: [{ op: "replace", path: "active", value: false }] }),
        responses,
      },
      async handle(request: Request, call: Call) {
        const { Operations } = parse(Patch, readJson(call.body));
        const user = await users.patch(callOf(call, request), idOf(call), Operations);
        return respondUser(call, request, located(user, request, deps));
      },
    },
    {
      ...change,
      name: "scim_user.delete",
      summary: "Disable a person who is no longer provisioned",
      method: "DELETE",
      document: { responses: { "204": { description: "Disabled" } } },
      async handle(request: Request, call: Call) {
        await users.remove(callOf(call, request), idOf(call));
        return new Response(null, { status: 204 });
      },
    },
  ];
}

function given(schema: z.ZodType, example: Json): Json {
  return { required: true, content: { [TYPE]: { schema: routeSchema(schema), example } } };
}

function success(description: string, schema: Json): Json {
  return { description, content: { [TYPE]: { schema } } };
}

function callOf({ actor, requestId, ip }: Call, request: Request): ScimCall {
  return { actor, client: clientOf(request, ip), requestId, ifMatch: request.headers.get("If-Match") };
}

function idOf({ params }: Call): string {
  return params.id ?? "";
}

function queryOf(request: Request): Record<string, string> {
  return Object.fromEntries(new URL(request.url).searchParams);
}

function located(user: User, request: Request, { publicUrl }: Deps): User {
  const base = publicAddressOf(request, publicUrl) ?? "";
  return { ...user, meta: { ...user.meta, location: `${base}${user.meta.location}` } };
}

function respondUser(call: Call, request: Request, user: User, status = 200): Response {
  const { version, location } = user.meta;
  return respond(call, projectionOf(request)(user), { status, headers: { ETag: version, Location: location } });
}

function respond(
  { toBody }: Call,
  body: Json,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Response {
  return new Response(toBody(JSON.stringify(body)), { status, headers: { "Content-Type": TYPE, ...headers } });
}

/** Leaves the attributes of users that the request asks for. Its names are read once: there may be thousands of them. */
function projectionOf(request: Request): (user: User) => Json {
  const { attributes, excludedAttributes } = queryOf(request);
  const names = new Set(
    (attributes ?? excludedAttributes ?? "").split(",").map((name) =>
      attributeOf(withoutUrn(name.trim()).split(".")[0] ?? "")
    ),
  );
  const isShown = (name: string): boolean => names.has(name) === (attributes !== undefined);
  return (user) => Object.fromEntries(Object.entries(user).filter(([name]) => ALWAYS.has(name) || isShown(name)));
}
