// Where messages are written: Enter sends, except in a block of code, Escape leaves a thread, @ completes names, files are
// dropped or pasted, and a message can be scheduled.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { html } from "../core/html.ts";
import { publishEphemeral } from "../core/live.ts";
import { hrefOf, route } from "../core/route.ts";
import type { Room } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { canWrite, joinRoom, roomName } from "../room/rooms.ts";
import { attempt } from "../core/notice.ts";
import { Icon } from "../part/icon.ts";
import { Menu } from "../part/menu.ts";
import { runCommand } from "./commands.ts";
import { Completion, completionAttributes, completionKey } from "./completion.ts";
import { formatKey, isInCode, replaceText } from "./format_keys.ts";
import {
  draftKey,
  drafts,
  editedId,
  replyTo,
  setDraft,
  setReply,
  takeDraft,
  type Taken,
  threadWithDraft,
} from "./editing.ts";
import { EmojiPicker } from "./emoji.ts";
import { sendMessage } from "./outbox.ts";
import { leavePane, RepliedTo } from "./row.ts";
import { timelineOf } from "./timeline.ts";
import { Attachments, upload } from "./uploads.ts";

const TYPING_MS = 3000;
const LINES_MAX_PX = 220;
const LINK = /^https?:\/\/[^\s()]+$/;

type Target = { room: Room; threadId?: string };

export function Composer({ room, threadId }: Target): VNode {
  if (room.myRole === null) return html`<${JoinBar} room=${room} />`;
  if (!canWrite(room)) {
    return html`<p class="composer-note">${
      room.state === "archived" ? "This room is archived." : "You can read this room, but not write in it."
    }</p>`;
  }
  return html`<${MessageForm} room=${room} threadId=${threadId} />`;
}

