// Operations on groups and their members.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import {
  Group,
  GROUP_EVENTS,
  GroupCreate,
  GroupList,
  GroupMember,
  GroupMemberList,
  GroupMembersChange,
  GroupRef,
  GroupUpdate,
} from "./schema.ts";
import type { GroupService } from "./service.ts";

const PATH = "/v1/collaboration/groups";
const GROUP = exampleId("grp");
const manages = { scope: "group.manage", tenant: "admin" } as const;

export function groupApi(groups: GroupService): ModuleApi {
  return {
    tags: { groups: "Groups of people, which are mentioned together and added to rooms together." },
    events: GROUP_EVENTS,
    operations: [...groupOperations(groups), ...memberOperations(groups)],
  };
}

function groupOperations(groups: GroupService) {
  return [
    defineOperation({
      name: "group.create",
      summary: "Create a group of people",
      description: "Its handle is unique among those of groups and of principals, so that a mention is clear.",
      access: manages,
      http: { method: "POST", path: PATH, status: 201, hasLocation: true },
      input: GroupCreate,
      output: Group,
      faults: ["conflict", "handle_taken", "limit_reached"],
      example: { name: "Design team", handle: "design" },
      async run({ actor }, input) {
        const group = await groups.create(actor, input);
        return new Outcome(group, { location: `${PATH}/${group.id}` });
      },
    }),
    defineOperation({
      name: "group.list",
      summary: "List groups by name",
      description: "Guests of the tenant see the groups that they are in.",
      access: { scope: "group.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: GroupList,
      output: pageSchema(Group),
      faults: ["invalid_cursor"],
      ownData: { inputs: () => [{ principalId: "me" }] },
      run: ({ actor }, input) => groups.list(actor, input),
    }),
    defineOperation({
      name: "group.read",
      summary: "Get a group",
      access: { scope: "group.read" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: GroupRef,
      output: Group,
      faults: ["not_found"],
      example: { id: GROUP },
      run: ({ actor }, { id }) => groups.read(actor, id),
    }),
    defineOperation({
      name: "group.update",
      summary: "Update a group's name, handle or description",
      access: manages,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: GroupUpdate,
      output: Group,
      faults: ["not_found", "conflict", "handle_taken", "version_mismatch"],
      example: { id: GROUP, handle: "ux" },
      run: ({ actor }, input) => groups.update(actor, input),
    }),
    defineOperation({
      name: "group.delete",
      summary: "Delete a group; its members stay where they are",
      access: manages,
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: GroupRef,
      output: z.void(),
      faults: ["not_found"],
      example: { id: GROUP },
      run: ({ actor }, { id }) => groups.delete(actor, id),
    }),
  ];
}

function memberOperations(groups: GroupService) {
  return [
    defineOperation({
      name: "group_member.list",
      summary: "List the members of a group",
      description: "Guests of the tenant see those members that `principal.read` returns to them.",
      access: { scope: "group.read" },
      http: { method: "GET", path: `${PATH}/:id/members`, status: 200 },
      input: GroupMemberList,
      output: pageSchema(GroupMember),
      faults: ["not_found", "invalid_cursor"],
      example: { id: GROUP },
      run: ({ actor }, input) => groups.members(actor, input),
    }),
    defineOperation({
      name: "group_member.add",
      summary: "Add people to a group; those who are members stay so",
      description: "Rooms stay as they are: `member.add_group` adds the members of a group to one.",
      access: manages,
      http: { method: "POST", path: `${PATH}/:id/members`, status: 200 },
      input: GroupMembersChange,
      output: Group,
      faults: ["not_found", "limit_reached"],
      example: { id: GROUP, principalIds: ["alice", "bob"] },
      run: ({ actor }, input) => groups.addMembers(actor, input),
    }),
    defineOperation({
      name: "group_member.remove",
      summary: "Remove people from a group; they stay in its rooms",
      access: manages,
      http: { method: "DELETE", path: `${PATH}/:id/members`, status: 200 },
      input: GroupMembersChange,
      output: Group,
      faults: ["not_found"],
      example: { id: GROUP, principalIds: ["alice"] },
      run: ({ actor }, input) => groups.removeMembers(actor, input),
    }),
  ];
}
