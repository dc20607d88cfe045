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
import { type Kind, openMedia, type OwnMedia } from "./media.ts";
import { findMeeting, type Meeting, type Participant, PATH, readMeeting, startMeeting } from "./meetings.ts";
import { LobbyBanner, ModeratorMenu } from "./moderation.ts";
import { isOpen, openRecord, PastCalls, RecordingBanner } from "./recording.ts";

const KINDS = [["audio", "Microphone"], ["video", "Camera"]] as const;
const AGAIN = "Once that is done, leave the call and join again. You still get the sound and pictures of the others.";

export default function CallPage({ room }: ViewProps): VNode {
  if (room === undefined) return html`<p class="empty">Calls belong to rooms.</p>`;
  const current = call.value;
  return current?.meeting.roomId === room.id
    ? html`<${CallView} key=${current.participantId} current=${current} room=${room} />`
    : html`<${Lobby} room=${room} />`;
}

function Lobby({ room }: { room: Room }): VNode {
  const wanted = route.value.query.get("meeting") ?? undefined;
  const [found, setFound] = useState<{ meeting: Meeting | undefined }>();
  const meeting = found?.meeting;
  const [isBusy, setBusy] = useState(false);
  const [hasLobby, setLobby] = useState(false);
  const [isOn, setOn] = useState<Readonly<Record<Kind, boolean>>>({ audio: true, video: true });
  const read = useLatest(async () => ({ meeting: await findOpen(room.id, wanted) }), setFound);
  useLive(read, ({ type, data }) => type.startsWith("meeting.") && data.meeting?.roomId === room.id, [room.id]);
  const preview = usePreview();
  const during = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    await attempt(work);
    setBusy(false);
  };
  const join = (id: string | undefined): Promise<void> =>
    during(async () =>
      await joinMeeting(
        id ?? (await startMeeting(room.id, hasLobby)).id,
        isOn,
        preview.take(),
        isOpen(meeting?.recording),
      )
    );
  const id = found === undefined ? wanted : meeting?.id;
  return html`
    <div class="welcome page">
      <div class="card">
        <h1>${meeting === undefined ? "No call is going on" : meeting.title ?? "A call is going on"}</h1>
        <p class="dim">${meeting === undefined
          ? canWrite(room)
            ? "Start one, and members of this room can join. Your browser will ask for your camera and microphone."
            : "Those who may write in this room can start one."
          : `${count(meeting.participantCount, "participant")} so far.`}</p>
        ${isOpen(meeting?.recording)
          ? html`<p role="status">This call is recorded: <span dir="auto">${meeting.recording.consentText}</span>${" "}
            <b>You agree to that by joining.</b></p>`
          : null}
        ${preview.media === undefined ? null : html`<${Preview} media=${preview.media} isOn=${isOn} />`}
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
          ${id === undefined
            ? html`
              <label
                class="check"><input type="checkbox" checked=${hasLobby} onChange=${() =>
                  setLobby(!hasLobby)} /> Others wait in a lobby until they are admitted</label>
            `
            : null}
          <p class="row"><button type="button" class="primary" disabled=${isBusy} onClick=${() => void join(id)}>
            <${Icon} name="video" />${id === undefined ? "Start a call" : "Join"}</button>
            ${preview.media !== undefined && preview.media.hint === "" ? null : html`
              <button type="button" disabled=${isBusy} onClick=${() =>
                void during(preview.open)}>Check microphone and camera</button>
            `}</p>
        `}
        <${PastCalls} roomId=${room.id} />
      </div>
    </div>
  `;
}

/** The call that one was led to, or the current one of the room. */
async function findOpen(roomId: string, wanted: string | undefined): Promise<Meeting | undefined> {
  const meeting = wanted === undefined ? undefined : await readMeeting(wanted);
  return meeting === undefined || meeting.state === "ended" ? await findMeeting(roomId) : meeting;
}

/** What others would see, and a choice of devices. */
function Preview({ media, isOn }: { media: OwnMedia; isOn: Readonly<Record<Kind, boolean>> }): VNode {
  return html`
    <div class="mirror">
      <${Tile} name="You" principalId=${myId()} stream=${media.stream} isOwn
        isMuted=${!isOn.audio} hasVideo=${isOn.video} />
    </div>
    ${media.hint === "" ? null : html`<p role="status">${media.hint}</p>`}
    <div class="row">
      <${Devices} media=${media} />
    </div>
  `;
}

/** Microphone and camera that are opened before a call. They are closed when its page is left, unless they were taken. */
function usePreview(): { media: OwnMedia | undefined; open: () => Promise<void>; take: () => OwnMedia | undefined } {
  const [media, setMedia] = useState<OwnMedia>();
  const current = useRef<OwnMedia | undefined>(undefined);
  const isLeft = useRef(false);
  const use = (next: OwnMedia | undefined): void => {
    current.current = next;
    setMedia(next);
  };
  const close = (): void => {
    current.current?.close();
    use(undefined);
  };
  useEffect(() => () => {
    isLeft.current = true;
    close();
  }, []);
  const open = async (): Promise<void> => {
    close();
    const opened = await openMedia();
    if (isLeft.current) opened.close();
    else use(opened);
  };
  const take = (): OwnMedia | undefined => {
    const taken = current.current;
    use(undefined);
    return taken;
  };
  return { media, open, take };
}

function CallView({ current, room }: { current: Call; room: Room }): VNode {
  const own = current.participants.value.find(({ id }) => id === current.participantId);
  const others = current.participants.value.filter(({ id, state }) =>
    id !== current.participantId && state === "joined"
  );
  const hasHand = (own?.handRaisedAt ?? null) !== null;
  const { isWaiting } = current;
  const { media } = current;
  const isHost = current.hostId.value === myId() || room.myRole === "owner";
  const isModerator = isHost || canModerate(room) || own?.role === "moderator";
  const mayEnd = isHost || canModerate(room) || isAdmin();
  return html`
    <div class="call">
      ${isWaiting ? html`<p class="banner">You are in the lobby until the host admits you.</p>` : null}
      ${isModerator ? html`<${LobbyBanner} current=${current} />` : null}
      <${RecordingBanner} current=${current} isModerator=${isModerator} />
      ${current.hasMedia || isWaiting ? null : html`
        <p class="banner"
          role="status">Pictures and sound of this call go through a LiveKit server, which this page does not connect to. Here you see who takes part, raise your hand, and end the call; use an application with LiveKit to see and hear the others.</p>
      `}
      ${current.hasMedia && media.hint !== "" ? html`<p class="banner" role="status">${media.hint} ${AGAIN}</p>` : null}
      <div class=${classes("tiles-grid", others.length === 0 && "alone")}>
        <${Tile} name="You" principalId=${myId()} stream=${media.stream} isOwn isMuted=${own?.muted}
          hasVideo=${current.mode !== "livekit" && current.hasVideo.value} />
        ${others.map((one) =>
          html`
            <${RemoteTile} key=${one.id} participant=${one} stream=${current.streams.value.get(one.id)}
              hasVideo=${!current.hidden.value.has(one.id)} menu=${isModerator
                ? html`<${ModeratorMenu} current=${current} participant=${one} isHost=${isHost} />`
                : null} />
          `
        )}
      </div>
      ${others.length === 0 ? html`<p class="dim call-hint">Waiting for others to join.</p>` : null}
      <div class="call-bar" role="toolbar" aria-label="Call">
        ${current.hasMedia ? html`<${MediaButtons} current=${current} isMuted=${own?.muted === true} />` : null}
        <${Devices} media=${media} />
        <button type="button" aria-pressed=${hasHand} onClick=${() =>
          void attempt(() => current.raiseHand(!hasHand))}><${Icon} name="hand" />${hasHand
          ? "Lower hand"
          : "Raise hand"}</button>
        ${current.mode === "livekit" && isModerator && !isOpen(current.recording.value)
          ? html`<button type="button" onClick=${() => openRecord(current)}>Record</button>`
          : null}
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
  const [hasMicrophone, hasCamera] = [current.media.has("audio"), current.media.has("video")];
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
function Devices({ media }: { media: OwnMedia }): VNode {
  const [all, setAll] = useState<readonly MediaDeviceInfo[]>([]);
  const read = (): void => void navigator.mediaDevices.enumerateDevices().then(setAll, () => setAll([]));
  useEffect(() => {
    // Without any, there may be nothing that knows of devices.
    if (media.stream.getTracks().length === 0) return;
    read();
    navigator.mediaDevices.addEventListener("devicechange", read);
    return () => navigator.mediaDevices.removeEventListener("devicechange", read);
  }, []);
  const choose = async (kind: Kind, id: string): Promise<void> => {
    await attempt(() => media.choose(kind, id));
    read();
  };
  return html`${
    KINDS.map(([kind, label]) => {
      const own = all.filter((one) => one.kind === `${kind}input`);
      return own.length < 2 || !media.has(kind) ? null : html`
        <select class="inline" key=${kind} aria-label=${label} title=${label} value=${media.deviceOf(kind)}
          onChange=${(event: Event) => void choose(kind, (event.target as HTMLSelectElement).value)}>${own.map((
            { deviceId, label },
            at,
          ) => html`<option key=${deviceId} value=${deviceId}>${label === "" ? `${at + 1}` : label}</option>`)}</select>
      `;
    })
  }`;
}

function RemoteTile({ participant, stream, hasVideo, menu }: {
  participant: Participant;
  stream: MediaStream | undefined;
  hasVideo: boolean;
  menu: VNode | null;
}): VNode {
  return html`
    <${Tile} name=${participant.displayName} principalId=${participant
      .principalId} stream=${stream} hasVideo=${hasVideo} isMuted=${participant.muted}
      hasHand=${participant.handRaisedAt !== null} menu=${menu} />
  `;
}

function Tile({ name, principalId, stream, isOwn = false, hasVideo, isMuted = false, hasHand = false, menu = null }: {
  name: string;
  principalId: string;
  stream: MediaStream | undefined;
  isOwn?: boolean;
  hasVideo: boolean;
  isMuted?: boolean;
  hasHand?: boolean;
  menu?: VNode | null;
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
      ${menu}
    </figure>
  `;
}
