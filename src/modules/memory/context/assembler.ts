// Assembles the context of a model: a stable prefix for prompt caching, then the conversation, facts and search results. Everything
// in it is what the actor, and all who will read the response of the model, may read at this moment.
import { type Actor, hasScope } from "@/core/actor.ts";
import { notVisible } from "@/core/fault.ts";
import type { Context as CallContext } from "@/core/operation.ts";
import { compareText } from "@/core/text/text.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import { type Message, type MessageAccess, presentMessage } from "@/modules/message/mod.ts";
import { Audience, type RoomAccess, type RoomGrant, type RoomPeople } from "@/modules/room/mod.ts";
import type { Recall, RecallHit } from "@/modules/search/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { ReadableFact } from "../presenter.ts";
import type { MemoryReader } from "../reader.ts";
import type { ScopeType } from "../schema.ts";
import { SEARCH_KIND } from "../searchable.ts";
import type { MemoryScope, MemoryTables } from "../store.ts";
import { ReaderAudience } from "./audience.ts";
import { type Candidate, fillBudget, type Section } from "./budget.ts";
import { factCandidate, hitCandidate, messageCandidate, roomCandidate } from "./candidates.ts";
import { type Context, type ContextAssemble, type ContextItem, PREFIX_SECTIONS, SECTIONS } from "./schema.ts";

const MESSAGES_MAX = 100;
const PINNED_MAX = 50;
const RECALLED_MAX = 20;
const RECENT_MAX = 10;
const HITS_MAX = 30;
/** Kinds that every member of their room may read; some calendar events of a room, for example, are for a part of it only. */
const SHARED_KINDS: ReadonlySet<string> = new Set(["message", "document", "task"]);
const SHARES = { pinned: 0.15, thread: 0.4, room: 0.15, memory: 0.15, search: 0.15 } as const;

/** A page of messages in ascending order, as the caller may see them. */
export type ListMessages = (
  context: CallContext,
  page: {
    roomId: string;
    threadId?: string | undefined;
    before?: number | undefined;
    after?: number;
    limit: number;
    include: [];
  },
) => Promise<{ items: Message[]; hasAfter: boolean }>;

type Deps = {
  store: Store<MemoryTables>;
  roomAccess: RoomAccess;
  identity: IdentityService;
  people: Pick<RoomPeople, "sendersOf">;
  messageAccess: MessageAccess;
  listMessages: ListMessages;
  reader: MemoryReader;
  recall: () => Recall | undefined;
  /** Kinds of resources that can be searched for. */
  searchKinds: () => readonly string[];
};

/** What other modules may limit besides. */
type AssembleInput = ContextAssemble & {
  /** Position in the room: later messages are not part of the context. */
  upToSeq?: number | undefined;
  /** Position of the first message that asks the agent: what it said since then responds to something earlier. */
  askedSeq?: number | undefined;
  /** Scopes whose facts are used; default all. */
  scopeTypes?: readonly ScopeType[] | undefined;
};

/** What one context is assembled for. */
type Request = {
  actor: Actor;
  context: CallContext;
  input: AssembleInput;
  home: RoomGrant | undefined;
  /** The last position of the room that is hidden from one of the readers. */
  homeFloor: number;
  audience: ReaderAudience | undefined;
  agentId: string | undefined;
  includes: (section: ContextAssemble["include"][number]) => boolean;
};

type Conversation = { thread: Message[]; room: Message[]; names: ReadonlyMap<string, string> };

