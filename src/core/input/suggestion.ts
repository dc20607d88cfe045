// What a caller probably meant by an unknown field.

/** Longer names are no typing mistakes. */
const NAME_MAX = 40;

/** Names that other systems give to these fields, in lower case without `_` and `-`. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  text: ["body", "content", "message", "msg"],
  roomId: ["room", "channel", "channelid", "conversationid", "chatid"],
  replyToId: ["replyto", "parentid", "parent", "inreplyto", "threadid", "thread", "quotedmessageid"],
  cursor: ["page", "pagetoken", "nextcursor", "offset", "after", "startingafter", "continuationtoken"],
  limit: ["pagesize", "perpage", "count", "size", "maxresults"],
  name: ["title", "displayname"],
  title: ["name", "subject", "summary"],
  displayName: ["name", "username", "fullname"],
  description: ["topic", "purpose", "details"],
  q: ["query", "search", "filter", "term"],
  query: ["q", "search", "term"],
  principalId: ["userid", "memberid", "id"],
  principalIds: ["userids", "members", "memberids", "users"],
  assigneeIds: ["assignee", "assignees", "assigneeid", "assignedto"],
  dueAt: ["due", "duedate", "deadline"],
  sendAt: ["scheduleat", "scheduledat", "postat"],
  input: ["arguments", "args", "params", "parameters"],
  version: ["etag", "revision"],
};
/** The only name that begins with so many letters is suggested for them. */
const PREFIX_MIN = 4;

/** Names of a caller, which no input has: the token identifies the caller. */
const CALLER_FIELDS = ["senderid", "sender", "userid", "user", "authorid", "author", "from", "createdby", "actorid"];

/** A hint on the unknown field `name`, appended to the error; empty when no known name is similar. */
export function suggestionFor(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  if (nearest !== undefined) return `; did you mean ${nearest}?`;
  return CALLER_FIELDS.includes(normalizeName(name)) ? "; the sender is always the sub of the token" : "";
}

/** The known name that was probably meant. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > NAME_MAX) return undefined;
  const written = normalizeName(name);
  const byWord = known.find((one) => normalizeName(one) === written) ??
    known.find((one) => Object.hasOwn(ALIASES, one) && ALIASES[one]?.includes(written));
  if (byWord !== undefined) return byWord;
  const [best] = known.flatMap((one) => {
    const other = normalizeName(one);
    const most = Math.floor(Math.min(written.length, one.length) / 3);
    // Names of other lengths are further away than that, and to compare two takes a hundred times as long.
    const distance = Math.abs(written.length - other.length) > most ? Infinity : editDistance(written, other);
    return distance <= most ? [{ one, distance }] : [];
  }).toSorted((a, b) => a.distance - b.distance);
  if (best !== undefined) return best.one;
  const longer = written.length < PREFIX_MIN ? [] : known.filter((one) => normalizeName(one).startsWith(written));
  return longer.length === 1 ? longer[0] : undefined;
}

/** Levenshtein distance: insertions, deletions and substitutions between two words. */
export function editDistance(one: string, other: string): number {
  if (Math.max(one.length, other.length) > NAME_MAX) return Infinity;
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1];
    for (let to = 1; to <= other.length; to++) {
      const changed = (row[to - 1] ?? 0) + Number(other[to - 1] !== letter);
      next.push(Math.min(changed, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? Infinity;
}

function normalizeName(name: string): string {
  return name.replaceAll(/[_\-\s]/g, "").toLowerCase();
}
