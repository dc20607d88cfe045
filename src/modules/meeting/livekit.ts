// LiveKit, the media server for calls too large for peers: tokens for participants, and orders to its API. Loaded on first use.
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Meeting, Participant } from "./schema.ts";

/** A token opens a connection; LiveKit renews it by itself for as long as that lasts. */
const TOKEN_SECONDS = 60;

/** What has to end is tried to be ended for about a day: nobody else will. */
export const END_ATTEMPTS = 100;
/** Attempts at what soon nobody wants any more: to begin a recording, to mute somebody. */
export const FEW_ATTEMPTS = 4;

export type LiveKitSettings = { url: string; apiKey: string; apiSecret: string };

/** A meeting is a LiveKit room of the same id, a participant an identity of the same id. */
export class LiveKit {
  readonly #settings: LiveKitSettings;

  constructor(settings: LiveKitSettings) {
    this.#settings = settings;
  }

  /** What a participant connects with. */
  async admit(
    meetingId: string,
    meetingKind: Meeting["kind"],
    participant: Participant,
  ): Promise<{ url: string; token: string; expiresAt: string }> {
    const { AccessToken, TrackSource } = await import("livekit-server-sdk");
    const { apiKey, apiSecret, url } = this.#settings;
    const token = new AccessToken(apiKey, apiSecret, {
      identity: participant.id,
      name: participant.displayName,
      ttl: TOKEN_SECONDS,
      attributes: { principalId: participant.principalId, role: participant.role },
    });
    const sources = meetingKind === "audio"
      ? [TrackSource.MICROPHONE]
      : [TrackSource.MICROPHONE, TrackSource.CAMERA, TrackSource.SCREEN_SHARE, TrackSource.SCREEN_SHARE_AUDIO];
    token.addGrant({
      room: meetingId,
      roomJoin: true,
      canSubscribe: true,
      canPublishData: true,
      canPublish: true,
      canPublishSources: sources,
      agent: participant.kind === "agent",
    });
    // The media server checks the token against its own time, so it ends by the machine's clock.
    return { url, token: await token.toJwt(), expiresAt: iso(Date.now() + TOKEN_SECONDS * 1000) };
  }

  /** Cuts a participant off, and takes their token back where the server can; fine when they are gone. */
  async remove(meetingId: string, participantId: string): Promise<void> {
    await unlessAbsent((await this.#rooms()).removeParticipant(meetingId, participantId));
  }

  /** Silences the microphone of a participant. */
  async mute(meetingId: string, participantId: string): Promise<void> {
    const rooms = await this.#rooms();
    const { TrackSource } = await import("livekit-server-sdk");
    const participant = await unlessAbsent(rooms.getParticipant(meetingId, participantId));
    for (const track of participant?.tracks ?? []) {
      if (track.source !== TrackSource.MICROPHONE) continue;
      await unlessAbsent(rooms.mutePublishedTrack(meetingId, participantId, track.sid, true));
    }
  }

  /** Sends everybody out. */
  async close(meetingId: string): Promise<void> {
    await unlessAbsent((await this.#rooms()).deleteRoom(meetingId));
  }

  /** Starts recording a meeting and resolves to the recorder's id; one that runs already is taken instead. */
  async record(meetingId: string, isAudioOnly: boolean): Promise<string> {
    const { EncodedFileOutput } = await import("livekit-server-sdk");
    const running = await this.recorderOf(meetingId);
    if (running !== undefined) return running;
    const egress = await this.#egress();
    const file = new EncodedFileOutput({ filepath: `meetings/${meetingId}/{time}` });
    const started = await reachable(egress.startRoomCompositeEgress(meetingId, { file }, { audioOnly: isAudioOnly }));
    return started.egressId;
  }

  /** The recorder that runs for a meeting; not one that is about to end. */
  async recorderOf(meetingId: string): Promise<string | undefined> {
    const { EgressStatus } = await import("livekit-server-sdk");
    const active = await reachable((await this.#egress()).listEgress({ roomName: meetingId, active: true }));
    return active.find(({ status }) => status !== EgressStatus.EGRESS_ENDING)?.egressId;
  }

  /** Ends a recording; fine when it has ended. */
  async endRecord(egressId: string): Promise<void> {
    await unlessAbsent((await this.#egress()).stopEgress(egressId));
  }

  async #rooms() {
    const { RoomServiceClient } = await import("livekit-server-sdk");
    return new RoomServiceClient(this.#apiUrl, this.#settings.apiKey, this.#settings.apiSecret);
  }

  async #egress() {
    const { EgressClient } = await import("livekit-server-sdk");
    return new EgressClient(this.#apiUrl, this.#settings.apiKey, this.#settings.apiSecret);
  }

  /** Clients connect by ws, the API answers http at the same place. */
  get #apiUrl(): string {
    return this.#settings.url.replace(/^ws/, "http");
  }
}

/** A failure of the media server, as a fault that shows nothing of it. */
async function reachable<Result>(call: Promise<Result>): Promise<Result> {
  try {
    return await call;
  } catch (cause) {
    throw new Fault("unavailable", "The media server refused or did not answer", { cause });
  }
}

/** `undefined` when what the call is about is not there, or has ended. */
async function unlessAbsent<Result>(call: Promise<Result>): Promise<Result | undefined> {
  try {
    return await call;
  } catch (cause) {
    const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
    if (code === "not_found" || code === "failed_precondition") return undefined;
    throw new Fault("unavailable", "The media server refused or did not answer", { cause });
  }
}
