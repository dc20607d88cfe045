// Schemas of tasks and of their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { Json } from "@/core/json.ts";
import { nameSchema } from "@/core/text/name.ts";
import { pageInput } from "@/core/page.ts";
import { changesSchema, snapshotSchema } from "@/core/event/event_data.ts";
import { BaseVersion } from "@/core/patch.ts";
import { HOUR_SECONDS } from "@/core/time/clock.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { Metadata, RoomId } from "@/modules/room/mod.ts";

export const STATUSES = ["backlog", "todo", "in_progress", "blocked", "done", "cancelled"] as const;
const TaskStatus = z.enum(STATUSES).meta({ id: "TaskStatus" });
/** From lowest to highest; stored as the index in this list. */
export const PRIORITIES = ["none", "low", "medium", "high", "urgent"] as const;
const TaskPriority = z.enum(PRIORITIES).meta({ id: "TaskPriority" });
export const RELATION_KINDS = ["blocks", "blocked_by", "duplicates", "duplicated_by", "related"] as const;
export const RelationKind = z.enum(RELATION_KINDS).meta({ id: "TaskRelationKind" });
export type RelationKind = z.output<typeof RelationKind>;
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
/** A request with a description in which every character is escaped, and the other fields. */
export const BODY_MAX_BYTES = 6 * DESCRIPTION_MAX + 64 * 1024;
export const ASSIGNEES_MAX = 20;
export const LABELS_MAX = 20;
export const BULK_MAX = 100;
/** Levels of a task tree. */
export const DEPTH_MAX = 5;
/** Tasks in one tree. */
export const TREE_MAX = 500;
export const RELATIONS_MAX = 100;
export const OPEN_MAX = 10_000;
export const LEASE_SECONDS = { min: 30, max: HOUR_SECONDS, default: 300 } as const;

/** Reference to a task by id or key. */
export const TaskRef = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -")
  .describe("Id, or a key such as OPS-12 if it is unique among the rooms visible to the caller");
const TaskId = z.string();
const Title = nameSchema(TITLE_MAX).describe("Title of the task");
const Description = z.string().max(DESCRIPTION_MAX).describe("Description of the task, in Markdown");
const Label = nameSchema(50);
const Labels = z.array(Label).max(LABELS_MAX).describe("Labels, without duplicates");
const AssigneeIds = z.array(PrincipalRef).max(ASSIGNEES_MAX).describe(
  "Principals who can see the room; `me` is the caller",
);
const Time = z.iso.datetime();
const TimeZone = z.string().min(1).max(64).describe("IANA time zone of dates and recurrence");

export const Recurrence = z.strictObject({
  rrule: z.string().min(1).max(500).describe(
    "RFC 5545 rule without DTSTART, such as FREQ=WEEKLY;BYDAY=MO; occurrences at a time skipped by a clock " +
      "change are left out",
  ),
  anchor: z.enum(ANCHORS).default("due")
    .describe("due: the next due date follows the current one; completion: it follows the time of completion"),
}).meta({ id: "TaskRecurrenceRule" });
export type Recurrence = z.output<typeof Recurrence>;

export const TaskRelation = z.object({
  kind: RelationKind,
  taskId: TaskId.describe("Id of the other task"),
  key: z.string().describe("Key of the other task, such as OPS-12"),
  roomId: RoomId,
  title: z.string().describe("Title of the other task"),
  status: TaskStatus,
}).meta({ id: "TaskRelation" });
export type TaskRelation = z.output<typeof TaskRelation>;

export const Task = z.object({
  id: TaskId,
  key: z.string().describe("Human-readable key: the prefix of the room and a number, never reused in the room"),
  roomId: RoomId,
  title: z.string().describe("Title of the task"),
  description: z.string().nullable().describe("Description of the task, in Markdown; null if none"),
  status: TaskStatus,
  priority: TaskPriority,
  assigneeIds: z.array(PrincipalId).describe("Principals the task is assigned to"),
  labels: z.array(z.string()).describe("Labels, without duplicates"),
  parentId: TaskId.nullable().describe("Parent task; null at the top level"),
  startAt: Time.nullable().describe("Planned start"),
  dueAt: Time.nullable().describe("Due date"),
  timeZone: z.string().describe("IANA time zone of the dates"),
  recurrence: Recurrence.extend({ instance: z.int().describe("Number of the task within the series, starting at 1") })
    .meta({ id: "TaskSeries" })
    .nullable()
    .describe("Series that the task belongs to; null if it does not recur"),
  nextTaskId: TaskId.nullable().describe("Task created when this one was completed; null if none"),
  sourceMessageId: MessageId.nullable().describe("Message the task was created from"),
  threadId: MessageId.nullable().describe("Root message of the thread it is discussed in"),
  position: z.string().describe("Position on the board of the room; sort as plain text"),
  claim: z.object({ principalId: PrincipalId, expiresAt: Time }).meta({ id: "TaskClaim" }).nullable().describe(
    "Principal that is working on it; null if not claimed",
  ),
  metadata: z.record(z.string(), Json),
  completedAt: Time.nullable().describe("When it was completed; null while it is open"),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  deletedAt: Time.nullable(),
}).meta({ id: "Task" });
export type Task = z.output<typeof Task>;

