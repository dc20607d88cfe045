// Mentions: whom a message may mention, and which names are in a text.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { assertAllFound, Fault } from "@/core/fault.ts";
import { MENTION_ALL_HANDLES } from "@/modules/identity/mod.ts";
import type { GroupMention } from "@/modules/group/mod.ts";
import {
  canMention,
  findMentioned,
  groupsIn,
  type Mentioned,
  type RoomAccess,
  type SendGrant,
} from "@/modules/room/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { type IgnoredMention, type Mentions, MENTIONS_MAX, NAMES_MAX } from "./schema.ts";

/** Above this many members only moderators may mention everybody. */
const ROOM_MENTION_MEMBERS = 100;
/** The start or the end of a code block in Markdown. */
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/**
 * Not within a word, an address or a path, not escaped, and no longer than a handle can be. Some scripts have no spaces between
 * words. What follows may belong to an id, such as that of `@ada@example.org`.
 */
const NAME =
  /(?<!(?![\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}])[\p{L}\p{N}._@/\\-])@([A-Za-z0-9._-]{1,64})(?![A-Za-z0-9._-])(?=([@:][A-Za-z0-9._@:-]{0,127})?)/gu;

/**
 * The given mentions, which must be allowed, and those of the text, if it is read: `@handle` or `@id` of members visible to the
 * caller, `@handle` of a group for its members in the room, and `@all` or `@here` where the caller may use it. Unknown names
 * remain text. Throws for unknown groups.
 */
export async function resolveMentions(
  db: AnyDatabase,
  roomAccess: RoomAccess,
  actor: Actor,
  grant: SendGrant,
  content: { text: string; format: "markdown" | "plain" } | undefined,
  given: Mentions,
): Promise<Mentions> {
  await assertCanMention(db, roomAccess, actor, grant, given);
  const names = content === undefined ? [] : namesIn(content.text, content.format);
  const { room: everybody, groups: givenGroups = [] } = given;
  const mentioned = new MentionedNames(given.principalIds);
  const ids = givenGroups.map(({ id }) => id);
  const options = { max: MENTIONS_MAX, known: new Set<string>(), db };
  if (ids.length > 0) {
    const groups = await groupsIn(roomAccess, actor, grant.room, "id", ids, options);
    const known = options.known = new Set(groups.map(({ group }) => group.id));
    assertAllFound(ids, known, "/mentions/groups", (id) => `no group ${id} that can be mentioned`);
    for (const one of groups) mentioned.add(one.group.handle, one);
  }
  const isForEverybody = (reading: string): boolean => MENTION_ALL_HANDLES.includes(reading);
  const found = names.length === 0
    ? new Map<string, Mentioned>()
    : await findMentioned(roomAccess, actor, grant.room, lookedUp(names).flat(), options);
  const meant = mentioned.addAll(names, (reading) => isForEverybody(reading) || found.has(reading), found);
  const forEverybody = meant.find(isForEverybody);
  const isAllowed = canMentionAll(grant);
  if (forEverybody !== undefined && !isAllowed) mentioned.ignore(forEverybody, "not_allowed");
  const { principalIds, ...rest } = mentioned.result;
  return { principalIds, room: everybody || (forEverybody !== undefined && isAllowed), ...rest };
}

/** Throws unless every mentioned principal exists and can see the room. No query without mentions. */
async function assertCanMention(
  db: AnyDatabase,
  roomAccess: RoomAccess,
  actor: Actor,
  { room, role }: SendGrant,
  { principalIds, room: everybody }: Mentions,
): Promise<void> {
  if (everybody && !canMentionAll({ room, role })) {
    throw new Fault(
      "forbidden",
      `/mentions/room: in rooms with more than ${ROOM_MENTION_MEMBERS} members only moderators can mention everybody`,
    );
  }
  if (principalIds.length === 0) return;
  const viewers = [...(await roomAccess.filterViewers(room, principalIds, db)).values()];
  const allowed = new Set(viewers.filter((viewer) => canMention(actor, viewer)).map(({ id }) => id));
  assertAllFound(principalIds, allowed, "/mentions/principalIds", (id) => `no principal ${id} that can see the room`);
}

/** Adds up whom the names of a text mention. */
export class MentionedNames {
  readonly #ids: Set<string>;
  readonly #groups = new Map<string, GroupMention>();
  readonly #ignored: IgnoredMention[] = [];

  constructor(principalIds: readonly string[] = []) {
    this.#ids = new Set(principalIds);
  }