export class ContextAssembler {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async assemble(context: CallContext, input: AssembleInput): Promise<Context> {
    const request = await this.#prepare(context, input);
    const { actor, includes } = request;
    const conversation = await this.#conversation(request);
    const query = input.query ?? newestOfOthers(request, conversation);
    const canRecall = hasScope(actor, "memory.read");
    const scopes = canRecall ? scopesOf(request) : [];
    const { audience } = request;
    const pinned = includes("pinned")
      ? await this.#deps.reader.listValid(actor, scopes, { pinned: true, limit: PINNED_MAX, audience })
      : [];
    const recalled = canRecall && includes("memory") ? await this.#memory(request, scopes, query) : NOTHING_RECALLED;
    const shown = new Set([...conversation.thread, ...conversation.room].map(({ id }) => id));
    const found = includes("search") && query !== undefined ? await this.#search(request, query, shown) : NOTHING_FOUND;
    const sections = [
      ...prefixSections(input, pinned),
      ...conversationSections(request, conversation),
      { name: "memory", share: SHARES.memory, candidates: without(recalled.candidates, pinned) },
      { name: "search", share: SHARES.search, candidates: found.candidates },
    ] satisfies Section[];
    const { items, usedTokens, omitted } = fillBudget(input.budgetTokens, sections);
    // What a run has read bounds where it may write without an approval.
    for (const { source } of items) {
      if (typeof source?.roomId === "string") context.actor.bounds?.boundIn(source.roomId);
    }
    return {
      items,
      prefixItemCount: items.filter(({ section }) => PREFIX_SECTIONS.has(section)).length,
      usedTokens,
      budgetTokens: input.budgetTokens,
      omitted: Object.fromEntries(SECTIONS.map((name) => [name, omitted[name] ?? 0])) as Context["omitted"],
      degraded: recalled.isDegraded || found.isDegraded,
    };
  }

  async #prepare(given: CallContext, input: AssembleInput): Promise<Request> {
    const { roomAccess } = this.#deps;
    const home = input.roomId === undefined ? undefined : await roomAccess.require(given, input.roomId);
    const context = await this.#bound(given, home);
    const { actor } = context;
    const audience = await ReaderAudience.of(this.#deps, actor, home, input.audienceIds ?? []);
    const floors = home === undefined ? undefined : await audience?.floors([home]);
    // Readers who do not see the room at all may read nothing of it.
    const homeFloor = floors === undefined || home === undefined ? 0 : floors.get(home.room.id) ?? Infinity;
    const ownId = actor.kind === "agent" ? actor.principalId : undefined;
    const agentId = input.agentId === undefined ? ownId : resolvePrincipalId(actor, input.agentId);
    const wanted = new Set(input.include);
    return { actor, context, input, home, homeFloor, audience, agentId, includes: (name) => wanted.has(name) };
  }

