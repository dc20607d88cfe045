// The settings of agents, as columns and as shown.
import { type Actor, textOfScopes } from "@/core/actor.ts";
import { flagOf, jsonOf, withoutUndefined } from "@/core/patch.ts";
import type { StoredSchedule } from "./run/schedule.ts";
import type { AgentSchedule, AgentSettings } from "./schema.ts";
import type { AgentRow } from "./tables.ts";

export type AgentColumns = Omit<AgentRow, "tenant_id" | "id" | "version" | "created_by" | "created_at" | "updated_at">;

/** The columns of those settings that are given. Runs by a schedule are on behalf of `actor`. */
export function columnsOf(
  settings: { [Field in keyof AgentSettings]?: AgentSettings[Field] | undefined },
  { principalId: setBy, scopes }: Pick<Actor, "principalId" | "scopes">,
): Partial<AgentColumns> {
  const { model, instructions, tools, askFirst, memoryScopes, triggers, maxSteps, maxOutputTokens, paused } = settings;
  const { schedule, tokensPerDay } = settings;
  return withoutUndefined({
    model,
    instructions,
    tools_json: jsonOf(tools),
    ask_first_json: jsonOf(askFirst),
    memory_scopes_json: jsonOf(memoryScopes),
    triggers_json: jsonOf(triggers),
    schedule_json: schedule === null ? null : jsonOf(schedule && { ...schedule, setBy, scopes: textOfScopes(scopes) }),
    max_steps: maxSteps,
    max_output_tokens: maxOutputTokens,
    tokens_per_day: tokensPerDay,
    is_paused: flagOf(paused),
  });
}

export function presentSettings(row: AgentRow): AgentSettings {
  return {
    model: row.model,
    instructions: row.instructions,
    schedule: presentSchedule(row),
    tools: JSON.parse(row.tools_json),
    askFirst: JSON.parse(row.ask_first_json),
    memoryScopes: JSON.parse(row.memory_scopes_json),
    triggers: JSON.parse(row.triggers_json),
    maxSteps: row.max_steps,
    maxOutputTokens: row.max_output_tokens,
    tokensPerDay: row.tokens_per_day === null ? null : Number(row.tokens_per_day),
    paused: row.is_paused === 1,
  };
}

function presentSchedule({ schedule_json }: AgentRow): AgentSchedule | null {
  if (schedule_json === null) return null;
  const { setBy: _setBy, scopes: _scopes, ...schedule }: StoredSchedule = JSON.parse(schedule_json);
  return schedule;
}
