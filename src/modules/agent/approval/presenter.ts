// Approvals and grants as clients see them.
import type { ApprovalRow, GrantRow } from "../tables.ts";
import type { Approval, Grant } from "./schema.ts";

export function presentApproval(row: ApprovalRow, hasTexts = true): Approval {
  return {
    id: row.id,
    runId: row.run_id,
    callId: row.call_id,
    agentId: row.agent_id,
    roomId: row.room_id,
    targetRoomId: row.target_room_id,
    readerIds: JSON.parse(row.reader_ids_json),
    tool: row.tool,
    input: hasTexts ? row.input : "",
    reason: row.reason,
    status: row.status,
    decidedBy: row.decided_by,
    decidedAt: row.decided_at,
    comment: row.comment,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}

export function presentGrant(row: GrantRow): Grant {
  return {
    id: row.id,
    agentId: row.agent_id,
    tool: row.tool,
    roomId: row.room_id,
    targetRoomId: row.target_room_id,
    readerIds: JSON.parse(row.reader_ids_json),
    runId: row.run_id === "" ? null : row.run_id,
    effect: row.effect,
    createdBy: row.created_by,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}
