// One message: who, when, text, files, reactions, thread, and what can be done with it.
import { Component, type ComponentType, Fragment, h, type VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useComputed } from "@preact/signals";
import { call } from "../core/api.ts";
import { count, fullTimeOf, shortTimeOf, timeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { nameOf, personOf } from "../core/people.ts";
import type { Message, Reaction, Room } from "../core/resources.ts";
import { go, route } from "../core/route.ts";
import { myId } from "../core/session.ts";
import { canWrite } from "../room/rooms.ts";
import { Avatar } from "../part/avatar.ts";
import { Icon } from "../part/icon.ts";
import { later } from "../part/lazy.ts";
import { Menu } from "../part/menu.ts";
import { confirmDelete, messageMenu, toggleReaction } from "./actions.ts";
import { drafts, editedId, editKey, setDraft, setReply } from "./editing.ts";
import { EmojiPicker, recentEmoji } from "./emoji.ts";
import { Files } from "./files.ts";
import { formatKey, isInCode } from "./format_keys.ts";
import { markdown, mentionNames } from "./markdown.ts";
import { isSentNaming } from "./outbox.ts";
import { lineOf, repliedTo, type Reply, requestRepliedTo } from "./quotes.ts";

const Absent = later(() => import("./absent.ts"));
const Elements = later(() => import("./elements.ts"));
const Linked = later(() => import("./linked.ts"));

type Props = { message: Message; room: Room; isContinued: boolean; isInThread: boolean; isMarked: boolean };

/** Rendered again only if its message changes. */
export const MessageRow = memo(
  Row,
  (a: Props, b: Props) =>
    a.message === b.message && a.isContinued === b.isContinued && a.isMarked === b.isMarked &&
    isAlike(a.room, b.room),
);

/** For messages in it. */
export function isAlike(a: Room, b: Room): boolean {
  return a.myRole === b.myRole && a.state === b.state;
}

function Row({ message, room, isContinued, isInThread, isMarked }: Props): VNode {
  const isDeleted = message.deletedAt !== null;
  const isMention = message.mentions.room || message.mentions.principalIds.includes(myId());
  return html`
    <article tabindex="-1" data-id=${message.id} data-seq=${message.seq}
      class=${classes(
        "message",
        isContinued && "continued",
        isMarked && "marked",
        isMention && !isDeleted && "mentions-me",
      )}
      aria-label=${`${nameOf(message.senderId)}, ${timeOf(message.createdAt)}`}>
      <div class="gutter">${isContinued
        ? html`<time datetime=${message.createdAt} title=${fullTimeOf(message.createdAt)}>${
          timeOf(message.createdAt)
        }</time>`
        : html`<${Avatar} id=${message.senderId} hasPresence />`}</div>
      <div class="content">
        ${isContinued ? null : html`<${Head} message=${message} />`}
        ${message.replyToId === null ? null : html`<${ReplyLine} message=${message} />`}
        ${isDeleted
          ? html`<p class="dim">This message was deleted.</p>`
          : editedId.value === message.id
          ? html`<${Editor} message=${message} />`
          : html`<${Body} message=${message} />`}
        ${isDeleted ? null : html`
          ${message.text?.includes("#/rooms/") ? html`<${Linked} text=${message.text} />` : null}
          <${Files} files=${message.files} />
          ${isSentNaming(message) ? html`<${Absent} message=${message} room=${room} />` : null}
          ${(message.elements ?? []).length === 0
            ? null
            : html`<${Elements} message=${message} isAllowed=${canWrite(room)} />`}
        `}
        <${Reactions} message=${message} isAllowed=${canWrite(room)} />
        ${isInThread || message.replyCount === 0 ? null : html`<${ThreadLine} message=${message} />`}
      </div>
      ${isDeleted ? null : html`<${Toolbar} message=${message} room=${room} isInThread=${isInThread} />`}
    </article>
  `;
}

function Head({ message }: { message: Message }): VNode {
  const person = personOf(message.senderId);
  return html`
    <header>
      <a class="name" href=${`#/people/${encodeURIComponent(message.senderId)}`} dir="auto">${nameOf(
        message.senderId,
      )}</a>
      ${message.senderKind === "human" ? null : html`<span class="tag">${message.senderKind}</span>`}
      ${(person?.status ?? null) === null
        ? null
        : html`<span title=${person?.status?.text ?? ""}>${person?.status?.emoji}</span>`}
      <time datetime=${message.createdAt} title=${fullTimeOf(message.createdAt)}>${timeOf(message.createdAt)}</time>
      ${message.pinned ? html`<span class="tag"><${Icon} name="pin" />pinned</span>` : null}
    </header>
  `;
}

function Body({ message }: { message: Message }): VNode {
  const { text, format } = message;
  const names = mentionNames(message.mentions);
  return html`<div class="text" dir="auto">${
    text === null || text === "" ? null : html`<${Text} text=${text} format=${format} names=${names} />`
  }${
    message.editedAt === null ? null : html`
      <small
        class="dim"> <button type="button" class="link edited" title=${`Edited ${
          fullTimeOf(message.editedAt)
        }. Show the earlier versions`} onClick=${() =>
          void attempt(async () => (await import("./history.ts")).openHistory(message))}>(edited)</button></small>
    `
  }</div>`;
}

type TextProps = { text: string; format: Message["format"]; names: ReturnType<typeof mentionNames> };

/**
 * Parsed again only if it changes. Nodes that are cached hold the whole list in which they were rendered first, and so all
 * messages that have ever been in it.
 */
const Text = memo(
  ({ text, format, names }: TextProps) =>
    html`<${Fragment}>${format === "plain" ? html`<p class="plain-text">${text}</p>` : markdown(text, names)}<//>`,
  (a: TextProps, b: TextProps) =>
    a.text === b.text && a.format === b.format && JSON.stringify([...a.names]) === JSON.stringify([...b.names]),
);

