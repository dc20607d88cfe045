// What becomes of the tables when a person is erased.
import { DELETED_NAME, type PrincipalErasure, WORK_OF_ROOM } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  meeting: {
    key: ["id"],
    renames: ["host_id", "created_by"],
    ids: ["agent_ids_json", "ring_ids_json"],
    json: ["recording_json"],
    keeps: { title: WORK_OF_ROOM },
  },
  meeting_consent: { key: ["tenant_id", "meeting_id", "recording_id", "principal_id"], renames: ["principal_id"] },
  meeting_participant: {
    key: ["id"],
    renames: ["principal_id"],
    clears: [{ of: ["principal_id"], set: { display_name: DELETED_NAME, device_id: "" } }],
  },
  meeting_segment: {
    key: ["id"],
    renames: ["speaker_id", "posted_by"],
    content: { of: ["speaker_id"], set: { text: "" } },
  },
};
