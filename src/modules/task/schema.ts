// Tasks as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { Metadata, RoomId } from "@/modules/room/mod.ts";

export const STATUSES = ["backlog", "todo", "in_progress", "blocked", "done", "cancelled"] as const;
/** From least to most pressing; stored as the place in this list. */
export const PRIORITIES = ["none", "low", "medium", "high", "urgent"] as const;
export const RELATION_KINDS = ["blocks", "blocked_by", "duplicates", "duplicated_by", "related"] as const;
export type RelationKind = (typeof RELATION_KINDS)[number];
export const ANCHORS = ["due", "completion"] as const;
const SORTS = [
  "position",
  "dueAt",
  "-dueAt",
  "priority",
  "-priority",
  "createdAt",
  "-createdAt",
  "updatedAt",
  "-updatedAt",
] as const;
export type Sort = (typeof SORTS)[number];

export const TITLE_MAX = 255;
export const DESCRIPTION_MAX = 50_000;
export const ASSIGNEES_MAX = 20;
export const LABELS_MAX = 20;
export const BULK_MAX = 100;
/** A task, its subtasks, theirs and so on: so many levels. */
export const DEPTH_MAX = 5;
/** Tasks in one tree. */
export const TREE_MAX = 500;
export const RELATIONS_MAX = 100;
export const OPEN_MAX = 10_000;
export const LEASE_SECONDS = { min: 30, max: 3600, default: 300 } as const;

/** Path parameter of every task: both its id and its key work. */
export const TaskRef = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -")
  .describe("Id or key, such as OPS-12");
const TaskId = z.string();
const Title = z.string().trim().min(1).max(TITLE_MAX);
const Description = z.string().max(DESCRIPTION_MAX);
const Label = z.string().trim().min(1).max(50);
const Labels = z.array(Label).max(LABELS_MAX);
const AssigneeIds = z.array(PrincipalRef).max(ASSIGNEES_MAX).describe("Principals who can see the room, or `me`");
const Time = z.iso.datetime();
const TimeZone = z.string().min(1).max(64).describe("IANA zone that dates and recurrence are meant in");

export const Recurrence = z.strictObject({
  rrule: z.string().min(1).max(500).describe(
    "RFC 5545 rule without DTSTART, such as FREQ=WEEKLY;BYDAY=MO; what falls on a time that the clocks skip is left out",
  ),
  anchor: z.enum(ANCHORS).default("due")
    .describe("due: the next due date follows this one; completion: it follows the moment of completion"),
}).meta({ id: "TaskRecurrence" });
export type Recurrence = z.output<typeof Recurrence>;

export const TaskRelation = z.object({
  kind: z.enum(RELATION_KINDS),
  taskId: TaskId,
  key: z.string(),
  roomId: RoomId,
  title: z.string(),
  status: z.enum(STATUSES),
}).meta({ id: "TaskRelation" });
export type TaskRelation = z.output<typeof TaskRelation>;

export const Task = z.object({
  id: TaskId,
  key: z.string().describe("For people: the room's prefix and a number, never used again"),
  roomId: RoomId,
  title: z.string(),
  description: z.string().nullable(),
  status: z.enum(STATUSES),
  priority: z.enum(PRIORITIES),
  assigneeIds: z.array(PrincipalId),
  labels: z.array(z.string()),
  parentId: TaskId.nullable(),
  startAt: Time.nullable(),
  dueAt: Time.nullable(),
  timezone: z.string(),
  recurrence: Recurrence.extend({ instance: z.int().describe("1 for the first task of the series") }).nullable()
    .meta({ id: "TaskSeries" }),
  nextTaskId: TaskId.nullable().describe("The task that completing this one made"),
  sourceMessageId: MessageId.nullable().describe("The message it was made from"),
  threadId: MessageId.nullable().describe("Root message of the thread it is discussed in"),
  position: z.string().describe("Board order within the room: compare as plain text"),
  claim: z.object({ principalId: PrincipalId, expiresAt: Time }).nullable().describe("Who works on it right now"),
  metadata: z.record(z.string(), Json),
  completedAt: Time.nullable(),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  deletedAt: Time.nullable(),
}).meta({ id: "Task" });
export type Task = z.output<typeof Task>;

