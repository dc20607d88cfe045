// Lines of a room's meetings: each, then who came, who agreed to be recorded, and what was said in the order of it.
import type { MeetingCarrier } from "@/modules/meeting/mod.ts";
import type { Telling } from "./section.ts";

/** The meetings of a room. */
export async function* meetingLines(
  carrier: MeetingCarrier,
  { tenantId, people, counts }: Telling,
  roomId: string,
): AsyncGenerator<unknown[]> {
  for await (const page of carrier.meetings(tenantId, roomId)) {
    if ("meetings" in page) {
      yield await people(page.meetings.flatMap(({ hostId, createdBy, agentIds, recording }) => [
        hostId,
        createdBy,
        ...agentIds,
        ...recording === null ? [] : [recording.requestedBy],
      ]));
      counts.meetings += page.meetings.length;
      yield page.meetings.map((meeting) => ({ type: "meeting", ...meeting }));
    } else if ("participants" in page) {
      yield await people(page.participants.map(({ principalId }) => principalId));
      counts.participants += page.participants.length;
      yield page.participants.map((one) => ({ type: "meeting_participant", roomId, ...one }));
    } else if ("consents" in page) {
      yield await people(page.consents.map(({ principalId }) => principalId));
      yield page.consents.map((consent) => ({ type: "meeting_consent", roomId, ...consent }));
    } else {
      yield await people(page.segments.flatMap(({ speakerId, postedBy }) => [speakerId, postedBy]));
      counts.segments += page.segments.length;
      yield page.segments.map((segment) => ({ type: "meeting_segment", roomId, ...segment }));
    }
  }
}
