// What a provider can find out about this end of SCIM (RFC 7643, sections 5 to 7).
import { TENANT_ROLES } from "@/core/actor.ts";
import { GROUP_SCHEMA, type Json, LIST_SCHEMA, USER_SCHEMA } from "./schema.ts";

/** What has an address of its own, besides its list. */
type Resource = Json & { id: string };

const CORE = "urn:ietf:params:scim:schemas:core:2.0";
/** Users or groups of one page. */
export const PAGE_MAX = 200;

export const SERVICE_PROVIDER_CONFIG: Json = {
  schemas: [`${CORE}:ServiceProviderConfig`],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: PAGE_MAX },
  changePassword: { supported: false },
  sort: { supported: false },
  etag: { supported: true },
  authenticationSchemes: [{
    type: "oauthbearertoken",
    name: "Bearer token",
    description: "A token of the gateway with the scope scim.manage",
    primary: true,
  }],
  meta: { resourceType: "ServiceProviderConfig", location: "/scim/v2/ServiceProviderConfig" },
};

export const RESOURCE_TYPES: readonly Resource[] = [{
  schemas: [`${CORE}:ResourceType`],
  id: "User",
  name: "User",
  endpoint: "/Users",
  description: "A person",
  schema: USER_SCHEMA,
  meta: { resourceType: "ResourceType", location: "/scim/v2/ResourceTypes/User" },
}, {
  schemas: [`${CORE}:ResourceType`],
  id: "Group",
  name: "Group",
  endpoint: "/Groups",
  description: "A group of people",
  schema: GROUP_SCHEMA,
  meta: { resourceType: "ResourceType", location: "/scim/v2/ResourceTypes/Group" },
}];

export const SCHEMAS: readonly Resource[] = [{
  schemas: [`${CORE}:Schema`],
  id: USER_SCHEMA,
  name: "User",
  description: "A person",
  attributes: [
    attribute("userName", { required: true, uniqueness: "server" }),
    attribute("externalId", { caseExact: true, mutability: "immutable" }),
    attribute("displayName"),
    attribute("name", {
      type: "complex",
      subAttributes: ["formatted", "givenName", "familyName"].map((name) => attribute(name)),
    }),
    attribute("emails", {
      type: "complex",
      multiValued: true,
      subAttributes: [
        attribute("value"),
        attribute("type", { mutability: "readOnly", canonicalValues: ["work"] }),
        attribute("primary", { type: "boolean" }),
      ],
    }),
    attribute("active", { type: "boolean" }),
    attribute("roles", {
      type: "complex",
      multiValued: true,
      subAttributes: [attribute("value", { canonicalValues: TENANT_ROLES }), attribute("primary", { type: "boolean" })],
    }),
    attribute("groups", {
      type: "complex",
      multiValued: true,
      mutability: "readOnly",
      subAttributes: [
        ...["value", "display"].map((name) => attribute(name, { mutability: "readOnly" })),
        reference("Group", "readOnly"),
      ],
    }),
  ],
  meta: { resourceType: "Schema", location: `/scim/v2/Schemas/${USER_SCHEMA}` },
}, {
  schemas: [`${CORE}:Schema`],
  id: GROUP_SCHEMA,
  name: "Group",
  description: "A group of people",
  attributes: [
    attribute("displayName", { required: true, uniqueness: "server" }),
    attribute("externalId", { caseExact: true }),
    attribute("members", {
      type: "complex",
      multiValued: true,
      subAttributes: [
        attribute("value", { mutability: "immutable" }),
        reference("User", "immutable"),
        ...["display", "type"].map((name) => attribute(name, { mutability: "readOnly" })),
      ],
    }),
  ],
  meta: { resourceType: "Schema", location: `/scim/v2/Schemas/${GROUP_SCHEMA}` },
}];

export function listOf(resources: readonly Json[]): Json {
  const count = resources.length;
  return { schemas: [LIST_SCHEMA], totalResults: count, startIndex: 1, itemsPerPage: count, Resources: resources };
}

function reference(to: string, mutability: string): Json {
  return attribute("$ref", { type: "reference", referenceTypes: [to], caseExact: true, mutability });
}

function attribute(name: string, more: Json = {}): Json {
  return {
    name,
    type: "string",
    multiValued: false,
    required: false,
    caseExact: false,
    mutability: "readWrite",
    returned: "default",
    uniqueness: "none",
    ...more,
  };
}
