// Calls that others have started: one that rings, wherever its callee is, and the one of the open room.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { onEvent, useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { hrefOf, route } from "../core/route.ts";
import type { Room } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { callRoomId } from "./active.ts";
import { findMeeting, type Meeting, PATH } from "./meetings.ts";

const ringing = signal<Meeting | undefined>(undefined);

onEvent(({ type, data }) => {
  if (!type.startsWith("meeting.") || data.meeting === undefined) return;
  const { id, state, createdBy } = data.meeting;
  if (type === "meeting.started" && state === "ringing" && createdBy !== myId()) ringing.value = data.meeting;
  else if (id === ringing.value?.id && state !== "ringing") ringing.value = undefined;
});

export default function CallNotice({ room }: { room: Room | undefined }): VNode | null {
  const [meeting, setMeeting] = useState<Meeting>();
  const read = useLatest(
    // A token may lack the scope.
    async () => room && await findMeeting(room.id).catch(() => undefined),
    setMeeting,
  );
  useLive(read, ({ type, data }) => type.startsWith("meeting.") && data.meeting?.roomId === room?.id, [room?.id]);
  const shown = ringing.value ?? (meeting?.roomId === room?.id ? meeting : undefined);
  const { path } = route.value;
  if (shown === undefined || shown.roomId === callRoomId.value || path[1] === shown.roomId && path[2] === "call") {
    return null;
  }
  const isRinging = shown.state === "ringing" && shown.createdBy !== myId();
  return html`
    <div class="banner" role="status">
      <span>${isRinging
        ? html`<b dir="auto">${nameOf(shown.createdBy)}</b> is calling you.`
        : "A call is going on in this room."}</span>
      <a href=${hrefOf(["rooms", shown.roomId, "call"])}>${isRinging ? "Answer" : "Join"}</a>
      ${isRinging
        ? html`<button type="button" class="plain" onClick=${() =>
          void attempt(() => post(`${PATH}/${shown.id}/end`))}>Decline</button>`
        : null}
    </div>
  `;
}