/** What the message replies to, in one line of plain text, if the caller can see it. */
function ReplyLine({ message }: { message: Message }): VNode {
  const open = (): void => go(["rooms", message.roomId], { message: message.replyToId ?? "" });
  return html`
    <button type="button" class="plain reply-line"
      onClick=${open}><${Icon} name="reply" /><${RepliedTo} reply=${message} /></button>
  `;
}

/** Also of a message that is being written. */
export function RepliedTo({ reply }: { reply: Reply }): VNode {
  const quoted = useComputed(() => repliedTo(reply)).value;
  useEffect(() => requestRepliedTo(reply), [quoted]);
  return html`
    <span class="clip">in reply to ${quoted === undefined
      ? "a message"
      : html`<b dir="auto">${nameOf(quoted.senderId)}</b>: <bdi>${lineOf(quoted)}</bdi>`}</span>
  `;
}

function Reactions({ message, isAllowed }: { message: Message; isAllowed: boolean }): VNode | null {
  if (message.reactions.length === 0) return null;
  return html`
    <div class="reactions">${message.reactions.map((one) =>
      html`<${ReactionButton} key=${one.key} message=${message} reaction=${one} isAllowed=${isAllowed} />`
    )}</div>
  `;
}

/** Says who reacted once the pointer or the focus is on it. */
function ReactionButton({ message, reaction: { key, count: n, me }, isAllowed }: {
  message: Message;
  reaction: Reaction;
  isAllowed: boolean;
}): VNode {
  // What was read before somebody else reacted is not shown.
  const state = `${n} ${me}`;
  const [known, setKnown] = useState({ state, names: "" });
  const names = known.state === state ? known.names : "";
  const read = (): void => {
    if (names !== "") return;
    // Without the names there is still the count.
    import("./reactors.ts").then(({ readReactors }) => readReactors(message.id, key, n)).then(
      (names) => setKnown({ state, names }),
      () => undefined,
    );
  };
  return html`
    <button type="button" class=${me ? "mine" : ""} aria-pressed=${me === true} disabled=${!isAllowed} title=${names}
      aria-label=${`${key}, ${count(n, "reaction")}`} aria-description=${names} onPointerEnter=${read} onFocus=${read}
      onClick=${() => toggleReaction(message, key)}>${key} <b>${n}</b></button>
  `;
}

function ThreadLine({ message }: { message: Message }): VNode {
  return html`
    <button type="button" class="plain thread-line" onClick=${() => openThread(message)}>
      <${Icon} name="thread" />${count(message.replyCount, "reply", "replies")}
      ${message.lastReplyAt === null ? null : html`<span class="dim">last ${shortTimeOf(message.lastReplyAt)}</span>`}
    </button>
  `;
}