/** A single task, with its relations as far as the caller sees them. */
export const TaskDetail = Task.extend({
  relations: z.array(TaskRelation).describe("Related tasks visible to the caller"),
  subtaskCount: z.int().describe("Number of direct subtasks"),
}).meta({ id: "TaskDetail" });
export type TaskDetail = z.output<typeof TaskDetail>;

export const TaskCreate = z.strictObject({
  roomId: RoomId,
  title: Title,
  description: Description.nullable().default(null),
  status: TaskStatus.default("todo"),
  priority: TaskPriority.default("none"),
  assigneeIds: AssigneeIds.default([]),
  labels: Labels.default([]),
  parentId: TaskRef.nullable().default(null),
  startAt: TimeInput.nullable().default(null).describe("Planned start"),
  dueAt: TimeInput.nullable().default(null).describe("Due date"),
  timeZone: TimeZone.default("UTC"),
  recurrence: Recurrence.nullable().default(null).describe("Recurrence rule; null for a single task"),
  sourceMessageId: MessageId.nullable().default(null).describe("Message the task is created from"),
  threadId: MessageId.nullable().default(null).describe(
    "Root message of the thread. Default: the source message, if it is in the same room",
  ),
  metadata: Metadata.default({}),
});
export type TaskCreate = z.output<typeof TaskCreate>;

/** Fields that can be updated; `null` clears. */
const patch = {
  title: Title.optional(),
  description: Description.nullable().optional(),
  status: TaskStatus.optional(),
  priority: TaskPriority.optional(),
  assigneeIds: AssigneeIds.optional(),
  labels: Labels.optional(),
  parentId: TaskRef.nullable().optional(),
  startAt: TimeInput.nullable().optional().describe("Planned start; null clears it"),
  dueAt: TimeInput.nullable().optional().describe("Due date; null clears it"),
  timeZone: TimeZone.optional(),
  recurrence: Recurrence.nullable().optional().describe("Recurrence rule; null ends the series"),
  threadId: MessageId.nullable().optional(),
  metadata: Metadata.optional(),
};

const TaskPatch = z.strictObject(patch).refine((value) => Object.keys(value).length > 0, "requires at least one field")
  .meta({ id: "TaskPatch" });
type TaskPatch = z.output<typeof TaskPatch>;

export const Position = z.union([
  z.strictObject({ after: TaskRef }).meta({ id: "TaskPositionAfter" }),
  z.strictObject({ before: TaskRef }).meta({ id: "TaskPositionBefore" }),
]).meta({ id: "TaskPosition", description: "Move it right after or right before another task of the room" });
export type Position = z.output<typeof Position>;

export const TaskUpdate = z.strictObject({
  id: TaskRef,
  ...patch,
  position: Position.optional(),
  leaseToken: z.string().min(1).max(64).optional().describe("Fails if this claim is no longer valid"),
  version: BaseVersion,
});
export type TaskUpdate = z.output<typeof TaskUpdate>;

/** One principal or a list. */
const Principals = z.preprocess(
  (value) => typeof value === "string" ? [value] : value,
  z.array(PrincipalRef).max(ASSIGNEES_MAX),
);

