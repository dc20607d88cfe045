// Recordings: requested by a moderator, consented to by all participants, made by the media server's egress.
import { iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { LockedMeeting } from "./locked_meeting.ts";
import type { MeetingManager } from "./meeting_manager.ts";
import { type LiveKit, SHORT_LIVED_ATTEMPTS } from "./livekit.ts";
import { recordingOf, type StoredRecording } from "./presenter.ts";
import { assertModerator, roleIn } from "./roles.ts";
import type { Consent, Meeting } from "./schema.ts";

type RecorderRequest = { meetingId: string; recordingId: string; action: "start" | "stop" };

export class MeetingRecordings {
  readonly #manager: MeetingManager;
  readonly #liveKit: LiveKit | undefined;

  constructor({ manager, liveKit }: { manager: MeetingManager; liveKit: LiveKit | undefined }) {
    this.#manager = manager;
    this.#liveKit = liveKit;
  }

  /** Requests the consent of all participants; the caller consents by requesting. */
  request(context: Context, { id, consentText }: { id: string; consentText: string }): Promise<Meeting> {
    const { actor } = context;
    return this.#manager.withOpenLock(context, id, async (meeting, grant) => {
      assertModerator(roleIn(actor, meeting.row, grant, meeting.participants), "Recording a meeting");
      if (this.#liveKit === undefined) {
        throw new Fault(
          "recording_not_configured",
          "Recording requires a media server: set SVC_LIVEKIT_URL, SVC_LIVEKIT_API_KEY and SVC_LIVEKIT_API_SECRET",
        );
      }
      if (meeting.joined.length === 0) throw new Fault("conflict", "The meeting has no participants");
      const before = recordingOf(meeting.row);
      if (before !== null && !["stopped", "failed"].includes(before.state)) {
        throw new Fault("conflict", `The recording is already ${before.state}`);
      }
      const recording: StoredRecording = {
        id: newId("rec"),
        state: "requested",
        consentText,
        requestedBy: actor.principalId,
        requestedAt: iso(meeting.now),
        startedAt: null,
        endedAt: null,
        egressId: null,
      };
      meeting.consentedIds = [];
      await meeting.addConsent(recording, actor.principalId);
      await meeting.saveRecording(recording);
      await meeting.updateRecording();
      return meeting.present();
    });
  }

  /** Stops the recording, or withdraws the request for one. */
  stop(context: Context, id: string): Promise<Meeting> {
    const { actor } = context;
    return this.#manager.withOpenLock(context, id, async (meeting, grant) => {
      assertModerator(roleIn(actor, meeting.row, grant, meeting.participants), "Recording a meeting");
      if (meeting.openRecording === undefined) throw new Fault("conflict", "The meeting is not being recorded");
      await meeting.stopRecording();
      return meeting.present();
    });
  }

  /** Consents to the recording, or declines, which stops it. */
  respondToRequest(context: Context, { id, consent }: Consent): Promise<Meeting> {
    const { actor } = context;
    return this.#manager.withOpenLock(context, id, async (meeting) => {
      const recording = meeting.openRecording;
      if (recording === undefined) throw new Fault("conflict", "The meeting is not being recorded");
      if (!meeting.joined.some((participant) => participant.principal_id === actor.principalId)) {
        throw new Fault("forbidden", "Only participants can consent");
      }
      if (consent) await meeting.giveConsent(recording, actor);
      else await meeting.stopRecording();
      return meeting.present();
    });
  }

  /** Has the media server start or stop recording. Idempotent: a recorder that runs already is used. */
  async runRecorder(
    tenantId: string,
    { meetingId, recordingId, action }: RecorderRequest,
    attempt: number,
  ): Promise<void> {
    const liveKit = this.#liveKit;
    const row = await this.#manager.findUnchecked(tenantId, meetingId);
    const recording = row === undefined ? null : recordingOf(row);
    if (liveKit === undefined || row === undefined || recording?.id !== recordingId) return;
    if (action === "start") {
      if (recording.state !== "starting") return;
      const egressId = await this.#start(liveKit, tenantId, meetingId, row.kind === "audio", attempt);
      if (egressId === undefined) return;
      let isWanted = false;
      await this.#withRecording(tenantId, meetingId, recordingId, async (meeting, current) => {
        isWanted = current.state === "starting";
        if (!isWanted) return;
        await meeting.saveRecording({ ...current, egressId, startedAt: iso(meeting.now), state: "recording" });
      });
      // Stopped while it started, when its recorder was not known yet.
      if (!isWanted) await liveKit.stopRecording(egressId);
      return;
    }
    if (recording.state !== "stopping") return;
    const egressId = recording.egressId ?? await liveKit.findRecorder(meetingId);
    if (egressId !== undefined) await liveKit.stopRecording(egressId);
    await this.#withRecording(
      tenantId,
      meetingId,
      recordingId,
      (meeting, current) => meeting.saveRecording({ ...current, state: "stopped", endedAt: iso(meeting.now) }),
    );
  }

  /** `undefined` after the last attempt, when the recording has failed. */
  async #start(
    liveKit: LiveKit,
    tenantId: string,
    meetingId: string,
    isAudioOnly: boolean,
    attempt: number,
  ): Promise<string | undefined> {
    try {
      return await liveKit.startRecording(meetingId, isAudioOnly);
    } catch (thrown) {
      if (attempt < SHORT_LIVED_ATTEMPTS) throw thrown;
      await this.#manager.withSystemLock(tenantId, meetingId, async (meeting) => {
        const current = recordingOf(meeting.row);
        if (current?.state !== "starting") return;
        await meeting.saveRecording({ ...current, state: "failed", endedAt: iso(meeting.now) });
      });
      return undefined;
    }
  }

  async #withRecording(
    tenantId: string,
    meetingId: string,
    recordingId: string,
    work: (meeting: LockedMeeting, current: StoredRecording) => Promise<void>,
  ): Promise<void> {
    await this.#manager.withSystemLock(tenantId, meetingId, async (meeting) => {
      const current = recordingOf(meeting.row);
      if (current?.id === recordingId) await work(meeting, current);
    });
  }
}
