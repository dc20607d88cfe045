// The endpoints of one kind of resource of SCIM (RFC 7644), in its media type, with its errors.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { parse } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { publicAddressOf } from "@/core/http/public_address.ts";
import { clientOf, matchesIfNoneMatch } from "@/core/http/request.ts";
import { withoutUndefined } from "@/core/patch.ts";
import { type Route, type RouteCall, type RouteDocument, type RouteForm, routeSchema } from "@/core/http/route.ts";
import type { ScimCall } from "./call.ts";
import { PAGE_MAX } from "./discovery.ts";
import { FILTER_MAX_CHARS } from "./filter.ts";
import {
  attributeOf,
  ERROR_SCHEMA,
  type Json,
  LIST_SCHEMA,
  Patch,
  type PatchOperation,
  readJson,
  ScimError,
  withoutUrn,
} from "./schema.ts";

type Reference = { $ref: string };
type Resource = {
  id: string;
  meta: { location: string; version: string };
  members?: readonly Reference[] | undefined;
  groups?: readonly Reference[] | undefined;
};
type Range = { offset: number; limit: number };
/** Whether the caller wants an attribute. */
type IsShown = (attribute: string) => boolean;
export type Call = RouteCall & { actor: Actor };
type Verb = "list" | "search" | "read" | "create" | "replace" | "update" | "delete";

/** A kind of resources, and what is done with them. */
export type ResourceKind = {
  /** The noun in the names of its routes. */
  noun: string;
  path: string;
  /** The resource in sentences. */
  called: { one: string; many: string };
  summaries: Readonly<Record<Verb, string>>;
  /** About creating one. */
  description?: string;
  filterExample: string;
  bodyMaxBytes: number;
  /** What is stored of a given one, as the documents show it. */
  given: z.ZodType;
  example: Json;
  exampleId: string;
  patchExample: Json;
  shown: z.ZodType;
  page: z.ZodType;
  list(
    actor: Actor,
    filter: string | undefined,
    range: Range,
    isShown: IsShown,
  ): Promise<{ total: number; page: readonly Resource[] }>;
  read(actor: Actor, id: string, isShown: IsShown): Promise<Resource>;
  create(call: ScimCall, json: unknown): Promise<Resource>;
  replace(call: ScimCall, id: string, json: unknown): Promise<Resource>;
  patch(call: ScimCall, id: string, operations: readonly PatchOperation[], isShown: IsShown): Promise<Resource>;
  /** Whether a patch responds without the resource, unless its attributes are asked for. */
  patchesSilently?: true;
  remove(call: ScimCall, id: string): Promise<void>;
};

export const TYPE = "application/scim+json";
const PAGE_DEFAULT = 100;
const ATTRIBUTES_MAX = 100;
/** The `scimType` of errors in the input, as RFC 7644 names them. */
const ERROR_TYPES: ReadonlySet<string> = new Set([
  ...["invalidFilter", "invalidPath", "invalidValue", "noTarget", "mutability"],
]);
const TYPE_OF_CODE: Readonly<Record<string, string>> = { conflict: "uniqueness", invalid_json: "invalidSyntax" };
const FORM: RouteForm = {
  type: TYPE,
  below: "/scim/v2/",
  failure: {
    name: "ScimError",
    get schema() {
      return routeSchema(ScimError);
    },
  },
  describe(fault) {
    const status = fault.spec.status === 422 ? 400 : fault.spec.status;
    const own = fault.errors.find(({ code }) => ERROR_TYPES.has(code))?.code;
    const scimType = own ?? TYPE_OF_CODE[fault.code] ?? (status === 400 ? "invalidValue" : undefined);
    const body = { schemas: [ERROR_SCHEMA], status: String(status), detail: fault.message, scimType };
    return { status, body };
  },
};
/** Other parameters, such as those that sort, are ignored. */
const Query = z.object({
  filter: z.string().max(FILTER_MAX_CHARS).optional().describe("Which of them, as in lists"),
  startIndex: z.coerce.number().int().max(Number.MAX_SAFE_INTEGER).default(1).describe("Of the first, from 1"),
  count: z.coerce.number().int().default(PAGE_DEFAULT).describe(`How many, at most ${PAGE_MAX}`),
});
const SearchRequest = Query.extend({
  attributes: z.array(z.string().max(200)).max(ATTRIBUTES_MAX).optional().describe("Attributes to return; default all"),
  excludedAttributes: z.array(z.string().max(200)).max(ATTRIBUTES_MAX).optional().describe("Attributes to leave out"),
});
type Question = z.output<typeof Query>;
const PROJECTION = ["attributes", "excludedAttributes"].map((name) => ({
  name,
  in: "query",
  description: "Names of attributes, separated by commas",
  schema: { type: "string" },
}));
/** Those that are always returned. */
const ALWAYS: ReadonlySet<string> = new Set(["schemas", "id"]);

/** What all routes of SCIM have. */
export const SHARED = {
  tag: "scim",
  auth: "bearer",
  scope: "scim.manage",
  form: FORM,
  // The operations that they are made of count them.
  countsWrites: "itself",
} as const;

