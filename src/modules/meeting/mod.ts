// Meetings: calls in a room, with participants under leases, media between peers or through a server, and what was said.
export { type MeetingDeps, meetingModule, type MeetingParts } from "./api.ts";
export { turnCredential } from "./media.ts";
export { type Appointment, type MeetingNotice, type Notify as NotifyMeeting } from "./outside.ts";
export type { MeetingTables } from "./tables.ts";
