// Rooms: where people and agents meet, with members, roles and one line of events each.
export { roomModule } from "./api.ts";
export { RoomBin } from "./bin.ts";
export { keyOf as directKeyOf } from "./direct.ts";
export { isNotBanned, roomsInReach } from "./door/store.ts";
export {
  addressedIn,
  checkHears,
  effectiveRole,
  type Entry,
  hiddenUpTo,
  isMuted,
  mayName,
  notFound,
  type Pass,
  RoomGate,
  seer,
} from "./gate.ts";
export { RoomMembers } from "./members.ts";
export {
  NOTHING_UNREAD,
  presentRoom,
  presentShared,
  readIn,
  type ReadPosition,
  type ReadRoom,
  type UnreadCount,
  type UnreadCounts,
} from "./presenter.ts";
export {
  AgentPolicy,
  HISTORY_VISIBILITIES,
  Metadata,
  PRESENCE_MAX,
  RETENTION_DAYS_MAX,
  Room,
  ROOM_KINDS,
  RoomEvent,
  RoomId,
  Slug,
  VISIBILITIES,
} from "./schema.ts";
export { RoomService } from "./service.ts";
export {
  isInSeenRoom,
  looksIntoPublic,
  type MemberRow,
  type Reader,
  readerOf,
  type RoomRow,
  RoomStore,
  type RoomTables,
  type SeenRoom,
  seenRooms,
  type Visitor,
} from "./store.ts";
export { profileJob, RoomProfiles } from "./profile/service.ts";
export { RoomSuccession, successionJob } from "./succession/service.ts";
