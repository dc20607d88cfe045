// Meetings: calls in a room, with participants under leases, media between peers or through a server, and transcripts.
export { meetingModule } from "./module.ts";
