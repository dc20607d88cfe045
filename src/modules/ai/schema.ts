// AI in the API.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event.ts";

export const BUDGET_SCOPES = ["tenant", "room", "agent", "principal"] as const;
export type BudgetScope = typeof BUDGET_SCOPES[number];
export const BUDGET_PERIODS = ["hour", "day", "month"] as const;
export type BudgetPeriod = typeof BUDGET_PERIODS[number];

const BudgetScopeField = z.enum(BUDGET_SCOPES).describe("What the budget limits: the whole tenant, or one of these");
const SubjectId = z.string().nullable().describe("Id of the room, agent or principal; null for the tenant");
const Period = z.enum(BUDGET_PERIODS).describe("Period in UTC after which the budget is reset");

export const AI_EVENTS: readonly EventType[] = eventTypes("ai.read", [
  {
    type: "budget.exhausted",
    summary: "An AI budget refused a call for the first time in its period",
    streams: ["principal"],
    data: z.object({
      scope: BudgetScopeField,
      subjectId: SubjectId,
      period: Period,
      endsAt: z.iso.datetime().describe("When the budget is reset"),
    }),
  },
]);
