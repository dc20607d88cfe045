// What meetings tell and offer others, as narrow as it is used.
import type { Actor } from "@/core/actor.ts";

/** Something that principals outside the meeting should know. */
export type MeetingNotice = {
  tenantId: string;
  kind: "meeting_ringing" | "meeting_missed";
  principalIds: readonly string[];
  /** Who caused it; absent when time did. */
  actor?: Pick<Actor, "principalId" | "kind">;
  roomId: string;
  meetingId: string;
  title: string | null;
};

/** Notifies principals. Called inside the transaction of the change, which the notifier's own writes join. */
export type Notify = (notice: MeetingNotice) => Promise<void>;

/** A meeting that belongs to something else, such as an event of the calendar. */
export type LinkedMeeting = { roomId: string; title: string; scheduledFor: string };
