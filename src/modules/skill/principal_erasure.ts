// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  skill: { key: ["tenant_id", "name"], renames: ["created_by", "charged_id"] },
  skill_version: {
    key: ["tenant_id", "skill_name", "digest"],
    renames: ["created_by", "approved_by"],
    keeps: { frontmatter_json: "work of the tenant" },
  },
  skill_attachment: {
    key: ["tenant_id", "kind", "subject_id", "skill_name"],
    renames: ["attached_by"],
    keeps: { subject_id: "a room or an agent" },
  },
  skill_file: {
    key: ["tenant_id", "skill_name", "digest", "path"],
    keeps: { content: "work of the tenant", path: "as the content" },
  },
};
