// Users of SCIM (RFC 7643), as far as the gateway knows people: names, one address, one role, and whether they are active.
import { z } from "@zod/zod";
import { TENANT_ROLES, type TenantRole } from "@/core/actor.ts";
import { parse } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { truncateText } from "@/core/text/text.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";

export const USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User";
export const GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group";
export const USERS_PATH = "/scim/v2/Users";
export const GROUPS_PATH = "/scim/v2/Groups";
const MESSAGES = "urn:ietf:params:scim:api:messages:2.0";
export const ERROR_SCHEMA = `${MESSAGES}:Error`;
export const LIST_SCHEMA = `${MESSAGES}:ListResponse`;

const NAME_MAX = 100;
const TEXT_MAX = 1000;
/** Most values of one attribute. */
export const ITEMS_MAX = 20;
const OPERATIONS_MAX = 100;

const Text = z.string().max(TEXT_MAX);
/** Entra sends `"True"` and `"False"`. */
const Flag = z.preprocess(
  (value) => typeof value === "string" ? ({ true: true, false: false } as Json)[value.toLowerCase()] : value,
  z.boolean("expected true or false"),
);
const Name = z.object({
  formatted: Text.optional().describe("The whole name, as it is written"),
  givenName: Text.optional().describe("First name"),
  familyName: Text.optional().describe("Last name"),
});
/** What is stored as it was given. */
const Profile = z.object({ displayName: Text.optional(), name: Name.optional(), email: Text.optional() });
type Profile = z.output<typeof Profile>;

/** What is read of a user; there may be much more. */
const Given = z.object({
  userName: z.string().trim().min(1).max(200),
  externalId: z.string().max(200).optional(),
  displayName: Text.optional(),
  name: Name.optional(),
  emails: z.array(z.object({ value: z.string().max(320).optional(), primary: Flag.optional() })).max(ITEMS_MAX)
    .default([]),
  active: Flag.default(true),
  roles: z.array(z.object({
    value: z.preprocess((role) => typeof role === "string" ? role.toLowerCase() : role, z.enum(TENANT_ROLES)),
    primary: Flag.optional(),
  })).max(ITEMS_MAX).default([]),
});

/** A user as the identity provider wants it. `role` is absent if it says none. */
export type WantedUser = {
  userName: string;
  externalId: string;
  profile: Profile;
  isActive: boolean;
  role: TenantRole | undefined;
};

export const Patch = z.object({
  Operations: z.array(z.object({
    op: z.string().toLowerCase().pipe(z.enum(["add", "replace", "remove"])).describe("add, replace or remove"),
    path: z.string().max(TEXT_MAX).optional().describe("The attribute; without it, `value` is an object of attributes"),
    value: z.unknown().optional().describe("Its value; none to remove it"),
  })).min(1).max(OPERATIONS_MAX).describe("Done in their order, all or none"),
}).meta({ title: "ScimPatch" });
export type PatchOperation = z.output<typeof Patch>["Operations"][number];

const Schemas = z.array(z.string()).describe("Addresses of schemas");
const Items = z.array(z.object({
  value: z.string().describe("The value itself"),
  type: z.string().optional().describe("`work`, for an address"),
  primary: z.boolean().describe("Always true"),
}));
export const User = z.object({
  schemas: Schemas,
  id: z.string().describe("Id of the principal: the `externalId` with which it was created, else its `userName`"),
  externalId: z.string().optional().describe("Id of the person at the identity provider"),
  userName: z.string().describe("Name with which the person signs in; unique in any case"),
  displayName: z.string().optional().describe("Name that others see"),
  name: Name.optional().describe("Parts of the name; others see them where there is no `displayName`"),
  emails: Items.optional().describe("One: the primary address"),
  active: z.boolean().describe("false: tokens are rejected, connections are closed"),
  roles: Items.describe("One: the role in the tenant, owner, admin, auditor, member or guest"),
  groups: z.array(z.object({
    value: z.string().describe("Id of the group"),
    $ref: z.string().describe("Address of the group"),
    display: z.string().describe("Its name"),
  })).optional().describe("Groups of the person; changed at the groups"),
  meta: z.object({
    resourceType: z.literal("User").describe("Kind of the resource"),
    created: z.iso.datetime().describe("When the person was provisioned"),
    lastModified: z.iso.datetime().describe("When the user or the principal was last changed"),
    location: z.string().describe("Address of the user"),
    version: z.string().describe("The ETag"),
  }).describe("About the resource itself"),
});
export type User = z.output<typeof User>;
/** What is stored of a given user, as the documents show it: `Given` reads other spellings as well. */
export const GivenUser = User.omit({ id: true, meta: true }).partial().required({ userName: true }).meta({
  title: "ScimUser",
});
/** With the attributes that were asked for. */
export const ShownUser = User.partial().required({ schemas: true, id: true }).meta({ title: "ScimUser" });

