// A call between browsers: REST to take part, `/ws` to signal, peer connections for the media.
import { effect, signal } from "@preact/signals";
import { call as send, createId, post } from "../core/api.ts";
import { follow, onEvent, publishEphemeral, readAmidEvents, unfollow } from "../core/live.ts";
import { attempt } from "../core/notice.ts";
import type { LiveEvent } from "../core/resources.ts";
import { callRoomId } from "./active.ts";
import { type Kind, type Media, openDevice, openMedia } from "./media.ts";
import { type Meeting, type Participant, PATH } from "./meetings.ts";

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
  readonly own: MediaStream;
  /** What is missing of microphone and camera, and what to do about it; empty: nothing. */
  readonly hint: string;
  readonly mode: string;
  readonly participants = signal<readonly Participant[]>([]);
  /** Whether the own camera is on. */
  readonly hasVideo = signal(true);
  readonly streams = signal<ReadonlyMap<string, MediaStream>>(new Map());
  /** Participants whose camera is off. */
  readonly hidden = signal<ReadonlySet<string>>(new Set());
  readonly #iceServers: RTCIceServer[];
  readonly #peers = new Map<string, Peer>();
  readonly #ends: (() => void)[] = [];
  /** Shown to the others instead of the camera. */
  #screen: MediaStreamTrack | undefined;
  /** Ends with the last change of a device. */
  #chosen: Promise<void> = Promise.resolve();

  constructor(joined: Joined, { stream: own, hint }: Media) {
    this.meeting = joined.meeting;
    this.participantId = joined.participantId;
    this.mode = joined.media.mode;
    this.own = own;
    this.hint = hint;
    this.#iceServers = joined.media.iceServers;
    this.participants.value = joined.participants;
    const channel = `meeting:${joined.meeting.id}`;
    const subscription = follow({ channel });
    this.#ends.push(onEvent((event, from) => this.receive(event, from === channel)), () => unfollow(channel));
    const timer = setInterval(() => {
      // The lease outlives a heartbeat that is lost.
      post(`${PATH}/${joined.meeting.id}/heartbeat`, { participantId: this.participantId }).catch(() => undefined);
    }, joined.heartbeatSeconds * 1000);
    this.#ends.push(() => clearInterval(timer));
    if (!this.hasMedia) {
      for (const track of own.getTracks()) track.stop();
      return;
    }
    // A newcomer offers a connection to those who are there, unless it has left before.
    subscription?.ready().then(() => this.#offerAll(joined.participants), () => undefined);
  }

  /** Whether this page takes part with pictures and sound: it connects people directly, and to no media server. */
  get hasMedia(): boolean {
    return this.mode === "relay";
  }

  /** Turns the microphone off or on; the others see that. */
  mute(isMuted: boolean): Promise<unknown> {
    const participants = this.participants.value;
    this.participants.value = participants.map((one) =>
      one.id === this.participantId ? { ...one, muted: isMuted } : one
    );
    this.#enable("audio", !isMuted);
    return this.#update({ muted: isMuted });
  }

  showCamera(isShown: boolean): void {
    this.#enable("video", isShown);
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

  #enable(kind: Kind, isEnabled: boolean): void {
    for (const track of this.own.getTracks()) if (track.kind === kind) track.enabled = isEnabled;
  }

  /** Whether there is a microphone, or a camera. */
  has(kind: Kind): boolean {
    return this.#trackOf(kind) !== undefined;
  }

  /** The id of the microphone or camera that is used. */
  deviceOf(kind: Kind): string | undefined {
    return this.#trackOf(kind)?.getSettings().deviceId;
  }

  /** Uses another device, once those that were chosen before are used: the last choice counts. */
  choose(kind: Kind, deviceId: string): Promise<void> {
    const chosen = this.#chosen.then(() => this.#open(kind, deviceId));
    // The caller of that choice receives its failure.
    this.#chosen = chosen.catch(() => undefined);
    return chosen;
  }

  /** The device before it is closed first: many phones open only one camera at a time. */
  async #open(kind: Kind, deviceId: string): Promise<void> {
    const old = this.#trackOf(kind);
    if (old === undefined) return;
    const { deviceId: before = "" } = old.getSettings();
    old.stop();
    try {
      this.#replace(old, await openDevice(kind, deviceId));
    } catch (error) {
      this.#replace(old, await openDevice(kind, before));
      throw error;
    }
  }

  #replace(old: MediaStreamTrack, track: MediaStreamTrack): void {
    // The call may have ended meanwhile.
    if (call.value !== this) return track.stop();
    track.enabled = old.enabled;
    this.own.removeTrack(old);
    this.own.addTrack(track);
    this.#sendAgain(track.kind);
  }

  /** Sends the others what there is now of a kind, instead of what there was: that may still be about to be sent. */
  #sendAgain(kind: string): void {
    const track = this.#sent().find((one) => one.kind === kind) ?? null;
    for (const { connection } of this.#peers.values()) {
      void connection.getSenders().find((sender) => sender.track?.kind === kind)?.replaceTrack(track);
    }
  }

  #trackOf(kind: Kind): MediaStreamTrack | undefined {
    return this.own.getTracks().find((track) => track.kind === kind);
  }

  /** Shows the screen instead of the camera, until it is stopped. */
  async shareScreen(): Promise<void> {
    const [track] = (await navigator.mediaDevices.getDisplayMedia({ video: true })).getVideoTracks();
    if (track === undefined) return;
    this.#screen?.stop();
    track.onended = () => this.#show(undefined);
    this.#show(track);
  }

  #show(screen: MediaStreamTrack | undefined): void {
    this.#screen = screen;
    const [camera] = this.own.getVideoTracks();
    // Without a camera there is no picture to replace: the connections are made again.
    if (camera === undefined) return this.#offerAll(this.participants.value);
    for (const peer of this.#peers.values()) this.#sayCamera(peer.camera);
    this.#sendAgain("video");
  }

  /** What the others receive. */
  #sent(): MediaStreamTrack[] {
    const screen = this.#screen;
    return screen === undefined ? this.own.getTracks() : [...this.own.getAudioTracks(), screen];
  }

  raiseHand(isRaised: boolean): Promise<unknown> {
    return this.#update({ handRaised: isRaised });
  }

  #update(fields: Record<string, boolean>): Promise<unknown> {
    return send("PATCH", `${PATH}/${this.meeting.id}/participants/${this.participantId}`, fields);
  }

  leave(hasEnded = false): void {
    for (const end of this.#ends) end();
    for (const { connection } of this.#peers.values()) connection.close();
    this.#peers.clear();
    for (const track of [...this.own.getTracks(), this.#screen]) track?.stop();
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
    if (data.participant === undefined) return;
    const known = this.participants.value.find(({ id }) => id === data.participant.id);
    // How one came says nothing of what was muted since.
    const isLate = type === "meeting.participant_joined" && known !== undefined;
    const participant: Participant = isLate ? { ...data.participant, muted: known.muted } : data.participant;
    const others = this.participants.value.filter(({ id }) => id !== participant.id);
    this.participants.value = participant.state === "left" ? others : [...others, participant];
    if (participant.state === "left") this.#close(participant.id);
    if (participant.id !== this.participantId) return;
    if (participant.state === "left") this.leave();
    // Moderators can mute others.
    else this.#enable("audio", !participant.muted);
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
    for (const track of this.#sent()) connection.addTrack(track, this.own);
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
    const payload = { ...content?.toJSON(), ...attempt === undefined ? {} : { attempt } };
    publishEphemeral(`meeting:${this.meeting.id}`, "meeting.signal", { to, from: this.participantId, kind, payload });
  }
}

/** Joins with camera and microphone, or with what there is of them; off where that is wanted, before anybody receives them. */
export async function joinMeeting(id: string, isOn: Readonly<Record<Kind, boolean>>): Promise<void> {
  call.value?.leave();
  const media = await openMedia();
  const { stream } = media;
  try {
    // Who joins or leaves after the call was executed, and before its response is here, is not in the response.
    const [joined, missed] = await readAmidEvents(() =>
      post<Joined>(`${PATH}/${id}/join`, {
        deviceId: deviceId(),
        capabilities: { audio: stream.getAudioTracks().length > 0, video: stream.getVideoTracks().length > 0 },
      })
    );
    const current = new Call(joined, media);
    if (!isOn.video) current.showCamera(false);
    if (!isOn.audio) void attempt(() => current.mute(true));
    call.value = current;
    for (const [event] of missed) current.receive(event);
  } catch (error) {
    for (const track of stream.getTracks()) track.stop();
    throw error;
  }
}

/** The same for a tab, so that joining again replaces its earlier participation. */
function deviceId(): string {
  const known = sessionStorage.getItem("gateway.device") ?? `browser-${createId().slice(0, 8)}`;
  sessionStorage.setItem("gateway.device", known);
  return known;
}
