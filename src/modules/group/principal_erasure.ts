// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";
import type { GroupService } from "./service.ts";

const OF_GROUP = "of the group, as its administrators name it";

export const groupErasure = (groups: Pick<GroupService, "endMemberships">): PrincipalErasure => ({
  user_group: {
    key: ["id"],
    keeps: Object.fromEntries(
      ["handle", "name", "name_key", "description", "external_id"].map((column) => [column, OF_GROUP]),
    ),
  },
  user_group_member: {
    key: ["group_id", "principal_id"],
    deletes: ["principal_id"],
    removal: {
      of: "principal_id",
      run: ({ tenantId, principalId }, rows) =>
        groups.endMemberships(tenantId, principalId, rows.map(({ group_id }) => String(group_id))),
    },
  },
});
