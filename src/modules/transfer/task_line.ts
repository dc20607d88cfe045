// The lines of our own NDJSON export that tell of tasks.
import { z } from "@zod/zod";
import { Json } from "@/core/json.ts";
import { isLongerThan } from "@/core/text.ts";
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
  TASK_TITLE_MAX,
} from "@/modules/task/mod.ts";
import { Counter, Time } from "./line_value.ts";

const CHANGES_MAX_BYTES = 64 * 1024;

const TaskId = z.string().regex(/^task_[A-Za-z0-9]{1,58}$/, "no id of a task");
const Prefix = z.string().regex(/^[A-Z][A-Z0-9]{0,11}$/, "no prefix of a board");
const Key = z.string().regex(/^[A-Z][A-Z0-9]{0,11}-[1-9]\d{0,8}$/, "no key of a task");

export const BoardLine = z.object({ roomId: RoomId, prefix: Prefix, lastNumber: Counter });
export const TaskLine = z.object({
  id: TaskId,
  key: Key,
  roomId: RoomId,
  title: z.string().trim().min(1).max(TASK_TITLE_MAX),
  description: z.string().max(DESCRIPTION_MAX).nullable(),
  status: z.enum(STATUSES),
  priority: z.enum(PRIORITIES),
  assigneeIds: z.array(PrincipalId).max(ASSIGNEES_MAX).transform((ids) => [...new Set(ids)]),
  labels: z.array(z.string().trim().min(1).max(50)).max(LABELS_MAX).transform((labels) => [...new Set(labels)]),
  parentId: TaskId.nullable(),
  startAt: Time.nullable(),
  dueAt: Time.nullable(),
  timezone: z.string().max(64),
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
  metadata: z.record(z.string(), Json),
  completedAt: Time.nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
});
export const ActivityLine = z.object({
  roomId: RoomId,
  taskId: TaskId,
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
  kind: z.enum(ACTIVITY_TYPES),
  actorId: PrincipalId,
  at: Time,
  version: Counter.min(1),
  changes: z.array(z.object({ field: z.string().max(64), from: Json.optional(), to: Json.optional() })).max(50)
    .refine((changes) => !isLongerThan(JSON.stringify(changes), CHANGES_MAX_BYTES), "too long"),
});
export const RelationLine = z.object({
  roomId: RoomId,
  taskId: TaskId,
  kind: z.enum(RELATION_KINDS),
  otherId: TaskId,
  createdBy: PrincipalId,
  createdAt: Time,
}).refine(({ taskId, otherId }) => taskId !== otherId, "A task is not related to itself");
