// A thread beside the room: the message it is about, and the replies.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../core/api.ts";
import { count } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { addPeople } from "../core/people.ts";
import { route } from "../core/route.ts";
import type { Message, Person, Room } from "../core/resources.ts";
import { Heading } from "../part/dialog.ts";
import { later } from "../part/lazy.ts";
import { Composer } from "./composer.ts";
import { draftKey } from "./editing.ts";
import { MessageList } from "./list.ts";
import { leavePane, MessageRow } from "./row.ts";
import { timelineOf } from "./timeline.ts";
import { Typing } from "./typing.ts";
import { useDrop } from "./uploads.ts";

const FollowButton = later(() => import("./follow.ts"));
const RunsPanel = later(() => import("../agent/panel.ts"));

export function ThreadPane({ room, threadId }: { room: Room; threadId: string }): VNode {
  const [read, setRead] = useState<Message>();
  const shown = timelineOf(room.id).state.value.items.find(({ id }) => id === threadId);
  const root = shown ?? (read?.id === threadId ? read : undefined);
  useEffect(() => {
    if (shown !== undefined) return;
    void attempt(async () => {
      const message = await get<Message & { senders?: Person[] }>(`v1/messages/${threadId}`, { include: ["senders"] });
      addPeople(message.senders ?? []);
      setRead(message);
    });
  }, [threadId]);
  const { isOver, handlers } = useDrop(draftKey(room.id, threadId), room.id);
  return html`
    <aside class=${classes("pane", isOver && "drop")} aria-label="Thread" ...${handlers}>
      <${Heading} title="Thread" onClose=${() => leavePane(room.id, threadId)}>
        <span class="dim">${root === undefined ? "" : count(root.replyCount, "reply", "replies")}</span>
        ${room.myRole === null ? null : html`<${FollowButton} threadId=${threadId} />`}
      <//>
      ${root === undefined ? null : html`
        <div class="thread-root">
          <${MessageRow} message=${root} room=${room} isContinued=${false} isInThread isMarked=${false} />
        </div>
      `}
      <${MessageList} key=${threadId} room=${room} threadId=${threadId} jumpTo=${route.value.query.get("reply") ??
        undefined} />
      <${RunsPanel} room=${room} threadId=${threadId} />
      <${Typing} roomId=${room.id} threadId=${threadId} />
      <${Composer} room=${room} threadId=${threadId} />
    </aside>
  `;
}
