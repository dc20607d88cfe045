// Meetings: calls in a room, with participants under leases, media between peers or through a server, and what was said.
export { type MeetingDeps, meetingModule, type MeetingParts } from "./api.ts";
export {
  type CarriedConsent,
  type CarriedMeeting,
  type CarriedParticipant,
  type CarriedSegment,
  MeetingCarrier,
} from "./carry/carrier.ts";
export { turnCredential } from "./media.ts";
export { type Appointment, type MeetingNotice, type Notify as NotifyMeeting } from "./outside.ts";
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
