// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  plugin: { key: ["tenant_id", "id"], renames: ["created_by"], keeps: { manifest_json: "an application" } },
  plugin_filter: { key: ["tenant_id", "room_id", "plugin_id"], renames: ["enabled_by"] },
};