/** A task read alone, with what it is linked to as far as the reader sees it. */
export const TaskDetail = Task.extend({ relations: z.array(TaskRelation), subtaskCount: z.int() })
  .meta({ id: "TaskDetail" });
export type TaskDetail = z.output<typeof TaskDetail>;

export const TaskCreate = z.strictObject({
  roomId: RoomId,
  title: Title,
  description: Description.nullable().default(null),
  status: z.enum(STATUSES).default("todo"),
  priority: z.enum(PRIORITIES).default("none"),
  assigneeIds: AssigneeIds.default([]),
  labels: Labels.default([]),
  parentId: TaskRef.nullable().default(null),
  startAt: Time.nullable().default(null),
  dueAt: Time.nullable().default(null),
  timezone: TimeZone.default("UTC"),
  recurrence: Recurrence.nullable().default(null),
  sourceMessageId: MessageId.nullable().default(null),
  threadId: MessageId.nullable().default(null).describe("Default: the source message, when it is of the same room"),
  metadata: Metadata.default({}),
});
export type TaskCreate = z.output<typeof TaskCreate>;

/** What may be changed of a task; `null` clears. */
const patch = {
  title: Title.optional(),
  description: Description.nullable().optional(),
  status: z.enum(STATUSES).optional(),
  priority: z.enum(PRIORITIES).optional(),
  assigneeIds: AssigneeIds.optional(),
  labels: Labels.optional(),
  parentId: TaskRef.nullable().optional(),
  startAt: Time.nullable().optional(),
  dueAt: Time.nullable().optional(),
  timezone: TimeZone.optional(),
  recurrence: Recurrence.nullable().optional(),
  threadId: MessageId.nullable().optional(),
  metadata: Metadata.optional(),
};

export const TaskPatch = z.strictObject(patch).refine((value) => Object.keys(value).length > 0, "names no field")
  .meta({ id: "TaskPatch" });
export type TaskPatch = z.output<typeof TaskPatch>;

export const Position = z.union([z.strictObject({ after: TaskRef }), z.strictObject({ before: TaskRef })])
  .describe("Right after or right before another task of the room");
export type Position = z.output<typeof Position>;

