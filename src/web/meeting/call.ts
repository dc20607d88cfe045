// A call between browsers: REST to take part, `/ws` to signal, peer connections for the media.
import { effect, signal } from "@preact/signals";
import { call as send, createId, post } from "../core/api.ts";
import { follow, onEvent, type Published, publishEphemeral, readAmidEvents, unfollow } from "../core/live.ts";
import { attempt, notify } from "../core/notice.ts";
import type { LiveEvent } from "../core/resources.ts";
import { callRoomId } from "./active.ts";
import { type Kind, openMedia, type OwnMedia } from "./media.ts";
import { type Meeting, type Participant, PATH, readMeeting, type Recording } from "./meetings.ts";

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
  /** `attempt` is the id of the offer that it belongs to; clients of others may leave it out. */
  payload: RTCSessionDescriptionInit & RTCIceCandidateInit & { attempt?: string };
};
/** A connection that is being made, or is; each offer begins another one. */
type Peer = {
  connection: RTCPeerConnection;
  attempt: string | undefined;
  isOffered: boolean;
  early: RTCIceCandidateInit[];
  /** Waits for the connection from now on. */
  onAnswer?: () => void;
  /** Says whether there is a picture: a camera that is off sends black ones. */
  camera: RTCDataChannel;
};

/** Longer than a connection usually takes; on a busy machine it takes longer, so each wait is twice the one before. */
const OFFER_AGAIN_MS = 10_000;
const OFFER_AGAIN_MAX_MS = 60_000;

/** The call that this tab takes part in. */
export const call = signal<Call | undefined>(undefined);
effect(() => {
  callRoomId.value = call.value?.meeting.roomId;
});

export class Call {
  readonly meeting: Meeting;
  readonly participantId: string;
  readonly media: OwnMedia;
  readonly mode: string;
  readonly participants = signal<readonly Participant[]>([]);
  readonly recording = signal<Recording | null>(null);
  readonly hostId = signal("");
  /** Whether the own camera is on. */
  readonly hasVideo = signal(true);
  readonly streams = signal<ReadonlyMap<string, MediaStream>>(new Map());
  /** Participants whose camera is off. */
  readonly hidden = signal<ReadonlySet<string>>(new Set());
  #version = 0;
  readonly #iceServers: RTCIceServer[];
  readonly #peers = new Map<string, Peer>();
  readonly #ends: (() => void)[] = [];
  /** Shown to the others instead of the camera. */
  #screen: MediaStreamTrack | undefined;

