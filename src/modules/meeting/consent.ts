// Consent to a recording: asked of everybody in the meeting, and nothing is recorded before the last has agreed.
import type { Actor } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { HeldMeeting } from "./held.ts";
import { type KeptRecording, recordingOf } from "./presenter.ts";

/** What is being recorded, or might be soon. */
export function openRecording(held: HeldMeeting): KeptRecording | undefined {
  const recording = recordingOf(held.row);
  const isOpen = recording !== null && ["requested", "starting", "recording"].includes(recording.state);
  return isOpen ? recording : undefined;
}

/** Throws when somebody would come into a recording that they have not agreed to. */
export function requireConsent(held: HeldMeeting, principalId: string): void {
  const recording = openRecording(held);
  if (recording === undefined || recording.state === "requested" || held.consentedIds.includes(principalId)) return;
  throw new Fault("conflict", "They have not agreed to the recording; they do by joining with recordingConsent: true");
}

/** A participant says yes; the last one starts the recording. */
export async function consent(
  held: HeldMeeting,
  recording: KeptRecording,
  actor: Pick<Actor, "principalId" | "kind">,
): Promise<void> {
  if (held.consentedIds.includes(actor.principalId)) return;
  await agree(held, recording, actor.principalId);
  await held.emit("meeting.recording_changed", actor);
  await settleRecording(held);
}

/** Remembers that a principal agreed to this recording. */
export async function agree(held: HeldMeeting, recording: KeptRecording, principalId: string): Promise<void> {
  if (held.consentedIds.includes(principalId)) return;
  const { tenant_id, id: meeting_id } = held.row;
  await held.meetings.addConsent({
    tenant_id,
    meeting_id,
    recording_id: recording.id,
    principal_id: principalId,
    given_at: iso(held.now),
  });
  held.consentedIds.push(principalId);
}

/** Starts what everybody present has agreed to; stops what nobody is left for. */
export async function settleRecording(held: HeldMeeting): Promise<void> {
  const recording = openRecording(held);
  if (recording === undefined) return;
  if (held.joined.length === 0) return await stopRecording(held);
  if (recording.state !== "requested") return;
  if (!held.joined.every((person) => held.consentedIds.includes(person.principal_id))) return;
  await saveRecording(held, { ...recording, state: "starting" });
  await enqueueRecorder(held, "start", recording.id);
}

/** Ends a recording in whatever state it is. */
export async function stopRecording(held: HeldMeeting): Promise<void> {
  const recording = openRecording(held);
  if (recording === undefined) return;
  const isIdle = recording.state === "requested";
  await saveRecording(held, {
    ...recording,
    state: isIdle ? "stopped" : "stopping",
    endedAt: isIdle ? iso(held.now) : null,
  });
  if (!isIdle) await enqueueRecorder(held, "stop", recording.id);
}

/** Writes a recording's new state and tells the room. */
export async function saveRecording(held: HeldMeeting, recording: KeptRecording): Promise<void> {
  await held.save({ recording_json: JSON.stringify(recording) });
  await held.emit("meeting.recording_changed", undefined);
}

async function enqueueRecorder(held: HeldMeeting, action: "start" | "stop", recordingId: string): Promise<void> {
  const { tenant_id: tenantId, id: meetingId } = held.row;
  // One key for both: orders of one meeting never wait beside each other, the later one counts.
  await held.tx.enqueue({
    tenantId,
    kind: "meeting.record",
    payload: { meetingId, recordingId, action },
    key: meetingId,
  });
}