export const TaskUpdate = z.strictObject({
  id: TaskRef,
  ...patch,
  position: Position.optional(),
  leaseToken: z.string().min(1).max(64).optional().describe("Refuse unless this claim still holds"),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type TaskUpdate = z.output<typeof TaskUpdate>;

/** Any of some principals; one alone needs no list. */
const Principals = z.preprocess(
  (value) => typeof value === "string" ? [value] : value,
  z.array(PrincipalRef).max(ASSIGNEES_MAX),
);

export const TaskList = z.strictObject({
  ...pageInput,
  roomId: z.array(RoomId).max(50).optional().describe("Default: every room the caller can see"),
  assigneeId: Principals.optional().describe("Assigned to any of these; `me` is the caller"),
  unassigned: z.boolean().optional().describe("true: only tasks that nobody is assigned to, false: only the others"),
  createdBy: Principals.optional().describe("Made by any of these; `me` is the caller"),
  status: z.array(z.enum(STATUSES)).max(STATUSES.length).optional(),
  priority: z.array(z.enum(PRIORITIES)).max(PRIORITIES.length).optional(),
  label: z.array(Label).max(LABELS_MAX).optional().describe("Any of these"),
  dueBefore: Time.optional().describe("Due before this time"),
  dueAfter: Time.optional().describe("Due at this time or later"),
  parentId: TaskRef.optional().describe("Subtasks of this task"),
  topLevel: z.boolean().optional().describe("true: only tasks that are no subtasks, false: only subtasks"),
  sourceMessageId: MessageId.optional().describe("Made from this message"),
  q: z.string().trim().min(1).max(100).optional().describe("Part of title, description or key"),
  updatedSince: Time.optional(),
  deleted: z.boolean().default(false).describe("Those that can be restored, instead of the others"),
  sort: z.enum(SORTS).default("-updatedAt").describe("position is the board order, room by room"),
});
export type TaskList = z.output<typeof TaskList>;

export const TaskBulk = z.strictObject({ ids: z.array(TaskRef).min(1).max(BULK_MAX), patch: TaskPatch });
export type TaskBulk = z.output<typeof TaskBulk>;

export const TaskBulkResults = z.object({
  results: z.array(z.object({
    id: z.string().describe("As asked"),
    task: Task.nullable().describe("null when it failed"),
    error: z.object({ code: z.string(), detail: z.string() }).nullable(),
  })),
}).meta({ id: "TaskBulkResults" });
export type TaskBulkResults = z.output<typeof TaskBulkResults>;

export const TaskRelate = z.strictObject({ id: TaskRef, kind: z.enum(RELATION_KINDS), otherId: TaskRef });
export type TaskRelate = z.output<typeof TaskRelate>;

export const TaskClaim = z.strictObject({
  id: TaskRef,
  leaseSeconds: z.int().min(LEASE_SECONDS.min).max(LEASE_SECONDS.max).default(LEASE_SECONDS.default),
  leaseToken: z.string().min(1).max(64).optional().describe("Of the claim to be prolonged"),
});
export type TaskClaim = z.output<typeof TaskClaim>;

export const TaskLease = z.object({
  leaseToken: z.string().describe("Shown this once; prolongs and releases the claim, and guards updates"),
  expiresAt: Time,
  task: Task,
}).meta({ id: "TaskLease" });
export type TaskLease = z.output<typeof TaskLease>;

export const TaskRelease = z.strictObject({
  id: TaskRef,
  leaseToken: z.string().min(1).max(64).optional().describe("Moderators of the room may release without it"),
});
export type TaskRelease = z.output<typeof TaskRelease>;

export const ACTIVITY_TYPES = [
  "created",
  "updated",
  "completed",
  "deleted",
  "restored",
  "related",
  "unrelated",
] as const;
export type ActivityType = (typeof ACTIVITY_TYPES)[number];

export const TaskActivity = z.object({
  id: z.string(),
  type: z.enum(ACTIVITY_TYPES),
  actorId: PrincipalId,
  at: Time,
  version: z.int().describe("Version of the task after it"),
  changes: z.array(z.object({
    field: z.string(),
    from: Json.optional().describe("Absent for long texts"),
    to: Json.optional(),
  })),
}).meta({ id: "TaskActivity" });
export type TaskActivity = z.output<typeof TaskActivity>;

const changed = z.array(z.string()).describe("Fields that changed");

/** Durable events of tasks, on the stream of their room; those marked (principal) also on that of the principals concerned. */
export const TASK_EVENTS: readonly EventType[] = [
  { type: "task.created", summary: "A task was made", data: z.object({ task: Task }) },
  { type: "task.updated", summary: "A task changed or was restored", data: z.object({ task: Task, changed }) },
  { type: "task.completed", summary: "A task was done", data: z.object({ task: Task, changed }) },
  {
    type: "task.deleted",
    summary: "A task was deleted; it can be restored for 30 days",
    data: z.object({ taskId: TaskId, key: z.string(), roomId: RoomId }),
  },
  {
    type: "task.assigned",
    streams: ["room", "principal"],
    summary: "Assignees came or went (principal)",
    data: z.object({ task: Task, added: z.array(PrincipalId), removed: z.array(PrincipalId) }),
  },
];