  /** An agent in a room reads what all of its members may read. */
  async #bound(context: CallContext, home: RoomGrant | undefined): Promise<CallContext> {
    const { actor } = context;
    if (home === undefined || actor.kind !== "agent") return context;
    const { tenantId, principalId: agentId } = actor;
    const { db } = this.#deps.store;
    const bounds = await Audience.of(db, { tenantId, roomId: home.room.id, agentId, askerIds: [] });
    return { ...context, actor: { ...actor, bounds } };
  }

  /** The messages of the thread, and of the room outside of it. */
  async #conversation(request: Request): Promise<Conversation> {
    const { actor, context, home, input: { threadId, upToSeq }, homeFloor, includes } = request;
    if (home === undefined || !hasScope(actor, "message.read")) {
      if (threadId !== undefined) throw notVisible("thread");
      return { thread: [], room: [], names: new Map() };
    }
    const { listMessages, messageAccess, people } = this.#deps;
    const { id: roomId } = home.room;
    const root = threadId === undefined
      ? undefined
      : (await messageAccess.findVisible(actor, [threadId])).get(threadId);
    if (threadId !== undefined && (root?.room_id !== roomId || root.thread_id !== null)) throw notVisible("thread");
    const before = upToSeq === undefined ? undefined : upToSeq + 1;
    const page = { roomId, before, limit: MESSAGES_MAX, include: [] as [] };
    const replies = root === undefined || !includes("thread")
      ? []
      : [presentMessage(root), ...(await listMessages(context, { ...page, threadId })).items];
    const latest = includes("room") ? (await listMessages(context, page)).items : [];
    const isShown = ({ text, files, seq, deletedAt }: Message): boolean =>
      deletedAt === null && seq > homeFloor && ((text ?? "") !== "" || files.length > 0);
    const thread = questionsLast(replies.filter(isShown), request);
    const inThread = new Set(thread.map(({ id }) => id));
    const room = questionsLast(latest.filter((message) => isShown(message) && !inThread.has(message.id)), request);
    const senders = await people.sendersOf(actor, [...thread, ...room]);
    return { thread, room, names: new Map(senders.map(({ id, displayName }) => [id, displayName])) };
  }

  /** Facts that answer the query, then the newest ones about the room and the agent. */
  async #memory(
    { actor, audience, input: { scopeTypes } }: Request,
    scopes: readonly MemoryScope[],
    query: string | undefined,
  ): Promise<typeof NOTHING_RECALLED> {
    const { reader, recall } = this.#deps;
    const { facts, isDegraded } = query === undefined || recall() === undefined
      ? { facts: [], isDegraded: false }
      : await reader.recall(actor, query, {
        limit: RECALLED_MAX,
        audience,
        matches: ({ row }) => scopeTypes?.includes(row.scope_type) !== false,
      });
    const recent = await reader.listValid(actor, scopes, { pinned: false, limit: RECENT_MAX, audience });
    const known = new Set(facts.map(({ fact }) => fact.row.id));
    return {
      isDegraded,
      candidates: [
        ...facts.map(({ fact, score }) => ({ fact, score, reason: "matches the question" })),
        ...recent.filter(({ row }) => !known.has(row.id)).map((fact) => ({
          fact,
          score: null,
          reason: `recent fact of the ${fact.row.scope_type}`,
        })),
      ],
    };
  }

  /** Resources besides facts that match the query, without messages that are part of the context already. */
  async #search(
    { actor, audience, home, input: { upToSeq = Infinity } }: Request,
    query: string,
    shown: ReadonlySet<string>,
  ): Promise<typeof NOTHING_FOUND> {
    const { recall, searchKinds, roomAccess } = this.#deps;
    const kinds = searchKinds().filter((kind) =>
      kind !== SEARCH_KIND && (audience === undefined || SHARED_KINDS.has(kind))
    );
    const { hits, isDegraded } = await recall()?.(actor, { text: query, kinds, limit: HITS_MAX }) ??
      { hits: [], isDegraded: false };
    const roomIds = hits.flatMap((hit) => roomIdOf(hit) ?? []);
    const rooms = await roomAccess.findMany(actor, roomIds);
    const floors = await audience?.floors([...rooms.values()]);
    const isReadable = (hit: RecallHit): boolean => {
      const isLater = roomIdOf(hit) === home?.room.id && hit.kind === "message" && (hit.item as Message).seq > upToSeq;
      if (isLater) return false;
      if (floors === undefined) return true;
      const floor = floors.get(roomIdOf(hit) ?? "");
      return floor !== undefined && (hit.kind !== "message" || (hit.item as Message).seq > floor);
    };
    return {
      isDegraded,
      candidates: hits.filter((hit) => !(hit.kind === "message" && shown.has(hit.id)) && isReadable(hit))
        .map((hit) => hitCandidate(hit, rooms.get(roomIdOf(hit) ?? "")?.room.name)),
    };
  }
}

type FoundFact = { fact: ReadableFact; score: number | null; reason: string };
const NOTHING_RECALLED: { candidates: FoundFact[]; isDegraded: boolean } = { candidates: [], isDegraded: false };
const NOTHING_FOUND: { candidates: Candidate[]; isDegraded: boolean } = { candidates: [], isDegraded: false };

