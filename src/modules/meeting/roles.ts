// Roles in a meeting: host, moderators of the meeting and the room, participants, and agents that were granted access.
import { isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import type { EventActor } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { RoomGrant } from "@/modules/room/mod.ts";
import { MEETING_ROLES } from "./schema.ts";
import type { MeetingRow, ParticipantRow } from "./tables.ts";

export type MeetingRole = ParticipantRow["role"];

/** The role of a principal in a meeting, joined or not. Agents have only the role of their participation. */
export function roleIn(
  actor: EventActor,
  meeting: MeetingRow,
  { role }: RoomGrant,
  participants: readonly ParticipantRow[],
): MeetingRole {
  const own = participants.filter((one) => one.principal_id === actor.principalId && one.state === "joined")
    .map((one) => one.role);
  if (actor.kind !== "agent") {
    if (meeting.host_id === actor.principalId || role === "owner") return "host";
    if (isAtLeast(ROOM_ROLES, role ?? "observer", "moderator")) own.push("moderator");
  }
  return own.includes("moderator") ? "moderator" : "participant";
}

export function assertModerator(role: MeetingRole, what: string): void {
  if (role === "participant") throw new Fault("forbidden", `${what} requires being host or moderator of the meeting`);
}

/** Throws unless one role may act on a participant of another. */
export function assertRank(role: MeetingRole, over: MeetingRole, what: string): void {
  assertModerator(role, what);
  if (!isAtLeast(MEETING_ROLES, role, over)) {
    throw new Fault("forbidden", `The role ${role} cannot do this to a participant with the role ${over}`);
  }
}

/** Throws for an agent that is not in `agentIds` of the meeting. */
export function assertGrant(actor: EventActor, meeting: MeetingRow): void {
  if (actor.kind !== "agent") return;
  const granted: string[] = JSON.parse(meeting.agent_ids_json);
  if (!granted.includes(actor.principalId)) {
    throw new Fault("forbidden", "An agent can participate only if it is in agentIds of the meeting");
  }
}
