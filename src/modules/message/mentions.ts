// Mentions: whom a message may mention, and which names are in a text.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { MENTION_ALL_HANDLES } from "@/modules/identity/mod.ts";
import type { GroupMention } from "@/modules/group/mod.ts";
import { canMention, type Mentioned, type RoomAccess, type SendGrant } from "@/modules/room/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { type Mentions, MENTIONS_MAX } from "./schema.ts";

/** Above this many members only moderators may mention everybody. */
const ROOM_MENTION_MEMBERS = 100;
const NAMES_MAX = 50;
/** The start or the end of a code block in Markdown. */
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/**
 * Not within a word, an address or a path, not escaped, and no longer than a handle can be. Some scripts have no spaces between
 * words. What follows may belong to an id, such as that of `@ada@example.org`.
 */
const NAME =
  /(?<!(?![\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}])[\p{L}\p{N}._@/\\-])@([A-Za-z0-9._-]{1,64})(?![A-Za-z0-9._-])(?=([@:][A-Za-z0-9._@:-]{0,127})?)/gu;

/** Throws unless every mentioned principal exists and can see the room. No query without mentions. */
export async function assertCanMention(
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
  assertKnown(principalIds, allowed, "principalIds", (id) => `No principal ${id} can see the room`);
}

/**
 * Adds the mentions of the text, if it is read: `@handle` or `@id` of members visible to the caller, `@handle` of a group for its
 * members in the room, and `@all` or `@here` where the caller may use it. Unknown names remain text. Throws for unknown groups.
 */
export async function addNamedMentions(
  db: AnyDatabase,
  roomAccess: RoomAccess,
  actor: Actor,
  grant: SendGrant,
  content: { text: string; format: "markdown" | "plain" } | undefined,
  given: Mentions,
): Promise<Mentions> {
  const names = content === undefined ? [] : namesIn(content.text, content.format);
  const { principalIds, room: everybody, groups: givenGroups = [] } = given;
  if (names.length === 0 && givenGroups.length === 0) return given;
  const options = { max: MENTIONS_MAX, db };
  const found = names.length === 0
    ? new Map<string, Mentioned>()
    : await roomAccess.findMentioned(actor, grant.room, names.flat(), options);
  const isForEverybody = (reading: string): boolean => MENTION_ALL_HANDLES.includes(reading);
  const meant = names.map((readings) => readings.find((one) => isForEverybody(one) || found.has(one)) ?? "");
  const mentioned = new Set(principalIds);
  const groups = new Map<string, GroupMention>();
  const add = ({ principalIds: ids, group }: Mentioned): void => {
    // A group is mentioned as a whole, or not at all.
    const fits = mentioned.union(new Set(ids)).size <= MENTIONS_MAX;
    if (fits) { for (const id of ids) mentioned.add(id); }
    const state = !fits ? "too_many" : ids.length === 0 ? "empty" : "mentioned";
    if (group !== undefined) groups.set(group.id, { ...group, state });
  };
  if (givenGroups.length > 0) {
    const ids = givenGroups.map(({ id }) => id);
    const known = await roomAccess.groupsIn(actor, grant.room, "id", ids, options);
    assertKnown(
      ids,
      new Set(known.map(({ group }) => group.id)),
      "groups",
      (id) => `No group ${id} that can be mentioned`,
    );
    for (const one of known) add(one);
  }
  for (const reading of meant) if (!isForEverybody(reading)) add(found.get(reading) ?? { principalIds: [] });
  return {
    principalIds: [...mentioned],
    room: everybody || (meant.some(isForEverybody) && canMentionAll(grant)),
    ...groups.size === 0 ? {} : { groups: [...groups.values()] },
  };
}

/** Throws unless all of these ids of a field of `mentions` are known. */
function assertKnown(
  ids: readonly string[],
  known: ReadonlySet<string>,
  field: string,
  detailOf: (id: string) => string,
): void {
  const errors = ids.flatMap((id, index) =>
    known.has(id) ? [] : [{ pointer: `/mentions/${field}/${index}`, code: "not_found", detail: detailOf(id) }]
  );
  if (errors.length > 0) throw Fault.forFields(errors);
}

function canMentionAll({ room, role }: SendGrant): boolean {
  return room.member_count <= ROOM_MENTION_MEMBERS || isAtLeast(ROOM_ROLES, role ?? "observer", "moderator");
}

/**
 * The distinct names in a text in the order of their first use, at most `NAMES_MAX`. Each is a list of possible
 * readings: a dot or hyphen at the end may belong to the sentence, and only handles are the same in capitals.
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
      if (found.size >= NAMES_MAX) return [...found.values()];
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
