// Meetings: calls in a room, with participants under leases, media between peers or through a server, and transcripts.
export type { LinkedMeetings, MeetingSlot } from "./linked_meetings.ts";
export { meetingModule } from "./module.ts";
