// Members of a group who become members of a room: those who are in the group now.
import type { Context } from "@/core/operation.ts";
import { GROUP_MEMBERS_MAX, type GroupService, type GroupTables } from "@/modules/group/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { GroupAdd, GroupAdded } from "./group_schema.ts";
import { RoomGroupStore } from "./group_store.ts";
import type { RoomMembers } from "./members.ts";
import type { RoomAccess } from "./room_access.ts";
import type { RoomTables } from "./store.ts";

type Deps = {
  store: Store<RoomTables & GroupTables>;
  roomAccess: RoomAccess;
  identity: IdentityService;
  groups: GroupService;
  members: RoomMembers;
};

/** New members of one commit, each with events of its own. */
const BATCH = 50;

export class RoomGroups {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Adds those that the caller can see. If it is interrupted, a repeat adds the rest. */
  async add(context: Context, { id, groupId, role }: GroupAdd): Promise<GroupAdded> {
    const { store, roomAccess, identity, groups, members } = this.#deps;
    const { actor } = context;
    const { room } = await roomAccess.require(context, id);
    await groups.read(actor, groupId);
    const outside = new RoomGroupStore(store.db).membersOutside(actor.tenantId, groupId, id, GROUP_MEMBERS_MAX);
    const wanted = [...(await identity.findEnabledFor(actor, await outside)).keys()].sort();
    members.assertCapacity(room.member_count + wanted.length);
    let added = 0;
    for (let at = 0; at < wanted.length; at += BATCH) {
      added += await members.addSeveral(context, id, wanted.slice(at, at + BATCH), role);
    }
    const { room: after } = await roomAccess.require(context, id);
    return { addedCount: added, skippedCount: wanted.length - added, memberCount: after.member_count };
  }
}
