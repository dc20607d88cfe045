// Who may do what to others in a meeting: the host, moderators of meeting and room, and agents only as they were told.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import type { Entry } from "@/modules/room/mod.ts";
import { MEETING_ROLES } from "./schema.ts";
import type { MeetingRow, ParticipantRow } from "./tables.ts";

export type MeetingRole = ParticipantRow["role"];

/** The role somebody has in a meeting, whether in it or not. Agents have only what a participant was given. */
export function roleIn(
  actor: Pick<Actor, "principalId" | "kind">,
  meeting: MeetingRow,
  { role }: Entry,
  people: readonly ParticipantRow[],
): MeetingRole {
  const own = people.filter((person) => person.principal_id === actor.principalId && person.state === "joined")
    .map((person) => person.role);
  if (actor.kind !== "agent") {
    if (meeting.host_id === actor.principalId || role === "owner") return "host";
    if (isAtLeast(ROOM_ROLES, role ?? "observer", "moderator")) own.push("moderator");
  }
  return own.includes("moderator") ? "moderator" : "participant";
}

/** Throws unless the role is that of a host or moderator. */
export function requireModerator(role: MeetingRole, what: string): void {
  if (role === "participant") throw new Fault("forbidden", `${what} takes the host or a moderator of the meeting`);
}

/** Throws unless one role may act upon somebody of another. */
export function requireRank(role: MeetingRole, over: MeetingRole, what: string): void {
  requireModerator(role, what);
  if (!isAtLeast(MEETING_ROLES, role, over)) throw new Fault("forbidden", `A ${role} cannot do this to a ${over}`);
}

/** Throws for an agent that the meeting does not name. */
export function requireGrant(actor: Pick<Actor, "principalId" | "kind">, meeting: MeetingRow): void {
  if (actor.kind !== "agent") return;
  const granted: string[] = JSON.parse(meeting.agent_ids_json);
  if (!granted.includes(actor.principalId)) {
    throw new Fault("forbidden", "An agent takes part when the meeting's agentIds name it");
  }
}
