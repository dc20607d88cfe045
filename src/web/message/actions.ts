// What can be done with a message.
import { addressOf, call, post } from "../core/api.ts";
import { copyText } from "../core/clipboard.ts";
import { attempt, notify } from "../core/notice.ts";
import { hrefOf } from "../core/route.ts";
import type { Message, Reaction, Room } from "../core/resources.ts";
import { isAdmin, myId } from "../core/session.ts";
import { canModerate, canWrite, markUnread } from "../room/rooms.ts";
import { confirmThen } from "../part/dialog.ts";
import type { MenuItem } from "../part/menu.ts";
import { editedId } from "./editing.ts";
import { patchMessage } from "./timeline.ts";

const TITLE_MAX = 120;

/** Adds the caller's reaction, or removes it. It is shown at once, and again as it was if the call fails. */
export function toggleReaction(message: Message, key: string): void {
  const mine = message.reactions.find((one) => one.key === key)?.me === true;
  const path = `v1/messages/${message.id}/reactions/${encodeURIComponent(key)}`;
  patchMessage(message.id, ({ reactions }) => ({ reactions: toggled(reactions, key, !mine) }));
  void attempt(async () => {
    try {
      await call(mine ? "DELETE" : "PUT", path);
    } catch (error) {
      patchMessage(message.id, () => ({ reactions: message.reactions }));
      throw error;
    }
  });
}

function toggled(reactions: readonly Reaction[], key: string, isAdded: boolean): Reaction[] {
  const others = reactions.filter((one) => one.key !== key);
  const before = reactions.find((one) => one.key === key);
  const count = (before?.count ?? 0) + (isAdded ? 1 : -1);
  if (count <= 0) return others;
  const changed = { key, count, me: isAdded };
  return before === undefined ? [...others, changed] : reactions.map((one) => one.key === key ? changed : one);
}

/** The menu of a message, as far as the caller may. */
export function messageMenu(message: Message, room: Room): MenuItem[] {
  const isOwn = message.senderId === myId();
  const items: MenuItem[] = [];
  if (canWrite(room)) {
    if (canModerate(room) || room.kind === "direct") {
      items.push({
        label: message.pinned ? "Unpin" : "Pin",
        icon: "pin",
        onSelect: () => void attempt(() => call(message.pinned ? "DELETE" : "PUT", `v1/messages/${message.id}/pin`)),
      });
    }
    items.push({ label: "Create a task", icon: "task", onSelect: () => void attempt(() => createTask(message)) });
  }
  if (message.reactions.length > 0) {
    items.push({
      label: "Reactions",
      icon: "smile",
      onSelect: () => void attempt(async () => (await import("./reactors.ts")).openReactors(message)),
    });
  }
  if (room.myRole !== null) {
    items.push(
      {
        label: "Follow thread",
        icon: "thread",
        onSelect: () =>
          void attempt(async () => {
            await call("PUT", `v1/threads/${message.id}/follow`);
            notify("You follow this thread");
          }),
      },
      { label: "Save to Later", icon: "bookmark", onSelect: () => withLater((later) => later.saveMessage(message)) },
      { label: "Remind me…", icon: "clock", onSelect: () => withLater((later) => later.openReminder(message)) },
      { label: "Mark as unread", icon: "bell", onSelect: () => void attempt(() => markUnread(message)) },
    );
  }
  items.push({
    label: "Read by",
    icon: "check",
    onSelect: () => void attempt(async () => (await import("./readers.ts")).openReaders(message)),
  });
  items.push({
    label: "Forward…",
    icon: "send",
    onSelect: () => void attempt(async () => (await import("./forward.ts")).openForward(message)),
  });
  const { text } = message;
  if (text) {
    items.push({
      label: "Copy text",
      icon: "document",
      onSelect: () => void attempt(() => copyText(text, "Text copied")),
    });
  }
  items.push({ label: "Copy link", icon: "link", onSelect: () => void copyLink(message) });
  if (isOwn && canWrite(room)) {
    items.push({ label: "Edit", icon: "edit", onSelect: () => (editedId.value = message.id) });
  }
  if (isOwn || canModerate(room) || isAdmin()) {
    items.push({
      label: "Delete",
      icon: "trash",
      isDanger: true,
      onSelect: () => confirmDelete(message),
    });
  }
  return items;
}

export function withLater(work: (later: typeof import("./later.ts")) => unknown): void {
  void attempt(async () => work(await import("./later.ts")));
}

export function confirmDelete(message: Message): void {
  confirmThen(
    "Delete this message?",
    "Its text and files are removed for everybody.",
    "Delete",
    () => call("DELETE", `v1/messages/${message.id}`),
  );
}

async function createTask(message: Message): Promise<void> {
  const [line = ""] = (message.text ?? "").split("\n");
  const title = line.slice(0, TITLE_MAX).trim();
  const task = await post<{ key: string }>("v1/collaboration/tasks", {
    roomId: message.roomId,
    title: title === "" ? "Task from a message" : title,
    sourceMessageId: message.id,
  });
  notify(`Created ${task.key}`);
}

async function copyLink({ roomId, id }: Message): Promise<void> {
  await attempt(async () => {
    await copyText(addressOf(hrefOf(["rooms", roomId], { message: id })), "Link copied");
  });
}
