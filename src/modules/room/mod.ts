// Rooms: members, roles, bans and settings; each room has one event stream.
export { directKeyOf, directRoomName } from "./direct_room.ts";
export { isNotBanned, visibleRoomIds } from "./access_store.ts";
export {
  assertCanReceiveEvents,
  assertUnmuted,
  canMention,
  effectiveRole,
  hiddenUpTo,
  isMuted,
  notifiableIn,
  RoomAccess,
  type RoomGrant,
  type SendGrant,
  viewerOf,
  withinBounds,
} from "./room_access.ts";
export { addMembers, RoomArchiveStore } from "./archive_store.ts";
export { findMentioned, groupsIn, membersByName, type Mentioned, type MentionedGroup } from "./mentioned.ts";
export { Audience, type RoomsRead } from "./audience.ts";
export { roomModule } from "./module.ts";
export { RESTORE_WINDOW_MS } from "./room_deletion.ts";
export type { RoomMembers } from "./members.ts";
export { profileJob } from "./profile_sync.ts";
export { ownershipTransferJob } from "./ownership_transfer.ts";
export {
  newRoomData,
  NO_UNREAD,
  presentRoom,
  type ReadPosition,
  readPositions,
  type RoomReadState,
  type UnreadCount,
  type UnreadCounts,
} from "./presenter.ts";
export {
  AgentPolicy,
  DIRECT_MEMBERS_MAX,
  HISTORY_VISIBILITIES,
  Metadata,
  NAME_MAX as ROOM_NAME_MAX,
  PRESENCE_MAX,
  RETENTION_DAYS_MAX,
  Room,
  ROOM_KINDS,
  RoomEvent,
  RoomId,
  Slug,
  VISIBILITIES,
} from "./schema.ts";
export {
  canBrowsePublic,
  DEFAULT_MEMBER_SETTINGS,
  isInVisibleRoom,
  type MemberRow,
  type Reader,
  readerOf,
  type RoomRow,
  roomsOfMember,
  RoomStore,
  type RoomTables,
  type RoomViewer,
  slugOf,
  storedSlug,
  type ViewedRoom,
  VIEWER_SETTINGS,
} from "./store.ts";
export type { RoomPeople } from "./people.ts";
export { badgeCount, wantsNotification } from "./room_settings.ts";
export { MessagePreview, Person, PREVIEW_MAX, RoomInclude, Senders } from "./view_schema.ts";
export type { MessagePreviews, RoomViews } from "./room_views.ts";
export { ReadReceipts } from "./read_receipts.ts";
