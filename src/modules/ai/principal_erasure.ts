// What becomes of the tables when a person is erased.
import type { PrincipalColumn, PrincipalErasure } from "@/core/erasure.ts";
import { BUDGET_PERIODS } from "./schema.ts";

const WINDOWS: readonly PrincipalColumn[] = [
  ...BUDGET_PERIODS.map((period) => (id: string) => `principal/${id}/${period}`),
  (id: string) => `limit/principal/${id}`,
].map((text) => ({ column: "budget", text }));

export const erases: PrincipalErasure = {
  ai_budget: { key: ["tenant_id", "scope", "subject_id", "period"], renames: ["subject_id", "created_by"] },
  ai_usage: {
    key: ["tenant_id", "day", "principal_id", "agent_id", "room_id", "provider", "model"],
    renames: ["principal_id"],
  },
  ai_budget_window: { key: ["tenant_id", "budget", "starts_at"], deletes: WINDOWS },
  ai_reservation: { key: ["tenant_id", "id"], keeps: { windows_json: "names budgets for the minutes of a call" } },
};
