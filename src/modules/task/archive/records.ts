// The records of tasks in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { Counter } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { Json, JsonObject } from "@/core/json.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { isLongerThan } from "@/core/text/text.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import {
  ACTIVITY_TYPES,
  ANCHORS,
  ASSIGNEES_MAX,
  DESCRIPTION_MAX,
  LABELS_MAX,
  PRIORITIES,
  RELATION_KINDS,
  STATUSES,
  type TaskActivity,
  TITLE_MAX,
} from "../schema.ts";

const CHANGES_MAX_BYTES = 64 * 1024;

const TaskId = z.string().regex(/^task_[A-Za-z0-9]{1,58}$/, "expected the id of a task");
const Prefix = z.string().regex(/^[A-Z][A-Z0-9]{0,11}$/, "expected the prefix of a board");
const Key = z.string().regex(/^[A-Z][A-Z0-9]{0,11}-[1-9]\d{0,8}$/, "expected the key of a task");

export const BoardRecord = z.object({ roomId: RoomId, prefix: Prefix, lastNumber: Counter });
export const TaskRecord = z.object({
  id: TaskId,
  key: Key,
  roomId: RoomId,
  title: z.string().overwrite(sanitizeName).min(1).max(TITLE_MAX),
  description: z.string().max(DESCRIPTION_MAX).nullable(),
  status: z.enum(STATUSES),
  priority: z.enum(PRIORITIES),
  assigneeIds: z.array(PrincipalId).max(ASSIGNEES_MAX).transform((ids) => [...new Set(ids)]),
  labels: z.array(z.string().overwrite(sanitizeName).min(1).max(50)).max(LABELS_MAX).transform((
    labels,
  ) => [...new Set(labels)]),
  parentId: TaskId.nullable(),
  startAt: TimeInput.nullable(),
  dueAt: TimeInput.nullable(),
  timeZone: z.string().max(64),
  recurrence: z.object({
    rrule: z.string().min(1).max(500),
    anchor: z.enum(ANCHORS),
    instance: Counter.min(1),
    wallTime: z.string().regex(/^\d\d:\d\d:\d\d(\.\d{1,9})?$/).nullable(),
  }).nullable(),
  nextTaskId: TaskId.nullable(),
  sourceMessageId: MessageId.nullable(),
  threadId: MessageId.nullable(),
  position: z.string(),
  metadata: JsonObject,
  completedAt: TimeInput.nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: TimeInput,
  updatedAt: TimeInput,
});
export const ActivityRecord = z.object({
  roomId: RoomId,
  taskId: TaskId,
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
  kind: z.enum(ACTIVITY_TYPES),
  actorId: PrincipalId,
  at: TimeInput,
  version: Counter.min(1),
  changes: z.array(z.object({ field: z.string().max(64), from: Json.optional(), to: Json.optional() })).max(50)
    .refine((changes) => !isLongerThan(JSON.stringify(changes), CHANGES_MAX_BYTES), "too long"),
});
export const RelationRecord = z.object({
  roomId: RoomId,
  taskId: TaskId,
  kind: z.enum(RELATION_KINDS),
  otherId: TaskId,
  createdBy: PrincipalId,
  createdAt: TimeInput,
}).refine(({ taskId, otherId }) => taskId !== otherId, "a task cannot be related to itself");

/** Without claims, which mean nothing elsewhere. */
export type ArchivedTask = z.output<typeof TaskRecord>;
export type ArchivedActivity = TaskActivity & { taskId: string };
export type ArchivedRelation = Omit<z.output<typeof RelationRecord>, "roomId">;
