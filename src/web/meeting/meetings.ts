// The meetings of rooms.
import { get, post } from "../core/api.ts";

export const PATH = "v1/collaboration/meetings";

export type Participant = {
  id: string;
  principalId: string;
  displayName: string;
  role: "participant" | "moderator" | "host";
  state: "waiting" | "joined" | "left";
  muted: boolean;
  handRaisedAt: string | null;
};
export type Recording = {
  state: "requested" | "starting" | "recording" | "stopping" | "stopped" | "failed";
  consentText: string;
  requestedBy: string;
  startedAt: string | null;
  pendingIds: string[];
};
export type Meeting = {
  id: string;
  roomId: string;
  title: string | null;
  state: "scheduled" | "ringing" | "active" | "ended";
  hostId: string;
  participantCount: number;
  /** Events may leave it out because of its length. */
  recording?: Recording | null;
  startedAt: string | null;
  endedAt: string | null;
  createdBy: string;
  createdAt: string;
  version: number;
};

/** The current call of a room; `undefined` if there is none. */
export async function findMeeting(roomId: string): Promise<Meeting | undefined> {
  const { items } = await get<{ items: Meeting[] }>(PATH, { roomId, state: ["active", "ringing"], limit: 1 });
  return items[0];
}

export function readMeeting(id: string): Promise<Meeting> {
  return get<Meeting>(`${PATH}/${encodeURIComponent(id)}`);
}

export function startMeeting(roomId: string, lobby: boolean): Promise<Meeting> {
  return post<Meeting>(PATH, { roomId, kind: "video", lobby });
}