export const UserPage = z.object({
  schemas: Schemas,
  totalResults: z.int().describe("Users on all pages"),
  startIndex: z.int().describe("Position of the first user of the page, from 1"),
  itemsPerPage: z.int().describe("Users on the page"),
  Resources: z.array(ShownUser).describe("The users"),
}).meta({ title: "ScimUserPage" });
export const ScimError = z.object({
  schemas: Schemas,
  status: z.string().describe("HTTP status"),
  detail: z.string().describe("What was expected and received"),
  scimType: z.string().optional().describe("What is wrong with the input, such as `invalidFilter`"),
});

export type Json = Record<string, unknown>;

/** By the name in lower case: names of attributes have no case (RFC 7643, section 2.1). */
const ATTRIBUTES: ReadonlyMap<string, string> = new Map(
  ["userName", "externalId", "displayName", "name", "emails", "active", "roles", "groups", "members"]
    .concat(["formatted", "givenName", "familyName", "value", "type", "primary", "Operations", "op", "path"])
    .map((name) => [name.toLowerCase(), name]),
);
const PREFIXES = [USER_SCHEMA, GROUP_SCHEMA].map((schema) => `${schema}:`.toLowerCase());

/** An attribute that is stored, or a part of one, with its usual case; `undefined` for others. */
export function storedAttribute(name: string): string | undefined {
  return ATTRIBUTES.get(withoutUrn(name).toLowerCase());
}

/** The same, but others as they are, without the schema that may precede them. */
export function attributeOf(name: string): string {
  return storedAttribute(name) ?? withoutUrn(name);
}

export function withoutUrn(attribute: string): string {
  const prefix = PREFIXES.find((one) => attribute.toLowerCase().startsWith(one)) ?? "";
  return attribute.slice(prefix.length);
}

/** A body with the usual names of attributes, without those that are null, which is the same as absent. */
export function readJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(readJson);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(fields.map(([name, field]) => [attributeOf(name), readJson(field)]));
}

/** A user that `readJson` returned. */
export function readUser(json: unknown): WantedUser {
  const { userName, externalId = "", displayName, name, emails, active, roles } = parse(Given, json);
  return {
    userName,
    externalId,
    profile: Profile.parse({ displayName, name, email: chosen(emails)?.value }),
    isActive: active,
    role: chosen(roles)?.value,
  };
}

/** The gateway keeps one of several: the last that is primary, else the first. */
function chosen<Item extends { primary?: boolean | undefined }>(items: readonly Item[]): Item | undefined {
  return items.findLast(({ primary }) => primary === true) ?? items[0];
}

export function userPath(id: string): string {
  return `${USERS_PATH}/${encodeURIComponent(id)}`;
}

export function groupPath(id: string): string {
  return `${GROUPS_PATH}/${id}`;
}

/** The name that others see. */
export function displayNameOf(userName: string, { displayName, name }: Profile): string {
  const parts = [name?.givenName, name?.familyName].filter((part) => part !== undefined).join(" ");
  const names = [displayName, name?.formatted, parts, userName].map((one = "") =>
    truncateText(sanitizeName(one), NAME_MAX)
  );
  return names.find((one) => one !== "") ?? "User";
}

/** The id of the principal: what the provider has as `sub` in its tokens. */
export function subjectOf({ userName, externalId }: WantedUser): string {
  const [field, value] = externalId === "" ? ["userName", userName] : ["externalId", externalId];
  const id = PrincipalId.safeParse(value);
  if (id.success) return id.data;
  throw Fault.forField(`/${field}`, "invalidValue", id.error.issues[0]?.message ?? "not an id", "bad_request");
}
