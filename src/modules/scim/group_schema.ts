// Groups of SCIM (RFC 7643, section 4.2).
import { z } from "@zod/zod";
import { parse } from "@/core/dispatch.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { truncateText } from "@/core/text/text.ts";
import { GROUP_MEMBERS_MAX, GROUP_NAME_MAX } from "@/modules/group/mod.ts";

const Schemas = z.array(z.string()).describe("Addresses of schemas");
/** Some providers send ids alone. */
const GivenMember = z.preprocess(
  (member) => typeof member === "string" ? { value: member } : member,
  z.object({ value: z.string().max(128) }),
);
export const GivenMembers = z.preprocess(
  (members) => members === undefined || Array.isArray(members) ? members : [members],
  z.array(GivenMember).max(GROUP_MEMBERS_MAX),
);
export const GivenName = z.string().max(1000)
  .transform((name) => truncateText(sanitizeName(name), GROUP_NAME_MAX)).pipe(z.string().min(1));
export const GivenExternalId = z.string().max(200).transform((id) => id === "" ? null : id);

/** What is read of a group; there may be more. */
const Given = z.object({
  displayName: GivenName,
  externalId: GivenExternalId.optional(),
  members: GivenMembers.optional(),
});

/** A group as the identity provider wants it; what it does not mention is absent. */
type WantedGroup = { displayName: string; externalId: string | null | undefined; memberIds: string[] | undefined };

const Member = z.object({
  value: z.string().describe("Id of the person"),
  $ref: z.string().describe("Address of the person"),
  display: z.string().describe("Name of the person"),
  type: z.literal("User").describe("People only"),
});
export const ScimGroup = z.object({
  schemas: Schemas,
  id: z.string().describe("Id of the group"),
  externalId: z.string().optional().describe("Id of the group at the identity provider"),
  displayName: z.string().describe("Name of the group, unique in any case"),
  members: z.array(Member).optional().describe("The members"),
  meta: z.object({
    resourceType: z.literal("Group").describe("Kind of the resource"),
    created: z.iso.datetime().describe("When the group was created"),
    lastModified: z.iso.datetime().describe("When the group or its members last changed"),
    location: z.string().describe("Address of the group"),
    version: z.string().describe("The ETag"),
  }).describe("About the resource itself"),
});
export type ScimGroup = z.output<typeof ScimGroup>;
/** What is stored of a given group, as the documents show it: `Given` reads other spellings as well. */
export const GivenGroup = ScimGroup.omit({ id: true, meta: true }).partial().required({ displayName: true })
  .extend({ members: z.array(Member.partial().required({ value: true })).optional().describe("The members") })
  .meta({ title: "ScimGroup" });
/** With the attributes that were asked for. */
export const ShownGroup = ScimGroup.partial().required({ schemas: true, id: true }).meta({ title: "ScimGroup" });

export const GroupPage = z.object({
  schemas: Schemas,
  totalResults: z.int().describe("Groups on all pages"),
  startIndex: z.int().describe("Position of the first group of the page, from 1"),
  itemsPerPage: z.int().describe("Groups on the page; fewer than asked for if they have many members"),
  Resources: z.array(ShownGroup).describe("The groups"),
}).meta({ title: "ScimGroupPage" });

/** A group that `readJson` returned. */
export function readGroup(json: unknown): WantedGroup {
  const { displayName, externalId, members } = parse(Given, json);
  return { displayName, externalId, memberIds: members?.map(({ value }) => value) };
}
