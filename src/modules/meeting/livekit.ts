// LiveKit, the media server for calls too large for peers: tokens of participants and requests to its API. Loaded on first use.
import { iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { allowHostOf, type Outbound } from "@/ports/outbound.ts";
import type { Meeting, Participant } from "./schema.ts";

/** A token is for connecting; LiveKit renews it during the connection. */
const TOKEN_SECONDS = 60;

/** Ending something is retried for about a day, since nothing else ends it. */
export const END_ATTEMPTS = 100;
/** Longest wait for a response of its API, and the longest one: it lists participants with their tracks. */
const BOUNDS = { totalMs: 10_000, bodyMaxBytes: 1024 * 1024 };
/** Attempts at what is soon obsolete: starting a recording, muting a participant. */
export const SHORT_LIVED_ATTEMPTS = 4;

export type LiveKitSettings = { url: string; apiKey: string; apiSecret: string };

/** A meeting is a LiveKit room of the same id, a participant an identity of the same id. */
export class LiveKit {
  readonly #settings: LiveKitSettings;
  readonly #outbound: Outbound;

  constructor(settings: LiveKitSettings, outbound: Outbound) {
    this.#settings = settings;
    this.#outbound = outbound;
  }

  /** URL and token for a participant. */
  async createToken(
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
    // The media server verifies the token by its own clock, so it expires by the clock of the machine.
    return { url, token: await token.toJwt(), expiresAt: iso(Date.now() + TOKEN_SECONDS * 1000) };
  }

  /** Disconnects a participant and revokes their token where the server can; no error if they have left. */
  async remove(meetingId: string, participantId: string): Promise<void> {
    await unlessAbsent((await this.#rooms()).removeParticipant(meetingId, participantId));
  }

  /** Mutes the microphone of a participant. */
  async mute(meetingId: string, participantId: string): Promise<void> {
    const rooms = await this.#rooms();
    const { TrackSource } = await import("livekit-server-sdk");
    const participant = await unlessAbsent(rooms.getParticipant(meetingId, participantId));
    for (const track of participant?.tracks ?? []) {
      if (track.source !== TrackSource.MICROPHONE) continue;
      await unlessAbsent(rooms.mutePublishedTrack(meetingId, participantId, track.sid, true));
    }
  }

  /** Disconnects all participants. */
  async close(meetingId: string): Promise<void> {
    await unlessAbsent((await this.#rooms()).deleteRoom(meetingId));
  }

  /** Starts recording a meeting and resolves to the id of the recorder; one that runs already is used. */
  async startRecording(meetingId: string, isAudioOnly: boolean): Promise<string> {
    const { EncodedFileOutput } = await import("livekit-server-sdk");
    const running = await this.findRecorder(meetingId);
    if (running !== undefined) return running;
    const egress = await this.#egress();
    const file = new EncodedFileOutput({ filepath: `meetings/${meetingId}/{time}` });
    const started = await orUnavailable(
      egress.startRoomCompositeEgress(meetingId, { file }, { audioOnly: isAudioOnly }),
    );
    return started.egressId;
  }

  /** The recorder of a meeting, unless it is ending. */
  async findRecorder(meetingId: string): Promise<string | undefined> {
    const { EgressStatus } = await import("livekit-server-sdk");
    const active = await orUnavailable((await this.#egress()).listEgress({ roomName: meetingId, active: true }));
    return active.find(({ status }) => status !== EgressStatus.EGRESS_ENDING)?.egressId;
  }

  /** Stops a recorder; no error if it has ended. */
  async stopRecording(egressId: string): Promise<void> {
    await unlessAbsent((await this.#egress()).stopEgress(egressId));
  }

  async #rooms() {
    const { RoomServiceClient } = await import("livekit-server-sdk");
    return this.#outward(new RoomServiceClient(this.#apiUrl, this.#settings.apiKey, this.#settings.apiSecret));
  }

  async #egress() {
    const { EgressClient } = await import("livekit-server-sdk");
    return this.#outward(new EgressClient(this.#apiUrl, this.#settings.apiKey, this.#settings.apiSecret));
  }

  /** The client with its calls through `Outbound`: it has no option for that, and would use `fetch`. */
  #outward<Client extends object>(client: Client): Client {
    const request = (service: string, method: string, body: unknown, headers: Record<string, string>) =>
      this.#request(`livekit.${service}/${method}`, body, headers);
    Object.assign(client, { rpc: { request } });
    return client;
  }

  /** A call of the API by Twirp: JSON in, JSON out. Throws an error with the `code` of the media server. */
  async #request(path: string, body: unknown, headers: Record<string, string>): Promise<unknown> {
    const url = new URL(`/twirp/${path}`, this.#apiUrl);
    const response = await this.#outbound(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(body),
    }, { ...BOUNDS, ...allowHostOf(this.#apiUrl) });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    throw Object.assign(new Error(`The media server returned ${response.status}`), { code: codeOf(text) });
  }

  /** Clients connect by ws; the API is at the same address by http. */
  get #apiUrl(): string {
    return this.#settings.url.replace(/^ws/, "http");
  }
}

/** The code of an error as Twirp writes it; a proxy of the media server writes pages of its own. */
function codeOf(text: string): string | undefined {
  try {
    return JSON.parse(text).code;
  } catch {
    return undefined;
  }
}

async function orUnavailable<Result>(call: Promise<Result>): Promise<Result> {
  try {
    return await call;
  } catch (cause) {
    throw serverFailed(cause);
  }
}

/** `undefined` if the subject of the call does not exist or has ended. */
async function unlessAbsent<Result>(call: Promise<Result>): Promise<Result | undefined> {
  try {
    return await call;
  } catch (cause) {
    const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
    if (code === "not_found" || code === "failed_precondition") return undefined;
    throw serverFailed(cause);
  }
}

/** A failure of the media server as a fault without its details. */
function serverFailed(cause: unknown): Fault {
  return new Fault("unavailable", "The media server rejected the request or did not respond", { cause });
}
