// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  file: {
    key: ["id"],
    renames: ["uploader_id", "charged_id"],
    keeps: { name: "of what was shared; deleted with the last message or page that shows the file" },
  },
  file_link: { key: ["file_id", "owner"], keeps: { owner: "what shows the file, never a person" } },
  member_usage: { key: ["tenant_id", "owner_id"], renames: ["owner_id"] },
};
