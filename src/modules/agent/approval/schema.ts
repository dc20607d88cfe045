// Approvals and grants in the API, and their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { AgentId } from "../schema.ts";
import { RunId } from "../run/schema.ts";

const ApprovalStatus = z.enum(["pending", "approved", "denied", "void"]).meta({ id: "ApprovalStatus" });

const Status = ApprovalStatus.describe("`void`: the run ended before the decision");
const roomOfRun = RoomId.describe("Room of the run");
const targetRoom = RoomId.describe("Room that the call changes; that of the run if it changes none");
const readers = z.array(PrincipalId).describe(
  "Other principals, such as attendees of an event, that will read it and cannot see all that the run has read",
);

export const Approval = z.object({
  id: z.string(),
  runId: z.string().describe("Run that waits"),
  callId: z.string().describe("Id of the call in the run"),
  agentId: AgentId,
  roomId: roomOfRun,
  targetRoomId: targetRoom,
  readerIds: readers,
  tool: z.string().describe("Tool that is called, such as `message.send`"),
  input: z.string().describe(
    "All arguments of the call as JSON text; empty for a caller who cannot see all that the run has read",
  ),
  reason: z.string().describe("Why an approval is needed"),
  status: Status,
  decidedBy: PrincipalId.nullable().describe("Principal that decided"),
  decidedAt: z.iso.datetime().nullable().describe("When it was decided"),
  comment: z.string().nullable().describe("Reason of the decision, which the model reads"),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().describe("When the run expires without a decision"),
}).meta({ id: "Approval" });
export type Approval = z.output<typeof Approval>;

const ApprovalId = z.string().regex(/^apr_[0-9a-f]{32}$/, "expected the id of an approval");
export const GrantId = z.string().regex(/^grant_[0-9a-f]{32}$/, "expected the id of a grant");

export const ApprovalList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Room of the runs; default: those that wait in all rooms of the caller"),
  status: ApprovalStatus.optional().describe("Only approvals with this status; without a room: `pending`"),
  runId: RunId.optional().describe("Only approvals of this run"),
});
export type ApprovalList = z.output<typeof ApprovalList>;

export const ApprovalDecide = z.strictObject({
  id: ApprovalId,
  decision: z.enum(["approve", "deny"]).describe("Whether the call may run"),
  remember: z.enum(["once", "run", "room"]).default("once").describe(
    "How far the decision holds: for this call; for calls of the tool with the same target and no further `readerIds` in this run; or in this room, for 30 days",
  ),
  comment: z.string().min(1).max(1000).optional().describe("Reason that the agent reads"),
});
export type ApprovalDecide = z.output<typeof ApprovalDecide>;

export const Grant = z.object({
  id: z.string(),
  agentId: AgentId,
  tool: z.string().describe("Tool that it is about"),
  roomId: roomOfRun,
  targetRoomId: targetRoom,
  readerIds: readers,
  runId: z.string().nullable().describe("Run that it holds for; null: all in the room"),
  effect: z.enum(["allow", "deny"]).describe(
    "`deny` wins over `allow`, which holds while the principal that decided could still decide",
  ),
  createdBy: PrincipalId.describe("Principal that decided"),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().describe("When it ends"),
}).meta({ id: "Grant" });
export type Grant = z.output<typeof Grant>;

export const GrantList = z.strictObject({
  ...pageInput,
  roomId: RoomId.describe("Room of the runs"),
  agentId: AgentId.optional().describe("Only grants of this agent"),
});
export type GrantList = z.output<typeof GrantList>;

export const APPROVAL_EVENTS: readonly EventType[] = eventTypes("run.read", [
  {
    type: "approval.requested",
    summary: "A run waits for the approval of a call; read it for the arguments",
    data: z.object({ approval: Approval.omit({ input: true }).meta({ id: "RequestedApproval" }) }),
  },
  {
    type: "approval.decided",
    summary: "A call was approved or denied, or its run ended before",
    data: z.object({
      approvalId: z.string().describe("Id of the approval"),
      runId: z.string().describe("Run that waited"),
      agentId: AgentId,
      roomId: roomOfRun,
      status: Status,
      decidedBy: PrincipalId.nullable().describe("Principal that decided"),
    }),
  },
]);
