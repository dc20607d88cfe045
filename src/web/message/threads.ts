// The threads that the caller takes part in, with their newest replies and a field for another one.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { count } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt } from "../core/notice.ts";
import { addPeople } from "../core/people.ts";
import type { LiveEvent, Message, Page, Person, Room } from "../core/resources.ts";
import { hrefOf, route } from "../core/route.ts";
import { hasUnreadThreads } from "../notification/inbox_state.ts";
import { CardsPage } from "../part/cards_page.ts";
import { usePages } from "../part/list.ts";
import { canWrite, roomName, rooms } from "../room/rooms.ts";
import { RoomIcon } from "../room/sidebar.ts";
import { Composer } from "./composer.ts";
import { draftKey, drafts } from "./editing.ts";
import { unsent } from "./outbox.ts";
import { MessageRow } from "./row.ts";
import { UnsentRow } from "./unsent_row.ts";

type Thread = { root: Message; unreadCount: number; replies: Message[] };
type ThreadPage = Page<Thread> & { senders: Person[] };

/** The gateway counts no more. */
const UNREAD_MAX = 100;

export default function ThreadsPage(): VNode {
  const isUnread = route.value.query.has("unread");
  return html`<${ThreadList} key=${isUnread} isUnread=${isUnread} />`;
}

function ThreadList({ isUnread }: { isUnread: boolean }): VNode {
  const { page, read, more } = usePages(async (cursor) => {
    const found = await get<ThreadPage>("v1/threads", {
      include: ["senders"],
      cursor,
      ...isUnread ? { unread: true } : {},
    });
    addPeople(found.senders);
    if (cursor === undefined && found.items.some(({ unreadCount }) => unreadCount > 0)) hasUnreadThreads.value = true;
    return found;
  });
  const threads = useInPlace(page?.items ?? []);
  const shown = useRef(new Set<string>());
  shown.current = new Set(threads.flatMap(({ root, replies }) => [root, ...replies].map(({ id }) => id)));
  useLive(read, (event) => event.type.startsWith("read.") || isAbout(event, shown.current));
  return html`
    <${CardsPage} title="Threads" label="Threads" openTab=${isUnread ? 1 : 0} tabs=${[
      ["All", hrefOf(["threads"])],
      ["Unread", hrefOf(["threads"], { unread: "" })],
    ]} items=${page?.items} read=${read}
      more=${more} text=${isUnread
        ? "You have read all replies."
        : "Threads that you start, reply in, are mentioned in or follow are listed here."}>
      <ul class="cards threads">${threads.map((thread) =>
        html`<${ThreadCard} key=${thread.root.id} thread=${thread} room=${rooms.value.get(thread.root.roomId)} />`
      )}</ul>
      <//>
  `;
}

/** Whether an event changes one of these messages, adds a reply to one, or may add a thread. */
function isAbout({ type, data }: LiveEvent, ids: ReadonlySet<string>): boolean {
  if (/^(?:notification|thread)\./.test(type)) return true;
  return ids.has(data?.message?.threadId) || ids.has(data?.message?.id ?? data?.messageId ?? data?.threadId);
}

/** In the order of what was the last reply of each when it was first shown: what is read or written there does not move. */
function useInPlace(threads: readonly Thread[]): readonly Thread[] {
  const { current } = useRef(new Map<string, string>());
  const timeOf = ({ root }: Thread): string => current.get(root.id) ?? "";
  for (const { root } of threads) if (!current.has(root.id)) current.set(root.id, root.lastReplyAt ?? "");
  return threads.toSorted((a, b) => timeOf(a) < timeOf(b) ? 1 : timeOf(a) > timeOf(b) ? -1 : 0);
}

function ThreadCard({ thread: { root, unreadCount, replies }, room }: { thread: Thread; room?: Room }): VNode | null {
  const [isReplying, setReplying] = useState(drafts.peek().has(draftKey(root.roomId, root.id)));
  const button = useRef<HTMLButtonElement>(null);
  const isLeft = useRef(false);
  useEffect(() => {
    if (!isReplying && isLeft.current) button.current?.focus();
    isLeft.current = false;
  }, [isReplying]);
  if (room === undefined) return null;
  const waiting = unsent.value.filter((one) =>
    one.threadId === root.id && !replies.some(({ clientMessageId }) => clientMessageId === one.clientMessageId)
  );
  const close = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    // Else the field would leave for the room.
    event.preventDefault();
    event.stopPropagation();
    isLeft.current = true;
    setReplying(false);
  };
  const row = (message: Message, before?: Message): VNode =>
    html`
      <${MessageRow} key=${message.id} message=${message} room=${room} isContinued=${before?.senderId ===
        message.senderId} isInThread
        isMarked=${false} />
    `;
  const last = replies.at(-1);
  return html`
    <li class=${classes(unreadCount > 0 && "unread")}>
      <header>
        <a href=${hrefOf(["rooms", room.id], { thread: root.id })}><${RoomIcon} room=${room} /><b dir="auto">${roomName(
          room,
        )}</b><span class="dim">${count(root.replyCount, "reply", "replies")}</span></a>
        ${unreadCount === 0 ? null : html`<b class="badge">${unreadCount === UNREAD_MAX ? "99+" : unreadCount} new</b>`}
      </header>
      ${row(root)}
      ${root.replyCount <= replies.length ? null : html`
        <a class="earlier" href=${hrefOf(["rooms", room.id], { thread: root.id })}>${count(
          root.replyCount - replies.length,
          "earlier reply",
          "earlier replies",
        )}</a>
      `}
      <div class="replies">${replies.map((reply, at) => row(reply, replies[at - 1]))}${waiting.map((one) =>
        html`<${UnsentRow} key=${one.clientMessageId} message=${one} />`
      )}</div>
      ${isReplying
        ? html`
          <div onKeyDownCapture=${close}>
            <${Composer} room=${room} threadId=${root.id} />
          </div>
        `
        : html`
          <div class="actions">
            ${canWrite(room)
              ? html`<button ref=${button} type="button" onClick=${() => setReplying(true)}>Reply</button>`
              : null}
            ${unreadCount === 0 || last === undefined ? null : html`
              <button type="button" title="With all messages of the room up to the last reply"
                onClick=${() =>
                  void attempt(() => call("PUT", `v1/rooms/${room.id}/read`, { seq: last.seq }))}>Mark as read</button>
            `}
          <button type="button" title="You are not notified of replies, and the thread is not listed here" onClick=${() =>
            void attempt(() => call("DELETE", `v1/threads/${root.id}/follow`))}>Unfollow</button>
          </div>
        `}
    </li>
  `;
}
