// What a provider can find out about this end of SCIM (RFC 7643, sections 5 to 7).
import { TENANT_ROLES } from "@/core/actor.ts";
import { type Json, LIST_SCHEMA, USER_SCHEMA } from "./schema.ts";

/** What has an address of its own, besides its list. */
type Resource = Json & { id: string };

const CORE = "urn:ietf:params:scim:schemas:core:2.0";
/** Users of one page. */
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
      subAttributes: [
        attribute("value", { canonicalValues: TENANT_ROLES }),
        attribute("primary", { type: "boolean" }),
      ],
    }),
  ],
  meta: { resourceType: "Schema", location: `/scim/v2/Schemas/${USER_SCHEMA}` },
}];

/** The only groups of people are rooms, which people manage themselves. Some providers ask for groups with each import. */
export const GROUPS: readonly Resource[] = [];

export function listOf(resources: readonly Json[]): Json {
  const count = resources.length;
  return { schemas: [LIST_SCHEMA], totalResults: count, startIndex: 1, itemsPerPage: count, Resources: resources };
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
