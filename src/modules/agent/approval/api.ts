// Operations on approvals and grants.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import { ROOM } from "../run/api.ts";
import { Approval, ApprovalDecide, ApprovalList, Grant, GrantId, GrantList } from "./schema.ts";
import type { ApprovalService } from "./service.ts";

const PATH = "/v1/collaboration/ai";

export function approvalOperations(approvals: ApprovalService): Operation[] {
  return [
    defineOperation({
      name: "approval.list",
      summary: "List the approvals of runs in a room, or those that wait in all rooms of the caller, newest first",
      description:
        "With all arguments of the calls. Rooms that the caller is not a member of count only if they are named.",
      access: { scope: "run.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/approvals`, status: 200 },
      input: ApprovalList,
      output: pageSchema(Approval),
      faults: ["not_found", "invalid_cursor"],
      example: { roomId: ROOM, status: "pending" },
      run: (context, input) => approvals.list(context, input),
    }),
    defineOperation({
      name: "approval.decide",
      summary: "Approve or deny a call of an agent",
      description:
        "For those who asked for the run and moderators of its room, as far as they could make the call themselves.",
      access: { scope: "run.write", room: "member" },
      audited: true,
      http: { method: "POST", path: `${PATH}/approvals/:id/decision`, status: 200 },
      input: ApprovalDecide,
      output: Approval,
      faults: ["not_found", "room_archived", "already_decided"],
      example: { id: exampleId("apr"), decision: "approve" },
      run: (context, input) => approvals.decide(context, input),
    }),
    defineOperation({
      name: "grant.list",
      summary: "List decisions in a room that apply to more than one call of an agent",
      access: { scope: "run.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/grants`, status: 200 },
      input: GrantList,
      output: pageSchema(Grant),
      faults: ["not_found", "invalid_cursor"],
      example: { roomId: ROOM },
      run: (context, input) => approvals.listGrants(context, input),
    }),
    defineOperation({
      name: "grant.revoke",
      summary: "Revoke a decision that applies to more than one call",
      access: { scope: "run.write", room: "observer", archived: true },
      audited: true,
      http: { method: "DELETE", path: `${PATH}/grants/:id`, status: 204 },
      input: z.strictObject({ id: GrantId }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: exampleId("grant") },
      run: (context, { id }) => approvals.revokeGrant(context, id),
    }),
  ];
}
