// A call between browsers: REST to take part, `/ws` to signal, peer connections for the media.
import { signal } from "@preact/signals";
import { call as send, get, post } from "../core/api.ts";
import { follow, onEvent, publishEphemeral, unfollow } from "../core/live.ts";
import type { LiveEvent } from "../core/resources.ts";

export type Participant = {
  id: string;
  principalId: string;
  displayName: string;
  state: "waiting" | "joined" | "left";
  muted: boolean;
  handRaisedAt: string | null;
};
export type Meeting = {
  id: string;
  roomId: string;
  title: string | null;
  state: "scheduled" | "ringing" | "active" | "ended";
  hostId: string;
  participantCount: number;
  createdBy: string;
};
type Joined = {
  participantId: string;
  heartbeatSeconds: number;
  participants: Participant[];
  meeting: Meeting;
  media: { mode: string; iceServers: RTCIceServer[] };
};
type Signal = {
  from: string;
  kind: "offer" | "answer" | "candidate";
  payload: RTCSessionDescriptionInit & RTCIceCandidateInit;
};

const PATH = "v1/collaboration/meetings";
/** Longer than a connection usually takes; on a busy machine it takes longer, so each wait is twice the one before. */
const OFFER_AGAIN_MS = 10_000;
const OFFER_AGAIN_MAX_MS = 60_000;

/** The call that this tab takes part in. */
export const call = signal<Call | undefined>(undefined);

export class Call {
  readonly meeting: Meeting;
  readonly participantId: string;
  readonly own: MediaStream;
  readonly mode: string;
  readonly participants = signal<readonly Participant[]>([]);
  readonly streams = signal<ReadonlyMap<string, MediaStream>>(new Map());
  readonly #iceServers: RTCIceServer[];
  readonly #peers = new Map<string, RTCPeerConnection>();
  readonly #early = new Map<string, RTCIceCandidateInit[]>();
  readonly #ends: (() => void)[] = [];
  #turn: Promise<void> = Promise.resolve();

  constructor(joined: Joined, own: MediaStream) {
    this.meeting = joined.meeting;
    this.participantId = joined.participantId;
    this.mode = joined.media.mode;
    this.own = own;
    this.#iceServers = joined.media.iceServers;
    this.participants.value = joined.participants;
    const channel = `meeting:${joined.meeting.id}`;
    const subscription = follow({ channel });
    this.#ends.push(onEvent((event, from) => this.#receive(event, from === channel)), () => unfollow(channel));
    const timer = setInterval(() => {
      // The lease outlives a heartbeat that is lost.
      post(`${PATH}/${joined.meeting.id}/heartbeat`, { participantId: this.participantId }).catch(() => undefined);
    }, joined.heartbeatSeconds * 1000);
    this.#ends.push(() => clearInterval(timer));
    if (this.mode !== "relay") return;
    // A newcomer offers a connection to those who are there.
    void subscription?.ready().then(() => {
      for (const { id, state } of joined.participants) {
        if (id !== this.participantId && state === "joined") void this.#offer(id);
      }
    });
  }

  setEnabled(kind: "audio" | "video", isEnabled: boolean): void {
    for (const track of this.own.getTracks()) if (track.kind === kind) track.enabled = isEnabled;
  }

  /** Shows the screen instead of the camera, until it is stopped. */
  async shareScreen(): Promise<void> {
    const screen = await navigator.mediaDevices.getDisplayMedia({ video: true });
    const [track] = screen.getVideoTracks();
    if (track === undefined) return;
    const camera = this.own.getVideoTracks()[0] ?? null;
    const replace = (next: MediaStreamTrack | null): void => {
      for (const peer of this.#peers.values()) {
        void peer.getSenders().find((sender) => sender.track?.kind === "video")?.replaceTrack(next);
      }
    };
    replace(track);
    track.onended = () => replace(camera);
  }

  raiseHand(isRaised: boolean): Promise<unknown> {
    return send("PATCH", `${PATH}/${this.meeting.id}/participants/${this.participantId}`, { handRaised: isRaised });
  }

