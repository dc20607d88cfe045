// Tasks and their activity as JSON.
import { iso } from "@/core/time/clock.ts";
import { PRIORITIES, type Task, type TaskActivity, type TaskRelation } from "./schema.ts";
import type { Series } from "./series.ts";
import type { ActivityRow, TaskRow } from "./tables.ts";

/** A task as clients see it at `now`, without an expired claim. */
export function presentTask(row: TaskRow, now: number): Task {
  return {
    id: row.id,
    key: row.key,
    roomId: row.room_id,
    title: row.title,
    description: row.description,
    status: row.status,
    priority: PRIORITIES[row.priority] ?? "none",
    assigneeIds: assigneesOf(row),
    labels: JSON.parse(row.labels_json),
    parentId: row.parent_id,
    startAt: row.start_at,
    dueAt: row.due_at,
    timeZone: row.timezone,
    recurrence: presentSeries(seriesOf(row)),
    nextTaskId: row.next_task_id,
    sourceMessageId: row.source_message_id,
    threadId: row.thread_id,
    position: row.position,
    claim: isClaimed(row, now) ? { principalId: row.claimed_by, expiresAt: row.lease_expires_at } : null,
    metadata: JSON.parse(row.metadata_json),
    completedAt: row.completed_at,
    version: row.version,
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    deletedAt: row.deleted_at,
  };
}

export function presentRelation(kind: TaskRelation["kind"], other: TaskRow): TaskRelation {
  const { id: taskId, key, room_id: roomId, title, status } = other;
  return { kind, taskId, key, roomId, title, status };
}

export function presentActivity(row: ActivityRow): TaskActivity {
  return {
    id: row.id,
    type: row.type,
    actorId: row.actor_id,
    at: row.at,
    version: row.version,
    changes: JSON.parse(row.changes_json),
  };
}

/** Whether a task with this status is still to be done. */
export function isOpen(status: TaskRow["status"]): boolean {
  return status !== "done" && status !== "cancelled";
}

export function assigneesOf(row: TaskRow): string[] {
  return JSON.parse(row.assignee_ids_json);
}

export function seriesOf(row: TaskRow): Series | null {
  return row.recurrence_json === null ? null : JSON.parse(row.recurrence_json);
}

type Claimed = TaskRow & { claimed_by: string; lease_expires_at: string };

/** Whether the task has a lease that has not expired. */
export function isClaimed(row: TaskRow, now: number): row is Claimed {
  return row.claimed_by !== null && row.lease_expires_at !== null && row.lease_expires_at > iso(now);
}

function presentSeries(series: Series | null): Task["recurrence"] {
  return series === null ? null : { rrule: series.rrule, anchor: series.anchor, instance: series.instance };
}
