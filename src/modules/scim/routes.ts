// The endpoints of SCIM (RFC 7644): users, groups, and what a provider can find out.
import { Fault } from "@/core/fault.ts";
import { exampleId } from "@/core/id.ts";
import type { Route } from "@/core/http/route.ts";
import { listOf, RESOURCE_TYPES, SCHEMAS, SERVICE_PROVIDER_CONFIG } from "./discovery.ts";
import { ALL, conditionOf, GROUP_FIELDS, USER_FIELDS } from "./filter.ts";
import { GivenGroup, GroupPage, ShownGroup } from "./group_schema.ts";
import type { ScimGroups } from "./groups.ts";
import {
  type Call,
  idOf,
  type ResourceKind,
  resourceRoutes,
  searchRoute,
  SHARED,
  success,
  TYPE,
} from "./resource_routes.ts";
import { GivenUser, GROUPS_PATH, type Json, ShownUser, UserPage, USERS_PATH } from "./schema.ts";
import type { ScimUsers } from "./service.ts";

type Deps = { users: ScimUsers; groups: ScimGroups; publicUrl: string | undefined };

const USER_BODY_MAX_BYTES = 64 * 1024;
/** With all of its members. */
const GROUP_BODY_MAX_BYTES = 256 * 1024;

export function scimRoutes({ users, groups, publicUrl }: Deps): Route[] {
  const kinds = [usersKind(users), groupsKind(groups)];
  const search = { ...SHARED, name: "scim.search", summary: "Search people and groups", path: "/scim/v2/.search" };
  return [
    ...discoveryRoutes(),
    ...kinds.flatMap((kind) => resourceRoutes(kind, publicUrl)),
    searchRoute(search, kinds, publicUrl),
  ];
}

function discoveryRoutes(): Route[] {
  const documents = {
    ServiceProviderConfig: ["scim.config", "Get what is supported of SCIM", SERVICE_PROVIDER_CONFIG],
    ResourceTypes: ["scim.types", "List the kinds of resources", listOf(RESOURCE_TYPES)],
    Schemas: ["scim.schemas", "List the attributes that are stored", listOf(SCHEMAS)],
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
      document: { examples: { id: known[0]?.id ?? "" }, responses: { "200": success("The document", {}) } },
      faults: ["not_found"] as const,
    })),
  ];
}

function discoveryRoute(
  { path, ...named }: { path: string; name: string; summary: string },
  read: (call: Call) => Json,
): Route {
  return {
    ...SHARED,
    ...named,
    method: "GET",
    path: `/scim/v2/${path}`,
    document: { responses: { "200": success("The document", {}) } },
    handle: (_request: Request, call: Call) => Response.json(read(call), { headers: { "Content-Type": TYPE } }),
  };
}

function usersKind(users: ScimUsers): ResourceKind {
  return {
    noun: "scim_user",
    path: USERS_PATH,
    called: { one: "user", many: "users" },
    summaries: {
      list: "List provisioned people",
      search: "Search provisioned people",
      read: "Get a provisioned person",
      create: "Provision a person",
      replace: "Replace what is known of a provisioned person",
      update: "Change a provisioned person, or disable one with `active` false",
      delete: "Disable a person who is no longer provisioned",
    },
    description:
      "The person has the id `externalId`, or `userName` without one: what the identity provider has as `sub` in its " +
      "tokens. Who signed in before is the same person.",
    filterExample: 'userName eq "ada"',
    bodyMaxBytes: USER_BODY_MAX_BYTES,
    given: GivenUser,
    shown: ShownUser,
    page: UserPage,
    example: {
      userName: "ada@example.com",
      externalId: "ada",
      name: { givenName: "Ada", familyName: "Lovelace" },
      emails: [{ value: "ada@example.com", primary: true }],
      active: true,
      roles: [{ value: "member", primary: true }],
    },
    exampleId: "ada",
    patchExample: { op: "replace", path: "active", value: false },
    list(actor, filter, range, isShown) {
      const condition = filter === undefined ? ALL : conditionOf(filter, USER_FIELDS);
      return users.list(actor, condition, { ...range, withGroups: isShown("groups") });
    },
    read: (actor, id) => users.read(actor, id),
    create: (call, json) => users.create(call, json),
    replace: (call, id, json) => users.replace(call, id, json),
    patch: (call, id, operations) => users.patch(call, id, operations),
    remove: (call, id) => users.remove(call, id),
  };
}

function groupsKind(groups: ScimGroups): ResourceKind {
  return {
    noun: "scim_group",
    path: GROUPS_PATH,
    called: { one: "group", many: "groups" },
    summaries: {
      list: "List groups",
      search: "Search groups",
      read: "Get a group with its members",
      create: "Create a group",
      replace: "Replace the name and the members of a group",
      update: "Change a group, or add and remove members",
      delete: "Delete a group; its members stay",
    },
    description: "Groups are those of `group.list`. Members are people by the `id` of their users.",
    filterExample: 'displayName eq "Design"',
    bodyMaxBytes: GROUP_BODY_MAX_BYTES,
    given: GivenGroup,
    shown: ShownGroup,
    page: GroupPage,
    example: { displayName: "Design", members: [] },
    exampleId: exampleId("grp"),
    patchExample: { op: "remove", path: 'members[value eq "ada"]' },
    list(actor, filter, range, isShown) {
      const condition = filter === undefined ? ALL : conditionOf(filter, GROUP_FIELDS);
      return groups.list(actor, condition, { ...range, withMembers: isShown("members") });
    },
    read: (actor, id, isShown) => groups.read(actor, id, isShown("members")),
    create: (call, json) => groups.create(call, json),
    replace: (call, id, json) => groups.replace(call, id, json),
    patch: (call, id, operations, isShown) => groups.patch(call, id, operations, isShown("members")),
    // A group may be large, and providers do not read it.
    patchesSilently: true,
    remove: (call, id) => groups.remove(call, id),
  };
}