  leave(hasEnded = false): void {
    for (const end of this.#ends) end();
    for (const peer of this.#peers.values()) peer.close();
    this.#peers.clear();
    for (const track of this.own.getTracks()) track.stop();
    if (!hasEnded) {
      // Without it the lease ends the participation.
      post(`${PATH}/${this.meeting.id}/leave`, { participantId: this.participantId }).catch(() => undefined);
    }
    if (call.value === this) call.value = undefined;
  }

  #receive({ type, data }: LiveEvent, isOwnChannel: boolean): void {
    if (type === "meeting.signal" && isOwnChannel && data.to === this.participantId) {
      this.#turn = this.#turn.then(() => this.#signal(data)).catch(() => {
        // A connection that fails is offered again when the other joins again.
      });
    }
    if (!type.startsWith("meeting.") || data.meeting?.id !== this.meeting.id) return;
    if (type === "meeting.ended") return this.leave(true);
    const { participant } = data;
    if (participant === undefined) return;
    const others = this.participants.value.filter(({ id }) => id !== participant.id);
    this.participants.value = participant.state === "left" ? others : [...others, participant];
    if (participant.state === "left") this.#close(participant.id);
    if (participant.id === this.participantId && participant.state === "left") this.leave();
  }

  async #signal({ from, kind, payload }: Signal): Promise<void> {
    if (kind === "offer") {
      const peer = this.#connect(from);
      await peer.setRemoteDescription(payload);
      await peer.setLocalDescription();
      this.#send(from, "answer", peer.localDescription?.toJSON());
    } else if (kind === "answer") {
      const peer = this.#peers.get(from);
      // It may be for an offer that a later one has replaced.
      if (peer?.signalingState !== "have-local-offer") return;
      await peer.setRemoteDescription(payload);
    } else if (this.#peers.get(from)?.remoteDescription) return await this.#addCandidate(from, payload);
    else return void this.#early.set(from, [...this.#early.get(from) ?? [], payload]);
    for (const candidate of this.#early.get(from) ?? []) await this.#addCandidate(from, candidate);
    this.#early.delete(from);
  }

  async #addCandidate(from: string, candidate: RTCIceCandidateInit): Promise<void> {
    // One of an offer that a later one has replaced is refused, which harms no other.
    await this.#peers.get(from)?.addIceCandidate(candidate).catch(() => undefined);
  }

  async #offer(id: string, waitMs = OFFER_AGAIN_MS): Promise<void> {
    const peer = this.#connect(id);
    const isCurrent = (): boolean => this.#peers.get(id) === peer;
    // Signals are not stored: those sent before the other has subscribed are lost.
    setTimeout(() => {
      if (isCurrent() && peer.connectionState !== "connected") {
        void this.#offer(id, Math.min(2 * waitMs, OFFER_AGAIN_MAX_MS));
      }
    }, waitMs);
    peer.onconnectionstatechange = () => {
      if (isCurrent() && peer.connectionState === "failed") void this.#offer(id, waitMs);
    };
    await peer.setLocalDescription();
    this.#send(id, "offer", peer.localDescription?.toJSON());
  }

  #connect(id: string): RTCPeerConnection {
    this.#close(id);
    this.#early.delete(id);
    const peer = new RTCPeerConnection({ iceServers: this.#iceServers });
    this.#peers.set(id, peer);
    for (const track of this.own.getTracks()) peer.addTrack(track, this.own);
    peer.onicecandidate = ({ candidate }) => candidate !== null && this.#send(id, "candidate", candidate.toJSON());
    peer.ontrack = ({ streams: [stream] }) => {
      if (stream !== undefined) this.streams.value = new Map(this.streams.value).set(id, stream);
    };
    return peer;
  }

  #close(id: string): void {
    this.#peers.get(id)?.close();
    this.#peers.delete(id);
    if (!this.streams.value.has(id)) return;
    const next = new Map(this.streams.value);
    next.delete(id);
    this.streams.value = next;
  }

  #send(to: string, kind: Signal["kind"], payload: unknown): void {
    publishEphemeral(`meeting:${this.meeting.id}`, "meeting.signal", { to, from: this.participantId, kind, payload });
  }
}

/** The current call of a room; `undefined` if there is none. */
export async function findMeeting(roomId: string): Promise<Meeting | undefined> {
  const { items } = await get<{ items: Meeting[] }>(PATH, { roomId, state: ["active", "ringing"], limit: 1 });
  return items[0];
}

export function startMeeting(roomId: string): Promise<Meeting> {
  return post<Meeting>(PATH, { roomId, kind: "video" });
}

/** Joins with camera and microphone, or with what there is of them. */
export async function joinMeeting(id: string): Promise<void> {
  call.value?.leave();
  const own = await openMedia();
  const joined = await post<Joined>(`${PATH}/${id}/join`, {
    deviceId: deviceId(),
    capabilities: { audio: own.getAudioTracks().length > 0, video: own.getVideoTracks().length > 0 },
  });
  call.value = new Call(joined, own);
}

async function openMedia(): Promise<MediaStream> {
  for (const wanted of [{ audio: true, video: true }, { audio: true }, { video: true }]) {
    try {
      return await navigator.mediaDevices.getUserMedia(wanted);
    } catch {
      // Without a camera, or without the permission for it, the next may work.
    }
  }
  return new MediaStream();
}

/** The same for a tab, so that joining again replaces its earlier participation. */
function deviceId(): string {
  const known = sessionStorage.getItem("gateway.device") ?? `browser-${crypto.randomUUID().slice(0, 8)}`;
  sessionStorage.setItem("gateway.device", known);
  return known;
}
