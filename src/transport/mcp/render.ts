// Results of operations as text for a model: a line for each item, without what says nothing.
import { isObject } from "@/core/json.ts";

export type Json = Record<string, unknown>;

const TITLE_MAX_CHARS = 300;

/** Compact JSON; of a list, a line for each item. */
export function renderJson(output: unknown): string {
  if (!isObject(output) || !Array.isArray(output.items)) return JSON.stringify(compact(output)) ?? "done";
  const { items, nextCursor: _cursor, hasMore: _more, ...rest } = output;
  const lines = items.map((item) => JSON.stringify(compact(item)));
  const others = compact(rest) as Json;
  if (Object.keys(others).length > 0) lines.push(JSON.stringify(others));
  return withCursor(lines, output);
}

export function renderMessages(output: Json): string {
  const messages = itemsOf(output);
  const lines = messages.map((message) => {
    const { seq, id, senderId, createdAt, text, threadId, replyCount } = message;
    const place = [id, threadId && `in thread ${threadId}`, replyCount && `${replyCount} replies`].filter(Boolean);
    return `[${seq}] ${senderId} ${minuteOf(createdAt)} (${place.join(", ")}): ${indented(text ?? "(deleted)")}`;
  });
  lines.push(`last seq of the room: ${output.lastSeq}`);
  if (output.hasBefore === true) lines.push(`older messages: before=${messages[0]?.seq}`);
  if (output.hasAfter === true) lines.push(`newer messages: after=${messages.at(-1)?.seq}`);
  return lines.join("\n");
}

export function renderRooms(output: Json): string {
  const lines = itemsOf(output).map(({ id, name, kind, memberCount, unreadCount, lastSeq, topic }) =>
    `${id} ${quoted(name ?? "")} ${kind}, ${memberCount} members, ${unreadCount ?? 0} unread, last seq ${lastSeq}` +
    (topic ? `, ${quoted(topic)}` : "")
  );
  return withCursor(lines, output);
}

export function renderPrincipals(output: Json): string {
  const lines = itemsOf(output).map(({ id, displayName, kind, role }) =>
    `${id} ${quoted(displayName)} ${kind}, ${role}`
  );
  return withCursor(lines, output);
}

export function renderTasks(output: Json): string {
  const lines = itemsOf(output).map(({ id, key, title, status, priority, assigneeIds, dueAt }) => {
    const assignees = Array.isArray(assigneeIds) && assigneeIds.length > 0 ? ` for ${assigneeIds.join(", ")}` : "";
    const due = dueAt === null || dueAt === undefined ? "" : ` due ${minuteOf(dueAt)}`;
    return `${key} (${id}) ${status} ${priority}${assignees}${due}: ${quoted(title)}`;
  });
  return withCursor(lines, output);
}

export function renderResults(output: Json): string {
  const lines = itemsOf(output).map((hit) => {
    const kind = String(hit.kind ?? hit.type);
    const record = isObject(hit[kind]) ? hit[kind] : hit;
    const { id, roomId, seq, senderId, createdAt, text, title, name } = record;
    const place = [roomId && `in ${roomId}`, seq && `seq ${seq}`, senderId && `by ${senderId}`, minuteOf(createdAt)];
    return `${kind} ${id} ${place.filter(Boolean).join(", ")}: ${quoted(text ?? title ?? name ?? "")}`;
  });
  return lines.length === 0 ? "nothing found" : withCursor(lines, output);
}

export function renderDocument(output: Json): string {
  return `revision ${output.revision}\n\n${output.markdown ?? output.text ?? renderJson(output)}`;
}

/** The value without nulls, empty texts, lists and objects, and false. */
function compact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compact);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, part]): [string, unknown] => [name, compact(part)]);
  return Object.fromEntries(entries.filter(([, part]) => !isEmpty(part)));
}

/** Lines of others must not look like lines of the list. */
function indented(text: unknown): string {
  return String(text).replaceAll(/\r\n?|\n/g, "\n    ");
}

function quoted(text: unknown): string {
  const whole = String(text);
  return JSON.stringify(whole.length > TITLE_MAX_CHARS ? `${whole.slice(0, TITLE_MAX_CHARS).toWellFormed()}…` : whole);
}

function withCursor(lines: readonly string[], { nextCursor }: Json): string {
  const all = lines.length === 0 ? ["nothing"] : lines;
  return [...all, ...typeof nextCursor === "string" ? [`more: cursor=${nextCursor}`] : []].join("\n");
}

function minuteOf(time: unknown): string {
  return typeof time === "string" ? time.slice(0, 16) : "";
}

function itemsOf({ items }: Json): Json[] {
  return Array.isArray(items) ? items.filter(isObject) : [];
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === "") return true;
  return Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0;
}