/** Scopes whose pinned and recent facts are of use without being asked for. What the actor may not read of them is left out. */
function scopesOf({ actor, home, agentId, input: { scopeTypes } }: Request): MemoryScope[] {
  const scopes: MemoryScope[] = [
    { type: "tenant", id: actor.tenantId },
    ...agentId === undefined ? [] : [{ type: "agent" as const, id: agentId }],
    { type: "principal", id: actor.ownerId ?? actor.principalId },
    ...home === undefined ? [] : [{ type: "room" as const, id: home.room.id }],
  ];
  return scopes.filter(({ type }) => scopeTypes?.includes(type) !== false);
}

/** Changes seldom, and is in an order that never changes. */
function prefixSections({ instructions, tools = [] }: ContextAssemble, pinned: readonly ReadableFact[]): Section[] {
  const fixed = { role: "system", score: null, source: null } as const;
  return [
    {
      name: "instructions",
      candidates: instructions === undefined || instructions === ""
        ? []
        : [{ ...fixed, text: instructions, reason: "instructions of the agent", canTruncate: true }],
    },
    {
      name: "tools",
      candidates: tools.map((tool) => ({ ...fixed, text: JSON.stringify(tool), reason: `the tool ${tool.name}` })),
    },
    {
      name: "pinned",
      share: SHARES.pinned,
      candidates: pinned.toSorted((a, b) => compareText(a.row.id, b.row.id))
        .map((fact) => factCandidate(fact, `pinned fact of the ${fact.row.scope_type}`, true, null)),
    },
  ];
}

function conversationSections(
  { actor, agentId, home, homeFloor, includes }: Request,
  { thread, room, names }: Conversation,
): Section[] {
  const candidatesOf = (messages: readonly Message[], reason: string): Candidate[] =>
    messages.toReversed().map((message) => messageCandidate(message, { agentId, names, reason }));
  return [
    {
      name: "thread",
      share: SHARES.thread,
      isContiguous: true,
      candidates: candidatesOf(thread, "message of the thread"),
      inOrder: (items) => items.toReversed(),
    },
    {
      name: "room",
      share: SHARES.room,
      isContiguous: true,
      candidates: [
        ...home === undefined || homeFloor === Infinity || !includes("room") || !hasScope(actor, "room.read")
          ? []
          : [roomCandidate(home, names)],
        ...candidatesOf(room, "recent message of the room"),
      ],
      // What the room is about, then its messages.
      inOrder: (items) => {
        const isRoom = ({ source }: ContextItem): boolean => source?.type === "room";
        return [...items.filter(isRoom), ...items.filter((item) => !isRoom(item)).toReversed()];
      },
    },
  ];
}

/** Facts as candidates, without those that are pinned and so in the prefix. */
function without(found: readonly FoundFact[], pinned: readonly ReadableFact[]): Candidate[] {
  const ids = new Set(pinned.map(({ row }) => row.id));
  return found.filter(({ fact }) => !ids.has(fact.row.id))
    .map(({ fact, reason, score }) => factCandidate(fact, reason, false, score));
}

/** Messages in order, but for those of the agent that came between a question and the run that responds to it. */
function questionsLast(messages: readonly Message[], { agentId, input: { askedSeq = Infinity } }: Request): Message[] {
  const rankOf = ({ seq, senderId }: Message): number => seq < askedSeq ? 0 : senderId === agentId ? 1 : 2;
  return messages.toSorted((one, other) => rankOf(one) - rankOf(other));
}

function newestOfOthers({ agentId }: Request, { thread, room }: Conversation): string | undefined {
  const last = (messages: readonly Message[]) =>
    messages.findLast(({ senderId, text }) => senderId !== agentId && (text ?? "") !== "")?.text;
  return last(thread) ?? last(room) ?? undefined;
}

function roomIdOf({ item }: RecallHit): string | undefined {
  return (item as { roomId?: string | null }).roomId ?? undefined; // items of rooms have it
}
