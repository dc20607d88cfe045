// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";
import type { MemoryErasure } from "./erasure.ts";

/** Facts of the person, and facts about the person, are erased as by `memory.delete`. */
export const memoryErasure = (facts: Pick<MemoryErasure, "eraseFacts">): PrincipalErasure => ({
  memory: {
    key: ["id"],
    reads: ["scope_type", "status"],
    // What is left of erased facts names their scope.
    renames: ["created_by", "owner_id", "scope_id"],
    removal: {
      of: "scope_id",
      applies: ({ scope_type, status }) => scope_type === "principal" && status !== "forgotten",
      run: ({ tenantId }, rows) => facts.eraseFacts(tenantId, rows.map(({ id }) => String(id))),
    },
    keeps: { text: "what a room, an agent or another person remembers of others", text_key: "as the text" },
  },
  memory_subject: {
    key: ["tenant_id", "principal_id", "memory_id"],
    deletes: ["principal_id"],
    removal: {
      of: "principal_id",
      run: ({ tenantId }, rows) => facts.eraseFacts(tenantId, rows.map(({ memory_id }) => String(memory_id))),
    },
  },
  memory_version: {
    key: ["tenant_id", "memory_id", "version"],
    renames: ["changed_by"],
    keeps: { text: "as the text of the fact" },
  },
});
