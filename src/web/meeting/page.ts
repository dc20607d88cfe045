// The call of a room: starting it, joining it, and everybody in it.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { classes, html } from "../core/html.ts";
import { count } from "../core/format.ts";
import { useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { route } from "../core/route.ts";
import { post } from "../core/api.ts";
import type { Room } from "../core/resources.ts";
import { isAdmin, myId } from "../core/session.ts";
import { Avatar } from "../part/avatar.ts";
import { Icon } from "../part/icon.ts";
import type { ViewProps } from "../part/lazy.ts";
import { canModerate, canWrite } from "../room/rooms.ts";
import { type Call, call, joinMeeting } from "./call.ts";
import type { Kind } from "./media.ts";
import { findMeeting, type Meeting, type Participant, PATH, startMeeting } from "./meetings.ts";

const KINDS = [["audio", "Microphone"], ["video", "Camera"]] as const;

export default function CallPage({ room }: ViewProps): VNode {
  if (room === undefined) return html`<p class="empty">Calls belong to rooms.</p>`;
  const current = call.value;
  return current?.meeting.roomId === room.id
    ? html`<${CallView} key=${current.participantId} current=${current} room=${room} />`
    : html`<${Lobby} room=${room} />`;
}

function Lobby({ room }: { room: Room }): VNode {
  const wanted = route.value.query.get("meeting") ?? undefined;
  const [meeting, setMeeting] = useState<Meeting>();
  const [isBusy, setBusy] = useState(false);
  const [isOn, setOn] = useState<Readonly<Record<Kind, boolean>>>({ audio: true, video: true });
  const read = useLatest(() => findMeeting(room.id), setMeeting);
  useLive(read, ({ type, data }) => type.startsWith("meeting.") && data.meeting?.roomId === room.id, [room.id]);
  const join = async (id: string | undefined): Promise<void> => {
    setBusy(true);
    await attempt(async () => await joinMeeting(id ?? (await startMeeting(room.id)).id, isOn));
    setBusy(false);
  };
  const id = wanted ?? meeting?.id;
  return html`
    <div class="welcome page">
      <div class="card">
        <h1>${meeting === undefined ? "No call is going on" : meeting.title ?? "A call is going on"}</h1>
        <p class="dim">${meeting === undefined
          ? canWrite(room)
            ? "Start one, and members of this room can join. Your browser will ask for your camera and microphone."
            : "Those who may write in this room can start one."
          : `${count(meeting.participantCount, "participant")} so far.`}</p>
        ${!canWrite(room) ? null : html`
          <p class="row" style=${{ columnGap: "20px" }} role="group" aria-label="On when you join">${KINDS.map((
            [kind, label],
          ) =>
            html`
              <label class="check"
                key=${kind}><input type="checkbox" checked=${isOn[kind]} onChange=${() =>
                  setOn({ ...isOn, [kind]: !isOn[kind] })} /> ${label} on</label>
            `
          )}</p>
          <p class="row"><button type="button" class="primary" disabled=${isBusy} onClick=${() => void join(id)}>
            <${Icon} name="video" />${id === undefined ? "Start a call" : "Join"}</button></p>
        `}
      </div>
    </div>
  `;
}

function CallView({ current, room }: { current: Call; room: Room }): VNode {
  const own = current.participants.value.find(({ id }) => id === current.participantId);
  const others = current.participants.value.filter(({ id, state }) =>
    id !== current.participantId && state === "joined"
  );
  const hasHand = (own?.handRaisedAt ?? null) !== null;
  const isWaiting = own?.state === "waiting";
  const mayEnd = current.meeting.hostId === myId() || canModerate(room) || isAdmin();
  return html`
    <div class="call">
      ${isWaiting ? html`<p class="banner">You are in the lobby until the host admits you.</p>` : null}
      ${current.hasMedia ? null : html`
        <p class="banner"
          role="status">Pictures and sound of this call go through a LiveKit server, which this page does not connect to. Here you see who takes part, raise your hand, and end the call; use an application with LiveKit to see and hear the others.</p>
      `}
      ${current.hasMedia && current.hint !== "" ? html`<p class="banner" role="status">${current.hint}</p>` : null}
      <div class=${classes("tiles-grid", others.length === 0 && "alone")}>
        <${Tile} name="You" principalId=${myId()} stream=${current.own} isOwn isMuted=${own?.muted}
          hasVideo=${current.hasMedia && current.hasVideo.value} />
        ${others.map((one) =>
          html`
            <${RemoteTile} key=${one.id} participant=${one} stream=${current.streams.value.get(one.id)}
              hasVideo=${!current.hidden.value.has(one.id)} />
          `
        )}
      </div>
      ${others.length === 0 ? html`<p class="dim call-hint">Waiting for others to join.</p>` : null}
      <div class="call-bar" role="toolbar" aria-label="Call">
        ${current.hasMedia ? html`<${MediaButtons} current=${current} isMuted=${own?.muted === true} />` : null}
        ${current.has("audio") || current.has("video") ? html`<${Devices} current=${current} />` : null}
        <button type="button" aria-pressed=${hasHand} onClick=${() =>
          void attempt(() => current.raiseHand(!hasHand))}><${Icon} name="hand" />${hasHand
          ? "Lower hand"
          : "Raise hand"}</button>
        <button type="button" class="danger" onClick=${() => current.leave()}><${Icon} name="phone" />Leave</button>
        ${mayEnd
          ? html`<button type="button" class="danger-text" onClick=${() =>
            void attempt(() => post(`${PATH}/${current.meeting.id}/end`))}>End for all</button>`
          : null}
      </div>
    </div>
  `;
}

function MediaButtons({ current, isMuted }: { current: Call; isMuted: boolean }): VNode {
  const hasVideo = current.hasVideo.value;
  const [hasMicrophone, hasCamera] = [current.has("audio"), current.has("video")];
  const mayShare = "getDisplayMedia" in (navigator.mediaDevices ?? {});
  return html`
    <button type="button" aria-pressed=${hasMicrophone && isMuted} disabled=${!hasMicrophone}
      onClick=${() => void attempt(() => current.mute(!isMuted))}><${Icon} name="mic" />${!hasMicrophone
        ? "No microphone"
        : isMuted
        ? "Unmute"
        : "Mute"}</button>
    <button type="button" aria-pressed=${hasCamera && !hasVideo} disabled=${!hasCamera}
      onClick=${() => current.showCamera(!hasVideo)}><${Icon} name="video" />${!hasCamera
        ? "No camera"
        : hasVideo
        ? "Stop camera"
        : "Start camera"}</button>
    ${mayShare
      ? html`<button type="button" onClick=${() =>
        void attempt(() => current.shareScreen())}><${Icon} name="screen" />Share screen</button>`
      : null}
  `;
}

/** Choices, where there is more than one device of a kind. */
function Devices({ current }: { current: Call }): VNode {
  const [all, setAll] = useState<readonly MediaDeviceInfo[]>([]);
  const read = (): void => void navigator.mediaDevices.enumerateDevices().then(setAll, () => setAll([]));
  useEffect(() => {
    read();
    navigator.mediaDevices.addEventListener("devicechange", read);
    return () => navigator.mediaDevices.removeEventListener("devicechange", read);
  }, []);
  const choose = async (kind: Kind, id: string): Promise<void> => {
    await attempt(() => current.choose(kind, id));
    read();
  };
  return html`${
    KINDS.map(([kind, label]) => {
      const own = all.filter((one) => one.kind === `${kind}input`);
      return own.length < 2 || !current.has(kind) ? null : html`
        <select class="inline" key=${kind} aria-label=${label} title=${label} value=${current.deviceOf(kind)}
          onChange=${(event: Event) => void choose(kind, (event.target as HTMLSelectElement).value)}>${own.map((
            { deviceId, label },
            at,
          ) => html`<option key=${deviceId} value=${deviceId}>${label === "" ? `${at + 1}` : label}</option>`)}</select>
      `;
    })
  }`;
}

function RemoteTile({ participant, stream, hasVideo }: {
  participant: Participant;
  stream: MediaStream | undefined;
  hasVideo: boolean;
}): VNode {
  return html`
    <${Tile} name=${participant.displayName} principalId=${participant
      .principalId} stream=${stream} hasVideo=${hasVideo} isMuted=${participant.muted}
      hasHand=${participant.handRaisedAt !== null} />
  `;
}

function Tile({ name, principalId, stream, isOwn = false, hasVideo, isMuted = false, hasHand = false }: {
  name: string;
  principalId: string;
  stream: MediaStream | undefined;
  isOwn?: boolean;
  hasVideo: boolean;
  isMuted?: boolean;
  hasHand?: boolean;
}): VNode {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    if (video.current !== null) video.current.srcObject = stream ?? null;
  }, [stream]);
  const isShown = hasVideo && (stream?.getVideoTracks().length ?? 0) > 0;
  return html`
    <figure class="participant">
      <video ref=${video} autoplay playsinline muted=${isOwn} class=${classes(
        !isShown && "hidden",
        isOwn && "mirrored",
      )}></video>
      ${isShown ? null : html`<span class="large-avatar"><${Avatar} id=${principalId} /></span>`}
      <figcaption dir="auto">${name}${isMuted ? " (muted)" : ""}${hasHand
        ? html`
          <${Icon} name="hand" />
        `
        : null}</figcaption>
    </figure>
  `;
}
