// Whether the caller follows the thread that is open, and the button that changes it.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt } from "../core/notice.ts";
import type { LiveEvent } from "../core/resources.ts";
import { myId } from "../core/session.ts";

export default function FollowButton({ threadId }: { threadId: string }): VNode | null {
  const [read, setRead] = useState<{ threadId: string; following: boolean }>();
  useLive(
    () =>
      void attempt(async () => {
        const { following } = await get<{ following: boolean }>(`v1/messages/${threadId}`, { include: ["following"] });
        setRead({ threadId, following });
      }),
    (event) => mayChange(event, threadId),
    [threadId],
  );
  if (read?.threadId !== threadId) return null;
  const { following } = read;
  return html`
    <button type="button" title=${following
      ? "You are notified of replies, and the thread is listed under Threads"
      : "You are not notified of replies"}
      onClick=${() =>
        void attempt(() => call(following ? "DELETE" : "PUT", `v1/threads/${threadId}/follow`))}>${following
        ? "Unfollow"
        : "Follow"}</button>
  `;
}

/** Also the caller's own reply, or one that mentions the caller, which then takes part. */
function mayChange({ type, data }: LiveEvent, threadId: string): boolean {
  if (type === "thread.followed" || type === "thread.unfollowed") return data.threadId === threadId;
  if (type !== "message.created" || data.message.threadId !== threadId) return false;
  return data.message.senderId === myId() || data.message.mentions.principalIds.includes(myId());
}