export function resourceRoutes(kind: ResourceKind, publicUrl: string | undefined): Route[] {
  return [...readRoutes(kind, publicUrl), ...writeRoutes(kind, publicUrl)];
}

function readRoutes(kind: ResourceKind, publicUrl: string | undefined): Route[] {
  const { one, many } = kind.called;
  return [
    {
      ...routeOf(kind, "list"),
      method: "GET",
      path: kind.path,
      get document() {
        return {
          parameters: [...listParameters(kind), ...PROJECTION],
          responses: { "200": success(`A page of ${many}`, routeSchema(kind.page)) },
        };
      },
      async handle(request: Request, call: Call) {
        return respond(call, await pageOf([kind], { call, request, publicUrl }, parse(Query, queryOf(request))));
      },
    },
    searchRoute({ ...routeOf(kind, "search"), path: `${kind.path}/.search` }, [kind], publicUrl),
    {
      ...routeOf(kind, "read"),
      method: "GET",
      path: `${kind.path}/:id`,
      faults: ["not_found"],
      get document() {
        return {
          examples: { id: kind.exampleId },
          parameters: PROJECTION,
          responses: {
            "200": success(`The ${one}`, routeSchema(kind.shown)),
            "304": { description: "As in If-None-Match" },
          },
        };
      },
      async handle(request: Request, call: Call) {
        const resource = await kind.read(call.actor, idOf(call), projectionOf(request));
        const isKnown = matchesIfNoneMatch(request.headers, resource.meta.version.replace("W/", ""));
        return isKnown ? new Response(null, { status: 304 }) : respondOne(call, request, resource, publicUrl);
      },
    },
  ];
}

/** A list whose parameters are in the body. */
export function searchRoute(
  named: Pick<Route, "name" | "summary" | "path"> & typeof SHARED,
  kinds: readonly ResourceKind[],
  publicUrl: string | undefined,
): Route {
  const [{ filterExample: filter, page } = { filterExample: "", page: z.unknown() }] = kinds;
  return {
    ...named,
    tenant: "admin",
    method: "POST",
    get document() {
      const example = { filter, startIndex: 1, count: 10 };
      return {
        requestBody: given(SearchRequest.partial().meta({ title: "ScimSearch" }), example),
        responses: { "200": success("A page of what was found", kinds.length === 1 ? routeSchema(page) : {}) },
      };
    },
    async handle(request: Request, call: Call) {
      const { attributes, excludedAttributes, ...question } = parse(SearchRequest, readJson(call.body));
      const isShown = attributes === undefined && excludedAttributes === undefined
        ? undefined
        : shownOf(attributes, excludedAttributes);
      return respond(call, await pageOf(kinds, { call, request, publicUrl }, question, isShown));
    },
  };
}

/** One page of the resources of some kinds, one kind after the other. What no resource of a kind has finds none of it. */
async function pageOf(
  kinds: readonly ResourceKind[],
  { call, request, publicUrl }: { call: Call; request: Request; publicUrl: string | undefined },
  { filter, startIndex, count }: Question,
  isShown = projectionOf(request),
): Promise<Json> {
  const [first, limit] = [Math.max(1, startIndex), Math.min(PAGE_MAX, Math.max(0, count))];
  const found: Resource[] = [];
  const refused: unknown[] = [];
  let total = 0;
  for (const kind of kinds) {
    const range = { offset: Math.max(0, first - 1 - total), limit: limit - found.length };
    try {
      const part = await kind.list(call.actor, filter, range, isShown);
      found.push(...part.page);
      total += part.total;
    } catch (thrown) {
      if (!(thrown instanceof Fault) || !thrown.errors.some(({ code }) => code === "invalidFilter")) throw thrown;
      refused.push(thrown);
    }
  }
  if (refused.length === kinds.length) throw refused[0];
  const resources = found.map((resource) => project(located(resource, request, publicUrl), isShown));
  const position = { totalResults: total, startIndex: first, itemsPerPage: found.length };
  return { schemas: [LIST_SCHEMA], ...position, Resources: resources };
}

