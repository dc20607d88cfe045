// The meetings of rooms.
import { get, post } from "../core/api.ts";

export const PATH = "v1/collaboration/meetings";

export type Participant = {
  id: string;
  principalId: string;
  displayName: string;
  state: "waiting" | "joined" | "left";
  muted: boolean;
  handRaisedAt: string | null;
};
export type Meeting = {
  id: string;
  roomId: string;
  title: string | null;
  state: "scheduled" | "ringing" | "active" | "ended";
  hostId: string;
  participantCount: number;
  createdBy: string;
};

/** The current call of a room; `undefined` if there is none. */
export async function findMeeting(roomId: string): Promise<Meeting | undefined> {
  const { items } = await get<{ items: Meeting[] }>(PATH, { roomId, state: ["active", "ringing"], limit: 1 });
  return items[0];
}

export function startMeeting(roomId: string): Promise<Meeting> {
  return post<Meeting>(PATH, { roomId, kind: "video" });
}
