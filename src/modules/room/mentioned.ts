// Whom names in a text mean: members of the room, and groups with members there.
import type { Actor } from "@/core/actor.ts";
import {
  GROUPS_MENTIONED_MAX,
  GroupStore,
  type MentionableGroup,
  viewerOf as viewerOfGroups,
} from "@/modules/group/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { RoomGroupStore } from "./group_store.ts";
import { isMuted, type RoomAccess } from "./room_access.ts";
import { type RoomRow, RoomStore, type RoomViewer } from "./store.ts";

/** A principal, or the members of a group. There are none of a group beyond the limit of groups, or of a muted agent. */
export type Mentioned = {
  principalIds: readonly string[];
  group?: MentionableGroup;
  isBeyondLimit?: boolean;
  isMuted?: boolean;
};
export type MentionedGroup = Mentioned & { group: MentionableGroup };
type Mentioner = Pick<Actor, "tenantId" | "role" | "ownerId" | "principalId">;
type NamedRoom = Pick<RoomRow, "tenant_id" | "id" | "kind" | "visibility">;
type MentionOptions = { max: number; known?: ReadonlySet<string>; db: AnyDatabase };
type Viewers = Pick<RoomAccess, "filterViewers">;

/** Enabled members of a room by those of these names that are their handles or ids, first handles. */
export async function membersByName(
  access: Viewers,
  room: NamedRoom,
  names: readonly string[],
  db: AnyDatabase,
): Promise<Map<string, RoomViewer>> {
  const found = await new RoomStore(db).membersByHandle(room.tenant_id, room.id, names);
  const viewers = await access.filterViewers(room, [...found.map(({ id }) => id), ...names], db);
  const entryOf = (name: string | null, id: string): [string, RoomViewer][] => {
    const viewer = viewers.get(id);
    return name === null || viewer === undefined || viewer.my_role === null ? [] : [[name, viewer]];
  };
  return new Map([
    ...names.flatMap((name) => entryOf(name, name)),
    ...found.flatMap(({ handle, id }) => entryOf(handle, id)),
  ]);
}

/** The same for mentions: by each name its principals, of a group as `groupsIn` finds them. */
export async function findMentioned(
  access: Viewers,
  actor: Mentioner,
  room: NamedRoom & Pick<RoomRow, "agent_policy_json">,
  names: readonly string[],
  options: MentionOptions,
): Promise<Map<string, Mentioned>> {
  const [members, groups] = await Promise.all([
    membersByName(access, room, names, options.db),
    groupsIn(access, actor, room, "handle", names, options),
  ]);
  // A principal whose id is the handle of a group came later.
  return new Map<string, Mentioned>([
    ...[...members].map(([name, { id: principalId, kind }]) =>
      [
        name,
        isMuted({ kind, principalId }, room) ? { principalIds: [], isMuted: true } : { principalIds: [principalId] },
      ] as const
    ),
    ...groups.map((one) => [one.group.handle, one] as const),
  ]);
}

/** Groups that the caller sees, not known ones, with their other members in the room; with more than `max`, some of them. */
export async function groupsIn(
  access: Viewers,
  actor: Mentioner,
  room: NamedRoom,
  column: "handle" | "id",
  values: readonly string[],
  { max, known = new Set(), db }: MentionOptions,
): Promise<MentionedGroup[]> {
  const { tenantId } = actor;
  const found = await new GroupStore(db).mentionable(tenantId, column, values, viewerOfGroups(actor));
  const groups = found.filter(({ id }) => !known.has(id));
  return await Promise.all(groups.map(async (group, index) => {
    if (known.size + index >= GROUPS_MENTIONED_MAX) return { group, principalIds: [], isBeyondLimit: true };
    // One more, since the caller may be among them.
    const ids = await new RoomGroupStore(db).membersIn(tenantId, group.id, room.id, max + 2);
    const others = await access.filterViewers(room, ids.filter((one) => one !== actor.principalId), db);
    return { group, principalIds: [...others.keys()].sort() };
  }));
}