  constructor(joined: Joined, media: OwnMedia) {
    this.meeting = joined.meeting;
    this.participantId = joined.participantId;
    this.mode = joined.media.mode;
    this.media = media;
    media.onChange = (kind) => this.#sendAgain(kind);
    this.#iceServers = joined.media.iceServers;
    this.participants.value = joined.participants;
    this.#show(joined.meeting);
    const channel = `meeting:${joined.meeting.id}`;
    const subscription = follow({ channel });
    this.#ends.push(onEvent((event, from) => this.receive(event, from === channel)), () => unfollow(channel));
    const timer = setInterval(() => {
      // The lease outlives a heartbeat that is lost.
      post(`${PATH}/${joined.meeting.id}/heartbeat`, { participantId: this.participantId }).catch(() => undefined);
    }, joined.heartbeatSeconds * 1000);
    this.#ends.push(() => clearInterval(timer));
    // A newcomer offers a connection to those who are there, unless it has left before.
    if (this.hasMedia) subscription?.ready().then(() => this.#offerAll(joined.participants), () => undefined);
    else if (!this.isWaiting) media.close();
  }

  /** Whether this page takes part with pictures and sound: it connects people directly, and to no media server. */
  get hasMedia(): boolean {
    return this.mode === "relay";
  }

  /** In the lobby, until a moderator admits one. */
  get isWaiting(): boolean {
    return this.mode === "none";
  }

  /** Turns the microphone off or on; the others see that. */
  mute(isMuted: boolean): Promise<unknown> {
    const participants = this.participants.value;
    this.participants.value = participants.map((one) =>
      one.id === this.participantId ? { ...one, muted: isMuted } : one
    );
    this.media.enable("audio", !isMuted);
    return this.#update({ muted: isMuted });
  }

  showCamera(isShown: boolean): void {
    this.media.enable("video", isShown);
    this.hasVideo.value = isShown;
    for (const { camera } of this.#peers.values()) this.#sayCamera(camera);
  }

  #sayCamera(camera: RTCDataChannel): void {
    if (camera.readyState === "open") camera.send(this.hasVideo.value || this.#screen !== undefined ? "on" : "off");
  }

  #setHidden(id: string, isHidden: boolean): void {
    if (this.hidden.value.has(id) === isHidden) return;
    const next = new Set(this.hidden.value);
    if (isHidden) next.add(id);
    else next.delete(id);
    this.hidden.value = next;
  }

  /** Sends the others what there is now of a kind, instead of what there was: that may still be about to be sent. */
  #sendAgain(kind: string): void {
    const track = this.#sent().find((one) => one.kind === kind) ?? null;
    for (const { connection } of this.#peers.values()) {
      void connection.getSenders().find((sender) => sender.track?.kind === kind)?.replaceTrack(track);
    }
  }

  /** Shows the screen instead of the camera, until it is stopped. */
  async shareScreen(): Promise<void> {
    const [track] = (await navigator.mediaDevices.getDisplayMedia({ video: true })).getVideoTracks();
    if (track === undefined) return;
    this.#screen?.stop();
    track.onended = () => this.#showScreen(undefined);
    this.#showScreen(track);
  }

  #showScreen(screen: MediaStreamTrack | undefined): void {
    this.#screen = screen;
    const [camera] = this.media.stream.getVideoTracks();
    // Without a camera there is no picture to replace: the connections are made again.
    if (camera === undefined) return this.#offerAll(this.participants.value);
    for (const peer of this.#peers.values()) this.#sayCamera(peer.camera);
    this.#sendAgain("video");
  }