function writeRoutes(kind: ResourceKind, publicUrl: string | undefined): Route[] {
  const change = { path: `${kind.path}/:id`, faults: ["not_found", "conflict", "version_mismatch"] } as const;
  return [
    {
      ...routeOf(kind, "create"),
      ...kind.description === undefined ? {} : { description: kind.description },
      method: "POST",
      path: kind.path,
      faults: ["conflict"],
      get document() {
        return writeDocument(kind, "create");
      },
      async handle(request: Request, call: Call) {
        const resource = await kind.create(callOf(call, request), readJson(call.body));
        return respondOne(call, request, resource, publicUrl, 201);
      },
    },
    {
      ...routeOf(kind, "replace"),
      ...change,
      method: "PUT",
      get document() {
        return writeDocument(kind, "replace");
      },
      async handle(request: Request, call: Call) {
        const resource = await kind.replace(callOf(call, request), idOf(call), readJson(call.body));
        return respondOne(call, request, resource, publicUrl);
      },
    },
    {
      ...routeOf(kind, "update"),
      ...change,
      method: "PATCH",
      get document() {
        return writeDocument(kind, "update");
      },
      async handle(request: Request, call: Call) {
        const { Operations } = parse(Patch, readJson(call.body));
        const isSilent = kind.patchesSilently === true && queryOf(request)["attributes"] === undefined;
        const isShown = isSilent ? () => false : projectionOf(request);
        const resource = await kind.patch(callOf(call, request), idOf(call), Operations, isShown);
        return isSilent
          ? new Response(null, { status: 204, headers: { ETag: resource.meta.version } })
          : respondOne(call, request, resource, publicUrl);
      },
    },
    {
      ...routeOf(kind, "delete"),
      ...change,
      method: "DELETE",
      document: { examples: { id: kind.exampleId }, responses: { "204": { description: "Done" } } },
      async handle(request: Request, call: Call) {
        await kind.remove(callOf(call, request), idOf(call));
        return new Response(null, { status: 204 });
      },
    },
  ];
}

function writeDocument(kind: ResourceKind, verb: "create" | "replace" | "update"): RouteDocument {
  const whole = success(`The ${kind.called.one}`, routeSchema(kind.shown));
  if (verb === "create") return { requestBody: given(kind.given, kind.example), responses: { "201": whole } };
  const examples = { id: kind.exampleId };
  if (verb === "replace") {
    return { examples, requestBody: given(kind.given, kind.example), responses: { "200": whole } };
  }
  return {
    examples,
    requestBody: given(Patch, { Operations: [kind.patchExample] }),
    responses: kind.patchesSilently === true
      ? { "200": whole, "204": { description: "Changed; `attributes` were not asked for" } }
      : { "200": whole },
  };
}

function routeOf({ noun, summaries, bodyMaxBytes }: ResourceKind, verb: Verb) {
  return { ...SHARED, tenant: "admin", bodyMaxBytes, name: `${noun}.${verb}`, summary: summaries[verb] } as const;
}

function given(schema: z.ZodType, example: Json): Json {
  return { required: true, content: { [TYPE]: { schema: routeSchema(schema), example } } };
}

export function success(description: string, schema: Json): Json {
  return { description, content: { [TYPE]: { schema } } };
}

function callOf({ actor, requestId, ip }: Call, request: Request): ScimCall {
  return { actor, client: clientOf(request, ip), requestId, ifMatch: request.headers.get("If-Match") };
}

export function idOf({ params }: Call): string {
  return params.id ?? "";
}

function queryOf(request: Request): Record<string, string> {
  return Object.fromEntries(new URL(request.url).searchParams);
}

function listParameters({ called: { one, many }, filterExample }: ResourceKind) {
  return [
    { name: "filter", in: "query", description: `Such as \`${filterExample}\``, schema: { type: "string" } },
    { name: "startIndex", in: "query", description: `Of the first ${one}, from 1`, schema: { type: "integer" } },
    { name: "count", in: "query", description: `Number of ${many}, at most ${PAGE_MAX}`, schema: { type: "integer" } },
  ];
}

function located(resource: Resource, request: Request, publicUrl: string | undefined): Resource {
  const base = publicAddressOf(request, publicUrl) ?? "";
  const { meta, members, groups } = resource;
  const absolute = (references: readonly Reference[] | undefined) =>
    references?.map((one) => ({ ...one, $ref: `${base}${one.$ref}` }));
  return {
    ...resource,
    ...withoutUndefined({ members: absolute(members), groups: absolute(groups) }),
    meta: { ...meta, location: `${base}${meta.location}` },
  };
}

function respondOne(
  call: Call,
  request: Request,
  resource: Resource,
  publicUrl: string | undefined,
  status = 200,
): Response {
  const shown = located(resource, request, publicUrl);
  const { version, location } = shown.meta;
  const headers = { ETag: version, Location: location };
  return respond(call, project(shown, projectionOf(request)), { status, headers });
}

function respond(
  { toBody }: Call,
  body: Json,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Response {
  return new Response(toBody(JSON.stringify(body)), { status, headers: { "Content-Type": TYPE, ...headers } });
}

/** Which attributes the request asks for. Its names are read once: there may be thousands of them. */
function projectionOf(request: Request): IsShown {
  const { attributes, excludedAttributes } = queryOf(request);
  return shownOf(attributes?.split(","), excludedAttributes?.split(","));
}

function shownOf(attributes: readonly string[] | undefined, excluded: readonly string[] | undefined): IsShown {
  const names = new Set(
    (attributes ?? excluded ?? []).map((name) => attributeOf(withoutUrn(name.trim()).split(".")[0] ?? "")),
  );
  return (name) => ALWAYS.has(name) || names.has(name) === (attributes !== undefined);
}

function project(resource: Resource, isShown: IsShown): Json {
  return Object.fromEntries(Object.entries(resource).filter(([name]) => isShown(name)));
}