function MessageForm({ room, threadId }: Target): VNode {
  const key = draftKey(room.id, threadId);
  const text = drafts.value.get(key) ?? "";
  const box = useRef<HTMLTextAreaElement>(null);
  const typedAt = useRef(0);
  const picker = useRef<HTMLInputElement>(null);
  const reply = threadId === undefined ? replyTo.value.get(room.id) : undefined;
  const setText = (value: string): void => setDraft(key, value);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(LINES_MAX_PX, element.scrollHeight)}px`;
  }, [text, key]);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) box.current?.focus();
  }, [key, reply]);

  function onInput(event: InputEvent): void {
    setText((event.target as HTMLTextAreaElement).value);
    if (Date.now() - typedAt.current < TYPING_MS) return;
    typedAt.current = Date.now();
    publishEphemeral(`room:${room.id}`, "typing", { typing: true, threadId });
  }

  function take(): Taken | undefined {
    const taken = takeDraft(key, room.id);
    if (taken !== undefined) typedAt.current = 0;
    return taken;
  }

  function send(): void {
    // Behind a space, a slash is text like any other.
    const isCommand = drafts.peek().get(key)?.startsWith("/") === true;
    const taken = take();
    if (taken === undefined) return;
    sendTaken(taken, { room, threadId }, isCommand);
    box.current?.focus();
  }

  function onKey(event: KeyboardEvent): void {
    if (completionKey(event) || formatKey(event, setText)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !isInCode(event)) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && text === "") editLast(event, room, threadId);
    else if (event.key === "Escape" && reply !== undefined) setReply(room.id, undefined);
    else if (event.key === "Escape" && threadId !== undefined) {
      event.preventDefault();
      leavePane(room.id, threadId);
    }
  }

  /** Writes a text instead of what is selected. */
  function insert(part: string): void {
    const { current } = box;
    if (current === null) return;
    // In the field itself: a new value would move the cursor to the end.
    replaceText(current, part, current.selectionStart, current.selectionEnd);
    setText(current.value);
  }

  function onPaste(event: ClipboardEvent): void {
    const { clipboardData } = event;
    const pasted = clipboardData?.getData("text/plain") ?? "";
    // What is copied in a word processor or a spreadsheet is also given as a picture.
    const hasText = pasted !== "" && clipboardData?.types.includes("text/html") === true;
    const { selectionStart = 0, selectionEnd = 0 } = box.current ?? {};
    const selected = text.slice(selectionStart, selectionEnd);
    if ((clipboardData?.files.length ?? 0) > 0 && !hasText) addFiles(clipboardData?.files);
    else if (LINK.test(pasted) && selected.trim() !== "" && !LINK.test(selected)) insert(`[${selected}](${pasted})`);
    else return;
    event.preventDefault();
  }

  const addFiles = (list: FileList | null | undefined): void => upload(key, room.id, [...list ?? []]);
  return html`
    <form class="composer" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      send();
    }}>
      ${threadId === undefined ? html`<${ThreadDraft} roomId=${room.id} />` : null}
      ${reply === undefined ? null : html`<${ReplyBar} room=${room} id=${reply} />`}
      <${Attachments} target=${key} />
      <${Completion} room=${room} text=${text} box=${box} onPick=${setText} />
      <div class="composer-row">
        <button type="button" class="plain" aria-label="Attach files" title="Attach files"
          onClick=${() => picker.current?.click()}><${Icon} name="clip" /></button>
        <input ref=${picker} type="file" multiple hidden tabindex="-1" onChange=${(event: Event) => {
          const input = event.target as HTMLInputElement;
          addFiles(input.files);
          input.value = "";
        }} />
        <textarea ref=${box} rows="1" dir="auto" aria-autocomplete="list" ...${completionAttributes(
          box.current,
        )} value=${text} aria-label=${threadId === undefined ? `Message ${roomName(room)}` : "Reply in thread"}
          placeholder=${threadId === undefined
            ? `Message ${room.kind === "direct" ? "" : "#"}${roomName(room)}`
            : "Reply…"}
          onInput=${onInput} onKeyDown=${onKey} onPaste=${onPaste}></textarea>
        <${EmojiPicker} label="Insert an emoji" onPick=${insert} />
        ${threadId !== undefined ? null : html`<${Menu} label="Send later" icon="clock" items=${[
          {
            label: "Send later…",
            icon: "clock",
            onSelect: () => void attempt(async () => (await import("./schedule.ts")).openSchedule(room, take)),
          },
          {
            label: "Scheduled messages",
            icon: "calendar",
            onSelect: () => void attempt(async () => (await import("./schedule.ts")).openScheduledList(room.id)),
          },
        ]} />`}
        <button class="primary send" aria-label="Send" title="Send"><${Icon} name="send" /></button>
      </div>
    </form>
  `;
}

/** Runs a command, or sends a message. */
function sendTaken(
  { giveBack, ...content }: Taken,
  { room: { id: roomId }, threadId }: { room: Room; threadId: string | undefined },
  isCommand: boolean,
): void {
  const { text, files } = content;
  const post = (): void => sendMessage({ roomId, ...content, threadId });
  if (!isCommand || files.length > 0) return post();
  void attempt(async () => {
    try {
      if (!await runCommand(roomId, text, threadId)) post();
    } catch (error) {
      giveBack();
      throw error;
    }
  });
}

function JoinBar({ room }: { room: Room }): VNode {
  return html`<p class="composer-note">You are not a member of this room.
    <button type="button" class="primary" onClick=${() => void attempt(() => joinRoom(room.id))}>Join</button></p>`;
}

/** Leads to what is written in a thread: nothing else does, once that is closed. */
function ThreadDraft({ roomId }: { roomId: string }): VNode | null {
  const thread = threadWithDraft(roomId, route.value.query.get("thread"));
  if (thread === undefined) return null;
  return html`<a class="reply-bar" href=${hrefOf(["rooms", roomId], { thread })}><${Icon} name="thread" />
    <span dir="auto">Draft in a thread: ${drafts.value.get(draftKey(roomId, thread))}</span></a>`;
}

function ReplyBar({ room, id }: { room: Room; id: string }): VNode {
  return html`
    <div class="reply-bar">
      <${Icon} name="reply" />
      <${RepliedTo} key=${id} reply=${{ roomId: room.id, threadId: null, replyToId: id }} />
      <button type="button" class="plain" aria-label="Do not reply"
        onClick=${() => setReply(room.id, undefined)}><${Icon} name="close" /></button>
    </div>
  `;
}

function editLast(event: KeyboardEvent, room: Room, threadId: string | undefined): void {
  const last = timelineOf(room.id, threadId).state.value.items
    .findLast(({ senderId, deletedAt }) => senderId === myId() && deletedAt === null);
  if (last === undefined) return;
  event.preventDefault();
  editedId.value = last.id;
}