  /** What the others receive. */
  #sent(): MediaStreamTrack[] {
    const screen = this.#screen;
    return screen === undefined ? this.media.stream.getTracks() : [...this.media.stream.getAudioTracks(), screen];
  }

  raiseHand(isRaised: boolean): Promise<unknown> {
    return this.#update({ handRaised: isRaised });
  }

  #update(fields: Record<string, boolean>): Promise<unknown> {
    return send("PATCH", `${PATH}/${this.meeting.id}/participants/${this.participantId}`, fields);
  }

  /** Ends what this page does for it, but neither the participation nor the media. */
  release(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  leave(hasEnded = false): void {
    this.release();
    for (const { connection } of this.#peers.values()) connection.close();
    this.#peers.clear();
    this.media.close();
    this.#screen?.stop();
    if (!hasEnded) {
      // Without it the lease ends the participation.
      post(`${PATH}/${this.meeting.id}/leave`, { participantId: this.participantId }).catch(() => undefined);
    }
    if (call.value === this) call.value = undefined;
  }

  /** Signals are on the call's own channel, everything else on that of its room. */
  receive({ type, data }: LiveEvent, isOwnChannel = false): void {
    if (type === "meeting.signal" && isOwnChannel && data.to === this.participantId) {
      // A connection that fails is offered again by the one that offered it.
      this.#signal(data).catch(() => undefined);
    }
    if (!type.startsWith("meeting.") || data.meeting?.id !== this.meeting.id) return;
    if (type === "meeting.ended") return this.leave(true);
    this.#show(data.meeting);
    if (data.participant === undefined) return;
    const known = this.participants.value.find(({ id }) => id === data.participant.id);
    // How one came says nothing of what was muted since.
    const isLate = type === "meeting.participant_joined" && known !== undefined;
    const participant: Participant = isLate ? { ...data.participant, muted: known.muted } : data.participant;
    const others = this.participants.value.filter(({ id }) => id !== participant.id);
    this.participants.value = participant.state === "left" ? others : [...others, participant];
    if (participant.state === "left") this.#close(participant.id);
    if (participant.id !== this.participantId) return;
    if (participant.state === "left") {
      if (data.reason === "removed") {
        notify(
          this.isWaiting ? "You were not admitted to the call" : "A moderator has removed you from the call",
          true,
        );
      }
      this.leave();
    } else if (this.isWaiting && participant.state === "joined") {
      // The media of the call are given only now.
      void attempt(() => enter(this));
    } // Moderators can mute others.
    else this.media.enable("audio", !participant.muted);
  }

  #show({ id, recording, hostId, version }: Meeting): void {
    // What came while the response to joining was on its way may be older.
    if (version < this.#version) return;
    this.#version = version;
    this.hostId.value = hostId;
    if (recording !== undefined) this.recording.value = recording;
    // It was too long for the event.
    else readMeeting(id).then(({ recording = null }) => this.recording.value = recording, () => undefined);
  }

  async #signal({ from, kind, payload }: Signal): Promise<void> {
    const { attempt, ...content } = payload;
    if (kind === "offer") {
      // Two that join at once offer both: the offer of the lesser id counts.
      const own = this.#peers.get(from);
      const isPending = own?.isOffered === true && own.connection.connectionState !== "connected";
      if (isPending && this.participantId < from) return;
      const peer = this.#connect(from, attempt, false);
      await peer.connection.setRemoteDescription(content);
      await peer.connection.setLocalDescription();
      this.#send(from, "answer", peer);
      return await this.#addEarly(peer);
    }
    const peer = this.#peers.get(from);
    // What comes late belongs to an offer that another one has replaced.
    if (peer === undefined || (attempt !== undefined && attempt !== peer.attempt)) return;
    if (kind === "answer") {
      if (peer.connection.signalingState !== "have-local-offer") return;
      peer.onAnswer?.();
      await peer.connection.setRemoteDescription(content);
      await this.#addEarly(peer);
    } else if (peer.connection.remoteDescription !== null) await peer.connection.addIceCandidate(content);
    else peer.early.push(content);
  }

  /** Candidates that came before the description to which they belong. */
  async #addEarly(peer: Peer): Promise<void> {
    for (const candidate of peer.early.splice(0)) await peer.connection.addIceCandidate(candidate);
  }

  #offerAll(participants: readonly Participant[]): void {
    for (const { id, state } of participants) {
      if (id !== this.participantId && state === "joined") void this.#offer(id);
    }
  }

  async #offer(id: string, waitMs = OFFER_AGAIN_MS): Promise<void> {
    const peer = this.#connect(id, createId().slice(0, 8), true);
    const { connection } = peer;
    // Others can send only what is offered, also by those who send nothing.
    for (const kind of ["audio", "video"]) {
      if (!this.#sent().some((track) => track.kind === kind)) {
        connection.addTransceiver(kind, { direction: "recvonly" });
      }
    }
    const isCurrent = (): boolean => this.#peers.get(id) === peer;
    const nextMs = Math.min(2 * waitMs, OFFER_AGAIN_MAX_MS);
    const offerAgain = (): void => {
      if (isCurrent() && connection.connectionState !== "connected") void this.#offer(id, nextMs);
    };
    // Signals are not stored: those sent before the other has subscribed are lost.
    let timer = setTimeout(offerAgain, waitMs);
    // The other one is making this connection: another offer would begin it again.
    peer.onAnswer = () => {
      clearTimeout(timer);
      timer = setTimeout(offerAgain, nextMs);
    };
    connection.onconnectionstatechange = () => {
      if (isCurrent() && connection.connectionState === "failed") void this.#offer(id, waitMs);
    };
    await connection.setLocalDescription();
    this.#send(id, "offer", peer);
  }

  #connect(id: string, attempt: string | undefined, isOffered: boolean): Peer {
    this.#close(id);
    const connection = new RTCPeerConnection({ iceServers: this.#iceServers });
    const camera = connection.createDataChannel("camera", { negotiated: true, id: 0 });
    camera.onopen = () => this.#sayCamera(camera);
    camera.onmessage = ({ data }) => this.#setHidden(id, data === "off");
    const peer: Peer = { connection, attempt, isOffered, early: [], camera };
    this.#peers.set(id, peer);
    for (const track of this.#sent()) connection.addTrack(track, this.media.stream);
    connection.onicecandidate = ({ candidate }) => candidate !== null && this.#send(id, "candidate", peer, candidate);
    connection.ontrack = ({ streams: [stream] }) => {
      if (stream !== undefined) this.streams.value = new Map(this.streams.value).set(id, stream);
    };
    return peer;
  }

  #close(id: string): void {
    this.#peers.get(id)?.connection.close();
    this.#peers.delete(id);
    this.#setHidden(id, false);
    if (!this.streams.value.has(id)) return;
    const next = new Map(this.streams.value);
    next.delete(id);
    this.streams.value = next;
  }

  #send(to: string, kind: Signal["kind"], { connection, attempt }: Peer, candidate?: RTCIceCandidate): void {
    const content = candidate ?? connection.localDescription;
    const payload = { ...content?.toJSON(), attempt };
    publishEphemeral(`meeting:${this.meeting.id}`, "meeting.signal", { to, from: this.participantId, kind, payload });
  }
}