/** Shown for the message under the pointer or with the focus. */
function Toolbar({ message, room, isInThread }: { message: Message; room: Room; isInThread: boolean }): VNode {
  const react = (emoji: string): void => toggleReaction(message, emoji);
  return html`
    <div class="toolbar" role="group" aria-label="Message">
      ${canWrite(room)
        ? html`
          ${recentEmoji().map((emoji) =>
            html`<button type="button" class="plain quick" aria-label=${`React with ${emoji}`} onClick=${() =>
              react(emoji)}>${emoji}</button>`
          )}
          <${EmojiPicker} label="Add a reaction" onPick=${react} />
          ${isInThread ? null : html`
            <button type="button" class="plain" aria-label="Reply in thread" title="Reply in thread"
              onClick=${() => openThread(message)}><${Icon} name="thread" /></button>
            <button type="button" class="plain" aria-label="Reply" title="Reply"
              onClick=${() => setReply(message.roomId, message.id)}><${Icon} name="reply" /></button>
          `}
        `
        : null}
      <${Menu} label="More" items=${messageMenu(message, room)} />
    </div>
  `;
}

function Editor({ message }: { message: Message }): VNode {
  const box = useRef<HTMLTextAreaElement>(null);
  const before = useRef<Element>(null);
  const key = editKey(message.id);
  const close = (): void => {
    setDraft(key, "");
    editedId.value = "";
    if (before.current instanceof HTMLElement) before.current.focus();
  };
  useEffect(() => {
    const { current } = box;
    before.current = document.activeElement;
    current?.focus();
    current?.setSelectionRange(current.value.length, current.value.length);
  }, []);
  const isSaving = useRef(false);
  const save = async (): Promise<void> => {
    const text = box.current?.value.trim() ?? "";
    if (text === message.text) return close();
    if (text === "" && message.files.length === 0) return void (close(), confirmDelete(message));
    // A second time would be refused: of another version.
    if (isSaving.current) return;
    isSaving.current = true;
    await attempt(async () => {
      await call("PATCH", `v1/messages/${message.id}`, { text, parseMentions: true, version: message.version });
      close();
    });
    isSaving.current = false;
  };
  return html`
    <div class="edit">
      <textarea ref=${box} rows=${Math.min(12, (message.text ?? "").split("\n").length + 1)} aria-label="Edit message"
        dir="auto" onKeyDown=${(event: KeyboardEvent) => {
          if (event.key === "Escape") {
            // What is around it stays open.
            event.preventDefault();
            close();
          }
          if (
            formatKey(event, (text) => setDraft(key, text)) || event.key !== "Enter" || event.shiftKey ||
            event.isComposing || isInCode(event)
          ) return;
          event.preventDefault();
          void save();
        }} defaultValue=${drafts.peek().get(key) ?? message.text ?? ""}
        onInput=${(event: InputEvent) => setDraft(key, (event.target as HTMLTextAreaElement).value)}></textarea>
      <button type="button" class="primary" onClick=${() => void save()}>Save</button>
      <button type="button" onClick=${close}>Cancel</button>
    </div>
  `;
}

export function openThread({ roomId, id, threadId }: Message): void {
  const query = Object.fromEntries(route.value.query);
  delete query["message"];
  go(["rooms", roomId], { ...query, thread: threadId ?? id });
}

/** Closes a thread, whose message has the focus then, or another pane. */
export function leavePane(roomId: string, threadId?: string): void {
  go(["rooms", roomId]);
  focusBehindPane(threadId);
}

/** The message that a thread is about has the focus then; else the composer, but where that would open a keyboard. */
export function focusBehindPane(threadId?: string): void {
  const row = document.querySelector<HTMLElement>(`.chat [data-id="${threadId}"]`);
  const other = matchMedia("(pointer: fine)").matches ? ".chat .composer textarea" : ".page-head h1";
  (row ?? document.querySelector<HTMLElement>(other))?.focus();
}

/** Renders a component again only if its properties changed, or signals that it reads. */
export function memo<Props extends object>(
  view: ComponentType<Props>,
  isSame: (a: Props, b: Props) => boolean,
): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      return !isSame(this.props as Props, next);
    }

    override render(): VNode {
      return h(view as ComponentType, this.props as Props);
    }
  };
}
