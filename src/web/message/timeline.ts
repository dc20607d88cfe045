// Messages of a room or a thread: a window on its history, at most so long that a browser stays quick. Replies are in the
// timelines of their threads only.
import { signal } from "@preact/signals";
import { get } from "../core/api.ts";
import { generation, onEvent } from "../core/live.ts";
import { addPeople } from "../core/people.ts";
import type { LiveEvent, Message, Messages } from "../core/resources.ts";
import { myId } from "../core/session.ts";

const PAGE = 60;
/** Where most messages are replies, more are read at once. */
const LONG_PAGE = 200;
/** More are dropped at the other end, and read again when scrolled to. */
const WINDOW_MAX = 240;
const TIMELINES_MAX = 12;

type State = {
  readonly items: readonly Message[];
  readonly hasBefore: boolean;
  readonly hasAfter: boolean;
  readonly state: "new" | "loading" | "ready" | "failed";
};

const timelines = new Map<string, Timeline>();

/** The timeline of a room, or of a thread in it. The most recent ones stay in memory. */
export function timelineOf(roomId: string, threadId?: string): Timeline {
  const key = threadId ?? roomId;
  const timeline = timelines.get(key) ?? new Timeline(roomId, threadId);
  timelines.delete(key);
  timelines.set(key, timeline);
  const [oldest] = timelines.keys();
  if (timelines.size > TIMELINES_MAX && oldest !== undefined) timelines.delete(oldest);
  return timeline;
}

/** A message beside another one, if it is shown there. */
export function findBeside(
  { roomId, threadId }: Pick<Message, "roomId" | "threadId">,
  id: string,
): Message | undefined {
  return timelines.get(threadId ?? roomId)?.state.value.items.find((one) => one.id === id);
}

export class Timeline {
  readonly state = signal<State>({ items: [], hasBefore: false, hasAfter: false, state: "new" });
  readonly roomId: string;
  readonly #threadId: string | undefined;
  #loadedGeneration = -1;
  /** What was read: between these positions, and how much of the last page is shown here. */
  #from = 0;
  #to = 0;
  #limit = PAGE;
  /** Counts what replaces the window: a page that was asked for before belongs to another place. */
  #place = 0;
  /** What changed while messages are read, which may or may not be in what is read. */
  #missed: (() => void)[] = [];

  constructor(roomId: string, threadId: string | undefined) {
    this.roomId = roomId;
    this.#threadId = threadId;
  }

