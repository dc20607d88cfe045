// Recordings: asked for by a moderator, agreed to by everybody, made by the media server's egress, ended by anybody's no.
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { agree, consent as sayYes, openRecording, saveRecording, settleRecording, stopRecording } from "./consent.ts";
import type { HeldMeeting } from "./held.ts";
import type { MeetingKeeper } from "./keeper.ts";
import { FEW_ATTEMPTS, type LiveKit } from "./livekit.ts";
import { type KeptRecording, recordingOf } from "./presenter.ts";
import { requireModerator, roleIn } from "./rights.ts";
import type { Consent, Meeting } from "./schema.ts";

type Order = { meetingId: string; recordingId: string; action: "start" | "stop" };

export class MeetingRecordings {
  readonly #keeper: MeetingKeeper;
  readonly #liveKit: LiveKit | undefined;

  constructor({ keeper, liveKit }: { keeper: MeetingKeeper; liveKit: LiveKit | undefined }) {
    this.#keeper = keeper;
    this.#liveKit = liveKit;
  }

  /** Asks everybody in the meeting; the one who asks agrees by asking. */
  request(context: Context, { id, consentText }: { id: string; consentText: string }): Promise<Meeting> {
    const { actor } = context;
    return this.#keeper.holdOpen(context, id, async (held, entry) => {
      requireModerator(roleIn(actor, held.row, entry, held.people), "Recording a meeting");
      if (this.#liveKit === undefined) {
        throw new Fault(
          "recording_not_configured",
          "Recording takes a media server: set SVC_LIVEKIT_URL, SVC_LIVEKIT_API_KEY and SVC_LIVEKIT_API_SECRET",
        );
      }
      if (held.joined.length === 0) throw new Fault("conflict", "Nobody is in the meeting");
      const before = recordingOf(held.row);
      if (before !== null && !["stopped", "failed"].includes(before.state)) {
        throw new Fault("conflict", `A recording is ${before.state}`);
      }
      const recording: KeptRecording = {
        id: newId("rec"),
        state: "requested",
        consentText,
        requestedBy: actor.principalId,
        requestedAt: iso(held.now),
        startedAt: null,
        endedAt: null,
        egressId: null,
      };
      held.consentedIds = [];
      await agree(held, recording, actor.principalId);
      await saveRecording(held, recording);
      await settleRecording(held);
      return held.present();
    });
  }

  /** Ends the recording, or the asking for one. */
  stop(context: Context, id: string): Promise<Meeting> {
    const { actor } = context;
    return this.#keeper.holdOpen(context, id, async (held, entry) => {
      requireModerator(roleIn(actor, held.row, entry, held.people), "Recording a meeting");
      if (openRecording(held) === undefined) throw new Fault("conflict", "Nothing is recorded");
      await stopRecording(held);
      return held.present();
    });
  }

  /** A participant agrees; or does not, which ends the recording. */
  answer(context: Context, { id, consent }: Consent): Promise<Meeting> {
    const { actor } = context;
    return this.#keeper.holdOpen(context, id, async (held) => {
      const recording = openRecording(held);
      if (recording === undefined) throw new Fault("conflict", "Nothing is recorded");
      if (!held.joined.some((person) => person.principal_id === actor.principalId)) {
        throw new Fault("forbidden", "Only who takes part is asked");
      }
      if (consent) await sayYes(held, recording, actor);
      else await stopRecording(held);
      return held.present();
    });
  }

  /** Has the media server record, or stop. Safe to repeat: what runs already is taken over. */
  async carryOut(tenantId: string, { meetingId, recordingId, action }: Order, attempt: number): Promise<void> {
    const liveKit = this.#liveKit;
    const meeting = await this.#keeper.peek(tenantId, meetingId);
    const recording = meeting === undefined ? null : recordingOf(meeting);
    if (liveKit === undefined || meeting === undefined || recording?.id !== recordingId) return;
    if (action === "start") {
      if (recording.state !== "starting") return;
      const egressId = await this.#start(liveKit, tenantId, meetingId, meeting.kind === "audio", attempt);
      if (egressId === undefined) return;
      let isWanted = false;
      await this.#note(tenantId, meetingId, recordingId, async (held, now) => {
        isWanted = now.state === "starting";
        if (isWanted) await saveRecording(held, { ...now, egressId, startedAt: iso(held.now), state: "recording" });
      });
      // Stopped while it started: whoever stopped it could not know of this recorder.
      if (!isWanted) await liveKit.endRecord(egressId);
      return;
    }
    if (recording.state !== "stopping") return;
    const egressId = recording.egressId ?? await liveKit.recorderOf(meetingId);
    if (egressId !== undefined) await liveKit.endRecord(egressId);
    await this.#note(
      tenantId,
      meetingId,
      recordingId,
      (held, now) => saveRecording(held, { ...now, state: "stopped", endedAt: iso(held.now) }),
    );
  }

  /** `undefined` once it has been tried often enough: the room is told that it failed. */
  async #start(
    liveKit: LiveKit,
    tenantId: string,
    meetingId: string,
    isAudioOnly: boolean,
    attempt: number,
  ): Promise<string | undefined> {
    try {
      return await liveKit.record(meetingId, isAudioOnly);
    } catch (thrown) {
      if (attempt < FEW_ATTEMPTS) throw thrown;
      await this.#keeper.tend(tenantId, meetingId, async (held) => {
        const now = recordingOf(held.row);
        if (now?.state === "starting") await saveRecording(held, { ...now, state: "failed", endedAt: iso(held.now) });
      });
      return undefined;
    }
  }

  async #note(
    tenantId: string,
    meetingId: string,
    recordingId: string,
    work: (held: HeldMeeting, now: KeptRecording) => Promise<void>,
  ): Promise<void> {
    await this.#keeper.tend(tenantId, meetingId, async (held) => {
      const now = recordingOf(held.row);
      if (now?.id === recordingId) await work(held, now);
    });
  }
}