  get result(): Omit<Mentions, "room"> {
    return {
      principalIds: [...this.#ids],
      ...this.#groups.size === 0 ? {} : { groups: [...this.#groups.values()] },
      ...this.#ignored.length === 0 ? {} : { ignored: this.#ignored },
    };
  }

  /** Adds the first reading of each name that is known; returns these readings. */
  addAll(
    names: readonly string[][],
    isKnown: (reading: string) => boolean,
    found: ReadonlyMap<string, Mentioned>,
  ): string[] {
    const meant = lookedUp(names).flatMap((readings) => readings.find(isKnown) ?? []);
    for (const reading of meant) this.add(reading, found.get(reading) ?? { principalIds: [] });
    const beyond = names[NAMES_MAX]?.at(-1);
    if (beyond !== undefined) this.ignore(beyond, "too_many_names");
    return meant;
  }

  /** A group is mentioned as a whole, or not at all. */
  add(name: string, { principalIds, group, isBeyondLimit = false, isMuted = false }: Mentioned): void {
    if (isMuted) return this.ignore(name, "agent_muted");
    if (isBeyondLimit) return this.ignore(name, "too_many_groups");
    const fits = this.#ids.union(new Set(principalIds)).size <= MENTIONS_MAX;
    if (fits) { for (const id of principalIds) this.#ids.add(id); }
    const state = !fits ? "too_many" : principalIds.length === 0 ? "empty" : "mentioned";
    if (group !== undefined) this.#groups.set(group.id, { ...group, state });
    else if (!fits) this.ignore(name, "too_many_principals");
  }

  ignore(name: string, reason: IgnoredMention["reason"]): void {
    if (!this.#ignored.some((one) => one.name === name)) this.#ignored.push({ name, reason });
  }
}

/** Those of the names of a text that are looked up. */
export function lookedUp(names: readonly string[][]): string[][] {
  return names.slice(0, NAMES_MAX);
}

function canMentionAll({ room, role }: SendGrant): boolean {
  return room.member_count <= ROOM_MENTION_MEMBERS || isAtLeast(ROOM_ROLES, role ?? "observer", "moderator");
}

/**
 * The distinct names in a text in the order of their first use: those that are looked up, and the one after them. Each is
 * a list of possible readings: a dot or hyphen at the end may belong to the sentence, and only handles are the same in capitals.
 */
export function namesIn(text: string, format: "markdown" | "plain"): string[][] {
  if (!text.includes("@")) return [];
  const found = new Map<string, string[]>();
  for (const part of format === "plain" ? [text] : outsideCode(text)) {
    for (const [, name = "", rest = ""] of part.matchAll(NAME)) {
      const id = name + rest;
      if (found.has(id)) continue;
      const readings = [id, name, name.toLowerCase()].flatMap((one) => [one, withoutEnd(one)]);
      found.set(id, [...new Set(readings)].filter((reading) => reading !== ""));
      if (found.size > NAMES_MAX) return [...found.values()];
    }
  }
  return [...found.values()];
}

/** The name without what ends a sentence. */
function withoutEnd(name: string): string {
  return name.replace(/[._@:-]{1,192}$/, "");
}

/** The parts of a Markdown text that are not code: neither in fences nor between backticks. */
function outsideCode(text: string): string[] {
  const parts: string[] = [];
  let open: string[] = [];
  let fence: string | undefined;
  const close = (): void => {
    parts.push(...outsideSpans(open.join("\n")));
    open = [];
  };
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (fence === undefined) {
      // Backticks after those of a fence make it a code span.
      if (mark === undefined || (mark[0] === "`" && line.trimStart().slice(mark.length).includes("`"))) open.push(line);
      else {
        close();
        fence = mark;
      }
    } else if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
  }
  close();
  return parts;
}

/** The parts of a text outside of code spans, which two runs of the same number of backticks enclose. */
function outsideSpans(text: string): string[] {
  const runs = [...text.matchAll(/`+/g)].map((run) => ({ at: run.index, length: run[0].length }));
  // From the end, so that each run finds the next one of its length in constant time.
  const next = new Map<number, number>();
  const closing: (number | undefined)[] = new Array(runs.length);
  for (const [n, { length }] of [...runs.entries()].reverse()) {
    closing[n] = next.get(length);
    next.set(length, n);
  }
  const parts: string[] = [];
  let start = 0;
  for (let n = 0; n < runs.length; n++) {
    const end = closing[n];
    const [run, last] = [runs[n], end === undefined ? undefined : runs[end]];
    if (end === undefined || run === undefined || last === undefined) continue;
    parts.push(text.slice(start, run.at));
    start = last.at + last.length;
    n = end;
  }
  return [...parts, text.slice(start)];
}
