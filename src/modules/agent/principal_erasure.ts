// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  agent: {
    key: ["tenant_id", "id"],
    renames: ["created_by"],
    json: ["triggers_json"],
    keeps: { instructions: "work of the tenant, about the agent", schedule_json: "as the instructions" },
  },
  agent_run: {
    key: ["id"],
    ids: ["asker_ids_json"],
    keeps: {
      input: "what an agent was asked, which its room sees; deleted with old runs",
      text: "as the input",
      question: "as the input",
      error_detail: "why it failed or was cancelled; as the input",
      error_reply: "why a model provider refused a request; removed a day after the end",
    },
  },
  agent_step: {
    key: ["run_id", "n"],
    json: ["calls_json", "input", "result"],
    keeps: { text: "what an agent said, which its room sees; deleted with old runs", reason: "as the text" },
  },
  agent_approval: {
    key: ["id"],
    renames: ["decided_by"],
    ids: ["reader_ids_json"],
    json: ["input"],
    content: { of: ["decided_by"], set: { comment: null } },
    keeps: { reason: "what an agent said" },
  },
  agent_grant: { key: ["id"], renames: ["created_by"], ids: ["reader_ids_json"] },
};
