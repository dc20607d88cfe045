// Groups of people, such as a team or those on call.
import type { Module } from "@/core/module.ts";
import type { PrincipalVisibility } from "@/modules/identity/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { groupApi } from "./api.ts";
import { groupArchive } from "./archive.ts";
import { migrations } from "./migrations.ts";
import { groupErasure } from "./principal_erasure.ts";
import { GROUP_MEMBERS_MAX, GROUPS_MAX } from "./schema.ts";
import { GroupService } from "./service.ts";

export {
  CHANGED_MEMBERS_MAX,
  Group,
  GROUP_MEMBERS_MAX,
  GROUP_NAME_MAX,
  GroupId,
  GroupMention,
  GROUPS_MENTIONED_MAX,
} from "./schema.ts";
export { type GroupService, viewerOf } from "./service.ts";
export { type GroupRow, GroupStore, type GroupTables, type MentionableGroup } from "./store.ts";

type GroupModule = Module & { groups: GroupService };

export function groupModule(
  { store, clock, cursors }: Platform,
  { visibility }: { visibility: PrincipalVisibility },
): GroupModule {
  const groups = new GroupService({ store, clock, cursors, visibility });
  return {
    name: "group",
    migrations,
    erases: groupErasure(groups),
    archive: groupArchive(store),
    ...groupApi(groups),
    capability: () => ({ perTenant: GROUPS_MAX, membersMax: GROUP_MEMBERS_MAX }),
    groups,
  };
}