/**
 * Joins with the microphone and camera that are open, or with what there is of them; off where that is wanted, before anybody
 * receives them. They are closed with the call, and if one cannot join.
 */
export async function joinMeeting(
  id: string,
  isOn: Readonly<Record<Kind, boolean>>,
  opened?: OwnMedia,
  recordingConsent = false,
): Promise<void> {
  call.value?.leave();
  const media = opened ?? await openMedia();
  try {
    const [joined, missed] = await join(id, media, recordingConsent);
    begin(new Call(joined, media), isOn, missed);
  } catch (error) {
    media.close();
    throw error;
  }
}

/** The same for who was admitted from the lobby, with what is open already. */
async function enter(waiting: Call): Promise<void> {
  const { meeting: { id }, media, participantId, hasVideo } = waiting;
  const [joined, missed] = await join(id, media, waiting.recording.value !== null);
  // One may have left meanwhile.
  if (call.value !== waiting) return;
  waiting.release();
  const isMuted = joined.participants.some((one) => one.id === participantId && one.muted);
  begin(new Call(joined, media), { audio: !isMuted, video: hasVideo.value }, missed);
}

/** Who joins or leaves after the call was executed, and before its response is here, is not in the response. */
function join(id: string, media: OwnMedia, recordingConsent: boolean): Promise<[Joined, Published[]]> {
  return readAmidEvents(() =>
    post<Joined>(`${PATH}/${id}/join`, {
      deviceId: deviceId(),
      capabilities: { audio: media.has("audio"), video: media.has("video") },
      recordingConsent,
    })
  );
}

function begin(current: Call, isOn: Readonly<Record<Kind, boolean>>, missed: readonly Published[]): void {
  if (!isOn.video) current.showCamera(false);
  if (!isOn.audio) void attempt(() => current.mute(true));
  call.value = current;
  for (const [event] of missed) current.receive(event);
}

/** The same for a tab, so that joining again replaces its earlier participation. */
function deviceId(): string {
  const known = sessionStorage.getItem("gateway.device") ?? `browser-${createId().slice(0, 8)}`;
  sessionStorage.setItem("gateway.device", known);
  return known;
}
