// Meetings: calls in a room, with participants under leases, media between peers or through a server, and what was said.
export { meetingModule } from "./api.ts";
export { MeetingCarrier } from "./carry/carrier.ts";
export {
  Capabilities,
  CONSENT_TEXT_MAX,
  END_REASONS,
  LEAVE_REASONS,
  MEETING_KINDS,
  MEETING_ROLES,
  MeetingId,
  ParticipantId,
  SEGMENT_TEXT_MAX,
  SFU_MAX,
  TITLE_MAX as MEETING_TITLE_MAX,
} from "./schema.ts";
export type { MeetingTables } from "./tables.ts";
