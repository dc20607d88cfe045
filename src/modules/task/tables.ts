// Rows of tasks, their relations and activity.
import type { RoomTables } from "@/modules/room/mod.ts";
import type { ActivityType, RelationKind, STATUSES } from "./schema.ts";

export type TaskRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  key: string;
  title: string;
  description: string | null;
  status: (typeof STATUSES)[number];
  is_open: number;
  /** Index in `PRIORITIES`. */
  priority: number;
  assignee_ids_json: string;
  labels_json: string;
  parent_id: string | null;
  start_at: string | null;
  due_at: string | null;
  timezone: string;
  recurrence_json: string | null;
  next_task_id: string | null;
  source_message_id: string | null;
  thread_id: string | null;
  position: string;
  metadata_json: string;
  claimed_by: string | null;
  lease_hash: string | null;
  lease_expires_at: string | null;
  completed_at: string | null;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  /** The task whose deletion also deleted this one. */
  deletion_root_id: string | null;
};

export type TaskRoomRow = { tenant_id: string; room_id: string; prefix: string | null; last_number: number };

export type RelationRow = {
  tenant_id: string;
  task_id: string;
  kind: RelationKind;
  other_id: string;
  created_by: string;
  created_at: string;
};

export type ActivityRow = {
  tenant_id: string;
  task_id: string;
  version: number;
  id: string;
  type: ActivityType;
  actor_id: string;
  changes_json: string;
  at: string;
};

export type TaskTables = RoomTables & {
  task: TaskRow;
  task_room: TaskRoomRow;
  task_assignee: { tenant_id: string; task_id: string; principal_id: string };
  task_label: { tenant_id: string; task_id: string; label: string };
  task_relation: RelationRow;
  task_activity: ActivityRow;
};
