// The tables of rooms, members and bans, and the rows that queries return.
import type { PrincipalKind, RoomRole, TenantRole } from "@/core/actor.ts";
import type { NotifyLevel } from "./schema.ts";

export type RoomRow = {
  tenant_id: string;
  id: string;
  name: string;
  slug: string | null;
  topic: string | null;
  description: string | null;
  kind: "channel" | "direct" | "task" | "meeting";
  visibility: "public" | "private";
  history_visibility: "shared" | "joined";
  state: "active" | "archived" | "deleted";
  agent_policy_json: string;
  retention_days: number | null;
  metadata_json: string;
  member_count: number;
  /** The members of a direct room, sorted and hashed; one room per set. */
  direct_key: string | null;
  last_message_at: string | null;
  /** Sort key of the list: the time of the last message, or of the creation. */
  active_at: string;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  /** `RestoreState` of a deleted room; otherwise null. */
  restore_state_json: string | null;
};

export type RestoreState = Pick<RoomRow, "slug" | "state">;

/** Settings of a member for a room. */
export type MemberSettingsRow = {
  notify_level: NotifyLevel;
  muted_until: string | null;
  favorite_order: number | null;
};
/** The settings of new members. */
export const DEFAULT_MEMBER_SETTINGS: MemberSettingsRow = {
  notify_level: "all",
  muted_until: null,
  favorite_order: null,
};

export type MemberRow = MemberSettingsRow & {
  tenant_id: string;
  room_id: string;
  principal_id: string;
  role: RoomRole;
  joined_at: string;
  /** Head of the stream when they joined. */
  joined_seq: number;
  last_read_seq: number;
  /** Version of the principal that was last published in the room, by `member.joined` or `member.updated`. */
  published_version: number;
};

/** The profile of a principal in lists. */
export const PROFILE_COLUMNS = [
  "principal.kind",
  "principal.handle",
  "principal.display_name",
  "principal.avatar_file_id",
  "principal.status_text",
  "principal.status_emoji",
  "principal.status_until",
  "principal.is_disabled",
] as const;
export type ProfileColumns = Pick<
  RoomTables["principal"],
  | "kind"
  | "handle"
  | "display_name"
  | "avatar_file_id"
  | "status_text"
  | "status_emoji"
  | "status_until"
  | "is_disabled"
>;
/** A member with the profile of the principal. */
export type ListedMember = MemberRow & ProfileColumns;

export type BanRow = {
  tenant_id: string;
  room_id: string;
  principal_id: string;
  reason: string | null;
  created_by: string;
  created_at: string;
};

export type RoomTables = {
  room: RoomRow;
  member: MemberRow;
  ban: BanRow;
  principal: {
    tenant_id: string;
    id: string;
    kind: PrincipalKind;
    handle: string | null;
    display_name: string;
    avatar_file_id: string | null;
    status_text: string | null;
    status_emoji: string | null;
    status_until: string | null;
    role: TenantRole;
    owner_id: string | null;
    prefs_json: string;
    is_disabled: number;
  };
  stream: { tenant_id: string; name: string; epoch: string; head: number; floor: number };
};

/** A room as seen by one principal. */
export type ViewedRoom = RoomRow & {
  my_role: RoomRole | null;
  my_joined_seq: number | null;
  my_last_read_seq: number | null;
  my_notify_level: NotifyLevel | null;
  my_muted_until: string | null;
  my_favorite_order: number | null;
  owner_role: RoomRole | null;
  owner_joined_seq: number | null;
  epoch: string | null;
  head: number | null;
};

/** A principal with its access to one room. */
export type RoomViewer = Pick<RoomTables["principal"], "id" | "kind" | "role" | "owner_id"> & {
  my_role: RoomRole | null;
  my_joined_seq: number | null;
  owner_role: RoomRole | null;
  owner_joined_seq: number | null;
  last_read_seq: number | null;
  notify_level: NotifyLevel | null;
  muted_until: string | null;
};

/**
 * Public rooms of a tenant share one namespace of slugs. Nobody outside a private room may learn that it has a slug, so
 * private rooms may have any: it is stored with the id of the room appended.
 */
const SLUG_SEPARATOR = "/";

/** The slug as stored; stored slugs are unique in a tenant. */
export function storedSlug({ id, visibility }: Pick<RoomRow, "id" | "visibility">, slug: string | null): string | null {
  return slug === null || visibility === "public" ? slug : `${slug}${SLUG_SEPARATOR}${id}`;
}

/** The slug as clients see it. */
export function slugOf({ slug }: Pick<RoomRow, "slug">): string | null {
  return slug?.split(SLUG_SEPARATOR)[0] ?? null;
}

/** The principal that a query is for; `ownerId` is empty unless it is an owned agent. */
export type Viewer = { tenantId: string; principalId: string; ownerId: string };

/**
 * The reader of a list across rooms: `isOwned` bounds an agent by its owner, `withPublic` adds rooms that it may browse, and
 * `roomIds` are all rooms that an agent on behalf of others may read.
 */
export type Reader = {
  principalId: string;
  ownerId: string;
  isOwned: boolean;
  withPublic: boolean;
  roomIds?: readonly string[] | undefined;
};
