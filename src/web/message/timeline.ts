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

export type Timeline = {
  readonly roomId: string;
  readonly threadId: string | undefined;
  readonly items: readonly Message[];
  readonly hasBefore: boolean;
  readonly hasAfter: boolean;
  readonly state: "new" | "loading" | "ready" | "failed";
};

const timelines = new Map<string, ReturnType<typeof createTimeline>>();

/** The timeline of a room, or of a thread in it. The most recent ones stay in memory. */
export function timelineOf(roomId: string, threadId?: string): ReturnType<typeof createTimeline> {
  const key = threadId ?? roomId;
  const timeline = timelines.get(key) ?? createTimeline(roomId, threadId);
  timelines.delete(key);
  timelines.set(key, timeline);
  const [oldest] = timelines.keys();
  if (timelines.size > TIMELINES_MAX && oldest !== undefined) timelines.delete(oldest);
  return timeline;
}

function createTimeline(roomId: string, threadId: string | undefined) {
  const state = signal<Timeline>({ roomId, threadId, items: [], hasBefore: false, hasAfter: false, state: "new" });
  let loadedGeneration = -1;
  /** What was read: between these positions, and how much of the last page is shown here. */
  let [from, to] = [0, 0];
  let limit = PAGE;
  /** Counts what replaces the window: a page that was asked for before belongs to another place. */
  let place = 0;
  /** What changed while messages are read, which may or may not be in what is read. */
  let missed: (() => void)[] = [];

  function settle(next: Partial<Timeline>): void {
    state.value = { ...state.value, ...next };
    const changes = missed;
    missed = [];
    for (const change of changes) change();
  }

  /** A page; `all` has the replies, too. */
  async function read(query: Record<string, string | number>): Promise<Messages & { all: Message[] }> {
    const thread = threadId === undefined ? {} : { threadId };
    const page = await get<Messages>("v1/messages", {
      roomId,
      ...thread,
      include: ["senders"],
      limit,
      ...query,
    });
    addPeople(page.senders ?? []);
    const items = threadId === undefined ? page.items.filter((message) => message.threadId === null) : page.items;
    limit = items.length < page.items.length / 4 ? LONG_PAGE : PAGE;
    return { ...page, items, all: page.items };
  }

  async function load(query: Record<string, string | number> = {}): Promise<Message[]> {
    state.value = { ...state.value, state: "loading" };
    loadedGeneration = generation.value;
    const own = ++place;
    try {
      const { all, items, hasBefore, hasAfter } = await read(query);
      if (own !== place) return all;
      [from, to] = [all[0]?.seq ?? 0, all.at(-1)?.seq ?? 0];
      // Events that arrived meanwhile are newer.
      const newer = hasAfter ? [] : state.value.items.filter(({ seq }) => seq > to);
      settle({ items: merged(items, newer), hasBefore, hasAfter, state: "ready" });
      return all;
    } catch {
      // The view offers to read again.
      if (own === place) settle({ state: "failed" });
      return [];
    }
  }

  return {
    state,
    /** Reads the newest messages, unless they are there. */
    async open(): Promise<void> {
      const { state: current } = state.value;
      if (current === "loading" || current === "ready" && loadedGeneration === generation.value) return;
      state.value = { ...state.value, items: [] };
      await load();
    },
    /** Reads the newest messages, or those around one, and returns what was read, replies included. */
    async jump(around?: string | number): Promise<Message[]> {
      state.value = { ...state.value, items: [] };
      return await load(around === undefined ? {} : { around });
    },
    async older(): Promise<void> {
      const { hasBefore, state: current } = state.value;
      if (!hasBefore || current !== "ready") return;
      state.value = { ...state.value, state: "loading" };
      const own = place;
      // It is read again when the list is scrolled further.
      const page = await read({ before: from }).catch(() => undefined);
      if (own !== place) return;
      if (page === undefined) return settle({ state: "ready" });
      from = page.all[0]?.seq ?? from;
      const all = merged(page.items, state.value.items);
      const shown = all.slice(0, WINDOW_MAX);
      if (shown.length < all.length) to = shown.at(-1)?.seq ?? to;
      const hasAfter = state.value.hasAfter || shown.length < all.length;
      settle({ items: shown, hasBefore: page.hasBefore, hasAfter, state: "ready" });
    },
    async newer(): Promise<void> {
      const { hasAfter, state: current } = state.value;
      if (!hasAfter || current !== "ready") return;
      state.value = { ...state.value, state: "loading" };
      const own = place;
      // As above.
      const page = await read({ after: to }).catch(() => undefined);
      if (own !== place) return;
      if (page === undefined) return settle({ state: "ready" });
      to = page.all.at(-1)?.seq ?? to;
      const all = merged(state.value.items, page.items);
      const shown = all.slice(-WINDOW_MAX);
      if (shown.length < all.length) from = shown[0]?.seq ?? from;
      const hasBefore = state.value.hasBefore || shown.length < all.length;
      settle({ items: shown, hasBefore, hasAfter: page.hasAfter, state: "ready" });
    },
    put(message: Message): void {
      const { items, hasAfter, state: current } = state.value;
      const isKnown = items.some(({ id }) => id === message.id);
      if (!isKnown && hasAfter) {
        // What is newer than the window is read when it is scrolled to; what is being read may not have it.
        if (current === "loading") missed.push(() => this.put(message));
        return;
      }
      const all = isKnown
        ? items.map((one) => one.id === message.id ? { ...message, reactions: one.reactions } : one)
        : merged(items, [message]);
      const shown = all.slice(-WINDOW_MAX);
      if (shown.length < all.length) from = shown[0]?.seq ?? from;
      to = Math.max(to, message.seq);
      state.value = {
        ...state.value,
        items: shown,
        hasBefore: state.value.hasBefore || shown.length < all.length,
      };
    },
    patch(id: string, change: (message: Message) => Partial<Message>): void {
      const { items } = state.value;
      if (!items.some((one) => one.id === id)) {
        if (state.value.state === "loading") missed.push(() => this.patch(id, change));
        return;
      }
      const next = items.map((one) => one.id === id ? { ...one, ...change(one) } : one);
      state.value = { ...state.value, items: next };
    },
    expire(upToSeq: number): void {
      state.value = { ...state.value, items: state.value.items.filter(({ seq }) => seq > upToSeq) };
    },
  };
}

function merged(older: readonly Message[], newer: readonly Message[]): Message[] {
  const byId = new Map([...older, ...newer].map((message) => [message.id, message]));
  return [...byId.values()].toSorted((a, b) => a.seq - b.seq);
}

/** Changes a message wherever it is shown. */
export function patchMessage(id: string, change: (message: Message) => Partial<Message>): void {
  for (const timeline of timelines.values()) timeline.patch(id, change);
}

/** Shows a message that was sent or changed. */
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
  else if (type === "message.expired") timelines.get(data.roomId)?.expire(data.upToSeq);
  else if (type === "message.pinned") patchMessage(data.messageId, () => ({ pinned: true }));
  else if (type === "message.unpinned") patchMessage(data.messageId, () => ({ pinned: false }));
  else if (type === "thread.updated") {
    const { replyCount, lastReplyAt } = data;
    patchMessage(data.threadId, () => ({ replyCount, lastReplyAt }));
  } else if (type.startsWith("reaction.")) {
    patchMessage(data.messageId, ({ reactions }) => ({ reactions: reactionsAfter(event, reactions) }));
  }
});
