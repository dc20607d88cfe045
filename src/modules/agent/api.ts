// Operations on agents.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import { Agent, AgentCreate, AgentList, AgentRef, AgentUpdate } from "./schema.ts";
import type { AgentService } from "./service.ts";

const PATH = "/v1/collaboration/agents";
export const AGENT = exampleId("prn");

export function agentOperations(agents: AgentService): Operation[] {
  return [
    defineOperation({
      name: "agent.create",
      summary: "Create an agent: a principal that responds with a language model",
      description: "The caller, or `ownerId`, owns it. Add it to rooms of its owner with `member.put`.",
      access: { scope: "agent.manage", tenant: "member" },
      http: { method: "POST", path: PATH, status: 201, bodyMaxBytes: 256 * 1024, hasLocation: true },
      input: AgentCreate,
      output: Agent,
      faults: [
        "handle_taken",
        "limit_reached",
        "not_found",
        "ai_not_configured",
        "model_unknown",
        "recurrence_too_complex",
      ],
      example: {
        handle: "helper",
        displayName: "Helper",
        instructions: "You help the team to keep its tasks up to date.",
        tools: ["task.*", "message.list"],
      },
      async run(context, input) {
        const agent = await agents.create(context, input);
        return new Outcome(agent, { location: `${PATH}/${encodeURIComponent(agent.id)}` });
      },
    }),
    defineOperation({
      name: "agent.list",
      summary: "List the agents of the tenant",
      access: { scope: "agent.read", tenant: "member" },
      http: { method: "GET", path: PATH, status: 200 },
      input: AgentList,
      output: pageSchema(Agent),
      faults: ["invalid_cursor"],
      ownData: { inputs: () => [{ ownerId: "me" }] },
      run: (context, input) => agents.list(context, input),
    }),
    defineOperation({
      name: "agent.read",
      summary: "Get an agent",
      access: { scope: "agent.read" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: AgentRef,
      output: Agent,
      faults: ["not_found"],
      example: { id: AGENT },
      run: (context, { id }) => agents.read(context, id),
    }),
    defineOperation({
      name: "agent.update",
      summary: "Update, pause or resume an agent",
      description:
        "A change of what an agent does (`model`, `instructions`, `tools`, `askFirst`, `memoryScopes`), or resuming it, " +
        "makes the caller responsible for its schedule: its runs are then on behalf of the caller, with those scopes of " +
        "the schedule that the caller's token also has. The caller must be a member of the room of the schedule, or set " +
        "`schedule` as well. A `schedule` that is given has the scopes of the caller's token.",
      access: { scope: "agent.manage", tenant: "member" },
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version", bodyMaxBytes: 256 * 1024 },
      input: AgentUpdate,
      output: Agent,
      faults: [
        "not_found",
        "handle_taken",
        "version_mismatch",
        "ai_not_configured",
        "model_unknown",
        "recurrence_too_complex",
      ],
      example: { id: AGENT, paused: true },
      run: (context, input) => agents.update(context, input),
    }),
    defineOperation({
      name: "agent.delete",
      summary: "Delete an agent: cancel its runs and disable its principal",
      access: { scope: "agent.manage", tenant: "member" },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: AgentRef,
      output: z.void(),
      faults: ["not_found"],
      example: { id: AGENT },
      run: (context, { id }) => agents.delete(context, id),
    }),
  ];
}
