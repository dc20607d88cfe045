// What becomes of the tables when a person is erased.
import { type PrincipalErasure, WORK_OF_ROOM } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  task: {
    key: ["id"],
    renames: ["created_by", "claimed_by"],
    ids: ["assignee_ids_json"],
    json: ["metadata_json", "recurrence_json"],
    keeps: { title: WORK_OF_ROOM, description: WORK_OF_ROOM, labels_json: WORK_OF_ROOM, key: "of the room" },
  },
  task_assignee: { key: ["tenant_id", "principal_id", "task_id"], renames: ["principal_id"] },
  task_relation: { key: ["tenant_id", "task_id", "kind", "other_id"], renames: ["created_by"] },
  task_activity: { key: ["tenant_id", "task_id", "version"], renames: ["actor_id"], json: ["changes_json"] },
  task_label: { key: ["tenant_id", "label", "task_id"], keeps: { label: WORK_OF_ROOM } },
};