  /** Reads the newest messages, unless they are there. */
  async open(): Promise<void> {
    const { state } = this.state.value;
    if ((state === "loading" || state === "ready") && this.#loadedGeneration === generation.value) return;
    await this.jump();
  }

  /** Reads the newest messages, or those around one, and returns what was read, replies included. */
  async jump(around?: string | number): Promise<Message[]> {
    this.#set({ items: [], hasBefore: false, hasAfter: false, state: "loading" });
    this.#loadedGeneration = generation.value;
    const place = ++this.#place;
    try {
      const { all, items, hasBefore, hasAfter } = await this.#read(around === undefined ? {} : { around });
      if (place !== this.#place) return all;
      [this.#from, this.#to] = [all[0]?.seq ?? 0, all.at(-1)?.seq ?? 0];
      // Events that arrived meanwhile are newer.
      const newer = hasAfter ? [] : this.state.value.items.filter(({ seq }) => seq > this.#to);
      this.#settle({ items: merged(items, newer), hasBefore, hasAfter, state: "ready" });
      return all;
    } catch {
      // The view offers to read again.
      if (place === this.#place) this.#settle({ state: "failed" });
      return [];
    }
  }

  /** Forgets a window that is not at the end: who comes back expects the newest messages. */
  close(): void {
    const { hasAfter, state } = this.state.value;
    if (!hasAfter && state !== "loading") return;
    this.#place++;
    this.#missed = [];
    this.#set({ items: [], hasBefore: false, hasAfter: false, state: "new" });
  }

  async older(): Promise<void> {
    const { hasBefore, state } = this.state.value;
    if (!hasBefore || state !== "ready") return;
    const page = await this.#readMore({ before: this.#from });
    if (page === undefined) return;
    this.#from = page.all[0]?.seq ?? this.#from;
    const all = merged(page.items, this.state.value.items);
    const items = all.slice(0, WINDOW_MAX);
    const isCut = items.length < all.length;
    if (isCut) this.#to = items.at(-1)?.seq ?? this.#to;
    const hasAfter = this.state.value.hasAfter || isCut;
    this.#settle({ items, hasBefore: page.hasBefore, hasAfter, state: "ready" });
  }

  async newer(): Promise<void> {
    const { hasAfter, state } = this.state.value;
    if (!hasAfter || state !== "ready") return;
    const page = await this.#readMore({ after: this.#to });
    if (page === undefined) return;
    this.#to = page.all.at(-1)?.seq ?? this.#to;
    const window = this.#newest(merged(this.state.value.items, page.items));
    this.#settle({ ...window, hasAfter: page.hasAfter, state: "ready" });
  }

  put(message: Message): void {
    const { items, hasAfter, state } = this.state.value;
    // What is known may have been changed since then: the response to sending may come after that.
    if (items.some(({ id }) => id === message.id)) return;
    if (hasAfter) {
      // What is newer than the window is read when it is scrolled to; what is being read may not have it.
      if (state === "loading") this.#missed.push(() => this.put(message));
      return;
    }
    this.#to = Math.max(this.#to, message.seq);
    const all = merged(items, [message]);
    // What older messages are being read for stays: they would not be followed by what was dropped.
    this.#set(state === "loading" ? { items: all } : this.#newest(all));
  }

  patch(id: string, change: (message: Message) => Partial<Message>): void {
    const { items, state } = this.state.value;
    // Also of what is here: what is being read may be older, and replaces it.
    if (state === "loading") this.#missed.push(() => this.patch(id, change));
    if (!items.some((one) => one.id === id)) return;
    this.#set({ items: items.map((one) => one.id === id ? { ...one, ...change(one) } : one) });
  }

  expire(upToSeq: number): void {
    if (this.state.value.state === "loading") this.#missed.push(() => this.expire(upToSeq));
    this.#set({ items: this.state.value.items.filter(({ seq }) => seq > upToSeq) });
  }

  #set(next: Partial<State>): void {
    this.state.value = { ...this.state.value, ...next };
  }

  #settle(next: Partial<State>): void {
    this.#set(next);
    const changes = this.#missed;
    this.#missed = [];
    for (const change of changes) change();
  }

  /** The end of these messages, as many as a window has. */
  #newest(all: readonly Message[]): Pick<State, "items" | "hasBefore"> {
    const items = all.slice(-WINDOW_MAX);
    const isCut = items.length < all.length;
    if (isCut) this.#from = items[0]?.seq ?? this.#from;
    return { items, hasBefore: this.state.value.hasBefore || isCut };
  }

  /** A page; `all` has the replies, too. */
  async #read(query: Record<string, string | number>): Promise<Messages & { all: Message[] }> {
    const page = await get<Messages>("v1/messages", {
      roomId: this.roomId,
      threadId: this.#threadId,
      include: ["senders"],
      limit: this.#limit,
      ...query,
    });
    addPeople(page.senders ?? []);
    const items = this.#threadId === undefined ? page.items.filter(({ threadId }) => threadId === null) : page.items;
    this.#limit = items.length < page.items.length / 4 ? LONG_PAGE : PAGE;
    return { ...page, items, all: page.items };
  }

  /** A page at an end of the window; nothing if it failed, or the window was replaced meanwhile. */
  async #readMore(query: Record<string, number>): Promise<Messages & { all: Message[] } | undefined> {
    this.#set({ state: "loading" });
    const place = this.#place;
    // What failed is read again when the list is scrolled further.
    const page = await this.#read(query).catch(() => undefined);
    if (place !== this.#place) return undefined;
    if (page === undefined) this.#settle({ state: "ready" });
    return page;
  }
}

function merged(older: readonly Message[], newer: readonly Message[]): Message[] {
  const byId = new Map([...older, ...newer].map((message) => [message.id, message]));
  return [...byId.values()].toSorted((a, b) => a.seq - b.seq);
}

/** Changes a message wherever it is shown. */
export function patchMessage(id: string, change: (message: Message) => Partial<Message>): void {
  for (const timeline of timelines.values()) timeline.patch(id, change);
}

/** Shows a message that was sent. */
export function putMessage(message: Message): void {
  const timeline = timelines.get(message.threadId ?? message.roomId);
  if (timeline !== undefined && timeline.state.value.state !== "new") timeline.put(message);
}

/** Events carry counts for everybody; whose own a reaction is follows from who reacted. */
function reactionsAfter({ data, type }: LiveEvent, before: Message["reactions"]): Message["reactions"] {
  const mine = new Set(before.filter(({ me }) => me).map(({ key }) => key));
  if (data.principalId === myId()) {
    if (type === "reaction.added") mine.add(data.key);
    else mine.delete(data.key);
  }
  return data.reactions.map((one: Message["reactions"][number]) => ({ ...one, me: mine.has(one.key) }));
}

onEvent((event) => {
  const { type, data } = event;
  if (type === "message.created") {
    putMessage(data.message);
    if (data.thread) patchMessage(data.message.threadId, () => data.thread);
  } else if (type === "message.updated") patchMessage(data.messageId, () => data.changes);
  else if (type === "message.deleted") patchMessage(data.message.id, () => data.message);
  else if (type === "message.expired") {
    // Replies are in timelines of their own, and have positions of the same room.
    for (const timeline of timelines.values()) if (timeline.roomId === data.roomId) timeline.expire(data.upToSeq);
  } else if (type === "message.pinned") patchMessage(data.messageId, () => ({ pinned: true }));
  else if (type === "message.unpinned") patchMessage(data.messageId, () => ({ pinned: false }));
  else if (type === "thread.updated") {
    const { replyCount, lastReplyAt } = data;
    patchMessage(data.threadId, () => ({ replyCount, lastReplyAt }));
  } else if (type.startsWith("reaction.")) {
    patchMessage(data.messageId, ({ reactions }) => ({ reactions: reactionsAfter(event, reactions) }));
  }
});
