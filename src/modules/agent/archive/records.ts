// The records of agents in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { Counter, listOf } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { AgentSchedule, AgentSettings, AgentTrigger, MemoryScope, ToolName, TOOLS_MAX } from "../schema.ts";

const { model, instructions, maxSteps, maxOutputTokens, tokensPerDay } = AgentSettings.shape;
const Tools = setOf(ToolName, TOOLS_MAX);

/** Without its name and owner, which are in the record of its principal. */
export const AgentRecord = z.object({
  id: PrincipalId,
  model,
  instructions: instructions.nullable(),
  tools: Tools,
  askFirst: Tools,
  memoryScopes: setOf(MemoryScope, MemoryScope.options.length),
  triggers: setOf(AgentTrigger, AgentTrigger.options.length),
  schedule: z.object(AgentSchedule.shape).nullable(),
  maxSteps,
  maxOutputTokens,
  tokensPerDay,
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: TimeInput,
  updatedAt: TimeInput,
});
export type AgentRecord = z.output<typeof AgentRecord>;

/** Each once. */
function setOf<Item extends z.ZodType>(item: Item, max: number): z.ZodType<z.output<Item>[]> {
  return listOf(item).transform((items) => [...new Set(items)]).refine(
    ({ length }) => length <= max,
    `expected at most ${max} items`,
  );
}
