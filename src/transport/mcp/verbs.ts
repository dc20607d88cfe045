// The tools that every client is offered: operations under a name, without the fields that a model never needs, and how their
// results are written in few words. Operations that are not here are reached by `operation_search` and `operation_call`.
import {
  type Json,
  renderDocument,
  renderMessages,
  renderPrincipals,
  renderResults,
  renderRooms,
  renderTasks,
} from "./render.ts";

export const TOOLSETS = ["core", "tasks", "documents", "calendar"] as const;
type Toolset = typeof TOOLSETS[number];

export type Verb = {
  operation: string;
  toolset: Toolset;
  /** Fields that are not offered. */
  omit?: readonly string[];
  /** Input where the model says nothing. */
  defaults?: Json;
  /** The result as text; default compact JSON, one line for each item of a list. */
  render?: (output: Json) => string;
};

const ADVANCED = ["updatedSince", "deleted", "include", "version", "metadata", "timeZone"];

/** By name of the tool. */
export const VERBS: Readonly<Record<string, Verb>> = {
  me_read: { operation: "me.read", toolset: "core" },
  room_list: {
    operation: "room.list",
    toolset: "core",
    omit: ["sort", "visibility", "state", "kind", ...ADVANCED],
    defaults: { member: "me", limit: 30 },
    render: renderRooms,
  },
  room_read: { operation: "room.read", toolset: "core", omit: ADVANCED },
  member_list: { operation: "member.list", toolset: "core", omit: ["kind", "role"] },
  principal_list: {
    operation: "principal.list",
    toolset: "core",
    omit: ["role", "ids"],
    defaults: { limit: 50 },
    render: renderPrincipals,
  },
  message_list: {
    operation: "message.list",
    toolset: "core",
    omit: ["types", "include"],
    defaults: { limit: 30 },
    render: renderMessages,
  },
  message_send: {
    operation: "message.send",
    toolset: "core",
    omit: ["type", "format", "fileIds", "clientMessageId", "mentions", "parseMentions", "elements", ...ADVANCED],
    render: ({ id, seq }) => `sent ${id}${seq === undefined ? ", scheduled" : ` at seq ${seq}`}`,
  },
  message_update: {
    operation: "message.update",
    toolset: "core",
    omit: ["format", "mentions", "parseMentions", "elements", ...ADVANCED],
    render: ({ id }) => `updated ${id}`,
  },
  reaction_add: { operation: "reaction.add", toolset: "core", render: () => "added" },
  read_put: { operation: "read.put", toolset: "core", render: () => "marked as read" },
  unread_list: { operation: "unread.list", toolset: "core" },
  thread_list: { operation: "thread.list", toolset: "core", omit: ["include"], defaults: { limit: 10 } },
  notification_list: { operation: "notification.list", toolset: "core", omit: ["kind"], defaults: { limit: 30 } },
  search: {
    operation: "search.query",
    toolset: "core",
    omit: ["mode", "context", "sort", "include", "excludeSenderId", "has", "mentions", "pinned", "type"],
    defaults: { limit: 10 },
    render: renderResults,
  },
  task_list: {
    operation: "task.list",
    toolset: "tasks",
    omit: ["sort", "topLevel", "sourceMessageId", "createdBy", "parentId", ...ADVANCED],
    defaults: { limit: 30 },
    render: renderTasks,
  },
  task_read: { operation: "task.read", toolset: "tasks" },
  task_create: { operation: "task.create", toolset: "tasks", omit: ["recurrence", "startAt", ...ADVANCED] },
  task_update: {
    operation: "task.update",
    toolset: "tasks",
    omit: ["recurrence", "startAt", "position", "leaseToken", "threadId", ...ADVANCED],
  },
  document_list: {
    operation: "document.list",
    toolset: "documents",
    omit: ["sort", "state", "parentId"],
    defaults: { limit: 30 },
  },
  document_content: {
    operation: "document.content",
    toolset: "documents",
    omit: ["format", "revision"],
    defaults: { format: "markdown" },
    render: renderDocument,
  },
  document_create: {
    operation: "document.create",
    toolset: "documents",
    omit: ["parentId", "fragment", "html", "prosemirror", ...ADVANCED],
  },
  document_edit: { operation: "document.edit", toolset: "documents", omit: ["onStale"] },
  comment_create: { operation: "comment.create", toolset: "documents" },
  event_list: { operation: "event.list", toolset: "calendar", defaults: { expand: true } },
  event_create: {
    operation: "event.create",
    toolset: "calendar",
    omit: ["uid", "rrule", "exDates", "reminders", "visibility", "transparent", "ifFree", "meeting", ...ADVANCED],
  },
  freebusy_read: { operation: "freebusy.read", toolset: "calendar" },
  meeting_transcript: { operation: "meeting.transcript", toolset: "calendar" },
};