export const TaskList = z.strictObject({
  ...pageInput,
  roomId: z.array(RoomId).max(50).optional().describe("Default: all rooms visible to the caller"),
  assigneeId: Principals.optional().describe("Assigned to any of these; `me` is the caller"),
  unassigned: z.boolean().optional().describe("true: only unassigned tasks; false: only assigned tasks"),
  createdBy: Principals.optional().describe("Created by any of these; `me` is the caller"),
  status: z.array(TaskStatus).max(STATUSES.length).optional().describe("Any of these"),
  priority: z.array(TaskPriority).max(PRIORITIES.length).optional().describe("Any of these"),
  label: z.array(Label).max(LABELS_MAX).optional().describe("Any of these"),
  dueBefore: TimeInput.optional().describe("Due before this time"),
  dueAfter: TimeInput.optional().describe("Due at or after this time"),
  parentId: TaskRef.optional().describe("Subtasks of this task"),
  topLevel: z.boolean().optional().describe("true: only top-level tasks; false: only subtasks"),
  sourceMessageId: MessageId.optional().describe("Created from this message"),
  q: z.string().trim().min(1).max(100).optional().describe("Part of title, description or key"),
  updatedSince: TimeInput.optional(),
  deleted: z.boolean().default(false).describe("Only deleted tasks that can be restored"),
  sort: z.enum(SORTS).default("-updatedAt").describe("position sorts by board, room by room"),
});
export type TaskList = z.output<typeof TaskList>;

export const TaskBulk = z.strictObject({
  ids: z.array(TaskRef).min(1).max(BULK_MAX).describe("Tasks to change, by id or key"),
  patch: TaskPatch,
});
export type TaskBulk = z.output<typeof TaskBulk>;

export const TaskBulkResults = z.object({
  results: z.array(
    z.object({
      id: z.string().describe("Id or key as given"),
      task: Task.nullable().describe("The task after the change; null if it failed"),
      error: z.object({ code: z.string().describe("Problem code; null if it succeeded"), detail: z.string() })
        .nullable()
        .describe("Why it failed; null if it succeeded"),
    }).meta({ id: "TaskBulkItem" }),
  ).describe("One result for each task, in the order given"),
}).meta({ id: "TaskBulkResults" });
export type TaskBulkResults = z.output<typeof TaskBulkResults>;

export const TaskRelate = z.strictObject({ id: TaskRef, kind: RelationKind, otherId: TaskRef });
export type TaskRelate = z.output<typeof TaskRelate>;

export const TaskClaim = z.strictObject({
  id: TaskRef,
  leaseSeconds: z.int().min(LEASE_SECONDS.min).max(LEASE_SECONDS.max).default(LEASE_SECONDS.default).describe(
    "Duration of the claim, in seconds, unless it is extended",
  ),
  leaseToken: z.string().min(1).max(64).optional().describe("Token of the claim to extend"),
});
export type TaskClaim = z.output<typeof TaskClaim>;

export const TaskLease = z.object({
  leaseToken: z.string().describe("Token that extends and releases the claim and protects updates; returned only once"),
  expiresAt: Time,
  task: Task,
}).meta({ id: "TaskLease" });
export type TaskLease = z.output<typeof TaskLease>;

export const TaskRelease = z.strictObject({
  id: TaskRef,
  leaseToken: z.string().min(1).max(64).optional().describe("Optional for moderators of the room"),
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
  actorId: PrincipalId.describe("Principal that performed it"),
  at: Time,
  version: z.int().describe("Version of the task after it"),
  changes: z.array(z.object({
    field: z.string().describe("Name of the field"),
    from: Json.optional().describe("Previous value; absent for long texts"),
    to: Json.optional().describe("New value; absent for long texts"),
  })).describe("Changed fields"),
}).meta({ id: "TaskActivity" });
export type TaskActivity = z.output<typeof TaskActivity>;

/** Fields that may be long, and are shortened in events. */
export const LONG_FIELDS = ["description", "metadata"] as const satisfies (keyof Task)[];
const changed = changesSchema(Task).extend({ taskId: TaskId, roomId: RoomId });

/** Durable events of tasks, on the room stream; some also on the streams of the principals concerned. */
export const TASK_EVENTS: readonly EventType[] = eventTypes("task.read", [
  { type: "task.created", summary: "A task was created", data: snapshotSchema("task", Task, LONG_FIELDS) },
  {
    type: "task.updated",
    summary: "A task was changed. After a restore, read the task. For `relations`, only the name of the field is sent",
    data: changed,
  },
  { type: "task.completed", summary: "A task was completed", data: changed },
  {
    type: "task.deleted",
    summary: "A task was deleted; restorable for 30 days",
    data: z.object({ taskId: TaskId, key: z.string(), roomId: RoomId }),
  },
  {
    type: "task.assigned",
    streams: ["room", "principal"],
    summary: "Assignees were added or removed (principal)",
    data: z.object({
      taskId: TaskId,
      key: z.string(),
      roomId: RoomId,
      added: z.array(PrincipalId),
      removed: z.array(PrincipalId),
    }),
  },
]);
