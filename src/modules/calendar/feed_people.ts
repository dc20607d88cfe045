// Who makes and attends an event, as lines of an iCalendar file. Nothing may send mail on seeing them: principals have no
// address here, and those who were invited by theirs were told by whoever invited them.
import type { Occurrence } from "./occurrence.ts";
import { answerOf } from "./presenter.ts";
import type { AttendeeRow, WholeEvent } from "./store.ts";

/** What is told of a principal. */
export type Person = { display_name: string; kind: string };
export type People = ReadonlyMap<string, Person>;

/** The address of who has none, which Outlook and Apple Calendar write and know as one that nothing can be sent to. */
const NOWHERE = "invalid:nomail";
/** Whoever copies the event into a calendar of their own does not invite for it either (RFC 6638 7.1). */
const SILENT = "SCHEDULE-AGENT=NONE";
const ROLES = { chair: "CHAIR", required: "REQ-PARTICIPANT", optional: "OPT-PARTICIPANT" } as const;
const ANSWERS = {
  needs_action: "NEEDS-ACTION",
  accepted: "ACCEPTED",
  tentative: "TENTATIVE",
  declined: "DECLINED",
} as const;

/** The lines of an event, or of one occurrence; none where nobody is invited, since there it is nobody's meeting. */
export function peopleLines(
  { row, attendees, rsvps }: WholeEvent,
  people: People,
  occurrence?: Pick<Occurrence, "name">,
): string[] {
  if (attendees.length === 0) return [];
  return [
    `ORGANIZER;${nameOf(row.created_by, people)};${SILENT}:${NOWHERE}`,
    ...attendees.map((attendee) => attendeeLine(attendee, answerOf(attendee, rsvps, occurrence).status, people)),
  ];
}

function attendeeLine(
  { principal_id: id, email, role }: AttendeeRow,
  status: AttendeeRow["status"],
  people: People,
): string {
  const how = `ROLE=${ROLES[role]};PARTSTAT=${ANSWERS[status]};${SILENT}`;
  if (id === null) return `ATTENDEE;${how}:mailto:${email ?? ""}`;
  const kind = people.get(id)?.kind ?? "human";
  return `ATTENDEE;${nameOf(id, people)};CUTYPE=${kind === "human" ? "INDIVIDUAL" : "UNKNOWN"};${how}:${NOWHERE}`;
}

/** In quotes, which a name in a file cannot have in it. */
function nameOf(id: string, people: People): string {
  const name = people.get(id)?.display_name ?? id;
  return `CN="${name.replaceAll(/[\p{Cc}\u2028\u2029]/gu, " ").replaceAll('"', "'")}"`;
}
